"""Fourier pooling (Raj et al. 2017): mean cosine and sine of the projections of an orbit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from streamfeat.errors import ConfigError
from streamfeat.kernels.fourier import cell_cos_sin, mean_cos_sin
from streamfeat.pooling.cells import Cells, Where, n_cells, weights_of
from streamfeat.pooling.material import Array, Material, Pass, Size, lanes_of


@dataclass(frozen=True)
class Fourier:
    """psi_RF(x) = 1/sqrt(m) [mean_g cos <x, g w_k>, mean_g sin <x, g w_k>] (Raj et al. 2017, eq. 7, real-stacked).

    sigma is the width of the kernel that the frequencies w are drawn for; user frequencies are taken as they are. With
    `gain` instead the w are `gain` times templates of any source of vectors. In cells the mean is weighted.
    """

    kind: ClassVar[str] = "fourier"
    dtype: ClassVar[str] = "<f4"
    needs_signals: ClassVar[bool] = False

    sigma: float | None = None
    gain: float | None = None
    cells: Where = "whole"

    def __post_init__(self) -> None:
        if (self.sigma is None) == (self.gain is None):
            raise ConfigError(f"needs sigma or gain, not both, got sigma = {self.sigma!r} and gain = {self.gain!r}")
        if self.sigma is not None and self.sigma <= 0:
            raise ConfigError(f"sigma must be above 0, got {self.sigma!r}")
        if self.gain is not None and not 0 < self.gain <= 1e3:
            raise ConfigError(f"gain must be above 0 and at most 1000, got {self.gain!r}")

    @property
    def takes(self) -> str:
        """Frequencies of a width, or vectors that `gain` makes frequencies of."""
        return "frequencies" if self.gain is None else "vectors"

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return 2 * m * n_cells(self.cells)

    def build(self, material: Material) -> dict[str, Array]:
        """The weights of the cells, if there are some."""
        return dict(self.cells.build(material.size)) if isinstance(self.cells, Cells) else {}

    def pool(self, some: Pass, out: Array) -> None:
        """Columns: m means of cos for each cell, then as many of sin, over sqrt(m n_cells)."""
        pairs = out.reshape(len(out), 2, n_cells(self.cells), -1)
        weight, gain = 1 / math.sqrt(pairs.shape[2] * pairs.shape[3]), 1.0 if self.gain is None else self.gain
        for block, P in some.projected:
            t = lanes_of(block)
            for i in range(len(P)):
                if isinstance(self.cells, Cells):
                    cell_cos_sin(P[i], gain, weight, weights_of(some.arrays), pairs[i, :, :, t])
                else:
                    mean_cos_sin(P[i], gain, weight, pairs[i, 0, 0, t], pairs[i, 1, 0, t])

    def weight(self, _size: Size) -> float:
        """Features are Phi already: E <Phi(x), Phi(z)> = mean over g, g' of k(gx, g'z) (Raj et al. 2017, eqs. 4, 6).

        In cells: the mean over cells of the same, g and g' positions drawn by the cell's weights.
        """
        return 1.0
