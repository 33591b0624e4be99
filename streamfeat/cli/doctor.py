"""`streamfeat doctor`: look at this machine for what commonly goes wrong."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.doctor import examine
from streamfeat.errors import EXIT_CONFIG, EXIT_OK
from streamfeat.page.address import LISTEN


@click.command(
    help="Look at this machine for what commonly goes wrong; changes nothing.",
    epilog=examples(
        "streamfeat doctor",
        "streamfeat doctor --config /etc/streamfeat/streamfeat.toml --json",
    ),
)
@with_settings
@json_option
def command(settings: Settings, json_to: str | None) -> int:
    """Print every check with its remedy; 78 when one failed."""
    checks = [asdict(check) for check in examine(settings, os.environ, page=LISTEN)]
    ok = all(check["ok"] for check in checks)
    emit({"ok": ok, "checks": checks}, json_to, lambda: _print(checks))
    return EXIT_OK if ok else EXIT_CONFIG


def _print(checks: list[dict[str, Any]]) -> None:
    for check in checks:
        line = f"{'ok  ' if check['ok'] else 'FAIL'} {check['name']}: {check['found']}"
        click.echo(f"{line}; {check['remedy']}" if check["remedy"] else line)
