"""Recursive RLS: each row learned, or unlearned, at once; the answer of a batch after every one.

Unlike `RLS.partial_fit`, which keeps sums and solves when asked, this keeps the solution: a row costs 4 D^2, a
prediction nothing more. For that the penalty is one number for all rows together (`RLS`' n lam), and may be followed by
`forgetting`. `recursion` has the identities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_labels, check_targets, check_weights
from streamfeat.learn.classes import code, decode, need_classes, one_against_all
from streamfeat.learn.recursion import Recursion

Floats = NDArray[np.float64]


class RecursiveRLS:
    """Recursive RLS on class codes.

    Parameters
    ----------
    penalty : float
        Of all rows together: 0.1 here is lam = 0.1 / n in `RLS`.
    forgetting : float
        What each new row leaves of the weight of those before it; 1 forgets nothing.
    intercept : bool
        Whether there is one; it is not penalised.

    Attributes
    ----------
    classes_ : list of str or of int, sorted, as they were given
    coef_ : ndarray of float64 (D, C); intercept_ : ndarray of float64 (C,)
    recursion : Recursion
        Sums, P, and the penalty as forgetting has left it.

    Examples
    --------
    >>> rls = RecursiveRLS(0.1).partial_fit([[0.0, 1.0], [1.0, 0.0]], ["left", "right"])
    >>> rls.partial_fit([[0.5, 5.0]], ["up"]).predict([[0.4, 4.0]])
    ['up']
    >>> rls.remove([[0.5, 5.0]], ["up"]).classes_
    ['left', 'right']
    """

    def __init__(self, penalty: float = 1.0, *, forgetting: float = 1.0, intercept: bool = True) -> None:
        self.recursion = Recursion(penalty, forgetting, intercept)
        self._columns: list[Label] = []
        self._n_of_class: dict[Label, int] = {}

    def partial_fit(
        self, X: ArrayLike, y: Sequence[object] | NDArray[Any], *, sample_weight: ArrayLike | None = None
    ) -> RecursiveRLS:
        """Learn rows (k, D), oldest first. A class may come late: it is as if it had been there, in no row.

        Raises
        ------
        InvalidArgument
            Another width, NaN, labels of another type, weights not over 0; nothing is learned then.
        """
        rows, labels, weight = self._checked(X, y, sample_weight)
        if len(rows):
            self._columns += [label for label in dict.fromkeys(labels) if label not in self._columns]
            self.recursion.moments.start(rows.shape[1], 0)
            if len(self._columns) > len(self.recursion.moments.target_mean):
                self.recursion.widen(len(self._columns))
            self.recursion.add(rows, one_against_all(code(labels, self._columns), len(self._columns)), weight)
            for label in labels:
                self._n_of_class[label] = self._n_of_class.get(label, 0) + 1
        return self

    def remove(
        self, X: ArrayLike, y: Sequence[object] | NDArray[Any], *, sample_weight: ArrayLike | None = None
    ) -> RecursiveRLS:
        """Unlearn rows, given as they were learned. A class without rows is gone.

        Raises
        ------
        InvalidArgument
            Rows that cannot have been learned, more of a class than there are, or with forgetting; nothing is
            unlearned then.
        """
        rows, labels, weight = self._checked(X, y, sample_weight)
        for label in set(labels):
            there = self._n_of_class.get(label, 0)
            if labels.count(label) > there:
                raise InvalidArgument(f"cannot remove {labels.count(label)} rows of {label!r}, {there} were learned")
        if len(rows):
            self.recursion.remove(rows, one_against_all(code(labels, self._columns), len(self._columns)), weight)
            for label in labels:
                self._n_of_class[label] -= 1
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n, C), columns as in `classes_`. A row's scores do not depend on the rows beside it, bit for bit."""
        self._need_rows()
        order = self._order()
        return self.recursion.scores(check_features(X, self.recursion.moments.width).astype(np.float64))[:, order]

    def predict(self, X: ArrayLike) -> list[Label]:
        """The class with the highest score for each row, as the label was given."""
        return decode(self.decision_function(X), self.classes_)

    def score(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> float:
        """Part of the rows whose predicted label is that in y."""
        predicted = self.predict(X)
        return float(np.mean([a == b for a, b in zip(predicted, check_labels(y, len(predicted)), strict=True)]))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """All that is known, to go on from: plain fields and arrays. `from_state` is the way back."""
        fields, arrays = self.recursion.state()
        return {**fields, "columns": self._columns, "n_of_column": [self._n_of_class[c] for c in self._columns]}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> RecursiveRLS:
        """What `state` described; it answers, and goes on, bit-equal."""
        rls = cls()
        rls.recursion = Recursion.from_state(fields, arrays)
        rls._columns = list(fields["columns"])
        rls._n_of_class = dict(zip(rls._columns, fields["n_of_column"], strict=True))
        return rls

    @property
    def classes_(self) -> list[Label]:
        """Sorted."""
        return need_classes([label for label, n in self._n_of_class.items() if n])

    @property
    def coef_(self) -> Floats:
        """W (D, C)."""
        self._need_rows()
        return self.recursion.weights[:, self._order()]

    @property
    def intercept_(self) -> Floats:
        """Added to the scores (C,)."""
        return intercept_of(self.recursion)[self._order()]

    def _order(self) -> list[int]:
        return [self._columns.index(label) for label in self.classes_]

    def _need_rows(self) -> None:
        need_rows(self.recursion)

    def _checked(
        self, X: ArrayLike, y: Sequence[object] | NDArray[Any], sample_weight: ArrayLike | None
    ) -> tuple[Floats, list[Label], Floats]:
        rows = check_features(X, self.recursion.moments.width)
        labels = check_labels(y, len(rows), self._columns[0] if self._columns else None)
        weight = np.ones(len(rows)) if sample_weight is None else check_weights(sample_weight, len(rows))
        return rows.astype(np.float64), labels, weight


class RecursiveRegressor:
    """Recursive RLS on numbers.

    Parameters
    ----------
    penalty, forgetting, intercept
        As for `RecursiveRLS`.

    Attributes
    ----------
    coef_ : ndarray of float64 (D, t); intercept_ : ndarray of float64 (t,)
    recursion : Recursion
    """

    def __init__(self, penalty: float = 1.0, *, forgetting: float = 1.0, intercept: bool = True) -> None:
        self.recursion = Recursion(penalty, forgetting, intercept)
        self._flat = True

    def partial_fit(self, X: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> RecursiveRegressor:
        """Learn rows (k, D) with targets (k,) or (k, t), oldest first; refused whole, or learned."""
        rows, Y, weight = self._checked(X, y, sample_weight)
        if len(rows):
            self._flat = np.ndim(y) == 1
            self.recursion.add(rows, Y, weight)
        return self

    def remove(self, X: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> RecursiveRegressor:
        """Unlearn rows, given as they were learned; see `RecursiveRLS.remove`."""
        rows, Y, weight = self._checked(X, y, sample_weight)
        if len(rows):
            self.recursion.remove(rows, Y, weight)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Answers (n,) or (n, t), as the targets were given. A row's do not depend on the rows beside it."""
        need_rows(self.recursion)
        answers = self.recursion.scores(check_features(X, self.recursion.moments.width).astype(np.float64))
        return answers[:, 0] if self._flat else answers

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """All that is known, to go on from: plain fields and arrays. `from_state` is the way back."""
        fields, arrays = self.recursion.state()
        return {**fields, "flat": self._flat}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> RecursiveRegressor:
        """What `state` described; it answers, and goes on, bit-equal."""
        regressor = cls()
        regressor.recursion, regressor._flat = Recursion.from_state(fields, arrays), fields["flat"]
        return regressor

    @property
    def coef_(self) -> Floats:
        """W (D, t)."""
        need_rows(self.recursion)
        return self.recursion.weights

    @property
    def intercept_(self) -> Floats:
        """Added to the answers (t,)."""
        return intercept_of(self.recursion)

    def _checked(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> tuple[Floats, Floats, Floats]:
        moments = self.recursion.moments
        rows = check_features(X, moments.width)
        Y = check_targets(y, len(rows), len(moments.target_mean) if moments.n else None)
        weight = np.ones(len(rows)) if sample_weight is None else check_weights(sample_weight, len(rows))
        return rows.astype(np.float64), Y, weight


def need_rows(recursion: Recursion) -> None:
    """Refuse to answer from nothing."""
    if not recursion.moments.n:
        raise InvalidArgument("this has seen no rows; call partial_fit first")


def intercept_of(recursion: Recursion) -> Floats:
    """What is added to x W (C,)."""
    moments = recursion.moments
    if not moments.centred:
        return np.zeros(recursion.weights.shape[1])
    return moments.target_mean - moments.mean @ recursion.weights
