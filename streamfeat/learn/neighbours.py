"""Nearest neighbours among stored features: exact answers, ids that are never used twice.

A fast product in float32 proposes every entry that could be among the k nearest, given how far its rounding may reach;
each proposal is then measured alone, in float64. So an answer does not depend on the queries beside it, equal features
are equally far wherever they are stored, and ties go by id. `backend="faiss"` changes who proposes, not the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, NotFound
from streamfeat.learn.checks import Label, check_count, check_features, check_label
from streamfeat.learn.distances import Float32s, check_metric, distances, held
from streamfeat.learn.store import open_directory, save_directory

FORMAT = "streamfeat-index-1"
Backend = Literal["exact", "faiss"]
Ids = NDArray[np.int64]

ROUNDING = float(np.finfo(np.float32).eps) / 2
BLOCK_PRODUCTS = 1 << 23
"""Products held at a time: 32 MB."""


class Neighbours(NamedTuple):
    """Nearest first, one row a query; min(k, entries) columns."""

    ids: Ids
    distances: NDArray[np.float64]
    labels: list[list[Label | None]]


class NeighbourIndex:
    """Features with labels, searched for the nearest.

    Distances are 1 - cos ("cosine": 0 to 2; a feature of zeros is at 1 from all) or Euclidean ("l2"). Features are held
    as float32, after centring and scaling to unit length for "cosine": counts and float32 lose nothing under "l2".

    Parameters
    ----------
    dim : int
        D.
    metric : "cosine" or "l2"
    backend : "exact" or "faiss"
        "faiss" needs the package: pip install 'streamfeat[faiss]'. The answers are the same.
    centre : array_like (D,), optional
        Subtracted from every feature first; for "cosine" on features that are all positive.
    bank_hash : str, optional
        Where the features come from. Those that are said to be of another bank are refused.

    Examples
    --------
    >>> import numpy as np
    >>> index = NeighbourIndex(2)
    >>> index.add(np.eye(2), ["east", "north"])
    array([0, 1])
    >>> index.search([[0.9, 0.1]], k=1).labels
    [['east']]
    """

    def __init__(
        self,
        dim: int,
        metric: str = "cosine",
        backend: str = "exact",
        *,
        centre: ArrayLike | None = None,
        bank_hash: str | None = None,
    ) -> None:
        if isinstance(dim, bool) or not isinstance(dim, int) or dim < 1:
            raise InvalidArgument(f"dim must be an int over 0, got {dim!r}")
        if backend not in get_args(Backend):
            raise InvalidArgument(f"backend must be one of {', '.join(get_args(Backend))}, got {backend!r}")
        self.dim, self.metric, self.backend, self.bank_hash = dim, check_metric(metric), backend, bank_hash
        self.centre = None if centre is None else check_features(np.asarray(centre)[None, :], dim)[0].astype(np.float64)
        self._rows = np.empty((0, dim), dtype=np.float32)  # room; the first len(self) hold entries
        self._squares = np.empty(0, dtype=np.float32)
        self._ids = np.empty(0, dtype=np.int64)
        self._labels: list[Label | None] = []
        self._next_id = 0
        self._proposer: _Proposer = _Faiss(dim, metric) if backend == "faiss" else _Product(metric)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def ids(self) -> Ids:
        """Ids of all entries, rising."""
        return self._ids.copy()

    @property
    def labels(self) -> list[Label | None]:
        """Labels of all entries, in the order of their ids."""
        return list(self._labels)

    @property
    def rows(self) -> Float32s:
        """All entries as they are held (n, D), in the order of their ids."""
        return self._rows[: len(self)]

    def add(
        self,
        features: ArrayLike,
        labels: Sequence[object] | NDArray[Any],
        ids: ArrayLike | None = None,
        bank_hash: str | None = None,
    ) -> Ids:
        """Store features (n, D) with their labels (None: without one); the ids they got, int64 (n,).

        Ids rise and are never used again, also after `remove`, `save` and `open`; those given must do the same.

        Raises
        ------
        InvalidArgument
            Another width, NaN, a wrong count of labels, ids used before or not rising; nothing is stored then.
        BankMismatch
            Features of another bank.
        """
        rows = self._prepare(features, bank_hash)
        if len(labels) != len(rows):
            raise InvalidArgument(f"{len(rows)} features need {len(rows)} labels, got {len(labels)}")
        checked = [None if label is None else check_label(label) for label in labels]
        given = np.arange(self._next_id, self._next_id + len(rows)) if ids is None else np.asarray(ids)
        new = check_ids(given, len(rows), self._next_id)
        if len(rows) == 0:
            return new
        n = len(self)
        if n + len(rows) > len(self._rows):
            room = np.empty((max(2 * len(self._rows), n + len(rows)), self.dim), dtype=np.float32)
            room[:n] = self._rows[:n]
            self._rows = room
        self._rows[n : n + len(rows)] = rows
        self._squares = np.concatenate([self._squares, np.einsum("nd,nd->n", rows, rows)])
        self._ids = np.concatenate([self._ids, new])
        self._labels.extend(checked)
        self._next_id = int(new[-1]) + 1
        self._proposer.add(rows)
        return new

    def remove(self, ids: ArrayLike) -> None:
        """Forget the entries of these ids; the others keep theirs.

        Raises
        ------
        NotFound
            An id that is not there; nothing is removed then.
        """
        gone = np.unique(np.asarray(ids, dtype=np.int64))
        missing = np.setdiff1d(gone, self._ids)
        if len(missing):
            raise NotFound(f"the index has no entry {int(missing[0])}; was it removed before?")
        kept = np.flatnonzero(~np.isin(self._ids, gone))
        self._proposer.keep(kept, len(self))
        self._rows[: len(kept)] = self._rows[kept]
        self._ids, self._squares = self._ids[kept], self._squares[kept]
        self._labels = [self._labels[i] for i in kept]

    def search(self, features: ArrayLike, k: int, bank_hash: str | None = None) -> Neighbours:
        """The k nearest entries of each feature (q, D), or all where there are fewer.

        Raises
        ------
        InvalidArgument
            Another width, NaN, k below 1.
        BankMismatch
            Features of another bank.
        """
        k = check_count(k, "k")
        queries = self._prepare(features, bank_hash)
        k = min(k, len(self))
        found = Neighbours(np.empty((len(queries), k), np.int64), np.empty((len(queries), k)), [])
        if k == 0:
            return found._replace(labels=[[] for _ in queries])
        entries = self._rows[: len(self)]
        step = max(1, BLOCK_PRODUCTS // len(self))
        for start in range(0, len(queries), step):
            for i, near in enumerate(
                self._proposer.propose(queries[start : start + step], entries, self._squares, k), start
            ):
                measured = distances(queries[i], (entries[at] for at in near), self.metric)
                nearest = np.lexsort((self._ids[near], measured))[:k]
                found.ids[i], found.distances[i] = self._ids[near[nearest]], measured[nearest]
                found.labels.append([self._labels[at] for at in near[nearest]])
        return found

    def check_bank(self, bank_hash: str | None) -> None:
        """Raise `BankMismatch`, naming both, where features are said to be of another bank than those stored."""
        check_bank(self.bank_hash, bank_hash)

    def save(self, path: Path) -> None:
        """Write the index as a new directory, whole or not at all."""
        fields = {
            "format": FORMAT,
            "dim": self.dim,
            "metric": self.metric,
            "bank_hash": self.bank_hash,
            "next_id": self._next_id,
            "labels": self._labels,
        }
        arrays: dict[str, NDArray[Any]] = {"rows": self._rows[: len(self)], "ids": self._ids}
        if self.centre is not None:
            arrays["centre"] = self.centre
        save_directory(path, "index", fields, arrays)

    @classmethod
    def open(cls, path: Path, backend: str = "exact") -> NeighbourIndex:
        """The index that was saved; its answers are the same.

        Raises
        ------
        NotFound
            No index there.
        ConfigError
            It was changed or damaged, or another version wrote it.
        """
        fields, arrays = open_directory(path, "index")
        if fields.get("format") != FORMAT:
            raise ConfigError(f"index {path} has the format {fields.get('format')!r}, this version reads {FORMAT!r}")
        index = cls(
            fields["dim"], fields["metric"], backend, centre=arrays.get("centre"), bank_hash=fields["bank_hash"]
        )
        index._rows, index._ids = arrays["rows"], arrays["ids"]
        index._squares = np.einsum("nd,nd->n", index._rows, index._rows)
        index._labels, index._next_id = fields["labels"], fields["next_id"]
        index._proposer.add(index._rows)
        return index

    def _prepare(self, features: ArrayLike, bank_hash: str | None) -> Float32s:
        self.check_bank(bank_hash)
        return held(check_features(features, self.dim), self.metric, self.centre)


def check_bank(held_hash: str | None, given_hash: str | None) -> None:
    """Raise `BankMismatch` where both are known and differ."""
    if None not in (given_hash, held_hash) and given_hash != held_hash:
        raise BankMismatch(f"this index holds features of bank {held_hash}, got one of bank {given_hash}")


def check_ids(ids: NDArray[Any], n: int, least: int) -> Ids:
    """n ids that rise and start at `least` or later, as int64."""
    new = ids.astype(np.int64)
    if ids.shape != (n,) or ids.dtype.kind not in "ui" or (np.diff(new, prepend=least - 1) < 1).any():
        raise InvalidArgument(f"ids must be {n} rising ints from {least} up, got {ids!r}")
    return new


class _Proposer(Protocol):
    """Who finds every entry that may be among the k nearest, by place in the rows."""

    def add(self, rows: Float32s) -> None:
        """Rows were appended."""

    def keep(self, kept: NDArray[np.intp], n: int) -> None:
        """Of n rows those at `kept` stay, moved together."""

    def propose(self, queries: Float32s, entries: Float32s, squares: Float32s, k: int, /) -> list[NDArray[np.intp]]:
        """For each query the places of its k nearest, and of all that rounding could hide among them."""


class _Product:
    """One matrix product for all queries; the rows it needs are at hand."""

    def __init__(self, metric: str) -> None:
        self._metric = metric

    def add(self, rows: Float32s) -> None:
        """Nothing to keep."""

    def keep(self, kept: NDArray[np.intp], n: int) -> None:
        """Nothing to keep."""

    def propose(self, queries: Float32s, entries: Float32s, squares: Float32s, k: int, /) -> list[NDArray[np.intp]]:
        """See `_Proposer`."""
        far = queries @ entries.T
        if self._metric == "l2":
            far *= -2.0
            far += squares
        else:
            far *= -1.0
        kth = np.partition(far, k - 1, axis=1)[:, k - 1]
        limits = kth + _reach(self._metric, queries, squares)
        return [np.flatnonzero(row <= limit) for row, limit in zip(far, limits, strict=True)]


class _Faiss:
    """A flat FAISS index, kept in step with the rows."""

    def __init__(self, dim: int, metric: str) -> None:
        try:
            import faiss
        except ImportError as error:
            raise ConfigError("backend 'faiss' needs FAISS: pip install 'streamfeat[faiss]'") from error
        self._metric = metric
        self._flat: Any = faiss.IndexFlatIP(dim) if metric == "cosine" else faiss.IndexFlatL2(dim)

    def add(self, rows: Float32s) -> None:
        """Append them."""
        self._flat.add(rows)

    def keep(self, kept: NDArray[np.intp], n: int) -> None:
        """Remove the others; a flat index closes the gaps in order, as the rows do."""
        self._flat.remove_ids(np.setdiff1d(np.arange(n, dtype=np.int64), kept))

    def propose(self, queries: Float32s, _entries: Float32s, squares: Float32s, k: int, /) -> list[NDArray[np.intp]]:
        """See `_Proposer`."""
        sign = -1.0 if self._metric == "cosine" else 1.0  # FAISS ranks by product, nearest highest
        kth = sign * self._flat.search(queries, k)[0][:, -1].astype(np.float64)
        near = []
        for query, limit in zip(queries, kth + _reach(self._metric, queries, squares), strict=True):
            # the range is open and its radius float32: one step outwards
            radius = sign * float(np.nextafter(np.float32(limit), np.float32(np.inf)))
            near.append(self._flat.range_search(query[None, :], radius)[2].astype(np.intp))
        return near


def _reach(metric: str, queries: Float32s, squares: Float32s) -> NDArray[np.float64]:
    """How far two proposals may stand in the wrong order (q,): a sum of D products errs by D eps/2 |a| |b|."""
    dim = queries.shape[1] + 8  # and a few roundings after the sum
    query_squares = np.einsum("qd,qd->q", queries, queries, dtype=np.float64)
    largest = float(squares.max())
    product = dim * ROUNDING * np.sqrt(query_squares * largest)
    if metric == "cosine":
        return np.asarray(2.0 * product)
    return np.asarray(2.0 * (2.0 * product + dim * ROUNDING * (query_squares + largest)))
