"""What a fleet says of itself, asked at the door that this user may use. One call, one connection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from streamfeat.admin import ask
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.connection import obstacle
from streamfeat.endpoints import is_tcp
from streamfeat.keys import Credentials
from streamfeat.wire.messages import Message


def credentials_for(endpoint: str, settings: Settings) -> Credentials | None:
    """The keys to connect there with; a unix socket needs none."""
    return Credentials.open(settings.auth.key, settings.auth.server) if is_tcp(endpoint) else None


def absent_keepers(settings: Settings, report: Mapping[str, Any]) -> dict[str, int]:
    """Of learner and index, if no such worker is there, how many logs of its kind lie in the state directory."""
    there = {worker["kind"] for worker in report["workers"]}
    state = Path(settings.fleet.state_dir)
    n_logs = {kind: len(list((state / kind).glob("*/log.sqlite"))) for kind in ("learner", "index")}
    return {kind: n for kind, n in n_logs.items() if n and kind not in there}


def fleet_report(settings: Settings, connect: str | None = None) -> dict[str, Any]:
    """The whole report of an operator, at the admin socket if this user may, else what a client may see.

    Parameters
    ----------
    settings : Settings
    connect : str, optional
        The broker's endpoint for clients; then the admin socket, which may be another fleet's, is left alone.

    Returns
    -------
    dict
        The broker's report, and `endpoint`, where it came from.

    Raises
    ------
    Unavailable
        No answer within `client.connect_timeout_s`.
    """
    admin, timeout_s = settings.fleet.admin, settings.client.connect_timeout_s
    if connect is None and Path(admin.removeprefix("ipc://")).is_socket() and obstacle(admin) is None:
        answer = ask(admin, Message("STATUS"), timeout_s=timeout_s, credentials=credentials_for(admin, settings))
        return {**answer, "endpoint": admin}
    endpoint = connect or settings.fleet.front
    with Client(endpoint, connect_timeout_s=timeout_s, credentials=credentials_for(endpoint, settings)) as client:
        return {**client.status(), "endpoint": endpoint}
