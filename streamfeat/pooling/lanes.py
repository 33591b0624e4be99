"""Pooling of structured projections: one row a template, what belongs to an item side by side in lanes.

It pools as the kinds themselves do, in other sums: counts may differ where a projection lies within rounding of a
threshold, means in their last digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from streamfeat.kernels import Floats
from streamfeat.kernels.cdf import count_between, count_steps, cumulate
from streamfeat.kernels.fourier import add_cos_sin
from streamfeat.kernels.statistics import add_lanes, largest_lane
from streamfeat.pooling.cdf import Cdf
from streamfeat.pooling.fourier import Fourier
from streamfeat.pooling.material import Array
from streamfeat.pooling.statistics import Max, Mean


class LanePool(Protocol):
    """What is kept of a few items."""

    def add(self, item: int, Y: Floats, lanes: tuple[int, int], templates: slice) -> None:
        """Take in some of an item's projections, but for `gains`: lanes first and number, rows some templates."""
        ...

    def write(self, out: Array) -> None:
        """The features of the first n items into `out` (n, D), and begin anew."""
        ...


class CountLanes:
    """CDF counts: bins between thresholds at even steps, or compared one by one with each template's own."""

    def __init__(self, pooling: Cdf, gains: Floats, thresholds: Floats, n_items: int) -> None:
        n = thresholds.shape[1]
        self.bins = np.zeros((n_items, len(gains), n + 1), np.uint16)
        self.even, self.offset = pooling.thresholds != "quantile", (n - 1) / 2
        if self.even:
            width = float(thresholds[0, -1, 0] - thresholds[0, 0, 0]) / (n - 1) if n > 1 else 1.0
            self.gains = (gains / width).astype(np.float32)
        else:
            self.gains = gains
            self.thresholds = np.ascontiguousarray(thresholds.transpose(0, 2, 1)).reshape(-1, n)[: len(gains)]

    def add(self, item: int, Y: Floats, lanes: tuple[int, int], templates: slice) -> None:
        """Count them."""
        gains, bins = self.gains[templates], self.bins[item, templates]
        if self.even:
            count_steps(Y, lanes, gains, self.offset, bins)
        else:
            count_between(Y, lanes, gains, self.thresholds[templates], bins)

    def write(self, out: Array) -> None:
        """Counts at or below each threshold, template by template."""
        for bins, counts in zip(self.bins, out.reshape(len(out), self.bins.shape[1], -1), strict=False):
            cumulate(bins, counts)
        self.bins[:] = 0


class WaveLanes:
    """Mean cosine and sine."""

    def __init__(self, pooling: Fourier, gains: Floats, n_group: int, n_items: int) -> None:
        self.gains = gains if pooling.gain is None else (gains * pooling.gain).astype(np.float32)
        self.weight = 1 / (math.sqrt(len(gains)) * n_group)
        self.sums = np.zeros((n_items, 2, len(gains)))

    def add(self, item: int, Y: Floats, lanes: tuple[int, int], templates: slice) -> None:
        """Add their cosines and sines."""
        sums = np.zeros((2, templates.stop - templates.start))
        add_cos_sin(Y, lanes, self.gains[templates], sums)
        self.sums[item, :, templates] += sums

    def write(self, out: Array) -> None:
        """m means of cos, then as many of sin, over sqrt(m)."""
        out[:] = self.sums[: len(out)].reshape(len(out), -1) * self.weight
        self.sums[:] = 0


class MeanLanes:
    """Mean projection."""

    def __init__(self, gains: Floats, n_group: int, n_items: int) -> None:
        self.weights, self.sums = gains.astype(np.float64) / n_group, np.zeros((n_items, len(gains)))

    def add(self, item: int, Y: Floats, lanes: tuple[int, int], templates: slice) -> None:
        """Add them."""
        add_lanes(Y, lanes, self.sums[item, templates])

    def write(self, out: Array) -> None:
        """Column t is the mean of template t."""
        out[:] = self.sums[: len(out)] * self.weights
        self.sums[:] = 0


class LargestLanes:
    """Largest projection; gains are above 0 and do not change which it is."""

    def __init__(self, gains: Floats, n_items: int) -> None:
        self.gains, self.found = gains, np.full((n_items, len(gains)), -np.inf, np.float32)

    def add(self, item: int, Y: Floats, lanes: tuple[int, int], templates: slice) -> None:
        """Look for larger ones."""
        largest_lane(Y, lanes, self.found[item, templates])

    def write(self, out: Array) -> None:
        """Column t is the largest of template t."""
        out[:] = self.found[: len(out)] * self.gains
        self.found[:] = -np.inf


def along_lanes(pooling: object, arrays: Mapping[str, Array], n_group: int, n_items: int) -> LanePool | None:
    """What pools the projections of up to n items that lie in lanes, as `pooling` does.

    None: nothing here does. Cells, other kernels than the linear one, moments, quantiles and Nystrom features pool
    blocks of templates.

    Parameters
    ----------
    arrays : mapping
        The bank's: `gains` (m,), above 0, and `thresholds`.
    """
    gains = arrays["gains"]
    if isinstance(pooling, Cdf) and pooling.cells == "whole":
        return CountLanes(pooling, gains, arrays["thresholds"], n_items)
    if isinstance(pooling, Fourier) and pooling.cells == "whole":
        return WaveLanes(pooling, gains, n_group, n_items)
    if isinstance(pooling, Mean) and pooling.kernel.kind == "linear":
        return MeanLanes(gains, n_group, n_items)
    if isinstance(pooling, Max) and pooling.kernel.kind == "linear" and pooling.cells == "whole":
        return LargestLanes(gains, n_items)
    return None
