"""Regularised least squares classification: at once, with lambda chosen by who is held out, or as a stream.

    W = argmin (1/n) |Y - Z W|^2 + lam |W|^2 = (Z'Z + n lam I)^-1 Z'Y        (Mroueh, Voinea and Poggio 2015)

lam is per row: the Gram matrix is penalised by n lam, so the same rows five times over give the same weights at the
same lam. Y has one column a class, +1 in it and -1 elsewhere (one against all); every row weighs the same, whatever the
size of its class. With standardise="none" this is the paper's formula, without an intercept; otherwise Z and Y are
centred and the intercept is not penalised, so that a rare class is not answered for by the constant column.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_labels, group_numbers
from streamfeat.learn.lambdas import RELATIVE_DEFAULT, RELATIVE_GRID, HeldOut, Spectrum, choose, need_groups
from streamfeat.learn.moments import Moments
from streamfeat.learn.scaling import Scaling, check_standardise

Floats = NDArray[np.float64]
Lambda = float | Literal["loo", "logo", "default"]

RESIDUAL_LIMIT = 1e-6
CONDITION_LIMIT = 1e13


class IllConditioned(UserWarning):
    """The solution is determined by rounding; a larger lambda is needed."""


@dataclass(frozen=True)
class _Solution:
    """What a prediction needs, and where its lambda came from."""

    classes: list[Label]
    scaling: Scaling
    W: Floats
    intercept: Floats
    lam: Floats
    n_items: int
    held_out: HeldOut


class RLS:
    """Regularised least squares on class codes.

    Parameters
    ----------
    lam : float or "loo", "logo" or "default"
        A number is used as it is. "loo" chooses by leave-one-out, for independent rows. "logo" chooses by
        leave-one-group-out, for rows of one speaker or subject, and needs `groups`. "default" is 0.1 x mean squared
        row norm, which "loo" and "logo" also fall back to where nothing can be held out (one example a class).
    standardise : "none", "centre" or "z-score"
        Columns; constant ones leave under "z-score". Means and scales are those of the training rows.
    unit_norm : bool
        Rows to unit length, after the columns.
    per_class : bool
        Each class has its own chosen lambda.
    relative_lams : array_like (L,)
        Candidates of "loo" and "logo", as parts of the mean squared row norm.

    Attributes
    ----------
    classes_ : list of str or of int, sorted, as they were given
    lam_ : float, or ndarray (C,) with `per_class`
    coef_ : ndarray of float64 (D, C); intercept_ : ndarray of float64 (C,)
    scaling_ : Scaling
    n_features_in_, n_items_ : int
    held_out_ : HeldOut
        Criterion, its accuracy, and the table of what was tried.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]])
    >>> rls = RLS(lam="loo").fit(X, ["left", "left", "right", "right"])
    >>> rls.predict([[0.8, 0.1]])
    ['right']
    """

    classes_: list[Label]
    lam_: float | Floats
    coef_: Floats
    intercept_: Floats
    scaling_: Scaling
    n_features_in_: int
    n_items_: int
    held_out_: HeldOut

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        standardise: str = "centre",
        unit_norm: bool = False,
        per_class: bool = False,
        relative_lams: ArrayLike = RELATIVE_GRID,
    ) -> None:
        self.lam = check_lambda(lam)
        self.standardise = check_standardise(standardise)
        for name, flag in (("unit_norm", unit_norm), ("per_class", per_class)):
            if not isinstance(flag, bool):
                raise InvalidArgument(f"{name} must be true or false, got {flag!r}")
        self.unit_norm = unit_norm
        self.per_class = per_class
        self.relative_lams = check_grid(relative_lams)
        self._moments: Moments | None = None
        self._stale = False

    def fit(
        self,
        X: ArrayLike,
        y: Sequence[object] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any] | None = None,
    ) -> RLS:
        """Choose lambda and solve for all rows at once.

        With `groups` and a number as `lam`, `held_out_` still tells what leaving each group out would have scored.
        Memory 8 bytes x (n D + 2 min(n, D)^2 + n min(n, D)); where that is too much, `partial_fit` needs 8 D^2.

        Parameters
        ----------
        X : array_like (n, D)
            Features, any number type; computed in float64.
        y : sequence of n labels, all int or all str
        groups : sequence of n names, optional
            Who spoke, who is shown.

        Raises
        ------
        InvalidArgument
            Non-finite or ragged rows, mixed label types, one class only, "logo" with fewer than two groups.
        """
        rows = check_features(X)
        labels = check_labels(y, len(rows))
        classes = need_classes(labels)
        numbers = None if groups is None else group_numbers(groups, len(rows))[0]
        if self.lam == "logo":
            numbers = need_groups(numbers)
        elif self.lam == "loo" or (numbers is not None and numbers.max() == 0):
            numbers = None
        codes = np.array([classes.index(label) for label in labels], dtype=np.intp)
        Y = np.full((len(rows), len(classes)), -1.0)
        Y[np.arange(len(rows)), codes] = 1.0

        scaling = Scaling.of_rows(rows, self.standardise, self.unit_norm)
        Z = scaling.apply(rows)
        centred = self.standardise != "none"
        row_mean = Z.mean(axis=0) if centred else np.zeros(Z.shape[1])
        target_mean = Y.mean(axis=0) if centred else np.zeros(len(classes))
        Z -= row_mean
        spectrum = Spectrum.of(Z, Y - target_mean, centred)
        lam, held_out = choose(spectrum, codes, numbers, self._candidates(spectrum.mean_square), self.per_class)
        W = spectrum.weights(len(rows) * lam)
        gradient = Z.T @ (Z @ W - spectrum.Y) + len(rows) * lam * W
        warn_if_unsolved(gradient, Z.T @ spectrum.Y, spectrum.condition(len(rows) * lam))

        self._keep(_Solution(classes, scaling, W, target_mean - row_mean @ W, lam, len(rows), held_out))
        self._moments, self._stale = None, False
        return self

    def partial_fit(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> RLS:
        """Take more rows; the next prediction is that of one `fit` on all rows so far, to rounding.

        Classes may come late. Needs `lam` as a number or "default", since held-out rows are gone; a refused batch
        leaves the state as it was.

        Raises
        ------
        InvalidArgument
            Rows of another width or with NaN, labels of another type, a `lam` that needs rows, `unit_norm` (the
            length of a centred row would change with every later one), or after `fit`.
        """
        self._streamed().add(X, y)
        self._stale = True
        return self

    def merge(self, other: RLS) -> RLS:
        """Take the rows that another RLS was given by `partial_fit`."""
        self._streamed().merge(other._streamed())
        self._stale = True
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (n, C), columns as in `classes_`. A row's scores do not depend on the rows beside it, bit for bit."""
        self._solve_stream()
        rows = check_features(X, self.n_features_in_)
        across = np.ascontiguousarray(self.coef_.T)
        scores = np.empty((len(rows), len(self.classes_)))
        # one product of fixed shape a row: BLAS sums in another order for another number of rows
        for z, score in zip(self.scaling_.apply(rows), scores, strict=True):
            np.add(across @ z, self.intercept_, out=score)
        return scores

    def predict(self, X: ArrayLike) -> list[Label]:
        """The class with the highest score for each row, as the label was given."""
        return [self.classes_[best] for best in self.decision_function(X).argmax(axis=1)]

    def score(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> float:
        """Part of the rows whose predicted label is that in y."""
        predicted = self.predict(X)
        return float(np.mean([a == b for a, b in zip(predicted, check_labels(y, len(predicted)), strict=True)]))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything a prediction needs: plain fields and arrays. `from_state` is the way back."""
        self._solve_stream()
        fields = {
            "classes": self.classes_,
            "n_items": self.n_items_,
            "settings": {
                "lam": self.lam,
                "standardise": self.standardise,
                "unit_norm": self.unit_norm,
                "per_class": self.per_class,
            },
            "held_out": {
                "criterion": self.held_out_.criterion,
                "accuracy": None if np.isnan(self.held_out_.accuracy) else self.held_out_.accuracy,
            },
        }
        arrays = {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "lam": np.asarray(self.lam_, dtype=np.float64),
            "mean": self.scaling_.mean,
            "scale": self.scaling_.scale,
            "lams": self.held_out_.lams,
            "accuracies": self.held_out_.accuracies,
            "mse": self.held_out_.mse,
        }
        return fields, arrays

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> RLS:
        """The RLS that `state` described; its predictions are bit-equal."""
        rls = cls(**fields["settings"])
        scaling = Scaling(arrays["mean"], arrays["scale"], rls.unit_norm)
        tried = fields["held_out"]
        accuracy = np.nan if tried["accuracy"] is None else tried["accuracy"]
        held_out = HeldOut(tried["criterion"], accuracy, arrays["lams"], arrays["accuracies"], arrays["mse"])
        classes, n_items = list(fields["classes"]), fields["n_items"]
        rls._keep(_Solution(classes, scaling, arrays["coef"], arrays["intercept"], arrays["lam"], n_items, held_out))
        return rls

    def _candidates(self, mean_square: float) -> Floats:
        if self.lam == "default":
            return np.array([RELATIVE_DEFAULT * mean_square])
        if isinstance(self.lam, str):
            return self.relative_lams * mean_square
        return np.array([self.lam])

    def _keep(self, solution: _Solution) -> None:
        self.classes_, self.scaling_ = solution.classes, solution.scaling
        self.coef_, self.intercept_ = solution.W, solution.intercept
        self.lam_ = solution.lam if self.per_class else float(np.max(solution.lam))
        self.n_features_in_, self.n_items_ = len(solution.W), solution.n_items
        self.held_out_ = solution.held_out

    def _streamed(self) -> Moments:
        if self.lam in ("loo", "logo"):
            raise InvalidArgument(
                f'partial_fit keeps no rows to hold out, so lam must be a number or "default", got {self.lam!r}'
            )
        if self.unit_norm:
            raise InvalidArgument("partial_fit takes no unit_norm: the means that come before it are not known yet")
        if self._moments is None:
            if hasattr(self, "coef_"):
                raise InvalidArgument("this RLS was fitted at once and kept no sums; start a new one with partial_fit")
            self._moments = Moments()
        return self._moments

    def _solve_stream(self) -> None:
        if not self._stale:
            if not hasattr(self, "coef_"):
                raise InvalidArgument("this RLS has seen no rows; call fit or partial_fit first")
            return
        moments = self._streamed()
        classes = need_classes(list(moments.class_n))
        gram, cross, target_mean = moments.normal_equations(classes, self.standardise != "none")
        variance = np.diag(moments.scatter) / moments.n
        scaling = Scaling.of_moments(moments.mean, variance, self.standardise, self.unit_norm)
        gram = gram * scaling.scale * scaling.scale[:, None]
        cross = cross * scaling.scale[:, None]
        candidates = self._candidates(float(np.trace(gram)) / moments.n or 1.0)
        penalty = moments.n * float(candidates[0])
        condition = (
            float(np.trace(gram)) / penalty + 1.0
        )  # a bound: the trace is never less than the largest eigenvalue
        gram[np.diag_indices_from(gram)] += penalty
        W = np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)
        warn_if_unsolved(gram @ W - cross, cross, condition)
        lam = np.full(len(classes), candidates[0])
        held_out = HeldOut("none", np.nan, np.empty(0), np.empty(0), np.empty((0, len(classes))))
        self._keep(_Solution(classes, scaling, W, target_mean, lam, moments.n, held_out))
        self._stale = False


def check_grid(relative_lams: ArrayLike) -> Floats:
    """Candidates for lambda, positive and finite, as an array (L,)."""
    grid = np.asarray(relative_lams, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise InvalidArgument(f"relative_lams must be a row of numbers over 0, got {relative_lams!r}")
    return grid


def check_lambda(lam: Any) -> Lambda:
    """A positive finite number, or one of the names."""
    if isinstance(lam, str) and lam in ("loo", "logo", "default"):
        return lam  # type: ignore[return-value]
    if isinstance(lam, bool) or not isinstance(lam, int | float | np.number) or not 0 < float(lam) < np.inf:
        raise InvalidArgument(f'lam must be a number over 0, "loo", "logo" or "default", got {lam!r}')
    return float(lam)


def need_classes(labels: Sequence[Label]) -> list[Label]:
    """The classes among the labels, sorted."""
    classes = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    if len(classes) < 2:
        raise InvalidArgument(f"RLS needs rows of two classes or more, got {classes}; learn examples of another one")
    return classes


def warn_if_unsolved(gradient: Floats, right_hand_side: Floats, condition: float) -> None:
    """Warn where the normal equations do not hold, or hold for many other weights as well."""
    size = float(np.linalg.norm(right_hand_side))
    residual = float(np.linalg.norm(gradient)) / size if size else 0.0
    if residual > RESIDUAL_LIMIT or condition > CONDITION_LIMIT or not np.isfinite(residual):
        message = (
            f"RLS is ill-conditioned: condition number {condition:.1e}, relative residual {residual:.1e}; raise lam"
        )
        warnings.warn(message, IllConditioned, stacklevel=3)
