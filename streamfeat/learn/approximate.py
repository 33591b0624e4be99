"""Nearest neighbours among more features than memory holds: FAISS proposes, and what it proposes is measured again.

Of an entry stay its code in the FAISS index, its id and its label. The features themselves lie elsewhere (in a feature
log), and are fetched for the few entries that are proposed: so each distance is exact, and only which entries are
proposed is not. How many of the true neighbours are found is what `recall` measures.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.learn.checks import Label, check_count, check_features, check_label
from streamfeat.learn.distances import check_metric, distances, held
from streamfeat.learn.neighbours import Ids, NeighbourIndex, Neighbours, check_bank, check_ids
from streamfeat.learn.recipe import Recipe, faiss_package, one_thread, words_of
from streamfeat.learn.store import open_directory, save_directory

FORMAT = "streamfeat-approximate-index-1"
FAISS_FILE = "index.faiss"

Fetch = Callable[[Ids], NDArray[Any]]
"""The features (n, D) of entries by their ids, in the order asked for."""


class ApproximateIndex:
    """Features with labels, searched for the nearest by what FAISS keeps of them.

    Parameters
    ----------
    dim : int
        D.
    recipe : Recipe
    metric : "cosine" or "l2"
        As of `NeighbourIndex`.
    fetch : callable, optional
        Features by ids, for exact distances; without it, the distances are those of the codes.
    bank_hash : str, optional
        Where the features come from. Those that are said to be of another bank are refused.
    """

    def __init__(
        self,
        dim: int,
        recipe: Recipe,
        metric: str = "cosine",
        *,
        fetch: Fetch | None = None,
        bank_hash: str | None = None,
    ) -> None:
        self.dim, self.recipe, self.metric, self.bank_hash = dim, recipe, check_metric(metric), bank_hash
        self.fetch = fetch
        self.faiss = recipe.build(dim)
        self._waiting: NeighbourIndex | None = None
        if not self.faiss.is_trained:
            self._waiting = NeighbourIndex(dim, metric, bank_hash=bank_hash)
        self._ids = array("q")
        self._codes = array("i")
        self._classes: list[Label | None] = []
        self._code_of: dict[Label | None, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def is_trained(self) -> bool:
        """Whether FAISS answers; before, search is exact among the few entries that there are."""
        return self._waiting is None

    @property
    def last_id(self) -> int:
        """The id of the last entry; 0 without any."""
        return self._ids[-1] if self._ids else 0

    def add(self, features: ArrayLike, labels: Sequence[object], ids: ArrayLike) -> None:
        """Store features (n, D) with their labels (None: without one) under ids that rise.

        The entry that makes `n_train` of them has the index trained, which takes as long as it takes.

        Raises
        ------
        InvalidArgument
            Another width, NaN, a wrong count of labels, ids that do not rise; nothing is stored then.
        """
        rows = held(check_features(features, self.dim), self.metric)
        if len(labels) != len(rows):
            raise InvalidArgument(f"{len(rows)} features need {len(rows)} labels, got {len(labels)}")
        checked = [None if label is None else check_label(label) for label in labels]
        new = check_ids(np.asarray(ids), len(rows), self.last_id + 1)
        if self._waiting is None:
            with one_thread():
                self.faiss.add(rows)
        else:
            self._waiting.add(features, checked, new)
        self._ids.extend(new.tolist())
        self._codes.extend(self._code(label) for label in checked)
        if self._waiting is not None and len(self) >= self.recipe.n_train:
            self.train()

    def train(self) -> None:
        """Train on the entries that there are; nothing if that was done.

        Raises
        ------
        ConfigError
            They are too few.
        """
        if self._waiting is None:
            return
        rows = self._waiting.rows
        try:
            with one_thread():
                self.faiss.train(np.ascontiguousarray(rows[: self.recipe.n_train]))
                self.faiss.add(rows)
        except RuntimeError as error:
            raise ConfigError(f"factory {self.recipe.factory!r} on {len(rows)} entries: {words_of(error)}") from error
        self._waiting = None

    def search(self, features: ArrayLike, k: int, bank_hash: str | None = None) -> Neighbours:
        """The k nearest entries of each feature (q, D), as far as they are found.

        Where fewer are found (lists that were not looked through), the last ids are -1, at an infinite distance.

        Raises
        ------
        InvalidArgument
            Another width, NaN, k below 1.
        BankMismatch
            Features of another bank.
        """
        k = check_count(k, "k")
        self.check_bank(bank_hash)
        rows = check_features(features, self.dim)
        if self._waiting is not None:
            return self._waiting.search(rows, k)
        queries, k = held(rows, self.metric), min(k, len(self))
        found = Neighbours(np.full((len(queries), k), -1), np.full((len(queries), k), np.inf), [])
        if k == 0 or not len(queries):
            return found._replace(labels=[[] for _ in queries])
        with one_thread():
            squares, places = self.faiss.search(queries, self.recipe.n_candidates(k, len(self)))
        ids = np.frombuffer(self._ids, np.int64)
        for i, query in enumerate(queries):
            near = places[i][places[i] >= 0]
            if self.fetch is not None:
                measured = distances(query, held(self.fetch(ids[near]), self.metric), self.metric)
            else:
                measured = self._as_distances(squares[i][places[i] >= 0])
            nearest = np.lexsort((ids[near], measured))[:k]
            found.ids[i, : len(nearest)] = ids[near[nearest]]
            found.distances[i, : len(nearest)] = measured[nearest]
            found.labels.append([self._classes[self._codes[at]] for at in near[nearest]])
        return found

    def check_bank(self, bank_hash: str | None) -> None:
        """Raise `BankMismatch`, naming both, where features are said to be of another bank than those stored."""
        check_bank(self.bank_hash, bank_hash)

    def save(self, path: Path, marks: dict[str, Any]) -> None:
        """Write a trained index as a new directory, whole or not at all; `marks` come back from `restore`."""
        if self._waiting is not None:
            raise InvalidArgument(f"this index has {len(self)} of the {self.recipe.n_train} entries to be trained on")
        fields = {"format": FORMAT, **self._facts(), "classes": self._classes, "marks": marks}
        arrays: dict[str, NDArray[Any]] = {
            "ids": np.frombuffer(self._ids, np.int64),
            "codes": np.frombuffer(self._codes, np.int32),
        }
        save_directory(path, "index", fields, arrays, {FAISS_FILE: self._write})

    def restore(self, path: Path) -> dict[str, Any]:
        """Take the entries that an index of the same kind saved; the marks that it was saved with.

        Raises
        ------
        NotFound
            No index there.
        ConfigError
            It was changed or damaged, or is of another recipe, metric, width or bank.
        """
        fields, arrays = open_directory(path, "index")
        facts = {key: fields.get(key) for key in self._facts()}
        if fields.get("format") != FORMAT or facts != self._facts():
            raise ConfigError(f"{path} is an index of another kind: {facts}, this one is {self._facts()}")
        self.faiss = faiss_package().read_index(str(path / FAISS_FILE))
        self.recipe.apply_effort(self.faiss)
        self._waiting = None
        self._ids, self._codes = array("q", arrays["ids"].tobytes()), array("i", arrays["codes"].tobytes())
        self._classes = fields["classes"]
        self._code_of = {label: code for code, label in enumerate(self._classes)}
        marks: dict[str, Any] = fields["marks"]
        return marks

    def _facts(self) -> dict[str, Any]:
        """What two indexes must have in common for one to take the other's entries."""
        recipe = {"factory": self.recipe.factory, "n_train": self.recipe.n_train}
        return {"dim": self.dim, "metric": self.metric, "bank_hash": self.bank_hash, **recipe}

    def _code(self, label: Label | None) -> int:
        code = self._code_of.setdefault(label, len(self._classes))
        if code == len(self._classes):
            self._classes.append(label)
        return code

    def _as_distances(self, squares: NDArray[np.float32]) -> NDArray[np.float64]:
        """Distances from the squared ones that FAISS gives: between rows of unit length, 1 - cos is half of it."""
        wide = np.maximum(squares.astype(np.float64), 0.0)
        return np.asarray(wide / 2 if self.metric == "cosine" else np.sqrt(wide))

    def _write(self, file: Path) -> None:
        try:
            faiss_package().write_index(self.faiss, str(file))
        except RuntimeError as error:  # what FAISS makes of a full disk
            raise OSError(errno.EIO, str(error), str(file)) from error
