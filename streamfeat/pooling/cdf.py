"""CDF pooling (Mroueh, Voinea, Poggio 2015): how many projections of an orbit lie at or below each threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.kernels import LANES, Floats, blocks_of, padded
from streamfeat.kernels.cdf import count_below
from streamfeat.pooling.cells import Cells, Where, members, n_cells, weights_of
from streamfeat.pooling.material import Array, Material, Pass, Size, lanes_of

SIGMA_REACH = 3.0
"""`sigma` thresholds span this many standard deviations, 1/sqrt(d), on both sides, unless the spec says."""

QUANTILE_ROWS = 50_000
"""Projections a template that quantiles are taken of (50 MB at m = 256); beyond it, signals are drawn at random."""


@dataclass(frozen=True)
class Cdf:
    """psi^(x, t, tau_k) |G| = #{g : <x, gt> <= tau_k}, m rows of thresholds, as counts.

    thresholds = "paper": tau_k = s k / n for k = -n..n, s = 1 + epsilon; "sigma": n evenly over +-reach / sqrt(d);
    "quantile": levels k / (n + 1) of the projections of the bank's signals, template by template.

    Cells are hard, with overlap = 0: counts of soft cells would not be whole numbers.
    """

    kind: ClassVar[str] = "cdf"
    dtype: ClassVar[str] = "<u2"
    takes: ClassVar[str] = "vectors"

    thresholds: Literal["paper", "sigma", "quantile"]
    n_bins: int
    reach: float | None = None
    cells: Where = "whole"

    def __post_init__(self) -> None:
        if isinstance(self.cells, Cells) and self.cells.overlap != 0:
            raise ConfigError(f"CDF counts take cells with overlap = 0, got overlap = {self.cells.overlap!r}")
        if not 1 <= self.n_bins <= 10_000:
            raise ConfigError(f"n_bins must be from 1 to 10000, got {self.n_bins!r}")
        if self.thresholds == "sigma":
            object.__setattr__(self, "reach", SIGMA_REACH if self.reach is None else self.reach)
            if not 0 < (self.reach or 0) <= 100:
                raise ConfigError(f"reach must be above 0 and at most 100, got {self.reach!r}")
        elif self.reach is not None:
            raise ConfigError(f"reach is for thresholds = 'sigma'; leave it out, got {self.reach!r}")

    @property
    def n_thresholds(self) -> int:
        """Columns a template."""
        return 2 * self.n_bins + 1 if self.thresholds == "paper" else self.n_bins

    @property
    def needs_signals(self) -> bool:
        """Quantiles are of signals."""
        return self.thresholds == "quantile"

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return n_cells(self.cells) * m * self.n_thresholds

    def build(self, material: Material) -> dict[str, Array]:
        """`thresholds` (n_blocks, n_thresholds, LANES), rising, and the weights of the cells, if there are some."""
        cells = self.cells.build(material.size) if isinstance(self.cells, Cells) else {}
        return {"thresholds": self._thresholds(material), **cells}

    def _thresholds(self, material: Material) -> Floats:
        size, n = material.size, self.n_bins
        if self.thresholds == "quantile":
            return _quantiles(material, n)
        if self.thresholds == "paper":
            tau = (1 + size.epsilon) * np.arange(-n, n + 1) / n
        else:
            reach = (self.reach or math.nan) / math.sqrt(size.d)
            tau = np.linspace(-reach, reach, n) if n > 1 else np.zeros(1)
        return blocks_of(np.broadcast_to(tau, (size.m, len(tau))))

    def pool(self, some: Pass, out: Array) -> None:
        """Column t n_thresholds + k counts the g with <x, gt> <= threshold k of template t; in cells, cell by cell."""
        thresholds = some.arrays["thresholds"]
        counts = out.reshape(len(out), n_cells(self.cells), -1, thresholds.shape[1])
        for block, P in some.projected:
            for i in range(len(P)):
                parts = members(weights_of(some.arrays), P[i]) if isinstance(self.cells, Cells) else [P[i]]
                for cell, projected in enumerate(parts):
                    count_below(projected, thresholds[block], counts[i, cell, lanes_of(block)])

    def weight(self, size: Size) -> float:
        """Phi = sqrt(w / m) counts / |G|, w the width of a bin; in n cells sqrt(n) times that, their mean size |G| / n.

        For `paper` thresholds w = s / n and E <Phi(x), Phi(z)> -> K_s(x, z) = E_t integral psi(x, t, tau)
        psi(z, t, tau) dtau over [-s, s] as n grows (Mroueh, Voinea, Poggio 2015, section 3); `sigma`: the same
        integral over +-reach / sqrt(d); `quantile`, w = 1 / n: over the distribution of projections.
        """
        if self.thresholds == "paper":
            width = (1 + size.epsilon) / self.n_bins
        elif self.thresholds == "sigma":
            width = 2 * (self.reach or 0.0) / math.sqrt(size.d) / max(1, self.n_bins - 1)
        else:
            width = 1 / self.n_bins
        return math.sqrt(width / size.m * n_cells(self.cells)) / size.n_group


def _quantiles(material: Material, n: int) -> Floats:
    """Quantiles k / (n + 1), k = 1..n, of the projections of signals moved by every group element."""
    seen, (m, G) = material.vectors, (material.size.m, material.size.n_group)
    seen = seen[seen.any(axis=1)]
    if len(seen) == 0:
        raise ConfigError("quantile thresholds need at least one signal that is not blank, got none")
    most = max(1, QUANTILE_ROWS // G)
    if len(seen) > most:
        seen = seen[material.rng.choice(len(seen), most, replace=False)]
    P = np.empty((len(seen), G, padded(m, LANES) // LANES, LANES), np.float32)
    for items, block, projected in material.project(seen):
        P[items, :, block] = projected
    levels = np.arange(1, n + 1) / (n + 1)
    blocks = np.zeros((P.shape[2], n, LANES), np.float32)
    for block in range(len(blocks)):
        blocks[block] = np.quantile(P[:, :, block].reshape(-1, LANES), levels, axis=0)
    return blocks
