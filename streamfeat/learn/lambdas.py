"""The choice of lambda: which values are tried, and which of them answers the held-out rows best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.training import Training

Floats = NDArray[np.float64]
Lambda = float | Literal["loo", "logo", "holdout", "default"]
Measure = Literal["accuracy", "squared-error"]
HELD_OUT_NAMES = ("loo", "logo", "holdout")

RELATIVE_GRID: Floats = np.logspace(-10, 0, 11)
"""lam / mean squared row norm. GURLS guesses 20 values between the extreme eigenvalues of the Gram matrix over n; that
mean bounds the largest of them. A decade apart: between neighbours accuracy moves by less than its own noise, and each
candidate costs a leave-one-group-out pass."""

MANY_ROWS = 10_000
MANY_ROWS_GRID: Floats = np.logspace(-12, 0, 13)
"""From so many rows on: 60,000 uncentred ones were best answered between 1e-9 and 1e-11. At 1e-12 the condition number
is at most 1e12, of which float64 still leaves four digits."""

RELATIVE_DEFAULT = 0.1
"""lam / mean squared row norm where nothing can be held out: one example a class."""

GURLS_N_LAMBDA = 20
GURLS_SMALL_NUMBER = 1e-8


class Decomposition(Protocol):
    """What answers for every penalty: a `Spectrum`, or the `Equations` of many rows, which have more to say of this."""

    @property
    def root(self) -> Floats: ...
    @property
    def scored(self) -> NDArray[np.bool_]: ...
    @property
    def mean_square(self) -> float: ...
    @property
    def eigenvalues(self) -> Floats: ...
    def held_out_errors(self, penalty: float, fold: NDArray[np.intp] | None = None) -> Floats: ...


@dataclass(frozen=True)
class HeldOut:
    """What was tried and what each lambda was worth on the rows held out.

    Attributes
    ----------
    criterion : str
        "loo", "logo", "holdout"; "default" (nothing could be held out: the numbers are NaN and the table is empty) or
        "none" (a stream keeps no rows).
    accuracy, squared_error : float
        Of the chosen lambda, by the rows' weights; accuracy is NaN in regression.
    lams, accuracies : ndarray of float64 (L,)
    mse : ndarray of float64 (L, C)
    recall : ndarray of float64 (C,)
        Of each class, NaN where none of its rows could be held out.
    """

    criterion: str
    accuracy: float
    squared_error: float
    lams: Floats
    accuracies: Floats
    mse: Floats
    recall: Floats

    @classmethod
    def nothing(cls, criterion: str, n_columns: int) -> HeldOut:
        """No row was held out."""
        none, unknown = np.empty(0), np.full(n_columns, np.nan)
        return cls(criterion, np.nan, np.nan, none, none, np.empty((0, n_columns)), unknown)


@dataclass(frozen=True)
class LambdaChoice:
    """How lambda is found: `lam` a number or who is held out, `grid` what is tried, `measure` what is compared."""

    lam: Lambda
    grid: str | Floats
    measure: str
    per_column: bool

    @classmethod
    def of(cls, lam: Any, grid: Any, measure: Any, per_column: bool) -> LambdaChoice:
        """The same, checked.

        Raises
        ------
        InvalidArgument
            Naming the option.
        """
        if measure not in get_args(Measure):
            raise InvalidArgument(f"measure must be one of {', '.join(get_args(Measure))}, got {measure!r}")
        return cls(check_lambda(lam), check_grid(grid), measure, per_column)

    def candidates(self, spectrum: Decomposition) -> Floats:
        """Values to try, rising."""
        if self.lam not in HELD_OUT_NAMES:
            return np.array([self.fixed(spectrum.mean_square)])
        if isinstance(self.grid, str):
            if self.grid == "gurls":
                return gurls_grid(spectrum.eigenvalues, len(spectrum.root))
            grid = RELATIVE_GRID if len(spectrum.root) < MANY_ROWS else MANY_ROWS_GRID
            return grid * spectrum.mean_square
        return np.sort(self.grid) * spectrum.mean_square

    def fixed(self, mean_square: float) -> float:
        """The lambda that needs no rows."""
        return RELATIVE_DEFAULT * mean_square if isinstance(self.lam, str) else self.lam

    def choose(self, spectrum: Decomposition, training: Training) -> tuple[Floats, HeldOut]:
        """One lambda for each column of the targets, and the table it was chosen from.

        The best held-out accuracy wins, ties by the smaller squared error, then by the larger lambda; by
        "squared-error", and where there are no classes, accuracy has no say. `per_column` takes for each column the
        lambda of its own least squared error: one-against-all accuracy is blind where one row in ten counts.

        Returns
        -------
        lam : ndarray of float64 (C,)
        held_out : HeldOut
        """
        targets, codes, folds = training.Y, training.codes, training.folds
        n, n_columns = targets.shape
        judged = folds.judged(n, codes) & spectrum.scored
        candidates = self.candidates(spectrum)
        if not judged.any():
            lam = candidates[0] if len(candidates) == 1 else RELATIVE_DEFAULT * spectrum.mean_square
            return np.full(n_columns, lam), HeldOut.nothing("default", n_columns)
        weight = np.square(spectrum.root[judged])
        errors = [spectrum.held_out_errors(n * lam, folds.of_row)[judged] for lam in candidates]
        mse = np.array([np.average(np.square(e), axis=0, weights=weight) for e in errors])
        accuracies = np.full(len(candidates), np.nan)
        if codes is not None:
            correct = [(targets[judged] - e).argmax(axis=1) == codes[judged] for e in errors]
            accuracies = np.array([np.average(hit, weights=weight) for hit in correct])
        if self.per_column:
            best = len(candidates) - 1 - mse[::-1].argmin(axis=0)
        else:
            by_accuracy = self.measure == "accuracy" and codes is not None
            keys = (-candidates, mse.mean(axis=1), *([-accuracies] if by_accuracy else []))
            best = np.full(n_columns, np.lexsort(keys)[0])
        chosen = targets[judged] - np.stack([errors[k][:, column] for column, k in enumerate(best)], axis=1)
        error = float(mse[best, np.arange(n_columns)].mean())
        accuracy, recall = np.nan, np.full(n_columns, np.nan)
        if codes is not None:
            hit = chosen.argmax(axis=1) == codes[judged]
            accuracy, recall = float(np.average(hit, weights=weight)), recall_of(hit, codes[judged], n_columns)
        held_out = HeldOut(folds.criterion, accuracy, error, candidates, accuracies, mse, recall)
        return candidates[best], held_out


def recall_of(hit: NDArray[np.bool_], codes: NDArray[np.intp], n_classes: int) -> Floats:
    """The part of each class's rows that was answered right, NaN for a class without rows."""
    n_of_class = np.bincount(codes, minlength=n_classes)
    right = np.bincount(codes, weights=hit, minlength=n_classes)
    recall: Floats = np.divide(right, n_of_class, out=np.full(n_classes, np.nan), where=n_of_class > 0)
    return recall


