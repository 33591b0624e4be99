"""`streamfeat status`: what the broker says of itself, its workers, queues and clients."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.inquiry import absent_keepers, fleet_report
from streamfeat.wire.report import COUNTS

if TYPE_CHECKING:
    from rich.console import RenderableType

NO_TROUBLE = ("accepted", "answered", "handed_back", "reloads")
TROUBLES = tuple(name for name in COUNTS if name not in NO_TROUBLE)
WIDE = 1000
"""Columns of a table that goes to no terminal."""

RATES = ("accepted", "answered")


@click.command(
    help="Ask a broker how it is: at its admin socket if this user may, else at its front.",
    epilog=examples(
        "streamfeat status",
        "streamfeat status --watch --every 2",
        "streamfeat status --connect tcp://host:5555 --json",
    ),
)
@click.option("--connect", help="The broker's endpoint for clients. Default: from the settings.")
@click.option("--watch", is_flag=True, help="Again and again, with rates, until Ctrl-C.")
@click.option("--every", type=click.FloatRange(0.1, 3600), default=1.0, help="Seconds between; with --watch.")
@with_settings
@json_option
def command(connect: str | None, watch: bool, every: float, settings: Settings, json_to: str | None) -> None:
    """Print the report, or watch it."""
    if watch and json_to is not None:
        raise click.UsageError("--watch is for people; ask again for another --json")
    if not watch:
        report = fleet_report(settings, connect)
        absent = absent_keepers(settings, report) if connect is None else {}
        emit({**report, "absent": absent}, json_to, lambda: _print(report, absent))
        return
    from rich.live import Live

    before, asked = fleet_report(settings, connect), time.monotonic()
    with Live(_picture(before), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            report, now = fleet_report(settings, connect), time.monotonic()
            rates = {key: max(0.0, report[key] - before[key]) / (now - asked) for key in RATES}
            live.update(_picture(report, rates), refresh=True)
            before, asked = report, now


def _print(report: dict[str, Any], absent: dict[str, int]) -> None:
    from rich.console import Console

    # whole where nobody looks: for grep and for files
    Console(width=None if sys.stdout.isatty() else WIDE).print(_picture(report))
    for kind, n_logs in absent.items():
        click.echo(f"no {kind} is here, though {n_logs} logs of one are: `streamfeat doctor` says if they are whole")


def _picture(report: dict[str, Any], rates: dict[str, float] | None = None) -> RenderableType:
    """The report as tables: workers, queues, clients and their credit, banks, troubles, what happened last."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    speed = "".join(f", {key} {rate:.0f}/s" for key, rate in (rates or {}).items())
    state = "draining" if report["draining"] else "up"
    lines: list[RenderableType] = [
        Text(
            f"broker at {report['endpoint']}, {state} {report['uptime_s']:.0f} s: accepted {report['accepted']},"
            f" answered {report['answered']}, open {report['open']} (oldest {report['oldest_s']:.1f} s), retains"
            f" {report['retained_bytes']} bytes{speed}"
        )
    ]
    tables = {
        "workers": ("name", "kind", "state", "leased", "leased_bytes", "tasks", "silent_ms", "restarts", "pid"),
        "queues": ("stage", "queued"),
        "clients": ("run", "open", "open_bytes", "silent_ms"),
    }
    for name, columns in tables.items():
        if report[name] or name == "workers":
            table = Table(*(f"{name[:-1]}" if n == 0 else c for n, c in enumerate(columns)), box=None)
            for row in report[name]:
                table.add_row(*(str(row[key])[:40] for key in columns))
            lines.append(table)
    for name, why in report.get("reload_errors", {}).items():
        lines.append(Text(f"worker {name} goes on with what it had, its last reload failed: {why}"))
    lines += [Text(f"bank {name} {bank[:12]}") for name, bank in sorted(report["banks"].items())]
    away = {f"turned away: {reason}": n for reason, n in report.get("turned_away", {}).items()}
    troubles = {**report["failed"], **report["refused"], **{key: report[key] for key in TROUBLES}, **away}
    lines.append(Text("  ".join(f"{key} {n}" for key, n in troubles.items() if n) or "no failures"))
    if report.get("dead_letters"):
        lines.append(Text(f"{report['dead_letters']} dead letters; streamfeat deadletter list"))
    lines += [Text(f"{note['ago_s']:8.0f} s ago  {note['what']}") for note in report.get("recent", ())[-8:]]
    return Group(*lines)
