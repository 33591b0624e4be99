"""Every lambda from one eigen-decomposition, and the choice among them by who is held out.

RLS minimises (1/n) |Y - Z W|^2 + lam |W|^2, so the Gram matrix is penalised by p = n lam. With an intercept the rows of
Z and the targets are centred and the intercept goes unpenalised. All residuals of all lambdas have one form,

    Y - Yhat = R Y,    R = I - H = N + A diag(f) A' - [intercept] 11'/n,

    primal (D < n):  Z'Z = V diag(l) V',  A = Z V,  N = I,  f = -1 / (l + p)
    dual:            ZZ' = A diag(l) A',            N = 0,  f =  p / (l + p)

and what the model would have answered without the rows of B, penalty p held fixed, needs no second fit:

    e_B = y_B - yhat_B(without B) = R_BB^-1 (R Y)_B.

For B = one row this is e = (y - yhat) / (1 - h) (primal) and c / diag(G^-1) (dual); for B = one speaker it is
(G^-1_BB)^-1 c_B. The dual form has no 1 - h that could cancel. Rows of one speaker resemble each other, so on speech
the one-row form chooses lambda too small.

Cost: n D min(n, D) for the Gram matrix, about 9 min(n, D)^3 for the decomposition, then n min(n, D) a lambda
(one row out) or |B|^2 min(n, D) a group and lambda. Memory beside Z: 8 bytes x (2 min(n, D)^2 + n min(n, D)),
and 8 n C for each lambda that is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]

RELATIVE_GRID: Floats = np.logspace(-10, 0, 11)
"""lam / mean squared row norm. GURLS guesses 20 values between the extreme eigenvalues of the Gram matrix over n; that
mean bounds the largest of them, and 1e-10 is where 60,000 rows still gain. A decade apart: between neighbours accuracy
moves by less than its own noise, and each candidate costs a leave-one-group-out pass."""

RELATIVE_DEFAULT = 0.1
"""lam / mean squared row norm where nothing can be held out: one example a class."""


@dataclass(frozen=True)
class Spectrum:
    """The decomposition of one training set: `weights` and `held_out_errors` for any penalty.

    Attributes
    ----------
    Z : ndarray of float64 (n, D)
        Training rows; centred if there is an intercept.
    Y : ndarray of float64 (n, C)
        Targets; centred if there is an intercept.
    intercept, dual : bool
    eigenvalues : ndarray of float64 (r,)
        l, r = min(n, D), not negative.
    A : ndarray of float64 (n, r)
        Z V (primal) or the eigenvectors of ZZ' (dual).
    V : ndarray of float64 (D, r)
        Eigenvectors of Z'Z; empty in the dual.
    """

    Z: Floats
    Y: Floats
    intercept: bool
    dual: bool
    eigenvalues: Floats
    A: Floats
    V: Floats

    @classmethod
    def of(cls, Z: Floats, Y: Floats, intercept: bool) -> Spectrum:
        """Decompose Z'Z or ZZ', whichever is smaller. Z and Y come centred if `intercept`."""
        dual = Z.shape[1] >= Z.shape[0]
        eigenvalues, vectors = np.linalg.eigh(Z @ Z.T if dual else Z.T @ Z)
        A = vectors if dual else Z @ vectors
        return cls(Z, Y, intercept, dual, eigenvalues.clip(min=0.0), A, np.empty((0, 0)) if dual else vectors)

    @property
    def mean_square(self) -> float:
        """Mean squared row norm, which lambdas are relative to; 1 where all rows are zero."""
        return float(self.eigenvalues.sum()) / len(self.Z) or 1.0

    def weights(self, penalty: float | Floats) -> Floats:
        """W (D, C) for p = n lam: one number, or one for each column of Y (C,)."""
        coordinates = (self.A.T @ self.Y) / (self.eigenvalues[:, None] + penalty)
        return self.Z.T @ (self.A @ coordinates) if self.dual else self.V @ coordinates

    def held_out_errors(self, penalty: float, groups: NDArray[np.intp] | None = None) -> Floats:
        """e (n, C): target minus the prediction of the model that was fitted without that row, or that row's group."""
        identity, f, shift = self._factors(penalty)
        A = self.A
        errors = identity * self.Y + A @ (f[:, None] * (A.T @ self.Y))
        if groups is None:
            kept = identity + np.einsum("ik,k,ik->i", A, f, A) - shift
            return np.asarray(errors / kept[:, None])
        for rows in members(groups):
            block = (A[rows] * f) @ A[rows].T - shift
            block[np.diag_indices_from(block)] += identity
            errors[rows] = np.linalg.solve(block, errors[rows])
        return errors

    def residual_matrix(self, penalty: float) -> Floats:
        """R (n, n), for what leaves in more than one step."""
        identity, f, shift = self._factors(penalty)
        half = self.A * np.sqrt(np.abs(f))
        R: Floats = half @ half.T  # one matrix with itself: half the work
        if not self.dual:
            np.negative(R, out=R)
        R -= shift
        R[np.diag_indices_from(R)] += identity
        return R

    def _factors(self, penalty: float) -> tuple[float, Floats, float]:
        """The diagonal of N, f, and what the intercept takes off each element of R."""
        shift = 1.0 / len(self.A) if self.intercept else 0.0
        if self.dual:
            return 0.0, penalty / (self.eigenvalues + penalty), shift
        return 1.0, -1.0 / (self.eigenvalues + penalty), shift

    def condition(self, penalty: float | Floats) -> float:
        """Condition number of the penalised Gram matrix."""
        smallest = float(np.min(penalty))
        return (float(self.eigenvalues[-1]) + smallest) / (float(self.eigenvalues[0]) + smallest)


