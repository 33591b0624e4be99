"""An operator's questions and orders to a broker, at its admin socket. One call, one connection."""

from __future__ import annotations

import secrets
import time
from math import ceil
from typing import Any

import zmq

from streamfeat.connection import obstacle
from streamfeat.endpoints import open_dealer
from streamfeat.errors import NobodyListens, error_from_code
from streamfeat.keys import Credentials
from streamfeat.monitor import Monitor
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Message

LOOK_EVERY_MS = 100


def ask(
    endpoint: str, order: Message, *, timeout_s: float = 5.0, credentials: Credentials | None = None
) -> dict[str, Any]:
    """What the broker reports on a STATUS or an ADMIN message.

    Parameters
    ----------
    endpoint : str
        The broker's admin socket.
    order : Message
        `Message("STATUS")`, or ADMIN with `act` drain, resume or reload and the name of a `worker`.
    timeout_s : float
    credentials : Credentials, optional
        Keys, for a socket that is reached over TCP.

    Raises
    ------
    NobodyListens, Unreachable, BrokerSilent
        No answer in time.
    Unauthenticated
        The keys do not fit.
    StreamfeatError
        What the broker says against it.
    """
    deadline = time.monotonic() + timeout_s
    key = None if credentials is None else credentials.key.name
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = open_dealer(context, endpoint, secrets.token_hex(8), linger_ms=0, credentials=credentials)
    monitor = Monitor(socket)
    sent = False
    try:
        socket.connect(endpoint)
        while (left_s := deadline - time.monotonic()) > 0:
            if socket.poll(ceil(min(LOOK_EVERY_MS, 1000 * left_s)), zmq.POLLIN if sent else zmq.POLLOUT):
                if sent:
                    return _read(socket.recv_multipart())
                socket.send_multipart(encode(order))
                sent = True
            if (refusal := monitor.refused(endpoint, key)) is not None:
                raise refusal
        why = obstacle(endpoint)
        raise NobodyListens(f"{endpoint}: {why}") if why else monitor.absent(endpoint, f"{timeout_s:g} s")
    finally:
        monitor.close()
        socket.close()
        context.term()


def _read(frames: list[bytes]) -> dict[str, Any]:
    answer = decode(frames)
    if answer.verb == "REPORT":
        return dict(answer.fields["report"])
    raise error_from_code(str(answer.fields.get("code")), str(answer.fields.get("reason", "")))
