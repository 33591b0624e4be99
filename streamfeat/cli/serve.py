"""`streamfeat serve`: broker, feature workers, learner and index on this machine, in the foreground."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import click

from streamfeat.bank import find_bank
from streamfeat.cli.console import emit, insecure_option, json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.cli.page import Page, page_options
from streamfeat.config import Settings
from streamfeat.errors import EXIT_OK, EXIT_UNAVAILABLE
from streamfeat.fleet import LocalFleet
from streamfeat.page.address import page_url


@click.command(
    help="Run a whole fleet in the foreground until SIGTERM or Ctrl-C.",
    epilog=examples(
        "streamfeat serve --bank digits-audio",
        "# two banks, four workers; neighbours are shown on the page",
        "streamfeat serve --bank digits-audio --bank digits-image --workers 4 \\",
        "    --corpus tidigits",
    ),
)
@click.option("--bank", "banks", multiple=True, required=True, help="Bank to serve: a name, a hash or a directory.")
@click.option("--workers", type=click.IntRange(1, 256), help="Feature workers; one core each. Default: 2.")
@click.option("--no-page", is_flag=True, help="Serve no page.")
@page_options
@with_settings
@insecure_option
@json_option
def command(
    banks: tuple[str, ...], workers: int | None, no_page: bool, page: Page, settings: Settings, json_to: str | None
) -> int:
    """Start everything, say where to connect (as JSON once it is ready, where asked), wait, stop everything."""
    found = [find_bank(Path(settings.fleet.bank_dir), bank) for bank in banks]
    ready = stop = False

    def asked(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the handler's signature
        nonlocal stop
        stop = True
        if not ready:
            raise SystemExit(EXIT_OK)  # ends the fleet's start, which stops what it had started

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    window = None if no_page else page.bind_any(settings)
    fleet = LocalFleet(settings, found, n_workers=workers or settings.fleet.workers, learner=True, index=True)
    with window or nullcontext(), fleet:
        ready = True
        url = None
        if window is not None:
            fleet.attend("page", "page", page.arguments(settings, window), (window.fileno(),))
            url = page_url(window)
            click.echo(f"page: {url}", err=True)
        report = {"front": fleet.front, "page": url, "pids": fleet.pids, "banks": [str(path) for path in found]}
        emit(report, json_to, lambda: None)
        click.echo(f"ready: streamfeat status --connect {shlex.quote(fleet.front)}", err=True)
        return _watch(fleet, lambda: stop)


def _watch(fleet: LocalFleet, stopped: Callable[[], bool]) -> int:
    """Say who ends by himself, until told to stop or the broker is gone; the exit status."""
    told: set[str] = set()
    while not stopped():
        signal.sigtimedwait([signal.SIGCHLD], 1.0)
        if stopped():  # Ctrl-C reaches the members too: those that ended were told to
            break
        for name, status in fleet.fallen().items():
            if name not in told:
                what = "so does the fleet" if name == "broker" else f"the others go on{_another(fleet, name)}"
                click.echo(f"{name} ended with status {status}; {what}{fleet.last_words(name)}", err=True)
                told.add(name)
        if "broker" in told:
            return EXIT_UNAVAILABLE
    return EXIT_OK


def _another(fleet: LocalFleet, name: str) -> str:
    """The end of a message about a worker that is gone: what starts another in its place."""
    role, places = name.partition("-")[0], fleet.settings.fleet
    if role == "features":
        own = [word for bank in fleet.banks for word in ("--bank", str(bank))]
    elif role in ("learner", "index"):
        own = ["--state-dir", places.state_dir]
    else:
        return ""
    words = ["streamfeat", "worker", role, "--name", name, "--run-dir", places.run_dir, *own]
    return f"; another: {shlex.join(words)}"
