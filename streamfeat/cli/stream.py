"""`streamfeat stream`: a corpus of recordings through a fleet, and what the features are worth."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from streamfeat.cli.choices import channels_option
from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.cli.sending import (
    Sending,
    exit_status,
    print_report,
    send,
    sending_options,
    stream_name,
    write_failures,
)
from streamfeat.config import Settings
from streamfeat.decoding import Decoder, bounded_recordings
from streamfeat.errors import InvalidArgument
from streamfeat.learn.evaluation import leave_one_group_out
from streamfeat.learn.rls import RLS
from streamfeat.signals.corpus import Corpus, Utterance, open_corpus
from streamfeat.signals.signal import printable


@click.command(
    help="Send the recordings of a corpus (TIDIGITS, FSDD, a folder per class) through a fleet.",
    epilog=examples(
        "streamfeat stream tidigits",
        "streamfeat stream fsdd.zip --leave-one-speaker-out",
        "# teach a model of a running fleet, then ask it",
        "streamfeat stream tidigits --learn digits --connect tcp://host:5555",
        "streamfeat stream fsdd.zip --classify digits --connect tcp://host:5555",
    ),
)
@click.argument("path", type=click.Path(path_type=Path))
@sending_options(default_bank="digits-audio")
@channels_option(default="refuse")
@click.option("--leave-one-speaker-out", is_flag=True, help="Accuracy on each speaker of RLS fitted on the others.")
@click.option("--train-takes", metavar="A-B", help="Fit on these takes only (FSDD), say 0-9.")
@click.option("--test-takes", metavar="A-B", help="Test on these takes only (FSDD), say 40-49.")
@click.option("--strings", is_flag=True, help="Take files of several digits too, the string as label.")
@click.option("--ten-way", is_flag=True, help="Count `oh` as `zero`.")
@with_settings
@json_option
def command(
    path: Path,
    sending: Sending,
    channels: Any,
    leave_one_speaker_out: bool,
    train_takes: str | None,
    test_takes: str | None,
    strings: bool,
    ten_way: bool,
    settings: Settings,
    json_to: str | None,
) -> int:
    """Send everything; report counts, rate, failures and accuracy."""
    takes = (_takes(train_takes), _takes(test_takes))
    scored = {"--leave-one-speaker-out": leave_one_speaker_out, "--train-takes": takes[0], "--test-takes": takes[1]}
    asked = [option for option, value in scored.items() if value]
    if asked and sending.stage is not None:
        raise click.UsageError(f"{asked[0]} needs the features, --{sending.stage} keeps them in the fleet: choose one")
    if not leave_one_speaker_out and takes[0] and takes[1] and set(takes[0]) & set(takes[1]):
        raise click.UsageError(f"--train-takes {train_takes} and --test-takes {test_takes} share takes: part them")
    corpus = open_corpus(path, strings=strings, merge_oh=ten_way)
    speakers = [u.speaker for u in corpus.utterances]
    _check_scorable(corpus, takes, leave_one_speaker_out)
    with Decoder(sending.limits) as decoder:
        items = bounded_recordings(corpus.utterances, decoder, channels)
        delivery, report = send(
            settings, sending, items, noun="recordings", stream=stream_name([path]), groups=speakers
        )
    report = {
        "path": printable(str(path)),
        "layout": corpus.layout,
        **report,
        "measured": None,
        "per_speaker": None,
        "skipped": [{"file": skipped.name, "reason": skipped.reason} for skipped in corpus.skipped],
    }
    if sending.stage is None and delivery.answered:
        answered = [corpus.utterances[place] for place in delivery.positions]
        report.update(_accuracy(delivery.features(), answered, takes, leave_one_speaker_out))
    write_failures(report, sending.failures_to)
    what = f"{report['path']} ({corpus.layout}, {len(corpus.skipped)} files skipped)"
    emit(report, json_to, lambda: print_report(report, what, sending))
    return exit_status(report)


def _takes(text: str | None) -> range | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text)
    takes = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
    if not takes:
        raise click.UsageError(f"takes are a number or a range such as 0-9, got {text!r}")
    return takes


def _check_scorable(corpus: Corpus, takes: tuple[range | None, range | None], leave_one_speaker_out: bool) -> None:
    """Refuse what the corpus has no speakers or takes for, before anything is sent."""
    if leave_one_speaker_out and len(corpus.speakers) < 3:
        raise InvalidArgument(
            f"leaving one speaker out needs 3 known speakers, this corpus ({corpus.layout}) has {len(corpus.speakers)}"
        )
    if any(takes) and corpus.layout != "fsdd":
        raise InvalidArgument(
            f"--train-takes and --test-takes need numbered takes (FSDD), this corpus: {corpus.layout}"
        )


def _within(utterances: list[Utterance], takes: range | None) -> NDArray[np.bool_]:
    """Which utterances are of these takes."""
    if takes is None:
        return np.ones(len(utterances), bool)
    return np.array([u.take is not None and int(u.take) in takes for u in utterances])


def _accuracy(
    X: NDArray[Any],
    utterances: list[Utterance],
    takes: tuple[range | None, range | None],
    leave_one_speaker_out: bool,
) -> dict[str, Any]:
    """Accuracy of RLS on the features: by left-out speaker when asked, else on the test part, if there is one.

    Train and test are the takes asked for, the corpus' own parts where none are.
    """
    y = [u.label for u in utterances]
    speakers = [u.speaker for u in utterances]
    train, test = (_within(utterances, wanted) for wanted in takes)
    if leave_one_speaker_out:
        scores = leave_one_group_out(X, y, speakers, train_mask=train, test_mask=test)
        return {
            "accuracy": scores.mean_accuracy,
            "measured": "mean over speakers, each asked of a model of the others",
            "per_speaker": scores.accuracy,
        }
    split = np.array([u.split or "" for u in utterances])
    if takes[0] is None:
        train = (split == "train") & ~(test if takes[1] else np.zeros_like(test))
    if takes[1] is None:
        test = (split == "test") & ~(train if takes[0] else np.zeros_like(train))
    if not train.any() or not test.any():
        return {}

    def chosen(values: list[Any], mask: NDArray[np.bool_]) -> list[Any]:
        return [value for value, kept in zip(values, mask, strict=True) if kept]

    groups = chosen(speakers, train)
    by_speaker = len({*groups} - {None}) >= 3
    rls = RLS("logo" if by_speaker else "loo")
    rls.fit(X[train], chosen(y, train), groups=groups if by_speaker else None)
    predicted = rls.predict(X[test])
    return {
        "accuracy": float(np.mean([p == t for p, t in zip(predicted, chosen(y, test), strict=True)])),
        "measured": f"RLS of {np.count_nonzero(train)} recordings, {np.count_nonzero(test)} others asked",
    }
