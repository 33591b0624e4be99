"""What happens to feature rows before a learner: centred, scaled, set to unit length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]
Standardise = Literal["none", "centre", "z-score"]

BLOCK_BYTES = 2**26
"""Of float64: large enough for matrix products at full speed, small beside any Gram matrix worth a block."""

CONSTANT_BELOW = 1e-10
"""A column whose deviation is less than this part of its mean is constant: what varies is rounding."""


@dataclass(frozen=True)
class Scaling:
    """z = (x - mean) * scale, then z / |z| if `unit_norm`.

    Attributes
    ----------
    mean, scale : ndarray of float64 (D,)
    unit_norm : bool
        Rows of zeros stay zeros.
    """

    mean: Floats
    scale: Floats
    unit_norm: bool = False

    @classmethod
    def of_moments(cls, mean: Floats, variance: Floats, standardise: Standardise, unit_norm: bool = False) -> Scaling:
        """The scaling that column means and variances ask for.

        A column that does not vary gets scale 0 under "z-score": it leaves, rather than bring rounding at full size.
        """
        scale = np.ones_like(mean)
        if standardise == "z-score":
            deviation = np.sqrt(variance)
            varies = deviation > CONSTANT_BELOW * np.abs(mean)
            scale = np.divide(1.0, deviation, out=np.zeros_like(mean), where=varies)
        return cls(np.zeros_like(mean) if standardise == "none" else mean, scale, unit_norm)

    @classmethod
    def of_rows(
        cls, X: NDArray[Any], standardise: Standardise, unit_norm: bool = False, weight: Floats | None = None
    ) -> Scaling:
        """The scaling of training rows X (n, D), which may weigh `weight` (n,), of mean 1."""
        mean = np.zeros(X.shape[1])
        for part in parts(*X.shape):
            mean += X[part].sum(axis=0, dtype=np.float64) if weight is None else weight[part] @ X[part]
        mean /= len(X)
        variance = np.zeros_like(mean)
        for part in parts(*X.shape) if standardise == "z-score" else ():
            offsets = X[part].astype(np.float64)
            offsets -= mean
            if weight is not None:
                offsets *= np.sqrt(weight[part])[:, None]
            variance += np.einsum("ij,ij->j", offsets, offsets)
        variance /= len(X)
        return cls.of_moments(mean, variance, standardise, unit_norm)

    def apply(self, X: NDArray[Any]) -> Floats:
        """Rows X (n, D) of any number type, scaled, as a new float64 array."""
        Z = X.astype(np.float64)
        Z -= self.mean
        Z *= self.scale
        if self.unit_norm:
            # row by row: the sum of squares of a row must not depend on how many rows came with it
            norms = np.array([np.sqrt(z @ z) for z in Z])
            Z /= np.where(norms > 0, norms, 1.0)[:, None]
        return Z


def check_standardise(standardise: str) -> Standardise:
    """One of "none", "centre", "z-score"."""
    for known in get_args(Standardise):
        if standardise == known:
            return known  # type: ignore[no-any-return]
    raise InvalidArgument(f"standardise must be one of {', '.join(get_args(Standardise))}, got {standardise!r}")


def parts(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, each `BLOCK_BYTES` as float64 or one row."""
    step = max(1, BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
