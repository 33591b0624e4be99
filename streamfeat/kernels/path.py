"""How far a spectrogram has gone, and its values read at given times."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel

Doubles = NDArray[np.float64]


@kernel(types.void(frozen(float32, 2), int64, float64, float64, float64[::1]))
def path_length(x: Floats, reach: int, floor: float, power: float, out: Doubles) -> None:
    """out[k] = sum over j < k of |f(L_{j+1}) - f(L_j)|, f(v) = max(v / max x, floor)^power, in float64.

    L_k is the mean of the frames from k - r to k + r, r = `reach` or as many as there are on both sides.

    Parameters
    ----------
    x : (bands, frames) float32, its largest value above 0
    reach : int64
    floor, power : float64
    out : (frames,) float64
    """
    n_bands, n = x.shape
    largest = 0.0
    for b in range(n_bands):
        for k in range(n):
            largest = max(largest, np.float64(x[b, k]))
    out[:] = 0
    for b in range(n_bands):
        before = 0.0
        for k in range(n):
            r = min(reach, k, n - 1 - k)
            total = 0.0
            for j in range(k - r, k + r + 1):
                total += x[b, j]
            share = max(total / ((2 * r + 1) * largest), floor)
            if power != 1.0:
                share = share**power
            if k > 0:
                out[k] += (share - before) * (share - before)
            before = share
    for k in range(1, n):
        out[k] = out[k - 1] + np.sqrt(out[k])


@kernel(types.void(frozen(float32, 2), frozen(float64, 1), float32[:, ::1]))
def read_at(x: Floats, at: Doubles, out: Floats) -> None:
    """out[b, i] = x[b] at time at[i], between frames by linear interpolation in float32.

    Parameters
    ----------
    x : (bands, frames) float32
    at : (n,) float64
        In frames, 0 to the last one.
    out : (bands, n) float32
    """
    last = x.shape[1] - 1
    for i in range(at.shape[0]):
        left = min(np.int64(at[i]), max(last - 1, 0))
        right = min(left + 1, last)
        share = np.float32(at[i] - left)
        rest = np.float32(1) - share
        for b in range(x.shape[0]):
            out[b, i] = x[b, left] * rest + x[b, right] * share
