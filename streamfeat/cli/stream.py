"""`streamfeat stream`: a corpus of recordings through a fleet, and what the features are worth."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import numpy as np

from streamfeat.cli.console import emit, json_option, progress, with_settings
from streamfeat.cli.fleetwork import open_fleet, print_failures
from streamfeat.config import Settings
from streamfeat.delivery import Delivery, deliver, labels_of
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, InvalidArgument
from streamfeat.signals.corpus import Corpus, open_corpus

DEFAULT_BANK = "digits-audio"


@click.command(help="Send the recordings of a corpus (TIDIGITS, FSDD, a folder per class) through a fleet.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--bank", default=DEFAULT_BANK, show_default=True, help="Preset, bank name, hash or directory.")
@click.option("--connect", help="A running broker's endpoint; else a fleet is started for this run.")
@click.option("--workers", type=click.IntRange(1), help="Feature workers of the fleet started here. Default: 2.")
@click.option("--learn", metavar="MODEL", help="Route: features > learn:MODEL, then fit it.")
@click.option("--classify", metavar="MODEL", help="Route: features > classify:MODEL.")
@click.option("--insert", metavar="INDEX", help="Route: features > insert:INDEX.")
@click.option("--search", metavar="INDEX", help="Route: features > search:INDEX.")
@click.option("--leave-one-speaker-out", is_flag=True, help="Accuracy on each speaker of RLS fitted on the others.")
@click.option("--train-takes", metavar="A-B", help="Fit on these takes only (FSDD), say 0-9.")
@click.option("--test-takes", metavar="A-B", help="Test on these takes only (FSDD), say 40-49.")
@click.option("--strings", is_flag=True, help="Take files of several digits too, the string as label.")
@click.option("--ten-way", is_flag=True, help="Count `oh` as `zero`.")
@click.option("--out", type=click.Path(path_type=Path), help="Save features, labels, speakers and names (.npz).")
@click.option("--failures-shown", default=10, show_default=True, help="Failures printed on the terminal.")
@with_settings
@json_option
def command(
    path: Path,
    bank: str,
    connect: str | None,
    workers: int | None,
    learn: str | None,
    classify: str | None,
    insert: str | None,
    search: str | None,
    leave_one_speaker_out: bool,
    train_takes: str | None,
    test_takes: str | None,
    strings: bool,
    ten_way: bool,
    out: Path | None,
    failures_shown: int,
    settings: Settings,
    json_to: str | None,
) -> int:
    """Send everything; report counts, rate, failures and accuracy."""
    route, name = _route(learn=learn, classify=classify, insert=insert, search=search)
    if name is not None and (leave_one_speaker_out or out):
        raise click.UsageError("--leave-one-speaker-out and --out need the features themselves: leave the route out")
    corpus = open_corpus(path, strings=strings, merge_oh=ten_way)
    takes = (_takes(train_takes), _takes(test_takes))
    with ExitStack() as stack:
        client, bank_name = stack.enter_context(
            open_fleet(
                settings,
                bank,
                connect=connect,
                n_workers=workers,
                learner=bool(learn or classify),
                index=bool(insert or search),
            )
        )
        with progress("recordings", len(corpus.utterances)) as advance:
            delivery = deliver(
                client,
                corpus.utterances,
                route=route,
                bank=bank_name,
                stream=str(path.absolute()) if learn or insert else None,
                progress=advance,
            )
        report: dict[str, Any] = {
            "path": str(path),
            "layout": corpus.layout,
            "bank": bank_name,
            "route": route,
            **delivery.report(),
            "accuracy": None,
            "per_speaker": None,
            "skipped": [{"file": s.name, "reason": s.reason} for s in corpus.skipped],
        }
        if learn and delivery.answered:
            report["fit"] = client.fit(learn)
    if classify:
        truth = labels_of(corpus.utterances, delivery.positions)
        right = [t == r.label for t, r in zip(truth, delivery.results, strict=True)]
        report["accuracy"] = float(np.mean(right)) if right else None
    if name is None and delivery.answered:
        report.update(_accuracy(corpus, delivery, takes, leave_one_speaker_out))
        if out is not None:
            _save(out, corpus, delivery)
    emit(report, json_to, lambda: _print(report, failures_shown))
    return EXIT_SOME_FAILED if delivery.failed else EXIT_OK


def _route(**stages: str | None) -> tuple[str, str | None]:
    chosen = {stage: name for stage, name in stages.items() if name is not None}
    if len(chosen) > 1:
        raise click.UsageError(f"one route at a time, got --{' and --'.join(chosen)}")
    for stage, name in chosen.items():
        return f"features > {stage}:{name}", name
    return "features", None


def _takes(text: str | None) -> range | None:
    if text is None:
        return None
    first, _, last = text.partition("-")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        raise click.UsageError(f"takes are a number or a range such as 0-9, got {text!r}") from None


def _accuracy(
    corpus: Corpus, delivery: Delivery, takes: tuple[range | None, range | None], leave_one_speaker_out: bool
) -> dict[str, Any]:
    """Accuracy of RLS on the features: by left-out speaker when asked, else on the corpus' own test part."""
    from streamfeat.learn.rls import RLS, leave_one_group_out

    answered = [corpus.utterances[place] for place in delivery.positions]
    X = delivery.features()
    y = [u.label for u in answered]
    speakers = [u.speaker for u in answered]

    def within(wanted: range | None) -> np.ndarray[Any, Any]:
        if wanted is None:
            return np.ones(len(answered), bool)
        numbers = [int(u.take) if u.take is not None and u.take.isdigit() else None for u in answered]
        if None in numbers:
            raise InvalidArgument(
                f"--train-takes and --test-takes need numbered takes; layout {corpus.layout} has none"
            )
        return np.array([n in wanted for n in numbers])

    train, test = within(takes[0]), within(takes[1])
    if leave_one_speaker_out:
        if len({*speakers} - {None}) < 3:
            raise InvalidArgument(
                f"leaving one speaker out needs 3 known speakers, {len({*speakers} - {None})} here (layout {corpus.layout})"
            )
        per_speaker = leave_one_group_out(X, y, speakers, train_mask=train, test_mask=test)
        return {"accuracy": float(np.mean(list(per_speaker.values()))), "per_speaker": per_speaker}
    split = np.array([u.split or "" for u in answered])
    train, test = train & (split == "train"), test & (split == "test")
    if not train.any() or not test.any() or any(label is None for label in y):
        return {}
    groups = [s for s, kept in zip(speakers, train, strict=True) if kept]
    by_speaker = len({*groups} - {None}) >= 3
    rls = RLS("logo" if by_speaker else "loo").fit(
        X[train], [label for label, kept in zip(y, train, strict=True) if kept], groups=groups if by_speaker else None
    )
    truth = [label for label, kept in zip(y, test, strict=True) if kept]
    return {"accuracy": float(np.mean([a == b for a, b in zip(rls.predict(X[test]), truth, strict=True)]))}


