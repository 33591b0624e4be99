"""`streamfeat serve`: broker, feature workers, learner and index on this machine, in the foreground."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click

from streamfeat.bank import find_bank
from streamfeat.cli.console import emit, insecure_option, json_option, with_settings
from streamfeat.config import Settings
from streamfeat.errors import EXIT_OK, EXIT_UNAVAILABLE
from streamfeat.fleet import LocalFleet


@click.command(help="Run a whole fleet in the foreground until SIGTERM or Ctrl-C.")
@click.option("--bank", "banks", multiple=True, required=True, help="Bank to serve: a name, a hash or a directory.")
@click.option("--workers", type=click.IntRange(1, 256), help="Feature workers; one core each. Default: 2.")
@with_settings
@insecure_option
@json_option
def command(banks: tuple[str, ...], workers: int | None, settings: Settings, json_to: str | None) -> int:
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
    with LocalFleet(settings, found, n_workers=workers or settings.fleet.workers, learner=True, index=True) as fleet:
        ready = True
        report = {"front": fleet.front, "pids": fleet.pids, "banks": [str(path) for path in found]}
        emit(report, json_to, lambda: None)
        click.echo(f"ready: streamfeat status --connect {fleet.front}", err=True)
        told: set[str] = set()
        while not stop:
            signal.sigtimedwait([signal.SIGCHLD], 1.0)
            if stop:  # Ctrl-C reaches the members too: those that ended were told to
                break
            for name, status in fleet.fallen().items():
                if name not in told:
                    click.echo(f"{name} ended with status {status}; the others go on", err=True)
                    told.add(name)
            if "broker" in told:
                return EXIT_UNAVAILABLE
    return EXIT_OK
