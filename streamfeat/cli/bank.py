"""`streamfeat bank`: build, list, show, verify, materialise and teach banks."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import click

from streamfeat.bank import Bank, compare_features, find_bank, list_banks, materialise, open_bank, other_chance
from streamfeat.cli.console import emit, json_option, with_settings, written_file
from streamfeat.cli.guidance import Commands, OneOf, examples
from streamfeat.config import Settings
from streamfeat.contactsheet import contact_sheet
from streamfeat.errors import EXIT_CONFIG, EXIT_OK, InvalidArgument, StreamfeatError
from streamfeat.presets import build_named, preset_names
from streamfeat.signals import Signal, open_corpus, open_images
from streamfeat.teaching import By
from streamfeat.teaching import teach as teach_bank

N_COMPARED = 16
"""Random vectors whose features both forms of a bank compute; each costs a pass over every orbit."""


@click.group(
    cls=Commands,
    help="Build, list, show, verify, materialise and teach banks.",
    epilog=examples(
        "streamfeat bank build digits-audio",
        "streamfeat bank list",
        "streamfeat bank show digits-audio --png digits.png",
    ),
)
def command() -> None:
    """Group of the bank commands."""


@command.command(
    help=f"Build a bank from a preset ({', '.join(preset_names())}) or a spec file (.toml).",
    epilog=examples(
        "streamfeat bank build digits-audio",
        "# templates from pictures of yours",
        "streamfeat bank build faces --from pictures",
        "# no orbits: what invariance is compared with",
        "streamfeat bank build digits-image --plain",
    ),
)
@click.argument("spec")
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Unlabelled recordings or pictures for templates and thresholds; for user_orbits a folder an orbit, or .npy. "
    "Presets but `faces` and `colour` have their own.",
)
@click.option("--plain", is_flag=True, help="The same pipeline with |G| = 1, for comparison.")
@with_settings
@json_option
def build(spec: str, sources: tuple[Path, ...], plain: bool, settings: Settings, json_to: str | None) -> None:
    """Build and save; what has the same hash is there already and is not written again."""
    started = time.monotonic()
    path = build_named(spec, Path(settings.fleet.bank_dir), sources=sources, plain=plain, say=_say)
    report = {**_describe(open_bank(path, verify=False), path), "wall_s": round(time.monotonic() - started, 3)}
    emit(report, json_to, lambda: _print(report))


@command.command(
    "list",
    help="Banks that are there, and presets that can be built.",
    epilog=examples(
        "streamfeat bank list",
        "streamfeat bank list --bank-dir /var/lib/streamfeat/banks --json",
    ),
)
@with_settings
@json_option
def list_(settings: Settings, json_to: str | None) -> None:
    """Print a line a bank."""
    root = Path(settings.fleet.bank_dir)
    banks, broken = [], []
    for path in list_banks(root):
        try:
            banks.append(_describe(open_bank(path, verify=False), path))
        except StreamfeatError as error:
            broken.append({"path": str(path), "reason": error.reason})
    report = {"bank_dir": str(root), "banks": banks, "broken": broken, "presets": list(preset_names())}

    def text() -> None:
        for bank in banks:
            _print(bank)
        for bank in broken:
            click.echo(f"broken: {bank['reason']}")
        click.echo(f"presets: {', '.join(preset_names())}; `streamfeat bank build PRESET` builds one")

    emit(report, json_to, text)


@command.command(
    help="Describe a bank; --png draws templates (rows) and their orbits (columns), or patches and cells.",
    epilog=examples(
        "streamfeat bank show digits-audio",
        "streamfeat bank show digits-image --png sheet.png --templates 12",
    ),
)
@click.argument("bank")
@click.option(
    "--png",
    type=click.Path(path_type=Path),
    callback=written_file,
    help="Where to write the contact sheet. Default: BANK.png",
)
@click.option("--templates", type=click.IntRange(1), default=8, show_default=True)
@click.option("--elements", type=click.IntRange(1), default=9, show_default=True)
@with_settings
@json_option
def show(bank: str, png: Path | None, templates: int, elements: int, settings: Settings, json_to: str | None) -> None:
    """Write the sheet and print the description."""
    path = find_bank(Path(settings.fleet.bank_dir), bank)
    opened = open_bank(path, verify=False)
    sheet = png or Path(f"{path.name}.png")
    contact_sheet(opened, n_templates=templates, n_elements=elements).save(sheet, format="PNG")
    report = {**_describe(opened, path), "png": str(sheet), "spec": opened.spec.as_dict()}

    def text() -> None:
        _print(report)
        click.echo(f"drawn: {sheet}")

    emit(report, json_to, text)


@command.command(
    help="Recompute the hashes of banks: all of them, or those named.",
    epilog=examples(
        "streamfeat bank verify",
        "streamfeat bank verify digits-audio",
    ),
)
@click.argument("banks", nargs=-1)
@with_settings
@json_option
def verify(banks: tuple[str, ...], settings: Settings, json_to: str | None) -> int:
    """Say of each whether it is what its name says; 78 when one is not."""
    root = Path(settings.fleet.bank_dir)
    paths = [find_bank(root, bank) for bank in banks] or list_banks(root)
    verdicts = []
    for path in paths:
        try:
            opened = open_bank(path, verify=True)
            verdicts.append({"path": str(path), "ok": True, "hash": opened.hash, "reason": ""})
        except StreamfeatError as error:
            verdicts.append({"path": str(path), "ok": False, "hash": "", "reason": error.reason})
    ok = all(verdict["ok"] for verdict in verdicts)

    def text() -> None:
        for verdict in verdicts:
            click.echo(f"{'ok  ' if verdict['ok'] else 'FAIL'} {verdict['path']} {verdict['reason']}".rstrip())

    emit({"ok": ok, "banks": verdicts}, json_to, text)
    return EXIT_OK if ok else EXIT_CONFIG


@command.command(
    "materialize",
    help="Write the dense form of a bank: every template moved by every element.",
    epilog=examples(
        "streamfeat bank materialize global-image",
    ),
)
@click.argument("bank")
@with_settings
@json_option
def materialize(bank: str, settings: Settings, json_to: str | None) -> None:
    """Expand, save under the dense form's own hash, and say how far features of both forms are apart."""
    root = Path(settings.fleet.bank_dir)
    given = open_bank(find_bank(root, bank))
    path = materialise(given).save(root)
    dense = open_bank(path, verify=False)
    apart = compare_features(given, dense, N_COMPARED, other_chance(0))
    report = {**_describe(dense, path), **asdict(apart)}

    def text() -> None:
        _print(report)
        click.echo(
            f"features of {N_COMPARED} random vectors in both forms: {apart.differing} of {apart.compared} numbers "
            f"differ, by {apart.largest_difference:g} at the most"
        )

    emit(report, json_to, text)


