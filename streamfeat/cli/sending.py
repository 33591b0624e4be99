"""What `stream` and `push` share: where to send, along which route, and the account of it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from streamfeat.bank import open_bank
from streamfeat.cli.choices import limit_options
from streamfeat.cli.console import progress, written_file
from streamfeat.cli.guidance import OneOf
from streamfeat.client import Client, Result
from streamfeat.config import Settings
from streamfeat.decoding import Limits
from streamfeat.delivery import Delivery, OnError, Readable, deliver, labels_of
from streamfeat.directory import replace_file
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, StreamfeatError, Unavailable
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.inquiry import credentials_for
from streamfeat.presets import ensure_bank

F = TypeVar("F", bound=Callable[..., Any])
STAGES = {
    "learn": "Route: features > learn:MODEL, then fit it.",
    "classify": "Route: features > classify:MODEL.",
    "insert": "Route: features > insert:INDEX.",
    "search": "Route: features > search:INDEX.",
}

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Of a model or an index, as schemas/messages.schema.json has it."""

OWN = ("bank", "connect", "n_workers", "out", "failures_shown", "limits", "on_error", "failures_to")
"""Options that are fields of `Sending` as they are."""

FIT_SHOWN = ("lam", "n_items", "n_classes", "accuracy", "criterion")


@dataclass(frozen=True)
class Sending:
    """Where items go and what is kept of the answers; `target` is the model or index at the route's end."""

    bank: str
    connect: str | None
    n_workers: int | None
    stage: str | None
    target: str
    out: Path | None
    failures_shown: int
    limits: Limits
    on_error: OnError = "skip"
    failures_to: Path | None = None

    @property
    def route(self) -> str:
        """The route in words."""
        return "features" if self.stage is None else f"features > {self.stage}:{self.target}"


def sending_options(default_bank: str) -> Callable[[F], Callable[..., Any]]:
    """Options of a command that sends items, handed on as one argument: `sending`."""

    def decorate(function: F) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(*args: Any, **kwargs: Any) -> Any:
            stages = {stage: target for stage in STAGES if (target := kwargs.pop(stage)) is not None}
            if len(stages) > 1:
                raise click.UsageError(f"one route at a time, got --{' and --'.join(stages)}")
            stage, target = next(iter(stages.items()), (None, ""))
            if stage is not None and not NAME.fullmatch(target):
                raise click.UsageError(
                    f"--{stage} needs a name of 1 to 64 of a-z 0-9 . _ -, the first a letter or digit, got {target!r}"
                )
            own = {name: kwargs.pop(name) for name in OWN}
            if stage is not None and own["out"] is not None:
                raise click.UsageError(f"--out saves features, --{stage} keeps them in the fleet: choose one")
            return function(*args, sending=Sending(stage=stage, target=target, **own), **kwargs)

        for option in (
            limit_options,
            click.option(
                "--failures",
                "failures_to",
                type=click.Path(path_type=Path),
                callback=written_file,
                help="Write what failed or was skipped, one JSON object a line: file, code, reason.",
            ),
            click.option(
                "--on-error",
                type=OneOf(["skip", "stop"]),
                default="skip",
                show_default=True,
                help="What a failure means for the items after it.",
            ),
            click.option(
                "--failures-shown",
                type=click.IntRange(0),
                default=10,
                show_default=True,
                help="Failures printed.",
            ),
            click.option(
                "--out",
                type=click.Path(path_type=Path),
                callback=written_file,
                help="Save features, labels and names (.npz).",
            ),
            *(click.option(f"--{stage}", metavar="NAME", help=text) for stage, text in reversed(STAGES.items())),
            click.option("--workers", "n_workers", type=click.IntRange(1, 256), help="Feature workers to start [2]."),
            click.option("--connect", help="A running broker's endpoint; else a fleet is started for this run."),
            click.option("--bank", default=default_bank, show_default=True, help="Preset, name, hash or directory."),
        ):
            command = option(command)
        return command

    return decorate


def stream_name(paths: Sequence[Path]) -> str:
    """Name of these paths in a feature log: of one length, for names on the wire have a limit."""
    return hashlib.sha256(b"\0".join(os.fsencode(path.resolve()) for path in paths)).hexdigest()


