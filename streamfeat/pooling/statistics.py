"""Statistics of k(x, gt) over the group: mean, largest, first moments, quantiles.

With a linear kernel and all of a compact group the mean sees the invariant part of x alone (of cyclic shifts: the mean
of its numbers); use another kernel or another statistic there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.kernels import LANES
from streamfeat.kernels.statistics import cell_largest, largest, order_statistics, power_means
from streamfeat.pooling.cells import Cells, Where, n_cells, weights_of
from streamfeat.pooling.kernel import BaseKernel
from streamfeat.pooling.material import Array, Material, Pass, Size, lanes_of


@dataclass(frozen=True)
class Mean:
    """mean_g k(x, g t) of each template: the group-invariant kernel at the templates."""

    kind: ClassVar[str] = "mean"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    kernel: BaseKernel
    cells: Literal["whole"] = "whole"

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return m

    def build(self, material: Material) -> dict[str, Array]:
        """What the kernel needs."""
        return self.kernel.build(material)

    def pool(self, some: Pass, out: Array) -> None:
        """Column t is the mean of template t."""
        pool_powers(self.kernel, some, out.reshape(len(out), -1, 1))

    def weight(self, size: Size) -> float:
        """Phi = feature / sqrt(m): E <Phi(x), Phi(z)> = E_t mean_g k(x, gt) mean_g' k(z, g't)."""
        return 1 / math.sqrt(size.m)


@dataclass(frozen=True)
class Moments:
    """mean_g k(x, g t)^j for j = 1..n of each template."""

    kind: ClassVar[str] = "moments"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    kernel: BaseKernel
    n: int
    cells: Literal["whole"] = "whole"

    def __post_init__(self) -> None:
        check_number("n", self.n, 16)

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return m * self.n

    def build(self, material: Material) -> dict[str, Array]:
        """What the kernel needs."""
        return self.kernel.build(material)

    def pool(self, some: Pass, out: Array) -> None:
        """Column t n + j - 1 is moment j of template t, about zero."""
        pool_powers(self.kernel, some, out.reshape(len(out), -1, self.n))

    def weight(self, size: Size) -> float:
        """Phi = feature / sqrt(m): E <Phi(x), Phi(z)> = E_t sum_j mean_g k(x, gt)^j mean_g' k(z, g't)^j."""
        return 1 / math.sqrt(size.m)


@dataclass(frozen=True)
class Max:
    """max_g k(x, g t) of each template: max pooling (Pal et al. 2017).

    In cells: of w k(x, g t), w the position's weight in the cell as a part of the largest one there.
    """

    kind: ClassVar[str] = "max"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    kernel: BaseKernel
    cells: Where = "whole"

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return m * n_cells(self.cells)

    def build(self, material: Material) -> dict[str, Array]:
        """What the kernel needs, and the weights of the cells, if there are some."""
        cells = self.cells.build(material.size) if isinstance(self.cells, Cells) else {}
        of_largest = {name: weights / weights.max(axis=1, keepdims=True) for name, weights in cells.items()}
        return {**self.kernel.build(material), **of_largest}

    def pool(self, some: Pass, out: Array) -> None:
        """Column t is the largest value of template t; in cells, cell by cell."""
        values = out.reshape(len(out), n_cells(self.cells), -1)
        for block, P in some.projected:
            t = lanes_of(block)
            for i in range(len(P)):
                self.kernel.values(some, i, block, P[i])
                if isinstance(self.cells, Cells):
                    cell_largest(P[i], weights_of(some.arrays), values[i, :, t])
                else:
                    largest(P[i], values[i, 0, t])

    def weight(self, size: Size) -> float:
        """Phi = feature / sqrt(m): E <Phi(x), Phi(z)> = E_t max_g k(x, gt) max_g' k(z, g't); in cells, their mean."""
        return 1 / math.sqrt(size.m * n_cells(self.cells))


@dataclass(frozen=True)
class Quantiles:
    """n quantiles of k(x, g t) over g, from the smallest value to the largest; n = 1 is the median.

    Between two values they are linear, as numpy's default.
    """

    kind: ClassVar[str] = "quantiles"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    kernel: BaseKernel
    n: int
    cells: Literal["whole"] = "whole"

    def __post_init__(self) -> None:
        check_number("n", self.n, 10_000)

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return m * self.n

    def build(self, material: Material) -> dict[str, Array]:
        """What the kernel needs."""
        return self.kernel.build(material)

    def pool(self, some: Pass, out: Array) -> None:
        """Column t n + j is quantile j / (n - 1) of template t."""
        quantiles = out.reshape(len(out), -1, self.n)
        levels = np.linspace(0, 1, self.n) if self.n > 1 else np.array([0.5])
        for block, P in some.projected:
            places = levels * (P.shape[1] - 1)
            ranks = np.floor(places).astype(np.int64)
            shares = (places - ranks).astype(np.float32)
            for i in range(len(P)):
                self.kernel.values(some, i, block, P[i])
                order_statistics(ranks, shares, P[i], quantiles[i, lanes_of(block)])

    def weight(self, size: Size) -> float:
        """Phi = feature / sqrt(m n): E <Phi(x), Phi(z)> = E_t mean_j q_j(x, t) q_j(z, t).

        As n grows the distance becomes the 2-Wasserstein distance of the values of x and z over the group, squared and
        averaged over templates: (1/n) sum_j (q_j(x, t) - q_j(z, t))^2 -> W_2^2.
        """
        return 1 / math.sqrt(size.m * self.n)


def pool_powers(kernel: BaseKernel, some: Pass, out: Array) -> None:
    """Means of the first k powers of kernel values, into (n, m, k) of any float."""
    means = np.empty((LANES, out.shape[2]), np.float64)
    for block, P in some.projected:
        for i in range(len(P)):
            kernel.values(some, i, block, P[i])
            power_means(P[i], means)
            rows = out[i, lanes_of(block)]
            rows[:] = means[: len(rows)]


def check_number(name: str, n: int, most: int) -> None:
    """Raise `ConfigError` unless n is from 1 to `most`."""
    if not 1 <= n <= most:
        raise ConfigError(f"{name} must be from 1 to {most}, got {n!r}")