def gurls_grid(eigenvalues: Floats, n: int) -> Floats:
    """GURLS' guesses (paramsel_lambdaguesses): 20 values in a geometric row from lmin / n to lmax / n.

    lmax is the largest eigenvalue of Z'Z, lmin = max(min(1e-8 lmax, eig_r), 200 sqrt(eps)) with eig_r the smallest of
    the r = min(n, D) eigenvalues.
    """
    largest, smallest = float(eigenvalues.max()), float(eigenvalues.min())
    lmin = max(min(largest * GURLS_SMALL_NUMBER, smallest), 200.0 * float(np.sqrt(np.finfo(np.float64).eps)))
    # rows of zeros leave one guess, not a lambda of zero
    powers = np.linspace(0.0, 1.0, GURLS_N_LAMBDA)
    return np.asarray(np.sort(lmin * ((largest or lmin) / lmin) ** powers / n))


def check_grid(grid: str | ArrayLike) -> str | Floats:
    """A grid's name, or candidates for lambda / mean squared row norm, positive and finite, as an array (L,)."""
    if isinstance(grid, str) and grid in ("relative", "gurls"):
        return grid
    try:
        values = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise InvalidArgument(f'grid must be "relative", "gurls" or a row of numbers over 0, got {grid!r}')
    return values


def check_lambda(lam: Any) -> Lambda:
    """A positive finite number, or one of the names."""
    if isinstance(lam, str) and lam in (*HELD_OUT_NAMES, "default"):
        return lam  # type: ignore[return-value]
    if isinstance(lam, bool) or not isinstance(lam, int | float | np.number) or not 0 < float(lam) < np.inf:
        raise InvalidArgument(f'lam must be a number over 0, "loo", "logo", "holdout" or "default", got {lam!r}')
    return float(lam)