@command.command(
    help="Teach a bank by labelled recordings or pictures, and save it as BANK-BY: its features go through what was "
    "learned. mmif: SVMs on random subsets of the labels. whitening: less of what differs inside a label. pca, random: "
    "fewer numbers, labels left aside.",
    epilog=examples(
        "# features of 100 numbers: principal directions of your pictures",
        "streamfeat bank teach digits-image --by pca --numbers 100 --from pictures",
        "# recordings in a folder a word",
        "streamfeat bank teach digits-audio --by whitening --from tidigits",
    ),
)
@click.argument("bank")
@click.option("--by", required=True, type=OneOf(get_args(By)))
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path, exists=True),
    help="Pictures in a folder a label, or .npz; or a corpus of recordings.",
)
@click.option("--numbers", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Of a feature.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@with_settings
@json_option
def teach(bank: str, by: By, source: Path, numbers: int, seed: int, settings: Settings, json_to: str | None) -> None:
    """Read, learn, save; what has the same hash is there already and is not written again."""
    started = time.monotonic()
    root = Path(settings.fleet.bank_dir)
    given = open_bank(find_bank(root, bank))
    signals, labels = _labelled(source, given.manifest["kind"], by in ("mmif", "whitening"))
    path = teach_bank(given, signals, labels, by, numbers, seed=seed).save(root)
    opened = open_bank(path, verify=False)
    report = {**_describe(opened, path), "taught_by": len(signals), "wall_s": round(time.monotonic() - started, 3)}
    emit(report, json_to, lambda: _print(report))


def _labelled(source: Path, kind: str, needed: bool) -> tuple[list[Signal], list[str]]:
    """The recordings or pictures there, with their labels, which may be empty unless they are needed."""
    entries = open_corpus(source).utterances if kind == "audio" else open_images(source).entries
    nameless = [entry.name for entry in entries if not entry.label] if needed else []
    if nameless:
        raise InvalidArgument(f"{source}: {nameless[0]} has no label; give a folder a label, or an .npz with labels")
    return [entry.read() for entry in entries], [entry.label or "" for entry in entries]


def _say(text: str) -> None:
    click.echo(text, err=True)


def _describe(bank: Bank, path: Path) -> dict[str, Any]:
    """What there is to tell of a bank; of its streams in a list, if there are several."""
    streams = [
        {
            "form": stream.form,
            "n_templates": stream.m,
            "group_size": stream.n_group,
            "n_elements": stream.n_moves,
            "window": stream.spec.window.kind,
        }
        for stream in bank.streams
    ]
    return {
        "name": bank.name,
        "hash": bank.hash,
        "path": str(path),
        "n_features": bank.n_features,
        "dtype": bank.dtype,
        "outer_size": bank.n_outer,
        **(streams[0] if len(streams) == 1 else {"streams": streams}),
        "bytes": sum(file.stat().st_size for file in path.iterdir()),
    }


def _print(bank: dict[str, Any]) -> None:
    parts = []
    for stream in bank.get("streams", [bank]):
        n = stream["n_elements"]
        moved = [] if stream["window"] == "whole" else [f"{stream['group_size'] // n} positions"]
        moved += [f"{n} elements"] if n > 1 or not moved else []
        parts.append(f"{stream['form']}: {stream['n_templates']} templates x {' x '.join(moved)}")
    outer = f", {bank['outer_size']} copies of an input" if bank["outer_size"] > 1 else ""
    click.echo(
        f"{bank['name']} {bank['hash'][:12]} {', '.join(parts)}{outer} -> {bank['n_features']} {bank['dtype']}, "
        f"{bank['bytes'] / 1e6:.1f} MB, {bank['path']}"
    )
