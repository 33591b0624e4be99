"""`streamfeat status`: what the broker says of itself, its workers, queues and clients."""

from __future__ import annotations

from typing import Any

import click

from streamfeat.cli.console import credentials_for, emit, json_option, with_settings
from streamfeat.client import Client
from streamfeat.config import Settings

TROUBLES = ("abandoned", "redelivered", "repeated", "duplicates", "late", "stray", "malformed")


@click.command(help="Ask a broker how it is.")
@click.option("--connect", help="The broker's endpoint for clients. Default: from the settings.")
@with_settings
@json_option
def command(
    connect: str | None,
    settings: Settings,
    json_to: str | None,
) -> None:
    """Print the report."""
    endpoint = connect or settings.fleet.front
    credentials = credentials_for(endpoint, settings)
    with Client(endpoint, connect_timeout_s=settings.client.connect_timeout_s, credentials=credentials) as client:
        report = client.status()
    emit(report, json_to, lambda: _print(endpoint, report))


def _print(endpoint: str, report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"broker at {endpoint}, up {report['uptime_s']:.0f} s: accepted {report['accepted']}, answered"
        f" {report['answered']}, open {report['open']}, retains {report['retained_bytes']} bytes"
    )
    workers = Table("worker", "kind", "state", "leased", "silent ms", "pid", box=None)
    for worker in report["workers"]:
        workers.add_row(*(str(worker[key]) for key in ("name", "kind", "state", "leased", "silent_ms", "pid")))
    console.print(workers)
    for name, bank in sorted(report["banks"].items()):
        console.print(f"bank {name} {bank[:12]}")
    troubles = {**report["failed"], **{key: report[key] for key in TROUBLES}}
    console.print("  ".join(f"{key} {n}" for key, n in troubles.items() if n) or "no failures")
