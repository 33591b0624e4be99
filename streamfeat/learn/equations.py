"""The normal equations of many rows: one Gram matrix, and a triangle of it for each penalty that is tried.

What `Spectrum` reads off one decomposition is solved here anew for each penalty p, because a decomposition of a large
matrix runs at the speed of memory and a Cholesky factor at that of matrix products. With the notation of `spectrum`,

    primal (D < n):  M = Z'Z + p I = L L',               W = M^-1 Z'Y,     R_BB = I - Q'Q - [intercept] u_B u_B',
                     Q = L^-1 Z_B',                                        e_B  = R_BB^-1 (Y - Z W)_B
    dual:            M = ZZ' + c u u' + p I = L L',      a = M^-1 Y,       R_BB = p (Q'Q - u_B u_B' / (c + p)),
                     Q = L^-1 I_B,               W = Z'a,                  e_B  = R_BB^-1 p a_B

(c lifts u, of eigenvalue 0, over all others, so that taking it out again leaves no rounding in small R). Rows come as
blocks of float64 from whatever they are; of them all only their own type is held. One row left out is tried on all
rows, or in the primal on `N_SCORED` of them, drawn evenly with the seed; a group or a part left out is tried whole.

Cost in products: n D min(n, D) / 2 for the Gram matrix, then with r = min(n, D) for each penalty r^3 / 6, and to score
s single rows s r^2 in the primal; in the dual r^3 / 6 scores them all.
Memory beside the rows: 16 r^2 bytes and a few blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.folds import members
from streamfeat.learn.rows import Rows
from streamfeat.learn.scaling import BLOCK_BYTES
from streamfeat.learn.spectrum import mean_square_of

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]

LARGE_SIDE = 3000
"""Over so many rows and columns a spectrum takes a minute or more, ten times its Gram matrix."""

LARGE_SIZE = 2**26
"""Numbers in the rows: over that, a spectrum would hold gigabytes of float64."""

N_SCORED = 6000
"""Rows whose leaving is tried: accuracies near 0.99 are then known to 0.0013, and between penalties, paired, better."""


@dataclass(frozen=True)
class Equations:
    """The equations of one training set: `weights` and `held_out_errors` for any penalty, as of a `Spectrum`.

    Attributes
    ----------
    rows : Rows
    Y : ndarray of float64 (n, C)
        Targets; centred if there is an intercept, times `root`.
    root : ndarray of float64 (n,)
        Square roots of the rows' weights.
    scored : ndarray of bool (n,)
        Rows whose leaving is tried.
    matrix : ndarray of float64 (r, r)
        Z'Z, or ZZ' + lift u u'.
    right : ndarray of float64 (r, C)
        Z'Y, or Y.
    lift : float
        0 in the primal and without an intercept.
    """

    rows: Rows
    Y: Floats
    root: Floats
    scored: NDArray[np.bool_]
    intercept: bool
    dual: bool
    mean_square: float
    matrix: Floats
    right: Floats
    lift: float

    @classmethod
    def of(cls, rows: Rows, Y: Floats, intercept: bool, *, sample: bool, rng: np.random.Generator) -> Equations:
        """Sum Z'Z or ZZ', whichever is smaller; with `sample` the primal scores `N_SCORED` single rows."""
        n, d = rows.shape
        root = np.ones(n) if rows.root is None else rows.root
        dual, lift = d >= n, 0.0
        scored = scored_rows(n, sample and not dual, rng)
        matrix = rows.gram() if dual else rows.scatter()
        scale = mean_square_of(float(np.trace(matrix)), n)
        if dual and intercept:
            lift = 2.0 * float(np.linalg.norm(matrix)) or 1.0
            u = root / np.linalg.norm(root)
            for row in range(n):
                matrix[row] += lift * u[row] * u
        right = Y if dual else rows.transposed_times(Y)
        return cls(rows, Y, root, scored, intercept, dual, scale, matrix, right, lift)

    @classmethod
    def of_sums(
        cls, rows: Rows, Y: Floats, intercept: bool, *, scored: NDArray[np.bool_], matrix: Floats, right: Floats
    ) -> Equations:
        """Those whose Z'Z and Z'Y are there: `rows` are only asked for what is scored."""
        n = rows.shape[0]
        root = np.ones(n) if rows.root is None else rows.root
        scale = mean_square_of(float(np.trace(matrix)), n)
        return cls(rows, Y, root, scored, intercept, False, scale, matrix, right, 0.0)

    @cached_property
    def eigenvalues(self) -> Floats:
        """Of Z'Z or ZZ', rising, not negative; slow, and only for a grid that asks."""
        found = np.linalg.eigvalsh(self.matrix).clip(min=0.0)
        return np.append(0.0, found[:-1]) if self.lift else found

    @cached_property
    def _u(self) -> Floats:
        return self.root / np.linalg.norm(self.root) if self.intercept else np.zeros(len(self.root))

    def weights(self, penalty: float | Floats) -> Floats:
        """W (D, C) for p = n lam: one number, or one for each column of Y (C,)."""
        penalties = np.broadcast_to(penalty, self.Y.shape[1:])
        solved = np.empty_like(self.right)
        for value in np.unique(penalties):
            columns = penalties == value
            solved[:, columns] = Triangle.of(self.matrix, float(value)).solve(self.right[:, columns])
        return self.rows.transposed_times(solved) if self.dual else solved

    def held_out_errors(self, penalty: float, fold: Numbers | None = None) -> Floats:
        """e (n, C): target minus the prediction of the model that was fitted without that row, or that row's fold.

        NaN in rows that are not scored; rows of no fold (-1) have their residual.
        """
        triangle = Triangle.of(self.matrix, penalty)
        solved = triangle.solve(self.right)
        if fold is None:
            errors = self._single_errors(triangle, solved, penalty)
        else:
            errors = solved if self.dual else self.Y - self.rows.times(solved)
            for rows in members(fold):
                Q = triangle.half(self._columns(rows))
                block, share = Q.T @ Q, np.outer(self._u[rows], self._u[rows])
                block = block - share / (self.lift + penalty) if self.dual else np.eye(len(rows)) - block - share
                errors[rows] = np.linalg.solve(block, errors[rows])
            errors[fold < 0] *= penalty if self.dual else 1.0
        errors /= self.root[:, None]
        return errors

    def _single_errors(self, triangle: Triangle, solved: Floats, penalty: float) -> Floats:
        """Of each scored row alone, times `root` (n, C); the triangle is lost."""
        share = np.square(self._u)
        if self.dual:
            kept = triangle.inverse_squares() - share / (self.lift + penalty)
            return solved / kept[:, None]
        errors = np.full_like(self.Y, np.nan)
        for rows in self._scored_blocks():
            B = self._columns(rows)
            residual = self.Y[rows] - B.T @ solved
            Q = triangle.half(B)
            errors[rows] = residual / (1.0 - np.einsum("rb,rb->b", Q, Q) - share[rows])[:, None]
        return errors

    def gradient(self, W: Floats, penalty: Floats) -> tuple[Floats, Floats]:
        """Z'(Z W - Y) + p W and Z'Y (D, C): zero, and what it is measured by."""
        if not self.dual:
            return self.matrix @ W + penalty * W - self.right, self.right
        right = self.rows.transposed_times(self.Y)
        return self.rows.transposed_times(self.rows.times(W)) + penalty * W - right, right

    def condition(self, penalty: float | Floats) -> float:
        """A bound of the condition number: the trace is never less than the largest eigenvalue."""
        return self.mean_square * len(self.root) / float(np.min(penalty)) + 1.0

    def _columns(self, rows: Numbers) -> Floats:
        """Z_B' or I_B (r, b)."""
        if not self.dual:
            return self.rows.take(rows).T
        units = np.zeros((len(rows), len(self.root)))
        units[np.arange(len(rows)), rows] = 1.0
        return units.T

    def _scored_blocks(self) -> Iterator[Numbers]:
        rows = np.flatnonzero(self.scored)
        step = max(1, BLOCK_BYTES // (8 * len(self.matrix)))
        for start in range(0, len(rows), step):
            yield rows[start : start + step]


def scored_rows(n: int, sample: bool, rng: np.random.Generator) -> NDArray[np.bool_]:
    """All rows (n,), or with `sample` at most `N_SCORED` of them, drawn evenly."""
    scored = np.ones(n, dtype=np.bool_)
    if sample and n > N_SCORED:
        scored[rng.permutation(n)[N_SCORED:]] = False
    return scored


@dataclass(frozen=True)
class Triangle:
    """L (r, r) of a matrix with a penalty, matrix + p I = L L'; its upper half is not looked at."""

    L: Floats

    @classmethod
    def of(cls, matrix: Floats, penalty: float) -> Triangle:
        """The factor.

        Raises
        ------
        InvalidArgument
            The penalty is lost in the matrix's rounding.
        """
        from scipy.linalg.lapack import dpotrf  # half a second that only large fits need

        copy = np.array(matrix, order="F")
        copy[np.diag_indices_from(copy)] += penalty
        L, failed_at = dpotrf(copy, lower=1, clean=0, overwrite_a=1)
        if failed_at:
            raise InvalidArgument(
                f"lam is too small for these rows: their Gram matrix with {penalty:.3g} on its diagonal cannot be "
                "solved in float64; raise lam or the lower end of the grid"
            )
        return cls(L)

    def half(self, B: Floats) -> Floats:
        """L^-1 B (r, b); B is lost."""
        from scipy.linalg.blas import dtrsm

        return np.asarray(dtrsm(1.0, self.L, B, lower=1, overwrite_b=1))

    def inverse_squares(self) -> Floats:
        """The diagonal of (L L')^-1 (r,): squares of L^-1, column by column; L is lost."""
        from scipy.linalg.lapack import dtrtri

        inverse, _ = dtrtri(self.L, lower=1, overwrite_c=1)
        return np.array([column[k:] @ column[k:] for k, column in enumerate(inverse.T)])

    def solve(self, B: Floats) -> Floats:
        """(L L')^-1 B (r, C)."""
        from scipy.linalg.lapack import dpotrs

        return np.ascontiguousarray(dpotrs(self.L, B, lower=1)[0])
