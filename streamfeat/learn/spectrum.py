"""One decomposition of a training set, and from it the weights and held-out errors of every penalty.

RLS minimises (1/n) sum_i w_i |y_i - z_i W|^2 + lam |W|^2 with weights w of mean 1, so the Gram matrix is penalised by
p = n lam. Z and Y here are multiplied by sqrt(w); with an intercept they were centred (by the weighted mean) before
that, and the intercept goes unpenalised. With u = sqrt(w) / |sqrt(w)|, all residuals of all lambdas have one form,

    Y - Yhat = R Y,    R = I - H = N + A diag(f) A' - [intercept] u u',

    primal (D < n):  Z'Z = V diag(l) V',  A = Z V,  N = I,  f = -1 / (l + p)
    dual:            ZZ' = A diag(l) A',            N = 0,  f =  p / (l + p)

(in the dual u is the eigenvector of l = 0, and is left out, f = 0, rather than subtracted: R shrinks with p, and 1 - 1
would leave rounding of its size). What the model would have answered without the rows of B, penalty p held fixed,
needs no second fit:

    e_B = y_B - yhat_B(without B) = R_BB^-1 (R Y)_B,    over sqrt(w_B).

For B = one row this is e = (y - yhat) / (1 - h) (primal) and c / diag(G^-1) (dual); for B = one speaker it is
(G^-1_BB)^-1 c_B. The dual form has no 1 - h that could cancel. Rows of one speaker resemble each other, so on speech
the one-row form chooses lambda too small.

With a rank k the rows are first projected on the k directions that a randomised SVD finds (Halko, Martinsson and Tropp
2011; GURLS' rls_primalr and rls_dualr), and all of the above is exact for the projected rows.

Cost: n D min(n, D) for the Gram matrix, about 9 min(n, D)^3 for the decomposition (a rank k: 6 n D k in all), then
n min(n, D) a lambda (one row out) or |B|^2 min(n, D) a group and lambda. Memory beside Z:
8 bytes x (2 min(n, D)^2 + 2 n min(n, D)), and 8 n C for each lambda that is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.folds import members

Floats = NDArray[np.float64]

OVERSAMPLING = 10
"""Random directions beyond the rank; Halko, Martinsson and Tropp advise 5 to 10."""

POWER_ITERATIONS = 3
"""Passes that sharpen the directions where eigenvalues fall slowly, as those of features do."""


@dataclass(frozen=True)
class Spectrum:
    """The decomposition of one training set: `weights` and `held_out_errors` for any penalty.

    Attributes
    ----------
    Y : ndarray of float64 (n, C)
        Targets; centred if there is an intercept, times `root`.
    root : ndarray of float64 (n,)
        Square roots of the rows' weights.
    intercept, dual : bool
    mean_square : float
        Mean squared row norm, which lambdas are relative to; 1 where all rows are zero.
    eigenvalues : ndarray of float64 (r,)
        l, rising, not negative; r = min(n, D), or the rank.
    A : ndarray of float64 (n, r)
        Z V (primal) or the eigenvectors of ZZ' (dual; u first if there is an intercept).
    V : ndarray of float64 (D, r) or None
        Eigenvectors of Z'Z; None in the dual.
    Z : ndarray of float64 (n, D) or None
        Rows that the dual's weights are sums of; None where only their Gram matrix is known.
    """

    Y: Floats
    root: Floats
    intercept: bool
    dual: bool
    mean_square: float
    eigenvalues: Floats
    A: Floats
    V: Floats | None
    Z: Floats | None

    @classmethod
    def of(cls, Z: Floats, Y: Floats, intercept: bool, root: Floats | None = None) -> Spectrum:
        """Decompose Z'Z or ZZ', whichever is smaller. Z and Y come centred if `intercept`, and times `root`."""
        if Z.shape[1] >= Z.shape[0]:
            return cls.of_gram(Z @ Z.T, Y, intercept, root, Z)
        eigenvalues, V = np.linalg.eigh(Z.T @ Z)
        eigenvalues = eigenvalues.clip(min=0.0)
        scale = mean_square_of(float(eigenvalues.sum()), len(Z))
        return cls(Y, ones(root, Z), intercept, False, scale, eigenvalues, Z @ V, V, None)

    @classmethod
    def of_gram(
        cls, K: Floats, Y: Floats, intercept: bool, root: Floats | None = None, Z: Floats | None = None
    ) -> Spectrum:
        """Decompose a Gram matrix K (n, n), centred and weighted as its rows would be."""
        root = ones(root, K)
        if intercept:
            # K u = 0; lifted over all others, u comes out alone and exact, and goes back to its place
            u = root / np.linalg.norm(root)
            lifted = 2.0 * float(np.linalg.norm(K)) or 1.0
            eigenvalues, vectors = np.linalg.eigh(K + lifted * np.outer(u, u))
            eigenvalues, vectors = np.append(0.0, eigenvalues[:-1]), np.column_stack([u, vectors[:, :-1]])
        else:
            eigenvalues, vectors = np.linalg.eigh(K)
        eigenvalues = eigenvalues.clip(min=0.0)
        scale = mean_square_of(float(eigenvalues.sum()), len(K))
        return cls(Y, root, intercept, True, scale, eigenvalues, vectors, None, Z)

    @classmethod
    def of_rank(
        cls, Z: Floats, Y: Floats, intercept: bool, *, root: Floats | None, rank: int, rng: np.random.Generator
    ) -> Spectrum:
        """Project the rows on `rank` directions from a randomised SVD, then decompose those."""
        basis = leading_directions(Z, rank, rng)
        total = float(np.einsum("nd,nd->", Z, Z))
        scale = mean_square_of(total, len(Z))
        return cls(Y, ones(root, Z), intercept, False, scale, *diagonal(Z @ basis, basis), None)

    @classmethod
    def of_gram_rank(
        cls, K: Floats, Y: Floats, intercept: bool, *, root: Floats | None, rank: int, rng: np.random.Generator
    ) -> Spectrum:
        """The same where only the Gram matrix is known: coefficients of the rows stay within `rank` directions."""
        basis = leading_directions(K, rank, rng)
        squares, S = np.linalg.eigh(basis.T @ K @ basis)
        kept = squares > RANK_FLOOR * squares[-1]
        if squares[-1] <= 0:
            return cls.of_gram(K, Y, intercept, root)
        # of unit length in the kernel's own space
        basis = basis @ (S[:, kept] / np.sqrt(squares[kept]))
        scale = mean_square_of(float(np.trace(K)), len(K))
        return cls(Y, ones(root, K), intercept, False, scale, *diagonal(K @ basis, basis), None)

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Rows whose leaving is tried (n,): all."""
        return np.ones(len(self.root), dtype=np.bool_)

    @cached_property
    def _projected(self) -> Floats:
        return self.A.T @ self.Y

    @cached_property
    def _squared(self) -> Floats:
        return np.square(self.A)

    @cached_property
    def _u(self) -> Floats:
        subtracted = self.intercept and not self.dual
        return self.root / np.linalg.norm(self.root) if subtracted else np.zeros(len(self.root))

    def weights(self, penalty: float | Floats) -> Floats:
        """W (D, C) for p = n lam: one number, or one for each column of Y (C,).

        Where only the Gram matrix is known: coefficients (n, C) of the rows times `root`.
        """
        coordinates = self._projected / (self.eigenvalues[:, None] + penalty)
        if self.V is not None:
            return self.V @ coordinates
        return self.A @ coordinates if self.Z is None else self.Z.T @ (self.A @ coordinates)

    def held_out_errors(self, penalty: float, fold: NDArray[np.intp] | None = None) -> Floats:
        """e (n, C): target minus the prediction of the model that was fitted without that row, or that row's fold.

        Rows of no fold (-1) have their residual.
        """
        identity, f = self._factors(penalty)
        A, u = self.A, self._u
        errors = identity * self.Y + A @ (f[:, None] * self._projected)
        if fold is None:
            kept = identity + self._squared @ f - u * u
            return np.asarray(errors / (kept * self.root)[:, None])
        for rows in members(fold):
            block = (A[rows] * f) @ A[rows].T - np.outer(u[rows], u[rows])
            block[np.diag_indices_from(block)] += identity
            errors[rows] = np.linalg.solve(block, errors[rows])
        return np.asarray(errors / self.root[:, None])

    def residual_matrix(self, penalty: float) -> Floats:
        """R (n, n), for what leaves in more than one step."""
        identity, f = self._factors(penalty)
        half = self.A * np.sqrt(np.abs(f))
        R: Floats = half @ half.T  # one matrix with itself: half the work
        if not self.dual:
            np.negative(R, out=R)
        R -= np.outer(self._u, self._u)
        R[np.diag_indices_from(R)] += identity
        return R

    def _factors(self, penalty: float) -> tuple[float, Floats]:
        """The diagonal of N, and f."""
        if self.dual:
            f = penalty / (self.eigenvalues + penalty)
            f[0] = 0.0 if self.intercept else f[0]
            return 0.0, f
        return 1.0, -1.0 / (self.eigenvalues + penalty)

    def gradient(self, W: Floats, penalty: Floats) -> tuple[Floats, Floats]:
        """Z'(Z W - Y) + p W and Z'Y (D, C), or both in the directions V: zero, and what it is measured by."""
        if self.V is not None:  # a rank solves the equations in its own directions
            coordinates = self.V.T @ W
            return self.A.T @ (self.A @ coordinates - self.Y) + penalty * coordinates, self._projected
        if self.Z is None:
            raise InvalidArgument("a spectrum of a Gram matrix has no rows to make a gradient of")
        return self.Z.T @ (self.Z @ W - self.Y) + penalty * W, self.Z.T @ self.Y

    def condition(self, penalty: float | Floats) -> float:
        """Condition number of the penalised Gram matrix."""
        smallest = float(np.min(penalty))
        return (float(self.eigenvalues[-1]) + smallest) / (float(self.eigenvalues[0]) + smallest)