def _save(out: Path, corpus: Corpus, delivery: Delivery) -> None:
    answered = [corpus.utterances[place] for place in delivery.positions]
    part = out.with_name(f".{out.name}.part.npz")
    np.savez(
        part,
        features=delivery.features(),
        labels=np.array([str(u.label) for u in answered]),
        speakers=np.array([u.speaker or "" for u in answered]),
        names=np.array([u.name for u in answered]),
        bank=np.array(delivery.results[0].fields["bank"]),
    )
    part.replace(out)


def _print(report: dict[str, Any], failures_shown: int) -> None:
    click.echo(
        f"{report['path']} ({report['layout']}) by bank {report['bank']}: {report['answered']} of {report['sent']} answered"
        f", {report['items_per_s']} items/s, p50 {report['p50_ms']} ms, p99 {report['p99_ms']} ms"
    )
    if report["skipped"]:
        click.echo(f"skipped {len(report['skipped'])}, the first: {report['skipped'][0]}")
    if report["per_speaker"]:
        for speaker, accuracy in sorted(report["per_speaker"].items()):
            click.echo(f"  {speaker:<24} {accuracy:.3f}")
    if report["accuracy"] is not None:
        click.echo(f"accuracy {report['accuracy']:.4f}")
    if "fit" in report:
        click.echo(f"fitted: {report['fit']}")
    print_failures(report["failed"], failures_shown)
