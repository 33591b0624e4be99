"""CDF pooling: how many of a template's projections lie at or below each threshold."""

from __future__ import annotations

import numpy as np
from numba import float32, types, uint16
from numpy.typing import NDArray

from streamfeat.kernels import LANES, Floats, frozen, kernel


@kernel(types.void(frozen(float32, 2), frozen(float32, 2), uint16[:, ::1]))
def count_below(P: Floats, thresholds: Floats, out: NDArray[np.uint16]) -> None:
    """out[t, k] = #{g : P[g, t] <= thresholds[k, t]}, compared in float32, ties included.

    Comparing with every threshold beats a search for the right bin: it needs no branches, no order of the
    thresholds, and eight compares are added for each touch of a counter.

    Parameters
    ----------
    P : (G, LANES) float32, G <= 65535
    thresholds : (n_thresholds, LANES) float32
    out : (n, n_thresholds) uint16, n <= LANES templates
    """
    G = P.shape[0]
    counts = np.empty(LANES, np.int32)
    for k in range(thresholds.shape[0]):
        counts[:] = 0
        for g in range(0, G - 7, 8):
            for t in range(LANES):
                tau = thresholds[k, t]
                counts[t] += (
                    np.int32(P[g, t] <= tau)
                    + np.int32(P[g + 1, t] <= tau)
                    + np.int32(P[g + 2, t] <= tau)
                    + np.int32(P[g + 3, t] <= tau)
                    + np.int32(P[g + 4, t] <= tau)
                    + np.int32(P[g + 5, t] <= tau)
                    + np.int32(P[g + 6, t] <= tau)
                    + np.int32(P[g + 7, t] <= tau)
                )
        for g in range(G - G % 8, G):
            for t in range(LANES):
                counts[t] += np.int32(P[g, t] <= thresholds[k, t])
        for t in range(out.shape[0]):
            out[t, k] = counts[t]
