"""Where data lie: the folder of the training data, a file in it, and test items of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import streamfeat
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.signals import Signal, open_corpus, open_images
from streamfeat.signals.corpus import Utterance
from streamfeat.signals.pictures import Picture

BESIDE = Path("shared") / "data"
"""Beside the repository, and beside the folder one works in."""


def data_folder(said: Path | None) -> Path:
    """The folder of the training data: the one that was said, else the first of the usual places that is there.

    Raises
    ------
    ConfigError
        It is not there; tells where was looked.
    """
    if said is not None:
        if not said.is_dir():
            raise ConfigError(f"{said}: no such folder; --train-data or STREAMFEAT_DATA names the folder of the data")
        return said
    repository = Path(streamfeat.__file__).resolve().parents[1]
    places = list(dict.fromkeys([repository.parent / BESIDE, Path.cwd().parent / BESIDE]))
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(map(str, places))
    raise ConfigError(f"no training data: looked for {looked}; name the folder with --train-data or STREAMFEAT_DATA")


def need(data: Path, name: str, what: str) -> Path:
    """A file or folder of the data.

    Raises
    ------
    ConfigError
        It is not there; `what` tells what it is.
    """
    path = data / name
    if not path.exists():
        raise ConfigError(f"{path}: not there, needed is {what}; put it there or name another folder with --train-data")
    return path


def given_recordings(path: Path, known: Sequence[str]) -> tuple[Utterance, ...]:
    """The labelled recordings of a user, for the test: a corpus in any layout that `open_corpus` knows.

    Raises
    ------
    InvalidArgument
        A label that no training item has.
    """
    utterances = open_corpus(path).utterances
    _check_labels(path, {u.label for u in utterances}, known)
    return utterances


def given_pictures(path: Path, known: Sequence[str] | None) -> list[tuple[str, Picture]]:
    """The labelled pictures of a user, for the test: (label, picture) of a folder per class or an array file.

    `known` are the labels there may be; None: any.

    Raises
    ------
    InvalidArgument
        A picture without a label, or with one that no training item has.
    """
    entries = open_images(path).entries
    labelled = [(entry.label, entry) for entry in entries if entry.label is not None]
    if len(labelled) < len(entries):
        nameless = next(entry.name for entry in entries if entry.label is None)
        raise InvalidArgument(
            f"{path}: test items need labels, {nameless} has none; give a folder per class or an .npz of images, labels"
        )
    if known is not None:
        _check_labels(path, {label for label, _ in labelled}, known)
    return labelled


def read_all(items: Sequence[Utterance], advance: Callable[[int], None]) -> list[Signal]:
    """Each item's signal, read now; `advance` is told of each."""
    signals = []
    for item in items:
        signals.append(item.read())
        advance(1)
    return signals


def _check_labels(path: Path, labels: set[str], known: Sequence[str]) -> None:
    strange = sorted(labels - set(known))
    if strange:
        raise InvalidArgument(
            f"{path}: no training item has the label {strange[0]!r}; the labels are {', '.join(sorted(set(known)))}"
        )
