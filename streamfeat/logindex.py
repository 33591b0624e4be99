"""An approximate index as a view of a feature log: taken from its last snapshot, brought up to date from the log.

    <folder>/log.sqlite             the truth
    <folder>/index-000000012345/    the index up to that entry, sealed by its hashes; the last one alone is kept

Without a snapshot, or with one that is damaged, of another recipe or of another log, the index is made from the log.
The last snapshot that was not taken is kept as refused-index-000000012345, for whoever wants to know why.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.errors import InvalidArgument, StreamfeatError
from streamfeat.featurelog import Entry, FeatureLog
from streamfeat.learn.approximate import ApproximateIndex
from streamfeat.learn.recipe import Recipe

log = logging.getLogger("streamfeat.logindex")

CHUNK = 512
"""Entries read from a log at a time."""

STEP_MS = 3_600_000
"""How long one step may take that cannot say how far it is: training, or a snapshot."""

Beat = Callable[[int], None]


class LogIndex:
    """The approximate index of one log.

    Parameters
    ----------
    entries : FeatureLog
        With an entry at least.
    recipe : Recipe
    metric : str
    beat : callable
        Told now and then that there is life, with how many ms the next step may take.

    Attributes
    ----------
    index : ApproximateIndex
        Up to date when this is made.
    """

    def __init__(self, entries: FeatureLog, recipe: Recipe, metric: str, beat: Beat) -> None:
        if entries.dim is None:
            raise InvalidArgument(f"{entries.path} holds nothing yet")
        self._log, self._folder = entries, entries.path.parent
        self._recipe, self._metric = recipe, metric
        self.index = self._empty()
        self._n_saved = 0
        for snapshot in sorted(self._folder.glob("index-*"), reverse=True):
            if self._restored(snapshot, beat):
                break
        for chunk in chunks(entries, self.index.last_id):
            self.add(chunk, beat)

    def add(self, chunk: list[tuple[int, Entry]], beat: Beat) -> None:
        """Entries of the log that the index has not; when it has twice as many as its snapshot, it is saved anew."""
        n = len(self.index)
        if not self.index.is_trained and n + len(chunk) >= self._recipe.n_train:
            beat(STEP_MS)
        rows = np.stack([entry.feature for _, entry in chunk])
        self.index.add(rows, [entry.label for _, entry in chunk], [number for number, _ in chunk])
        beat(0)
        if self.index.is_trained and len(self.index) >= 2 * max(self._n_saved, self._recipe.n_train):
            self.save(beat)

    def train(self, beat: Beat) -> bool:
        """Train now, on what there is; whether that was still to be done."""
        if self.index.is_trained:
            return False
        beat(STEP_MS)
        self.index.train()
        self.save(beat)
        return True

    def save(self, beat: Beat) -> None:
        """Take a snapshot, if there is something new; a disk that is full costs the snapshot alone."""
        if not self.index.is_trained or len(self.index) == self._n_saved:
            return
        path = self._folder / f"index-{self.index.last_id:012d}"
        beat(STEP_MS)
        try:
            if path.exists():  # of another recipe, or damaged
                shutil.rmtree(path)
            self.index.save(path, self._mark(self.index.last_id))
        except OSError as error:
            log.warning("%s: no snapshot: %s; it will be made from the log again", path, error)
            return
        self._n_saved = len(self.index)
        for older in self._folder.glob("index-*"):
            if older != path:
                shutil.rmtree(older, ignore_errors=True)

    def _restored(self, snapshot: Path, beat: Beat) -> bool:
        beat(STEP_MS)
        try:
            marks = self.index.restore(snapshot)
            if marks == self._mark(self.index.last_id):
                self._n_saved = len(self.index)
                return True
            why = f"{snapshot} is of another log"
        except StreamfeatError as error:
            why = error.reason
        log.warning("%s; it is kept as %s, and the index made anew from its log", why, self._set_aside(snapshot))
        self.index = self._empty()
        return False

    def _set_aside(self, snapshot: Path) -> Path:
        """Where it is kept now; one that cannot be moved stays."""
        for older in self._folder.glob("refused-index-*"):
            shutil.rmtree(older, ignore_errors=True)
        aside = self._folder / f"refused-{snapshot.name}"
        try:
            return snapshot.rename(aside)
        except OSError:
            return snapshot

    def _empty(self) -> ApproximateIndex:
        assert self._log.dim is not None, "checked when this was made"
        return ApproximateIndex(
            self._log.dim, self._recipe, self._metric, fetch=self._log.features, bank_hash=self._log.bank_hash
        )

    def _mark(self, number: int) -> dict[str, Any]:
        """What an entry of this log is known by."""
        found = next(self._log.read(number - 1), None)
        return {} if found is None else {"id": found[0], "stream": found[1].stream, "seq": found[1].seq}


def chunks(entries: FeatureLog, after_id: int = 0) -> Iterator[list[tuple[int, Entry]]]:
    """The entries of a log after that one, some at a time."""
    read = entries.read(after_id)
    while chunk := list(islice(read, CHUNK)):
        yield chunk
