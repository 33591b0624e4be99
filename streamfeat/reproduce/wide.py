"""RLS of wide features that come in blocks: one Gram matrix, which is its own Cholesky factor for each lambda tried.

For D numbers there are 8 D^2 bytes, 7.2 GB at D = 30,000, and no second such array: sums are kept in the upper triangle
and on a diagonal of their own, factors are written to the lower one. Rows are never all there. All is done by tiles: of
whole matrices of more than some 20,000 numbers a side OpenBLAS (0.3.30, two threads) ends the process in dsyrk and in
dpotrf. n D^2 operations for the sums, D^3 / 3 for each lambda: at D = 30,000, 50,000 rows and the 50 GFLOP/s of one
core a quarter of an hour, and three minutes. So of the grid of lambdas every fourth is tried, then those between the
best of them and its neighbours, by halves: as good as the whole grid where accuracy rises to one summit, and half its
factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.lambdas import MANY_ROWS_GRID

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Codes = NDArray[np.intp]

STEP = 4
"""Of the grid of lambdas, at first."""
TILE = 1024
"""Rows and columns of a tile."""


@dataclass
class WideRLS:
    """Sums over labelled rows z: Z'Z and Z'Y, Y being +1 in the column of the class and -1 elsewhere; no intercept.

    Parameters
    ----------
    n_features, n_classes : int
    """

    n_features: int
    n_classes: int
    n: int = 0
    gram: Floats = field(init=False, repr=False)
    right: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.gram = np.zeros((self.n_features, self.n_features), order="F")
        self.right = np.zeros((self.n_features, self.n_classes))

    def take(self, Z: Rows, codes: Codes) -> None:
        """Add rows (b, D) and the numbers of their classes (b,)."""
        wide = Z.astype(np.float64)
        for first in range(0, self.n_features, TILE):
            end = first + TILE
            self.gram[:end, first:end] += (wide[:, first:end].T @ wide[:, :end]).T
        Y = np.full((len(Z), self.n_classes), -1.0)
        Y[np.arange(len(Z)), codes] = 1.0
        self.right += wide.T @ Y
        self.n += len(Z)

    def weights(self, lam: float) -> Floats | None:
        """(Z'Z + n lam I)^-1 Z'Y, (D, C); None where that cannot be solved in float64."""
        from scipy.linalg.lapack import dpotrs

        self._mirror()
        diagonal = np.einsum("ii->i", self.gram)
        sums = diagonal.copy()
        diagonal += self.n * lam
        W = np.ascontiguousarray(dpotrs(self.gram, self.right, lower=1)[0]) if self._factor() else None
        diagonal[:] = sums
        return W

    def choose(self, Z: Rows, codes: Codes) -> tuple[float, float]:
        """The lambda that answers rows that were not taken best, the larger of equals, and how many of them it does.

        Raises
        ------
        InvalidArgument
            No rows were taken.
        """
        size = float(np.trace(self.gram)) / max(self.n, 1)
        if size <= 0:
            raise InvalidArgument("lambda is chosen by what was learned of other rows; take some that are not zero")

        def accuracy_at(k: int) -> float:
            W = self.weights(float(MANY_ROWS_GRID[k]) * size)
            return -np.inf if W is None else float(np.mean(answers(Z, W) == codes))

        best, accuracy = summit(accuracy_at, len(MANY_ROWS_GRID))
        return float(MANY_ROWS_GRID[best]) * size, accuracy

    def _factor(self) -> bool:
        """The lower triangle, with the diagonal, as its own Cholesky factor; whether there is one."""
        from scipy.linalg.blas import dtrsm
        from scipy.linalg.lapack import dpotrf

        A = self.gram
        for first in range(0, self.n_features, TILE):
            some, below = slice(first, first + TILE), slice(first + TILE, None)
            known = (A[some, :first] @ A[first:, :first].T).T
            tile = A[some, some]
            L, failed_at = dpotrf(tile - known[: len(tile)], lower=1, clean=1)
            if failed_at:
                return False
            tile[:] = np.triu(tile, 1) + L
            rest = np.subtract(A[below, some], known[len(tile) :], order="F")
            A[below, some] = dtrsm(1.0, L, rest, side=1, lower=1, trans_a=1, overwrite_b=1)
        return True

    def _mirror(self) -> None:
        """The lower triangle as the upper one, without the diagonal."""
        for first in range(0, self.n_features, TILE):
            some = slice(first, first + TILE)
            self.gram[some, :first] = self.gram[:first, some].T
            tile = self.gram[some, some]
            below = np.tril_indices(len(tile), -1)
            tile[below] = tile.T[below]


def summit(value: Callable[[int], float], n: int) -> tuple[int, float]:
    """The place of the largest of values at 0 .. n - 1 which rise to it and then fall, and that value.

    Every fourth is asked, then from the best of those on its neighbours at half the distance, and at half of that; of
    equal ones the later is taken.
    """
    known: dict[int, float] = {}
    step, places = STEP, [*range((n - 1) // 2 % STEP, n, STEP)]
    while True:
        known |= {k: value(k) for k in places if 0 <= k < n and k not in known}
        best = max(known, key=lambda k: (known[k], k))
        if step == 1:
            return best, known[best]
        step //= 2
        places = [best - step, best + step]


def answers(Z: Rows, W: Floats) -> Codes:
    """The class of highest score for each row, (b, D) -> (b,)."""
    return np.asarray((Z.astype(np.float64) @ W).argmax(axis=1))
