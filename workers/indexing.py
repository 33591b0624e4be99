"""Index: features with labels into a log, nearest neighbours out of an index that is a view of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.errors import InvalidArgument, NotFound, StreamfeatError
from streamfeat.featurelog import FeatureLog, Receipt
from streamfeat.learn.checks import check_features
from streamfeat.learn.neighbours import NeighbourIndex
from streamfeat.payloads import error_result, item_to_feature
from streamfeat.wire.messages import Array, Item

from .logs import Logs, committed, feature_of, known_options

DEFAULT_K = 10
MOST_K = 1000
"""Labels of so many neighbours fit into one header."""

CHUNK = 512
"""Entries read from a log at a time."""


class Index:
    """Handler of `insert:INDEX` and `search:INDEX`, for every index below a state directory.

    An entry's id is its number in the log: never used again, the same after every restart.
    """

    kind = "index"
    stages: tuple[str, ...] = ("insert:*", "search:*")
    n_items = 64
    n_bytes = 64 << 20

    def __init__(self, state: Path, metric: str = "cosine", backend: str = "exact") -> None:
        self.banks: dict[str, str] = {}
        self.work: dict[str, int] = {}
        self.bank_bytes: dict[str, int] = {}
        self._state, self._metric, self._backend = state, metric, backend
        self._indexes: dict[str, NeighbourIndex] = {}

    def warm(self) -> None:
        """Open all logs and rebuild the index of each."""
        self._logs = Logs(self._state)
        for name in self._logs.names:
            log = self._logs.get(name)
            if log.dim is not None:
                self._catch_up(self._index(name, log), log)

    def reload(self) -> bool:
        """Nothing: what is learned is taken up when it is."""
        return False

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
        """Let go of the logs."""
        self._logs.close()

    def _insert(self, name: str, items: Sequence[Item], beat: Callable[[int], None]) -> list[Item]:
        """Log first, index second: what is found was acknowledged, or will be found again after a restart."""
        receipts = self._logs.append(name, items, beat, need_label=False)
        new = [
            (receipt.id, item)
            for item, receipt in zip(items, receipts, strict=True)
            if isinstance(receipt, Receipt) and not receipt.duplicate
        ]
        if new:
            index = self._index(name, self._logs.get(name))
            rows = np.stack([item_to_feature(item) for _, item in new])
            index.add(rows, [item.fields.get("label") for _, item in new], [number for number, _ in new])
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
                arrays = (Array.of(found.ids[i]), Array.of(found.distances[i].astype(np.float32)))
                fields = {"ok": True, "kind": "neighbours", "n_items": len(index), "labels": found.labels[i]}
                results[place] = Item(fields, arrays)
        return [result for result in results if result is not None]

    def _index(self, name: str, log: FeatureLog) -> NeighbourIndex:
        """The index of a log that holds something."""
        if name not in self._indexes:
            if log.dim is None:
                raise NotFound(f"nothing was inserted as {name!r} yet")
            self._indexes[name] = NeighbourIndex(log.dim, self._metric, self._backend, bank_hash=log.bank_hash)
        return self._indexes[name]

    def _catch_up(self, index: NeighbourIndex, log: FeatureLog) -> None:
        entries = log.read()
        while chunk := list(islice(entries, CHUNK)):
            rows = np.stack([entry.feature for _, entry in chunk])
            index.add(rows, [entry.label for _, entry in chunk], [number for number, _ in chunk])
