"""Fourier pooling (Raj et al. 2017): mean cosine and sine of the projections of an orbit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from streamfeat.errors import ConfigError
from streamfeat.kernels.fourier import mean_cos_sin
from streamfeat.pooling.material import Array, Material, Pass, Size, lanes_of


@dataclass(frozen=True)
class Fourier:
    """psi_RF(x) = 1/sqrt(m) [mean_g cos <x, g w_k>, mean_g sin <x, g w_k>] (Raj et al. 2017, eq. 7, real-stacked).

    sigma is the width of the kernel that the frequencies w are drawn for; user frequencies are taken as they are.
    """

    kind: ClassVar[str] = "fourier"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "frequencies"
    needs_signals: ClassVar[bool] = False

    sigma: float
    cells: Literal["whole"] = "whole"

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ConfigError(f"sigma must be above 0, got {self.sigma!r}")

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return 2 * m

    def build(self, _material: Material) -> dict[str, Array]:
        """Nothing beside the frequencies."""
        return {}

    def pool(self, some: Pass, out: Array) -> None:
        """Columns: m means of cos, then m of sin, over sqrt(m)."""
        pairs = out.reshape(len(out), 2, -1)
        weight = 1 / math.sqrt(pairs.shape[2])
        for block, P in some.projected:
            t = lanes_of(block)
            for i in range(len(P)):
                mean_cos_sin(P[i], weight, pairs[i, 0, t], pairs[i, 1, t])

    def weight(self, _size: Size) -> float:
        """Features are Phi already: E <Phi(x), Phi(z)> = mean over g, g' of k(gx, g'z) (Raj et al. 2017, eqs. 4, 6)."""
        return 1.0
