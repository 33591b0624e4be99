"""How far a spectrogram has gone, and its values read at given times."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel, pair

Doubles = NDArray[np.float64]


@kernel(types.void(frozen(float32, 2), float64, int64, pair(float64), float64[::1]))
def path_length(x: Floats, largest: float, reach: int, heard: tuple[float, float], out: Doubles) -> None:
    """out[k] = sum over j < k of |f(L_{j+1}) - f(L_j)|, f(v) = max(v / largest, floor)^power, in float64.

    L_k is the mean of the frames from k - r to k + r, r = `reach` or as many as there are on both sides. A band is gone
    through once for each step of the formula, so that its frames stay side by side.

    Parameters
    ----------
    x : (bands, frames) float32
    largest : float64
        The largest value of x, above 0.
    reach : int64
    heard : floor, power
    out : (frames,) float64
    """
    floor, power = heard
    n = x.shape[1]
    width = 2 * reach + 1
    share = np.empty(n, np.float64)
    out[:] = 0
    for b in range(x.shape[0]):
        row = x[b]
        share[:] = 0
        inner = share[reach : max(n - reach, reach)]  # those with `reach` frames on both sides
        for j in range(width):
            for k in range(inner.shape[0]):
                inner[k] += row[j + k]
        for k in range(n):
            r = min(reach, k, n - 1 - k)
            if r < reach:
                for j in range(k - r, k + r + 1):
                    share[k] += row[j]
                share[k] *= width / (2 * r + 1)
        for k in range(n):
            share[k] = max(share[k] / (width * largest), floor)
        if power != 1.0:
            for k in range(n):
                share[k] = share[k] ** power
        for k in range(1, n):
            step = share[k] - share[k - 1]
            out[k] += step * step
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
