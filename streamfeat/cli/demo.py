"""`streamfeat demo`: the quickstart of an installed package, with no checkout beside it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from streamfeat.cli.console import json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.cli.quickstart import run_and_print
from streamfeat.config import Settings


@click.command(
    help="The quickstart's corpus, banks, fleet, learning, testing and picture, in your cache. Needs the extra "
    "`quickstart`; a second run uses what the first has made.",
    epilog=examples(
        "streamfeat demo",
        "streamfeat demo --folder demo --json demo.json",
    ),
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where everything is kept. Default: streamfeat/demo in $XDG_CACHE_HOME or ~/.cache.",
)
@with_settings
@json_option
def command(folder: Path | None, settings: Settings, json_to: str | None) -> int:
    """Run it, saying where."""
    folder = folder or _cache()
    click.echo(f"demo in {folder}", err=True)
    return run_and_print(folder, settings, json_to)


def _cache() -> Path:
    """The user's cache; a new temporary folder where that cannot be written (a service's user has no home)."""
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(home) / "streamfeat" / "demo"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="streamfeat-demo-"))
    return folder