RANK_FLOOR = 1e-12
"""Directions of a Gram matrix whose eigenvalue is a smaller part of the largest are rounding."""


def leading_directions(Z: Floats, rank: int, rng: np.random.Generator) -> Floats:
    """An orthonormal basis (D, min(rank, n, D)) that nearly spans the leading right singular vectors of Z (n, D)."""
    n, d = Z.shape
    rank = min(rank, n, d)
    Q = np.linalg.qr(Z.T @ rng.standard_normal((n, min(rank + OVERSAMPLING, n, d))))[0]
    for _ in range(POWER_ITERATIONS):
        Q = np.linalg.qr(Z.T @ np.linalg.qr(Z @ Q)[0])[0]
    within = Z @ Q
    _, S = np.linalg.eigh(within.T @ within)
    return np.asarray(Q @ S[:, ::-1][:, :rank])


def diagonal(F: Floats, basis: Floats) -> tuple[Floats, Floats, Floats]:
    """Features F = Z basis (n, k) turned so that their columns are orthogonal: eigenvalues (k,), F S, basis S."""
    eigenvalues, S = np.linalg.eigh(F.T @ F)
    return eigenvalues.clip(min=0.0), F @ S, basis @ S


def mean_square_of(total: float, n: int) -> float:
    """total / n, or 1 where it is zero."""
    return total / n or 1.0


def ones(root: Floats | None, rows: Floats) -> Floats:
    """Roots of weights, all 1 where none are given."""
    return np.ones(len(rows)) if root is None else root
