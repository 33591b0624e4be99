"""Regularised least squares classification: at once, with lambda chosen by who is held out, or as a stream.

    W = argmin (1/n) sum_i w_i |y_i - z_i W|^2 + lam |W|^2 = (Z'Z + n lam I)^-1 Z'Y   (Mroueh, Voinea and Poggio 2015)

lam is per row: the Gram matrix is penalised by n lam, so the same rows five times over give the same weights at the
same lam. Y has one column a class, +1 in it and -1 elsewhere (one against all). Every row weighs the same, whatever the
size of its class, unless `balance` or `sample_weight` say otherwise; weights count as repeated rows would, only their
ratios matter, and like the penalty they stay as they are while rows are held out. With standardise="none" this is the
paper's formula, without an intercept; otherwise Z and Y are centred by their weighted means and the intercept is not
penalised, so that a rare class is not answered for by the constant column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_flag, check_labels, check_weights
from streamfeat.learn.classes import code, decode, need_classes, one_against_all
from streamfeat.learn.lambdas import HeldOut, Lambda, LambdaChoice
from streamfeat.learn.moments import Moments
from streamfeat.learn.rows import Source
from streamfeat.learn.scaling import Scaling
from streamfeat.learn.solution import AddUp, IllConditioned, Recipe, Solution
from streamfeat.learn.training import Training

__all__ = ["RLS", "IllConditioned"]

Floats = NDArray[np.float64]


class RLS:
    """Regularised least squares on class codes.

    Parameters
    ----------
    lam : float or "loo", "logo", "holdout" or "default"
        A number is used as it is. "loo" chooses by leave-one-out, for independent rows. "logo" chooses by
        leave-one-group-out, for rows of one speaker or subject, and needs `groups`. "holdout" chooses by one part of
        the rows. "default" is 0.1 x mean squared row norm, which the others also fall back to where nothing can be
        held out (one example a class).
    standardise : "none", "centre" or "z-score"
        Columns; constant ones leave under "z-score". Means and scales are those of the training rows.
    unit_norm : bool
        Rows to unit length, after the columns.
    per_class : bool
        Each class has its own chosen lambda.
    balance : bool
        Classes weigh the same, however many rows they have.
    grid : "relative", "gurls" or array_like (L,)
        Candidates for lambda: powers of ten from 1e-10 (from 10,000 rows on 1e-12) to 1 relative to the mean squared
        row norm, GURLS' twenty guesses from the eigenvalues, or your own parts of the mean squared row norm.
    measure : "accuracy" or "squared-error"
        What the held-out rows compare.
    rank : int, optional
        Keep so many directions of the rows, found by a randomised SVD with this `seed`.
    seed : int
        Draws what is drawn.

    Attributes
    ----------
    classes_ : list of str or of int, sorted, as they were given
    lam_ : float, or ndarray (C,) with `per_class`
    coef_ : ndarray of float64 (D, C); intercept_ : ndarray of float64 (C,)
    scaling_ : Scaling
    n_features_in_, n_items_ : int
    held_out_ : HeldOut
        Who was held out, accuracy and recall by class, and the table of what was tried.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]])
    >>> rls = RLS(lam="loo").fit(X, ["left", "left", "right", "right"])
    >>> rls.predict([[0.8, 0.1]])
    ['right']
    """

    classes_: list[Label]

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        standardise: str = "centre",
        unit_norm: bool = False,
        per_class: bool = False,
        balance: bool = False,
        grid: str | ArrayLike = "relative",
        measure: str = "accuracy",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        choice = LambdaChoice.of(lam, grid, measure, check_flag(per_class, "per_class"))
        self.recipe = Recipe.of(choice, standardise, unit_norm, rank, seed)
        self.balance = check_flag(balance, "balance")
        self._solution: Solution | None = None
        self._moments: Moments | None = None
        self._columns: list[Label] = []

    def fit(
        self,
        X: ArrayLike,
        y: Sequence[object] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        holdout: ArrayLike | None = None,
    ) -> RLS:
        """Choose lambda and solve for all rows at once.

        With `groups` and a number as `lam`, `held_out_` still tells what leaving each group out would have scored.
        Memory 8 bytes x (n D + 2 min(n, D)^2 + 2 n min(n, D)). Over 2^26 numbers, or 3000 rows and columns, rows are
        read block by block, also from a memory-mapped file: 16 min(n, D)^2 bytes beside them (`equations`), and "loo"
        then tries 6000 rows if n > D, drawn evenly with `seed`. `partial_fit` needs 8 D^2 and no rows.

        Parameters
        ----------
        X : array_like (n, D)
            Features, any number type; computed in float64.
        y : sequence of n labels, all int or all str
        groups : sequence of n names, optional
            Who spoke, who is shown.
        sample_weight : array_like (n,), optional
            Over 0; a weight of 2 is that row twice.
        holdout : array_like of bool (n,), optional
            The rows that lam="holdout" holds out; without it every fifth group, or every fifth row of each class.

        Raises
        ------
        InvalidArgument
            Non-finite or ragged rows, mixed label types, one class only, "logo" with fewer than two groups.
        """
        rows = check_features(X)
        training = Training.of_labels(
            y,
            len(rows),
            self.lam,
            groups=groups,
            sample_weight=sample_weight,
            holdout=holdout,
            balance=self.balance,
        )
        self._solution = self.recipe.fit(rows, training)
        self.classes_, self._moments = training.classes, None
        return self

    def fit_sums(
        self,
        X: Source,
        y: Sequence[object] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any] | None = None,
        *,
        add_up: AddUp,
        sample_weight: ArrayLike | None = None,
        holdout: ArrayLike | None = None,
    ) -> RLS:
        """`fit` where the sums of the rows are made elsewhere, as by `streamfeat.dask.fit`; equal to it, to rounding.

        Lambda is chosen as by `fit`: "loo" asks X for the rows that are tried, 6000 at most, "logo" and "holdout" for
        all. No more rows than columns are asked for and fitted here: they are smaller than their sums.

        Parameters
        ----------
        X : Source (n, D)
            Gives rows by slices and by arrays of rising numbers; known to be finite by whoever adds them up.
        y, groups, sample_weight, holdout
            As of `fit`.
        add_up : callable
            From targets (n, C) and weights (n,) to `Moments` of all rows, centred as `recipe.centred` says.

        Raises
        ------
        InvalidArgument
            As `fit`; `unit_norm` or `rank`, which sums cannot tell.
        """
        n, width = X.shape
        given: dict[str, Any] = {"sample_weight": sample_weight, "holdout": holdout}
        if n <= width:
            return self.fit(X[:], y, groups, **given)
        training = Training.of_labels(y, n, self.lam, groups=groups, balance=self.balance, **given)
        self._solution = self.recipe.fit_sums(X, training, add_up)
        self.classes_, self._moments = training.classes, None
        return self

    def partial_fit(
        self, X: ArrayLike, y: Sequence[object] | NDArray[Any], *, sample_weight: ArrayLike | None = None
    ) -> RLS:
        """Take more rows; the next prediction is that of one `fit` on all rows so far, to rounding.

        Classes may come late. Needs `lam` as a number or "default", since held-out rows are gone; a refused batch
        leaves the state as it was.

        Raises
        ------
        InvalidArgument
            Rows of another width or with NaN, labels of another type, a `lam` that needs rows, `unit_norm` (the
            length of a centred row would change with every later one), `balance`, or after `fit`.
        """
        moments = self._streamed()
        rows = check_features(X, moments.width)
        labels = check_labels(y, len(rows), self._columns[0] if self._columns else None)
        weight = np.ones(len(rows)) if sample_weight is None else check_weights(sample_weight, len(rows))
        if len(rows):
            moments = self._widen(moments, labels)
            Y = one_against_all(code(labels, self._columns), len(self._columns))
            moments.take(rows, Y, weight)
            self._moments, self._solution = moments, None
        return self

    def merge(self, other: RLS) -> RLS:
        """Take the rows that another RLS was given by `partial_fit`."""
        moments, theirs = self._streamed(), other._streamed()
        check_labels(other._columns, len(other._columns), self._columns[0] if self._columns else None)
        if theirs.width is None:
            return self
        before = self._columns
        moments = self._widen(moments, other._columns)
        find = {label: column for column, label in enumerate(other._columns)}
        try:
            moments.merge(theirs.arranged([find.get(label) for label in self._columns]))
        except InvalidArgument:
            self._columns = before
            raise
        self._moments, self._solution = moments, None
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n, C), columns as in `classes_`. A row's scores do not depend on the rows beside it, bit for bit."""
        solution = self._solved()
        return solution.scores(check_features(X, len(solution.W)))

    def predict(self, X: ArrayLike) -> list[Label]:
        """The class with the highest score for each row, as the label was given."""
        scores = self.decision_function(X)
        return decode(scores, self.classes_)

    def score(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> float:
        """Part of the rows whose predicted label is that in y."""
        predicted = self.predict(X)
        return float(np.mean([a == b for a, b in zip(predicted, check_labels(y, len(predicted)), strict=True)]))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything a prediction needs: plain fields and arrays. `from_state` is the way back."""
        fields, arrays = self._solved().state()
        choice = self.recipe.choice
        options = {"per_class": choice.per_column, "balance": self.balance, "measure": choice.measure}
        return {**fields, "classes": self.classes_, "settings": {**self.recipe.fields(), **options}}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> RLS:
        """The RLS that `state` described; its predictions are bit-equal."""
        rls = cls(**fields["settings"])
        rls.classes_ = list(fields["classes"])
        rls._solution = Solution.of_state(fields, arrays, rls.recipe.unit_norm)
        return rls

    @property
    def lam(self) -> Lambda:
        """As it was asked for."""
        return self.recipe.choice.lam

    @property
    def lam_(self) -> float | Floats:
        """As it was chosen."""
        lam = self._solved().lam
        return lam if self.recipe.choice.per_column else float(lam[0])

    @property
    def coef_(self) -> Floats:
        """W (D, C)."""
        return self._solved().W

    @property
    def intercept_(self) -> Floats:
        """Added to the scores (C,)."""
        return self._solved().intercept

    @property
    def scaling_(self) -> Scaling:
        """What happens to rows first."""
        return self._solved().scaling

    @property
    def n_features_in_(self) -> int:
        """D."""
        return len(self._solved().W)

    @property
    def n_items_(self) -> int:
        """Rows learned."""
        return self._solved().n_items

    @property
    def held_out_(self) -> HeldOut:
        """How lambda was chosen."""
        return self._solved().held_out

    def _streamed(self) -> Moments:
        if self._moments is None:
            if self.balance:
                raise InvalidArgument("partial_fit cannot balance classes it has not seen yet; pass sample_weight")
            moments = self.recipe.stream()
            if self._solution is not None:
                raise InvalidArgument("this RLS was fitted at once and kept no sums; start a new one with partial_fit")
            self._moments = moments
        return self._moments

    def _widen(self, moments: Moments, labels: Sequence[Label]) -> Moments:
        """Columns for classes not seen before: as if they had been there, in no row, from the start."""
        known = len(self._columns)
        late = [label for label in dict.fromkeys(labels) if label not in self._columns]
        if not late:
            return moments
        self._columns = [*self._columns, *late]
        return moments.arranged([*range(known), *[None] * len(late)])

    def _solved(self) -> Solution:
        if self._solution is None:
            if self._moments is None or not self._moments.n:
                raise InvalidArgument("this RLS has seen no rows; call fit or partial_fit first")
            classes = need_classes(self._columns)
            self._solution = self.recipe.solve(self._moments, [self._columns.index(label) for label in classes])
            self.classes_ = classes
        return self._solution
