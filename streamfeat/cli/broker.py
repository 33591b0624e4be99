"""`streamfeat broker`: the broker in this very process, configured from settings."""

from __future__ import annotations

import os
import sys

import click

from streamfeat.cli.console import insecure_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.fleet import broker_arguments


@click.command(
    help="Run the broker until SIGTERM.",
    epilog=examples(
        "streamfeat broker",
        "streamfeat broker --config /etc/streamfeat/streamfeat.toml",
    ),
)
@with_settings
@insecure_option
def command(settings: Settings) -> None:
    """Become the broker: same process id, so that a service manager's notifications are right."""
    become("broker", broker_arguments(settings))


def become(role: str, arguments: list[str]) -> None:
    """Replace this process by a worker."""
    os.execv(sys.executable, [sys.executable, "-m", f"streamfeat.workers.{role}", *arguments])  # noqa: S606
