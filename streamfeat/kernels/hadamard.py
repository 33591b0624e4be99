"""Projections on structured templates: three fast Walsh-Hadamard transforms of many vectors side by side.

Vectors lie in columns, lane by lane: Y[k, l] is coordinate k of vector l before the transforms and, but for a factor,
its projection on template k after them. So every step runs along a contiguous row, and a template's projections on all
vectors lie side by side for pooling.

A vector takes 3 p log2 p additions where the matrix product takes p^2 multiplications. Signs multiply exactly and every
lane goes through the same sums, so a vector's projections do not depend on the vectors beside it.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int64, types, uint32
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel, pair, part

SMALLEST = 64
"""The shortest transform: two radix-8 steps."""


@part
def _eights(Y: Floats, low: int, high: int, step: int) -> None:
    """Rows low to high: butterflies of eight rows, `step` apart, in place."""
    for base in range(low, high, 8 * step):
        for r in range(base, base + step):
            y0, y1, y2, y3 = Y[r], Y[r + step], Y[r + 2 * step], Y[r + 3 * step]
            y4, y5, y6, y7 = Y[r + 4 * step], Y[r + 5 * step], Y[r + 6 * step], Y[r + 7 * step]
            for l in range(Y.shape[1]):  # noqa: E741 - a lane
                a0, a1 = y0[l] + y1[l], y0[l] - y1[l]
                a2, a3 = y2[l] + y3[l], y2[l] - y3[l]
                a4, a5 = y4[l] + y5[l], y4[l] - y5[l]
                a6, a7 = y6[l] + y7[l], y6[l] - y7[l]
                b0, b1, b2, b3 = a0 + a2, a1 + a3, a0 - a2, a1 - a3
                b4, b5, b6, b7 = a4 + a6, a5 + a7, a4 - a6, a5 - a7
                y0[l], y1[l], y2[l], y3[l] = b0 + b4, b1 + b5, b2 + b6, b3 + b7
                y4[l], y5[l], y6[l], y7[l] = b0 - b4, b1 - b5, b2 - b6, b3 - b7


@part
def _signed_eights(Y: Floats, signs: Floats, low: int, high: int) -> None:
    """As `_eights` with neighbouring rows, each row times its sign first."""
    for r in range(low, high, 8):
        y0, y1, y2, y3, y4, y5, y6, y7 = Y[r], Y[r + 1], Y[r + 2], Y[r + 3], Y[r + 4], Y[r + 5], Y[r + 6], Y[r + 7]
        s0, s1, s2, s3 = signs[r], signs[r + 1], signs[r + 2], signs[r + 3]
        s4, s5, s6, s7 = signs[r + 4], signs[r + 5], signs[r + 6], signs[r + 7]
        for l in range(Y.shape[1]):  # noqa: E741 - a lane
            a0, a1 = s0 * y0[l] + s1 * y1[l], s0 * y0[l] - s1 * y1[l]
            a2, a3 = s2 * y2[l] + s3 * y3[l], s2 * y2[l] - s3 * y3[l]
            a4, a5 = s4 * y4[l] + s5 * y5[l], s4 * y4[l] - s5 * y5[l]
            a6, a7 = s6 * y6[l] + s7 * y7[l], s6 * y6[l] - s7 * y7[l]
            b0, b1, b2, b3 = a0 + a2, a1 + a3, a0 - a2, a1 - a3
            b4, b5, b6, b7 = a4 + a6, a5 + a7, a4 - a6, a5 - a7
            y0[l], y1[l], y2[l], y3[l] = b0 + b4, b1 + b5, b2 + b6, b3 + b7
            y4[l], y5[l], y6[l], y7[l] = b0 - b4, b1 - b5, b2 - b6, b3 - b7


@part
def _twos(Y: Floats, step: int) -> None:
    """Sums and differences of rows `step` apart, in place."""
    for base in range(0, Y.shape[0], 2 * step):
        for r in range(base, base + step):
            y0, y1 = Y[r], Y[r + step]
            for l in range(Y.shape[1]):  # noqa: E741 - a lane
                y0[l], y1[l] = y0[l] + y1[l], y0[l] - y1[l]


@kernel(types.void(frozen(float32, 2), float32[:, ::1]))
def transform_lanes(signs: Floats, Y: Floats) -> None:
    """Each column of Y becomes H D_n ... H D_1 times itself, H the Walsh-Hadamard matrix of +-1, D_i = diag(signs[i]).

    Parameters
    ----------
    signs : (n, p) float32 of +-1
    Y : (p, L) float32, p a power of two from `SMALLEST` on; quickest when L is a multiple of 16
    """
    p = Y.shape[0]
    for i in range(signs.shape[0]):
        for low in range(0, p, 64):
            _signed_eights(Y, signs[i], low, low + 64)
            _eights(Y, low, low + 64, 8)
        step = 64
        while step * 8 <= p:
            _eights(Y, 0, p, step)
            step *= 8
        while step < p:
            _twos(Y, step)
            step *= 2


@kernel(types.void(frozen(float32, 2), frozen(uint32, 2), pair(pair(int64)), int64, float32[:, ::1]))
def fill_lanes(
    R: Floats, places: NDArray[np.uint32], chosen: tuple[tuple[int, int], tuple[int, int]], lane: int, Y: Floats
) -> None:
    """Y[k, lane + (s - s0) (a1 - a0) + a - a0] = R[places[k, s], a], s0 <= s < s1 and a0 <= a < a1.

    An orbit made by copying: column a of R is what interpolation gave, copy s takes its numbers from there.

    Parameters
    ----------
    R : (d + 1, A) float32; the last row is zero
    places : (p, S) uint32, at most d; d: nothing. Unsigned, so that no index is looked at for being negative
    chosen : (s0, s1), (a0, a1)
    lane : int
        The first lane that is written.
    Y : (p, L) float32
    """
    (s0, s1), (a0, a1) = chosen
    width, n = a1 - a0, s1 - s0
    for k in range(places.shape[0]):
        row = places[k, s0:s1]
        out = Y[k, lane : lane + n * width]
        if width >= 4:
            for s in range(n):
                numbers = R[row[s], a0:a1]
                to = out[s * width : (s + 1) * width]
                for a in range(width):
                    to[a] = numbers[a]
        else:
            # Few numbers a copy: 0.3 ns each this way, 2 ns as slices of one.
            for a in range(width):
                column = R[:, a0 + a]
                to = out[a::width]
                for s in range(n):
                    to[s] = column[row[s]]


@kernel(types.void(frozen(float32, 2), int64, int64, float32[:, ::1]))
def scale_lanes(scale: Floats, first: int, lane: int, Y: Floats) -> None:
    """Y[t, lane + l] *= scale[t, first + l]: what gives each gt the norm of t. As many lanes as either has left.

    Parameters
    ----------
    scale : (<= p, G) float32
    first, lane : int
        The first column of `scale`, the first lane.
    Y : (p, L) float32
    """
    n = min(scale.shape[1] - first, Y.shape[1] - lane)
    for t in range(scale.shape[0]):
        factors, y = scale[t, first : first + n], Y[t, lane : lane + n]
        for l in range(n):  # noqa: E741 - a lane
            y[l] *= factors[l]


@kernel(types.void(frozen(float32, 2), float32[:, ::1]))
def turn(X: Floats, out: Floats) -> None:
    """out[k, a] = X[a, k]: rows become columns, some cache lines at a time.

    Parameters
    ----------
    X : (>= A, >= d) float32
    out : (d + 1, A) float32; its last row becomes zero
    """
    d, A = out.shape[0] - 1, out.shape[1]
    for first in range(0, d, 16):
        last = min(d, first + 16)
        for a in range(A):
            x = X[a]
            for k in range(first, last):
                out[k, a] = x[k]
    out[d] = 0
