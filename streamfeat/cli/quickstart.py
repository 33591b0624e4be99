"""`streamfeat quickstart`: the whole line on a synthesised corpus and handwritten digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, progress, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED
from streamfeat.quickstart import run_quickstart


@click.command(
    help="Corpus, banks, fleet, learning, testing and a picture, in a few minutes on two cores.",
    epilog=examples(
        "streamfeat quickstart",
        "streamfeat quickstart --folder try --json try.json",
    ),
)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("quickstart"), show_default=True)
@with_settings
@json_option
def command(folder: Path, settings: Settings, json_to: str | None) -> int:
    """Run it and print the figures."""
    return run_and_print(folder, settings, json_to)


def run_and_print(folder: Path, settings: Settings, json_to: str | None) -> int:
    """Run the whole line in a folder and print its figures; the exit status. `demo` and `quickstart` are this."""
    summary = run_quickstart(
        folder.absolute(), settings, progress=progress, say=lambda text: click.echo(text, err=True)
    )
    emit(summary, json_to, lambda: _print(summary, folder))
    return EXIT_SOME_FAILED if summary["audio"]["failed"] or summary["image"]["failed"] else EXIT_OK


def _print(summary: dict[str, Any], folder: Path) -> None:
    for name, what in (("audio", "spoken digits, unseen synthetic speakers"), ("image", "handwritten digits, moved")):
        task = summary[name]
        click.echo(
            f"{what}: {task['answered']} of {task['sent']} answered; accuracy {task['accuracy']:.3f}"
            f" (|G| = 1: {task['accuracy_plain']:.3f}; nearest neighbour: {task['accuracy_neighbour']:.3f})"
        )
        for failure in task["failures"]:
            click.echo(f"failed {failure['file']}: {failure['code']}: {failure['reason']}", err=True)
    click.echo(f"{summary['items_per_s']} items/s, p50 {summary['p50_ms']} ms, p99 {summary['p99_ms']} ms")
    click.echo(f"{summary['wall_s']} s in all; {folder.absolute()}/summary.json, {summary['picture']}")
