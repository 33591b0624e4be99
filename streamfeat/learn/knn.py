"""k nearest neighbours vote.

Of CDF features the Euclidean distance has a meaning. With Phi = sqrt(s / (n m)) counts / |G|, over a whole group and
with n and m growing,

    |Phi(x) - Phi(z)|^2  ->  c / sqrt(2 pi d)  (2 D(x, z) - D(x, x) - D(z, z)),    D(x, z) = E |g x - g' z|,

with c(d, epsilon) as in Mroueh, Voinea and Poggio (2015), Theorem 1: the energy distance between the orbits of x and z.
It is zero exactly where they are one orbit. So 1-NN on CDF features is 1-NN by what the group leaves of a signal, and
the factor before counts changes no neighbour: metric="l2" on counts as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_count, check_features, check_labels
from streamfeat.learn.classes import sorted_classes
from streamfeat.learn.neighbours import Ids, NeighbourIndex

Votes = Literal["uniform", "distance"]


class KNN:
    """The class that most of the k nearest rows have.

    Where classes have equal votes, the one whose first neighbour is nearer wins; neighbours equally far go by id, the
    older first. Where there are fewer than k rows, all of them vote.

    Parameters
    ----------
    k : int
    votes : "uniform" or "distance"
        One each, or 1 / distance each; neighbours at distance 0, if there are any, then vote alone.
    metric, backend
        As for `NeighbourIndex`, which holds the rows, and is `index`: exact, in blocks, with or without FAISS.

    Examples
    --------
    >>> knn = KNN(3).fit([[0.0], [0.1], [1.0], [1.1], [1.2]], ["low", "low", "high", "high", "high"])
    >>> knn.predict([[0.2], [2.0]])
    ['low', 'high']
    """

    def __init__(self, k: int = 1, *, votes: str = "uniform", metric: str = "l2", backend: str = "exact") -> None:
        self.k = check_count(k, "k")
        if votes not in get_args(Votes):
            raise InvalidArgument(f"votes must be one of {', '.join(get_args(Votes))}, got {votes!r}")
        self.votes, self._metric, self._backend = votes, metric, backend
        self._index: NeighbourIndex | None = None

    def fit(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> KNN:
        """Forget all rows and take these (n, D), with n labels, all int or all str."""
        rows = check_features(X)
        index = NeighbourIndex(rows.shape[1], self._metric, self._backend)
        index.add(rows, check_labels(y, len(rows)))
        self._index = index
        return self

    @classmethod
    def of(cls, index: NeighbourIndex, k: int = 1, *, votes: str = "uniform") -> KNN:
        """Votes of an index that is there.

        Raises
        ------
        InvalidArgument
            Entries without a label, or of both types.
        """
        check_labels(index.labels, len(index))
        knn = cls(k, votes=votes, metric=index.metric, backend=index.backend)
        knn._index = index
        return knn

    def add(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> Ids:
        """Take more rows; the ids they got. Ids are never used again."""
        rows = check_features(X)
        if self._index is None:
            self.fit(rows, y)
            return self.index.ids
        there = self.index.labels
        return self.index.add(rows, check_labels(y, len(rows), there[0] if there else None))

    def remove(self, ids: ArrayLike) -> None:
        """Forget the rows of these ids."""
        self.index.remove(ids)

    def scores(self, X: ArrayLike) -> NDArray[np.float64]:
        """Each class's part of the votes (q, C), columns as in `classes_`."""
        classes = self.classes_
        column = {label: number for number, label in enumerate(classes)}
        shares = np.zeros((len(np.asarray(X)), len(classes)))
        for row, tally in zip(shares, self._tallies(X), strict=True):
            for label, vote in tally.items():
                row[column[label]] = vote
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def predict(self, X: ArrayLike) -> list[Label]:
        """The class with the most votes for each row, as the label was given."""
        # a tally is in the order of first neighbours, and max keeps the first of equals
        return [max(tally, key=tally.__getitem__) for tally in self._tallies(X)]

    def score(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> float:
        """Part of the rows whose predicted label is that in y."""
        predicted = self.predict(X)
        return float(np.mean([a == b for a, b in zip(predicted, check_labels(y, len(predicted)), strict=True)]))

    def save(self, path: Path) -> None:
        """Write the rows as a new directory, whole or not at all; `of(NeighbourIndex.open(path))` is the way back."""
        self.index.save(path)

    @property
    def index(self) -> NeighbourIndex:
        """The rows."""
        if self._index is None:
            raise InvalidArgument("k-NN has seen no rows; call fit first")
        return self._index

    @property
    def classes_(self) -> list[Label]:
        """Of the rows there are, sorted."""
        return sorted_classes(check_labels(self.index.labels, len(self.index)))

    def _tallies(self, X: ArrayLike) -> list[dict[Label, float]]:
        """Votes of each row by class, in the order of each class's first neighbour."""
        if not len(self.index):
            raise InvalidArgument("k-NN has no rows left to vote; add some first")
        found = self.index.search(X, self.k)
        tallies = []
        for distances, labels in zip(found.distances, found.labels, strict=True):
            weights = np.ones(len(labels))
            if self.votes == "distance":
                # relative to the nearest: 1 / distance could overflow
                weights = (distances == 0).astype(float) if distances[0] == 0 else distances[0] / distances
            tally: dict[Label, float] = {}
            for label, weight in zip(check_labels(labels, len(labels)), weights, strict=True):
                if weight:
                    tally[label] = tally.get(label, 0.0) + float(weight)
            tallies.append(tally)
        return tallies
