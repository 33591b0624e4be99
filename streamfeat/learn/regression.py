"""Regularised least squares regression: everything of the classifier but the classes.

    W = argmin (1/n) sum_i w_i |y_i - z_i W|^2 + lam |W|^2

Lambda is chosen by the squared error of the rows held out. Targets are centred unless standardise="none"; they are not
scaled, so with several of them `per_target` keeps a large one from choosing for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_features, check_flag, check_targets, check_weights
from streamfeat.learn.lambdas import HeldOut, Lambda, LambdaChoice
from streamfeat.learn.moments import Moments
from streamfeat.learn.scaling import Scaling
from streamfeat.learn.solution import Recipe, Solution
from streamfeat.learn.training import Training

Floats = NDArray[np.float64]


class RLSRegressor:
    """Regularised least squares on numbers.

    Parameters
    ----------
    lam, standardise, unit_norm, grid, rank, seed
        As for `RLS`.
    per_target : bool
        Each target has its own chosen lambda.

    Attributes
    ----------
    lam_ : float, or ndarray (t,) with `per_target`
    coef_ : ndarray of float64 (D, t); intercept_ : ndarray of float64 (t,)
    scaling_ : Scaling
    n_items_ : int
    held_out_ : HeldOut
        Who was held out, their squared error, and the table of what was tried.

    Examples
    --------
    >>> regressor = RLSRegressor(1e-9).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> regressor.predict([[3.0]]).round(6)
    array([7.])
    """

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        standardise: str = "centre",
        unit_norm: bool = False,
        per_target: bool = False,
        grid: str | ArrayLike = "relative",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        choice = LambdaChoice.of(lam, grid, "squared-error", check_flag(per_target, "per_target"))
        self.recipe = Recipe.of(choice, standardise, unit_norm, rank, seed)
        self._solution: Solution | None = None
        self._moments: Moments | None = None
        self._flat = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: Sequence[object] | NDArray[Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        holdout: ArrayLike | None = None,
    ) -> RLSRegressor:
        """Choose lambda and solve for all rows at once.

        Parameters
        ----------
        X : array_like (n, D)
        y : array_like (n,) or (n, t)
            `predict` answers in the same shape.
        groups, sample_weight, holdout
            As for `RLS.fit`; held out without a mask: every fifth group, or every fifth row.

        Raises
        ------
        InvalidArgument
            Non-finite rows or targets, another count.
        """
        rows = check_features(X)
        training = Training.of_numbers(
            y, len(rows), self.recipe.choice.lam, groups=groups, sample_weight=sample_weight, holdout=holdout
        )
        self._solution = self.recipe.fit(rows, training)
        self._flat, self._moments = np.ndim(y) == 1, None
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> RLSRegressor:
        """Take more rows; the next prediction is that of one `fit` on all rows so far, to rounding.

        Raises
        ------
        InvalidArgument
            As `RLS.partial_fit`; another number of targets. The state stays as it was.
        """
        moments = self._streamed()
        rows = check_features(X, moments.width)
        Y = check_targets(y, len(rows), len(moments.target_mean) if moments.n else None)
        weight = np.ones(len(rows)) if sample_weight is None else check_weights(sample_weight, len(rows))
        if len(rows):
            moments.take(rows, Y, weight)
            self._flat, self._solution = np.ndim(y) == 1, None
        return self

    def merge(self, other: RLSRegressor) -> RLSRegressor:
        """Take the rows that another was given by `partial_fit`."""
        moments, theirs = self._streamed(), other._streamed()
        if moments.n and theirs.n and len(moments.target_mean) != len(theirs.target_mean):
            raise InvalidArgument(f"cannot merge {len(moments.target_mean)} targets and {len(theirs.target_mean)}")
        if theirs.n:
            self._flat = self._flat if moments.n else other._flat
            moments.merge(theirs)
            self._solution = None
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Answers (n,) or (n, t), as the targets were given. A row's do not depend on the rows beside it."""
        solution = self._solved()
        answers = solution.scores(check_features(X, len(solution.W)))
        return answers[:, 0] if self._flat else answers

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything a prediction needs: plain fields and arrays. `from_state` is the way back."""
        fields, arrays = self._solved().state()
        settings = {**self.recipe.fields(), "per_target": self.recipe.choice.per_column}
        return {**fields, "flat": self._flat, "settings": settings}, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> RLSRegressor:
        """The regressor that `state` described; its predictions are bit-equal."""
        regressor = cls(**fields["settings"])
        regressor._flat = fields["flat"]
        regressor._solution = Solution.of_state(fields, arrays, regressor.recipe.unit_norm)
        return regressor

    @property
    def lam_(self) -> float | Floats:
        """As it was chosen."""
        lam = self._solved().lam
        return lam if self.recipe.choice.per_column else float(lam[0])

    @property
    def coef_(self) -> Floats:
        """W (D, t)."""
        return self._solved().W

    @property
    def intercept_(self) -> Floats:
        """Added to the answers (t,)."""
        return self._solved().intercept

    @property
    def scaling_(self) -> Scaling:
        """What happens to rows first."""
        return self._solved().scaling

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
            moments = self.recipe.stream()
            if self._solution is not None:
                raise InvalidArgument("this was fitted at once and kept no sums; start a new one with partial_fit")
            self._moments = moments
        return self._moments

    def _solved(self) -> Solution:
        if self._solution is None:
            if self._moments is None or not self._moments.n:
                raise InvalidArgument("this regressor has seen no rows; call fit or partial_fit first")
            self._solution = self.recipe.solve(self._moments, list(range(len(self._moments.target_mean))))
        return self._solution
