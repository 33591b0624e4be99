"""Where data lie: the folder of the training data, a file in it, and test items of the user's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamfeat
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.signals import Signal, open_corpus, open_images
from streamfeat.signals.arrays import read_npz
from streamfeat.signals.corpus import Utterance
from streamfeat.signals.pictures import Picture

BESIDE = Path("shared") / "data"
"""Beside the repository, and beside the folder one works in."""

NAMING = "with --train-data (evaluate), --data (reproduce) or STREAMFEAT_DATA"
"""How a folder of data is named."""


def data_folder(said: Path | None) -> Path:
    """The folder of the training data: the one that was said, else the first of the usual places that is there.

    Raises
    ------
    ConfigError
        It is not there; tells where was looked.
    """
    if said is not None:
        if not said.is_dir():
            raise ConfigError(f"{said}: no such folder; name the folder of the data {NAMING}")
        return said
    repository = Path(streamfeat.__file__).resolve().parents[1]
    places = list(dict.fromkeys([repository.parent / BESIDE, Path.cwd().parent / BESIDE]))
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(map(str, places))
    raise ConfigError(f"no training data: looked for {looked}; name the folder {NAMING}")


def need(data: Path, name: str, what: str) -> Path:
    """A file or folder of the data.

    Raises
    ------
    ConfigError
        It is not there; `what` tells what it is.
    """
    path = data / name
    if not path.exists():
        raise ConfigError(f"{path}: not there, needed is {what}; put it there or name another folder {NAMING}")
    return path


def hash_of(place: Path) -> str:
    """SHA-256 of a file; of a folder, that of the names and hashes of its files."""
    if place.is_file():
        with place.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    files = sorted(file for file in place.rglob("*") if file.is_file())
    told = [[file.relative_to(place).as_posix(), hash_of(file)] for file in files]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def arrays_in(path: Path, n_axes: Mapping[str, int]) -> list[NDArray[Any]]:
    """Arrays of an .npz of the data that tell of the same items, as pictures and their labels.

    Parameters
    ----------
    path : Path
    n_axes : mapping
        Name of an array -> how many axes it has; the first is that of the items.

    Raises
    ------
    ConfigError
        By the file's name: damaged, an array that is not there, of other axes, not finite, or of no items, or arrays
        of different numbers of items.
    """
    names = ", ".join(n_axes)
    try:
        there = read_npz(path, str(path))
    except InvalidArgument as error:
        raise ConfigError(f"{error.reason}; copy it again") from error
    for name, n in n_axes.items():
        if name not in there:
            raise ConfigError(f"{path}: needs the arrays {names}; {name} is not there")
        array = there[name]
        if array.ndim != n or not len(array):
            raise ConfigError(f"{path}: {name} must have {n} axes, the first that of the items, got {array.shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ConfigError(f"{path}: {name} has numbers that are not finite; copy it again")
    arrays = [there[name] for name in n_axes]
    if len({len(array) for array in arrays}) > 1:
        lengths = ", ".join(str(len(array)) for array in arrays)
        raise ConfigError(f"{path}: {names} must be of as many items each, got {lengths}; copy it again")
    return arrays


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
