"""Index: features with labels into a log, nearest neighbours out of an index that is a view of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.errors import InvalidArgument, NotFound, StreamfeatError
from streamfeat.featurelog import Entry, Receipt
from streamfeat.learn.approximate import ApproximateIndex
from streamfeat.learn.checks import check_features
from streamfeat.learn.neighbours import NeighbourIndex
from streamfeat.learn.recipe import Recipe, faiss_package
from streamfeat.logindex import LogIndex, chunks
from streamfeat.payloads import error_result, item_to_feature
from streamfeat.wire.messages import Array, Item

from .logs import Logs, committed, entry_of, feature_of, known_options

DEFAULT_K = 10
MOST_K = 1000
"""Labels of so many neighbours fit into one header."""


class Index:
    """Handler of `insert:INDEX` and `search:INDEX`, for every index below a state directory.

    An entry's id is its number in the log: never used again, the same after every restart. With a recipe the indexes
    are approximate: see `ApproximateIndex`.
    """

    kind = "index"
    stages: tuple[str, ...] = ("insert:*", "search:*")
    n_items = 64
    n_bytes = 64 << 20

    def __init__(
        self, state: Path, metric: str = "cosine", backend: str = "exact", recipe: Recipe | None = None
    ) -> None:
        self.banks: dict[str, str] = {}
        self.work: dict[str, int] = {}
        self.bank_bytes: dict[str, int] = {}
        self._state, self._metric, self._backend = state, metric, backend
        self._recipe = recipe
        self._indexes: dict[str, NeighbourIndex | ApproximateIndex] = {}
        self._views: dict[str, LogIndex] = {}

    def warm(self) -> None:
        """Open all logs and rebuild the index of each, from its snapshot where there is one."""
        if self._recipe is not None:
            faiss_package()
        self._logs = Logs(self._state)
        for name in self._logs.names:
            if self._logs.get(name).dim is not None:
                self._open(name, _unheard)

    def reload(self) -> bool:
        """Train those approximate indexes that wait for more entries to be trained on; else nothing."""
        return sum(view.train(_unheard) for view in self._views.values()) > 0

    def handle(
        self, stage: str, items: Sequence[Item], options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """One result an item; see the stages."""
        verb, _, name = stage.partition(":")
        if verb == "insert":
            known_options(options, (), verb)
            return self._insert(name, items, beat)
        if verb == "search":
            known_options(options, ("k",), verb)
            return self._search(name, items, options.get("k", DEFAULT_K))
        raise InvalidArgument(f"an index serves {', '.join(self.stages)}, got {stage!r}")

    def close(self) -> None:
        """Take a snapshot of what is approximate, and let go of the logs."""
        for view in self._views.values():
            view.save(_unheard)
        self._logs.close()

    def _insert(self, name: str, items: Sequence[Item], beat: Callable[[int], None]) -> list[Item]:
        """Log first, index second: what is found was acknowledged, or will be found again after a restart."""
        if name not in self._indexes and self._recipe is not None:
            self._check_recipe(items)
        receipts = self._logs.append(name, items, beat, need_label=False)
        new = [
            (receipt.id, entry_of(item, need_label=False)[0])
            for item, receipt in zip(items, receipts, strict=True)
            if isinstance(receipt, Receipt) and not receipt.duplicate
        ]
        if new and name not in self._indexes:
            self._open(name, beat)
        elif new:
            self._add(name, new, beat)
        return [
            error_result(receipt) if isinstance(receipt, StreamfeatError) else committed(item, receipt)
            for item, receipt in zip(items, receipts, strict=True)
        ]

    def _search(self, name: str, items: Sequence[Item], k: Any) -> list[Item]:
        """The k nearest of each item, or all there are where there are fewer."""
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_K:
            raise InvalidArgument(f"k must be an int of 1 to {MOST_K}, got {k!r}")
        index = self._indexes.get(name)
        if index is None:
            there = ", ".join(self._indexes) or "none"
            raise NotFound(f"no index {name!r}: nothing was inserted under that name (there are: {there})")
        results: list[Item | None] = [None] * len(items)
        good = []
        for place, item in enumerate(items):
            try:
                feature, bank = feature_of(item)
                index.check_bank(bank)
                good.append((place, check_features(feature[None, :], index.dim)))
            except StreamfeatError as error:
                results[place] = error_result(error)
        if good:
            found = index.search(np.concatenate([row for _, row in good]), k)
            for i, (place, _) in enumerate(good):
                n = len(found.labels[i])  # an approximate index may find fewer than it has
                arrays = (Array.of(found.ids[i, :n]), Array.of(found.distances[i, :n].astype(np.float32)))
                fields = {"ok": True, "kind": "neighbours", "n_items": len(index), "labels": found.labels[i]}
                results[place] = Item(fields, arrays)
        return [result for result in results if result is not None]

    def _open(self, name: str, beat: Callable[[int], None]) -> None:
        """The index of a log that holds something, with all that it holds."""
        log = self._logs.get(name)
        if self._recipe is not None:
            self._views[name] = LogIndex(log, self._recipe, self._metric, beat)
            self._indexes[name] = self._views[name].index
            return
        if log.dim is None:
            raise NotFound(f"nothing was inserted as {name!r} yet")
        self._indexes[name] = NeighbourIndex(log.dim, self._metric, self._backend, bank_hash=log.bank_hash)
        for chunk in chunks(log):
            self._add(name, chunk, beat)

    def _add(self, name: str, entries: list[tuple[int, Entry]], beat: Callable[[int], None]) -> None:
        """Entries that the log of a known index got."""
        if name in self._views:
            self._views[name].add(entries, beat)
            return
        rows = np.stack([entry.feature for _, entry in entries])
        self._indexes[name].add(rows, [entry.label for _, entry in entries], [number for number, _ in entries])

    def _check_recipe(self, items: Sequence[Item]) -> None:
        """Refuse features that the recipe does not fit before any of them is stored."""
        assert self._recipe is not None, "the caller asked"
        for item in items:
            with contextlib.suppress(InvalidArgument):  # it fails alone
                self._recipe.build(len(item_to_feature(item)))
                return


def _unheard(_busy_ms: int) -> None:
    """Before the worker is ready, and when it ends, nobody waits for a sign of life."""
