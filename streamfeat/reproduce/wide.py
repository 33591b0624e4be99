"""RLS of wide features that come in blocks: one Gram matrix, which is its own Cholesky factor for each lambda tried.

For D numbers there are 8 D^2 bytes, 7.2 GB at D = 30,000, and no second such array: sums are kept in the upper triangle
and on a diagonal of their own, factors are written to the lower one. Rows are never all there. n D^2 operations for the
sums, D^3 / 3 for each lambda: at D = 30,000, 50,000 rows and the 50 GFLOP/s of one core a quarter of an hour, and three
minutes; an hour in all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.lambdas import MANY_ROWS_GRID

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Codes = NDArray[np.intp]

TILE = 1024
"""Rows and columns that are mirrored at a time."""


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
        from scipy.linalg.blas import dsyrk

        wide = Z.astype(np.float64)
        dsyrk(1.0, wide.T, beta=1.0, c=self.gram, overwrite_c=1)
        Y = np.full((len(Z), self.n_classes), -1.0)
        Y[np.arange(len(Z)), codes] = 1.0
        self.right += wide.T @ Y
        self.n += len(Z)

    def weights(self, lam: float) -> Floats | None:
        """(Z'Z + n lam I)^-1 Z'Y, (D, C); None where that cannot be solved in float64."""
        from scipy.linalg.lapack import dpotrf, dpotrs

        self._mirror()
        diagonal = np.einsum("ii->i", self.gram)
        sums = diagonal.copy()
        diagonal += self.n * lam
        L, failed_at = dpotrf(self.gram, lower=1, clean=0, overwrite_a=1)
        W = None if failed_at else np.ascontiguousarray(dpotrs(L, self.right, lower=1)[0])
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
        tried = []
        for part in MANY_ROWS_GRID:
            W = self.weights(part * size)
            if W is not None:
                tried.append((float(np.mean(answers(Z, W) == codes)), float(part * size)))
        accuracy, lam = max(tried)
        return lam, accuracy

    def _mirror(self) -> None:
        """The lower triangle as the upper one, without the diagonal."""
        for first in range(0, self.n_features, TILE):
            some = slice(first, first + TILE)
            self.gram[some, :first] = self.gram[:first, some].T
            tile = self.gram[some, some]
            below = np.tril_indices(len(tile), -1)
            tile[below] = tile.T[below]


def answers(Z: Rows, W: Floats) -> Codes:
    """The class of highest score for each row, (b, D) -> (b,)."""
    return np.asarray((Z.astype(np.float64) @ W).argmax(axis=1))