def send(
    settings: Settings,
    sending: Sending,
    items: Sequence[Readable],
    *,
    noun: str,
    stream: str,
    groups: Sequence[str | None] | None = None,
) -> tuple[Delivery, dict[str, Any]]:
    """Send every item, on a running fleet or one of its own; fit a model that was fed.

    Parameters
    ----------
    settings, sending
        Where and how.
    items : sequence of Readable
    noun : str
        What the progress bar calls them.
    stream : str
        Name of the stream in the feature log: items sent again under it are stored once.
    groups : sequence of str or None, optional
        Who is held out together with each item.

    Returns
    -------
    delivery : Delivery
    report : dict
        Counts, rate, failures; `fit` of a model that was fed, or why it is `unfitted`; `results` by file and,
        where labels are known, `accuracy` of items that were classified; `results` of a search.
    """
    with _client(settings, sending) as (client, bank), progress(noun, len(items)) as advance:
        delivery = deliver(
            client,
            items,
            route=sending.route,
            bank=bank,
            groups=groups,
            stream=stream,
            on_error=sending.on_error,
            progress=advance,
        )
        report: dict[str, Any] = {"bank": bank, "route": sending.route, **delivery.report(), "accuracy": None}
        if sending.stage == "learn" and delivery.answered and not delivery.unsent:
            try:
                if delivery.n_unheard:  # a fit may take long, and would wait as long for nobody
                    raise Unavailable(f"the last {delivery.n_unheard} items had no answer; mend the fleet, send again")
                fit = client.fit(sending.target)
                report["fit"] = {key: fit[key] for key in FIT_SHOWN}
            except StreamfeatError as error:  # what became of the items is told all the same
                report["unfitted"] = {"code": error.code, "reason": error.reason, "exit_status": error.exit_status}
    if sending.stage == "classify" and delivery.answered:
        truth = labels_of(items, delivery.positions)
        right = [t == r.label for t, r in zip(truth, delivery.results, strict=True) if t is not None]
        report["accuracy"] = float(np.mean(right)) if right else None
    if sending.stage in ("classify", "search"):
        report["results"] = [
            {"file": items[place].name, **_found(result)}
            for place, result in zip(delivery.positions, delivery.results, strict=True)
        ]
    if sending.out is not None and delivery.answered:
        delivery.save(sending.out, items)
    return delivery, report


def _found(result: Result) -> dict[str, Any]:
    """What a model or an index said of one item, for JSON."""
    if result.fields["kind"] == "label":
        return {"label": result.label, "score": result.fields["score"]}
    return {
        "neighbours": [{"label": label, "id": number, "distance": d} for label, number, d in result.neighbours],
    }


def _answer(found: Mapping[str, Any]) -> str:
    """A label, or those of the neighbours; of one without a label its number in the index."""
    if "label" in found:
        return str(found["label"])
    return " ".join(f"#{n['id']}" if n["label"] is None else str(n["label"]) for n in found["neighbours"])


def write_failures(report: Mapping[str, Any], file: Path | None) -> None:
    """What failed and what was skipped, a JSON object a line; nothing without a file."""
    if file is None:
        return
    skipped = [{"file": s["file"], "code": "SKIPPED", "reason": s["reason"]} for s in report["skipped"]]
    replace_file(file, "".join(json.dumps(line) + "\n" for line in [*report["failed"], *skipped]))


def exit_status(report: Mapping[str, Any]) -> int:
    """0 when every item was answered, 3 when some failed; if a model was not fitted, what its error says."""
    if "unfitted" in report:
        return int(report["unfitted"]["exit_status"])
    return EXIT_SOME_FAILED if report["failed"] else EXIT_OK


def print_report(report: Mapping[str, Any], what: str, sending: Sending) -> None:
    """Counts and accuracy on standard output, failures by name and reason on standard error."""
    bank = sending.bank if report["bank"] == sending.bank else f"{sending.bank} ({report['bank'][:12]})"
    click.echo(f"{what}, bank {bank}: {report['answered']} of {report['sent']} answered")
    if report["answered"]:
        click.echo(f"{report['items_per_s']} items/s, p50 {report['p50_ms']} ms, p99 {report['p99_ms']} ms")
    for speaker, accuracy in sorted((report.get("per_speaker") or {}).items()):
        click.echo(f"  {speaker:<24} {accuracy:.4f}")
    for found in report.get("results", ()):
        click.echo(f"  {found['file']:<24} {_answer(found)}")
    if report["unsent"]:
        click.echo(f"stopped at the first failure, {report['unsent']} not sent", err=True)
    if report["accuracy"] is not None:
        measured = report.get("measured")
        click.echo(f"accuracy {report['accuracy']:.4f}" + (f" ({measured})" if measured else ""))
    if "fit" in report:
        click.echo("fitted: " + ", ".join(f"{key} {value}" for key, value in report["fit"].items()))
    if "unfitted" in report:
        click.echo(f"streamfeat: not fitted: {report['unfitted']['reason']}", err=True)
    failed = report["failed"]
    for failure in failed[: sending.failures_shown]:
        click.echo(f"failed {failure['file']}: {failure['code']}: {failure['reason']}", err=True)
    if len(failed) > sending.failures_shown:
        click.echo(f"and {len(failed) - sending.failures_shown} more; --json lists them all", err=True)


@contextmanager
def _client(settings: Settings, sending: Sending) -> Iterator[tuple[Client, str]]:
    """A connected client, and the bank to ask for."""
    with ExitStack() as stack:
        endpoint, bank = sending.connect, sending.bank
        if endpoint is None:
            path = ensure_bank(bank, Path(settings.fleet.bank_dir), say=lambda text: click.echo(text, err=True))
            private = stack.enter_context(private_settings(settings, state_dir=Path(settings.fleet.state_dir)))
            fleet = LocalFleet(
                private,
                [path],
                n_workers=sending.n_workers or settings.fleet.workers,
                learner=sending.stage in ("learn", "classify"),
                index=sending.stage in ("insert", "search"),
                log_dir=Path(private.fleet.run_dir) / "log",
            )
            endpoint, bank = stack.enter_context(fleet).front, open_bank(path, verify=False).hash
        waits = settings.client
        client = Client(
            endpoint,
            timeout_s=waits.timeout_s,
            connect_timeout_s=waits.connect_timeout_s,
            credentials=credentials_for(endpoint, settings),
        )
        yield stack.enter_context(client), bank
