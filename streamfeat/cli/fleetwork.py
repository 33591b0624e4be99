"""A client on a running fleet, or on one started for this command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.presets import ensure_bank


@contextmanager
def open_fleet(
    settings: Settings,
    bank: str,
    *,
    connect: str | None,
    n_workers: int | None,
    learner: bool = False,
    index: bool = False,
) -> Iterator[tuple[Client, str]]:
    """A connected client and the name of the bank to ask for.

    Parameters
    ----------
    settings : Settings
    bank : str
        A preset (built when it is not there yet), a bank's name, hash or directory.
    connect : str, optional
        Endpoint of a running broker; None starts a fleet that ends with the context.
    n_workers : int, optional
        Feature workers of the fleet started here.
    learner, index : bool
        Start these as well; what they learn is kept in the settings' state directory.
    """
    with ExitStack() as stack:
        if connect is None:
            path = ensure_bank(bank, Path(settings.fleet.bank_dir), say=lambda text: click.echo(text, err=True))
            private = stack.enter_context(private_settings(settings, state_dir=Path(settings.fleet.state_dir)))
            fleet = LocalFleet(
                private,
                [path],
                n_workers=n_workers or settings.fleet.workers,
                learner=learner,
                index=index,
                log_dir=Path(private.fleet.run_dir) / "log",
            )
            connect = stack.enter_context(fleet).front
            bank = path.name
        client = Client(
            connect, timeout_s=settings.client.timeout_s, connect_timeout_s=settings.client.connect_timeout_s
        )
        yield stack.enter_context(client), bank


def print_failures(failed: Sequence[dict[str, str]], most: int) -> None:
    """Failures by name and reason on standard error, the first `most` of them."""
    for failure in failed[:most]:
        click.echo(f"failed {failure['file']}: {failure['code']}: {failure['reason']}", err=True)
    if len(failed) > most:
        click.echo(f"and {len(failed) - most} more; --json lists them all", err=True)
