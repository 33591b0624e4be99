"""Items of a corpus with their features and thumbnails: what is dropped on the page is shown beside its nearest."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamfeat.client import Client, Job
from streamfeat.decoding import Bounded, Decoder, bounded_pictures, bounded_recordings
from streamfeat.errors import CallerError, StreamfeatError
from streamfeat.learn.neighbours import NeighbourIndex
from streamfeat.page.drawing import THUMB_SIDE, picture
from streamfeat.signals import Signal, open_corpus, open_images

MOST_ITEMS = 1000
"""Of a larger corpus every n-th is taken: 2 KB of thumbnail and 4 D bytes of feature each."""


class Shown(NamedTuple):
    """One item as a browser shows it."""

    name: str
    label: str | int | None
    thumbnail: str


@dataclass(frozen=True)
class _Shelf:
    """Items that one bank took, and their index."""

    items: list[Shown]
    index: NeighbourIndex


class Gallery:
    """A corpus, encoded by the fleet when `fill` is called; empty until that is done.

    Parameters
    ----------
    path : Path
        A corpus of recordings, or pictures.
    most : int
        Items taken at the most.
    """

    def __init__(self, path: Path, most: int = MOST_ITEMS) -> None:
        self._path, self._most = path, most
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return sum(len(shelf.items) for shelf in self._shelves.values())

    def fill(self, client: Client, banks: Sequence[str]) -> int:
        """Read the corpus, have it encoded, draw its thumbnails; how many there are.

        Items that cannot be read or encoded are left out.

        Parameters
        ----------
        client : Client
            Of this thread.
        banks : sequence of str
            Hashes; an item goes to the first that takes it.
        """
        encoder = Encoder()
        rows: dict[str, list[tuple[Shown, NDArray[Any]]]] = {}
        with Decoder() as decoder:
            for entry in _entries(self._path, decoder, self._most):
                try:
                    signal = entry.read()
                    found = encoder.encode(client, signal, banks)
                except CallerError:
                    continue  # this item's fault: the others are shown
                if found is not None:
                    shown = Shown(entry.name, entry.label, picture(signal, THUMB_SIDE))
                    rows.setdefault(found[1], []).append((shown, found[0]))
        shelves = {}
        for bank, items in rows.items():
            index = NeighbourIndex(items[0][1].size, bank_hash=bank)
            index.add(np.stack([feature for _, feature in items]), [shown.label for shown, _ in items])
            shelves[bank] = _Shelf([shown for shown, _ in items], index)
        with self._lock:
            self._shelves = shelves
        return len(self)

    def nearest(self, feature: NDArray[Any], bank: str, k: int) -> list[tuple[Shown, float]]:
        """The k nearest of the items of that bank, nearest first, with their cosine distances."""
        with self._lock:
            shelf = self._shelves.get(bank)
        if shelf is None:
            return []
        found = shelf.index.search(feature[None, :], min(k, len(shelf.items)), bank)
        return [
            (shelf.items[int(i)], float(distance)) for i, distance in zip(found.ids[0], found.distances[0], strict=True)
        ]


class Encoder:
    """Has signals encoded by the first bank that takes their kind, which is tried first from then on."""

    def __init__(self) -> None:
        self._took: dict[str, str] = {}

    def encode(self, client: Client, signal: Signal, banks: Sequence[str]) -> tuple[NDArray[Any], str] | None:
        """The feature and its bank's hash; None if no bank takes the signal.

        Raises
        ------
        OperatorError
            The fleet does not answer.
        """
        for bank in sorted(banks, key=lambda bank: bank != self._took.get(signal.kind)):
            [result] = client.stream([Job(signal)], bank=bank)
            if result.ok:
                self._took[signal.kind] = bank
                return result.feature, bank
            if result.error is not None and not isinstance(result.error, CallerError):
                raise result.error
        return None


def _entries(path: Path, decoder: Decoder, most: int) -> list[Bounded]:
    """Evenly spaced entries of a corpus of recordings or of pictures."""
    try:
        found: list[Bounded] = bounded_recordings(open_corpus(path).utterances, decoder, "mix")
    except StreamfeatError:
        found = bounded_pictures(open_images(path).entries, decoder, "first")
    return found[:: -(-len(found) // most)]