@dataclass(frozen=True)
class HeldOut:
    """What was tried and what each lambda was worth on the rows held out.

    `criterion` is "loo", "logo" or "default" (nothing could be held out: `accuracy` is NaN and the table is empty).
    """

    criterion: str
    accuracy: float
    lams: Floats
    accuracies: Floats
    mse: Floats


def choose(
    spectrum: Spectrum, codes: NDArray[np.intp], groups: NDArray[np.intp] | None, candidates: Floats, per_class: bool
) -> tuple[Floats, HeldOut]:
    """One lambda for each class, and the table it was chosen from.

    The best held-out accuracy wins, ties by the smaller squared error, then by the larger lambda. `per_class` takes for
    each class the lambda of its own least squared error: one-against-all accuracy is blind where one row in ten counts.

    Parameters
    ----------
    codes : ndarray of intp (n,)
        Column of Y that is the row's class.
    groups : ndarray of intp (n,), optional
        Who is held out together; without it, each row alone.
    candidates : ndarray of float64 (L,)
        A single one is taken, and only its worth is told.

    Returns
    -------
    lam : ndarray of float64 (C,)
    held_out : HeldOut
    """
    n, n_classes = spectrum.Y.shape
    counted = has_example_elsewhere(codes, groups)
    if not counted.any():
        lam = candidates[0] if len(candidates) == 1 else RELATIVE_DEFAULT * spectrum.mean_square
        return np.full(n_classes, lam), HeldOut("default", np.nan, np.empty(0), np.empty(0), np.empty((0, n_classes)))
    candidates = np.sort(candidates)
    targets = np.full((n, n_classes), -1.0)
    targets[np.arange(n), codes] = 1.0
    answers = [targets - spectrum.held_out_errors(n * lam, groups) for lam in candidates]
    hits = np.array([np.mean(a.argmax(axis=1)[counted] == codes[counted]) for a in answers])
    mse = np.array([np.mean(np.square(targets - a)[counted], axis=0) for a in answers])
    if per_class:
        best = len(candidates) - 1 - mse[::-1].argmin(axis=0)
        merged = np.stack([answers[k][:, c] for c, k in enumerate(best)], axis=1)
        accuracy = float(np.mean(merged.argmax(axis=1)[counted] == codes[counted]))
    else:
        k = np.lexsort((-candidates, mse.mean(axis=1), -hits))[0]
        best, accuracy = np.full(n_classes, k), float(hits[k])
    return candidates[best], HeldOut("loo" if groups is None else "logo", accuracy, candidates, hits, mse)


def has_example_elsewhere(codes: NDArray[np.intp], groups: NDArray[np.intp] | None) -> NDArray[np.bool_]:
    """Rows whose class has another example outside their group: the only ones a held-out choice can judge (n,)."""
    n_of_class = np.bincount(codes)
    if groups is None:
        return np.asarray(n_of_class[codes] > 1)
    together = np.zeros((groups.max() + 1, len(n_of_class)), dtype=np.intp)
    np.add.at(together, (groups, codes), 1)
    return np.asarray(n_of_class[codes] > together[groups, codes])


def members(groups: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The rows of group 0, 1, ..."""
    for group in range(int(groups.max()) + 1):
        yield np.flatnonzero(groups == group)


def need_groups(groups: NDArray[np.intp] | None, at_least: int = 2) -> NDArray[np.intp]:
    """The groups, if there are enough of them to hold one out."""
    n_groups = 0 if groups is None else int(groups.max()) + 1
    if groups is None or n_groups < at_least:
        raise InvalidArgument(f'lam="logo" needs {at_least} groups or more, got {n_groups}; pass groups or lam="loo"')
    return groups
