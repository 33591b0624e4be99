"""`streamfeat check`: what would be read and what refused, file by file, without a fleet."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from streamfeat.cli.choices import channels_option, frames_option, limit_options
from streamfeat.cli.guidance import examples
from streamfeat.decoding import Decoder, Limits
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, CallerError


@click.command(
    help="Say of each file (folders and zips: of each file in them) whether it would be read, or why not.",
    epilog=examples(
        "streamfeat check word.wav face.png",
        "# a whole corpus, an object a line",
        "streamfeat check tidigits --channels mix --json",
    ),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@channels_option(default=None)
@frames_option
@limit_options
@click.option("--values", is_flag=True, help="With --json: also the first eight values and the sum of all.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, one line a file.")
def command(
    paths: tuple[Path, ...],
    channels: Any,
    frames: Any,
    limits: Limits,
    values: bool,
    as_json: bool,
) -> int:
    """Check everything; status 3 when something is refused."""
    from streamfeat.inspection import Policy

    policy = Policy(channels, frames)
    n_refused = n_files = 0
    with Decoder(limits) as decoder:
        for name, source in _sources(paths):
            found = _refusal(name, source) if isinstance(source, CallerError) else decoder.check(source, name, policy)
            n_files += 1
            n_refused += found["outcome"] == "reject"
            if not values:
                found = {key: value for key, value in found.items() if key not in ("head", "sum")}
            click.echo(json.dumps(found) if as_json else _line(found))
    if not as_json:
        click.echo(f"{n_files - n_refused} of {n_files} files would be read")
    return EXIT_SOME_FAILED if n_refused else EXIT_OK


def _sources(paths: tuple[Path, ...]) -> Iterator[tuple[str, Path | bytes | CallerError]]:
    """Every file of the paths by name: itself, what is in a zip's member, or why that cannot be had."""
    from streamfeat.signals.signal import printable

    for path in paths:
        if not path.is_dir():
            yield from _file(path, printable(str(path)))
            continue
        for folder, below, files in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for file in sorted(files):
                if not file.startswith("."):
                    inside = Path(folder, file)
                    yield from _file(inside, printable(str(inside)))


def _file(path: Path, name: str) -> Iterator[tuple[str, Path | bytes | CallerError]]:
    """The file, or the members of one that is a zip of other things than arrays."""
    from streamfeat.signals.corpus import read_member
    from streamfeat.signals.signal import printable

    members = _members(path)
    if not members:
        yield name, path
        return
    with zipfile.ZipFile(path) as archive:
        for info in members:
            inside = f"{name}/{printable(info.filename)}"
            try:
                yield inside, read_member(archive, info, inside)
            except CallerError as error:
                yield inside, error


def _members(path: Path) -> list[zipfile.ZipInfo]:
    """What is in a zip of files; nothing for other files, and for .npz."""
    from streamfeat.signals.arrays import ZIP_MAGIC

    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            if file.read(4) != ZIP_MAGIC:
                return []
            with zipfile.ZipFile(file) as archive:
                members = [info for info in archive.infolist() if not info.is_dir()]
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):  # who reads it says why
        return []
    return [] if any(info.filename.endswith(".npy") for info in members) else members


def _refusal(name: str, error: CallerError) -> dict[str, Any]:
    from streamfeat.inspection import Check, kind_of_name

    return Check(name, kind_of_name(name), error).as_dict(values=True)


def _line(found: dict[str, Any]) -> str:
    """The verdict for people."""
    if found["outcome"] == "reject":
        return f"refused: {found['code']}: {found['reason']}"
    rate = f" at {found['rate_hz']} Hz" if found["rate_hz"] else ""
    shape = " x ".join(map(str, found["shape"] or ()))
    odd = "".join(f"; {warning}" for warning in found["warnings"])
    return f"{found['file']}: {found['kind']} {shape}{rate}{odd}"
