"""Scores of pairs into bins, and the places of those that are wanted."""

from __future__ import annotations

import numpy as np
from numba import float32, int32, int64, types, uint8
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel

BINS = 1 << 16
LOWEST = -1.001
WIDTH = 2.002 / BINS
"""Bin b holds scores from LOWEST + b WIDTH on; cosines a rounding outside [-1, 1] have a bin too."""

_OFFSET = np.float32(-LOWEST)
_PER_WIDTH = np.float32(1 / WIDTH)

Ints = NDArray[np.int64]


@kernel(types.void(frozen(float32, 2), frozen(int64, 2), frozen(uint8, 1), int64[:, ::1], int32[:, ::1]))
def bin_scores(scores: Floats, spans: Ints, wanted: NDArray[np.uint8], counts: Ints, found: NDArray[np.int32]) -> None:
    """Count scores by bin, and note where those in wanted bins are.

    Parameters
    ----------
    scores : (r, c) float32 within [-1.001, 1.001)
    spans : (r, 3) int64, in each row the columns from the first of these up to the second are genuine pairs, from there
        up to the third impostors; the others are no pairs
    wanted : (BINS,) uint8
    counts : (2, BINS) int64, added to: genuine, impostors
    found : (2, r c) int32, places i c + j of scores in wanted bins, and their bins; what lies behind
        those is of no meaning
    """
    n = 0
    for i in range(scores.shape[0]):
        for side in range(2):
            # of slices and with an unsigned bin no index is asked whether it counts from the end: half the time
            row, own = scores[i, spans[i, side] : spans[i, side + 1]], counts[side]
            place = i * scores.shape[1] + spans[i, side]
            # all bins of a row first, several at a time, where those that are found will overwrite them
            bins = found[1, n : n + len(row)]
            for j in range(len(row)):
                bins[j] = np.int32((row[j] + _OFFSET) * _PER_WIDTH)
            for j in range(len(row)):
                b = np.uint32(bins[j])
                own[b] += 1
                if wanted[b]:
                    found[0, n] = place + j
                    found[1, n] = b
                    n += 1
