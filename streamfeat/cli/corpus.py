"""`streamfeat corpus`: make a spoken-digit corpus, or say what lies in a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, progress
from streamfeat.cli.guidance import Commands, examples


@click.group(
    cls=Commands,
    help="Make a spoken-digit corpus, or list one.",
    epilog=examples(
        "streamfeat corpus synth words --train-speakers 8 --test-speakers 4",
        "streamfeat corpus list words",
    ),
)
def command() -> None:
    """Group of the corpus commands."""


@command.command(
    help="Synthesise a corpus in TIDIGITS' layout with espeak-ng voices (extra: synth).",
    epilog=examples(
        "streamfeat corpus synth words",
        "streamfeat corpus synth words --train-speakers 8 --test-speakers 4 --seed 1",
    ),
)
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--train-speakers", type=click.IntRange(1), default=40, show_default=True)
@click.option("--test-speakers", type=click.IntRange(1), default=20, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
def synth(out: Path, train_speakers: int, test_speakers: int, seed: int, json_to: str | None) -> None:
    """Make the corpus; a second run with the same numbers finds it there."""
    from streamfeat.signals.corpus import open_corpus
    from streamfeat.synth import synthesise_corpus

    with progress("speakers", train_speakers + test_speakers) as advance:
        synthesise_corpus(
            out, n_train_speakers=train_speakers, n_test_speakers=test_speakers, seed=seed, progress=advance
        )
    corpus = open_corpus(out)
    report = {"path": str(out), "recordings": len(corpus.utterances), "skipped": len(corpus.skipped)}
    emit(report, json_to, lambda: click.echo(f"{out}: {report['recordings']} recordings"))


@command.command(
    "list",
    help="Say what lies in a corpus: layout, words, speakers, what is skipped and why.",
    epilog=examples(
        "streamfeat corpus list tidigits",
        "streamfeat corpus list fsdd.zip --json",
    ),
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--strings", is_flag=True, help="Take files of several digits as items with the string as label.")
@json_option
def list_(path: Path, strings: bool, json_to: str | None) -> None:
    """Print the counts."""
    from streamfeat.signals.corpus import open_corpus

    corpus = open_corpus(path, strings=strings)
    report: dict[str, Any] = {
        "path": str(path),
        "layout": corpus.layout,
        "recordings": len(corpus.utterances),
        "labels": dict(Counter(str(u.label) for u in corpus.utterances).most_common()),
        "speakers": dict(Counter(u.speaker or "unknown" for u in corpus.utterances).most_common()),
        "skipped": [{"file": s.name, "reason": s.reason} for s in corpus.skipped],
    }

    def text() -> None:
        labels = ", ".join(f"{label} {n}" for label, n in report["labels"].items())
        click.echo(f"{path}: {corpus.layout}, {report['recordings']} recordings, {len(report['speakers'])} speakers")
        click.echo(f"labels: {labels}")
        for skipped in corpus.skipped:
            click.echo(f"skipped {skipped.name}: {skipped.reason}")

    emit(report, json_to, text)
