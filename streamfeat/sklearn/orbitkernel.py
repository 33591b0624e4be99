"""Kernel features against orbits as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from streamfeat.learn import orbitkernel
from streamfeat.learn.orbitkernel import Kernel, Pooling
from streamfeat.sklearn.orbits import OfOrbits


class OrbitKernel(OfOrbits):
    """`streamfeat.learn.orbitkernel.OrbitKernel` for scikit-learn: l(x) of MMIF, without its SVMs.

    Parameters
    ----------
    pooling, kernel, sigma, n_thresholds
        As there.

    Attributes
    ----------
    orbit_kernel_ : streamfeat.learn.orbitkernel.OrbitKernel
    n_features_in_ : int
    """

    def __init__(
        self, pooling: Pooling = "max", *, kernel: Kernel = "linear", sigma: float | None = None, n_thresholds: int = 10
    ) -> None:
        self.pooling, self.kernel, self.sigma, self.n_thresholds = pooling, kernel, sigma, n_thresholds

    def fit(self, X: ArrayLike, y: ArrayLike) -> OrbitKernel:
        """Take the orbits: rows X (n, D), and in y which of them show one thing."""
        rows, orbits = self._orbits(X, y)
        self.orbit_kernel_ = orbitkernel.OrbitKernel(**self.get_params()).fit(rows, orbits)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """l(x) (n, m), or (n, m n_thresholds) of "cdf"; float32 of float32 rows, else float64."""
        return self._transformed("orbit_kernel_", X)

    @property
    def _n_features_out(self) -> int:
        return self.orbit_kernel_.n_features
