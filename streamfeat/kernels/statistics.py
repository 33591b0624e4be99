"""Statistics of kernel values over the group or in cells, and the map that makes Nystrom features of their means."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import LANES, Floats, frozen, kernel, pair

Doubles = NDArray[np.float64]


@kernel(types.void(frozen(float32, 2), float64[:, ::1]))
def power_means(V: Floats, out: Doubles) -> None:
    """out[t, j] = mean over g of V[g, t]^(j + 1), in float64, in order of g.

    Parameters
    ----------
    V : (G, LANES) float32
    out : (n, k) float64, n <= LANES templates
    """
    G, k = V.shape[0], out.shape[1]
    sums = np.zeros((k, LANES), np.float64)
    powers = np.empty(LANES, np.float64)
    for g in range(G):
        powers[:] = 1
        for j in range(k):
            for t in range(LANES):
                powers[t] *= V[g, t]
                sums[j, t] += powers[t]
    for t in range(out.shape[0]):
        for j in range(k):
            out[t, j] = sums[j, t] / G


@kernel(types.void(frozen(float32, 2), float32[::1]))
def largest(V: Floats, out: Floats) -> None:
    """out[t] = max over g of V[g, t].

    Parameters
    ----------
    V : (G, LANES) float32
    out : (n,) float32, n <= LANES templates
    """
    found = V[0].copy()
    for g in range(1, V.shape[0]):
        for t in range(LANES):
            found[t] = max(found[t], V[g, t])
    for t in range(out.shape[0]):
        out[t] = found[t]


@kernel(types.void(frozen(float32, 2), pair(int64), float64[::1]))
def add_lanes(Y: Floats, lanes: tuple[int, int], sums: Doubles) -> None:
    """sums[t] += the sum of some lanes of row t, in float64, in order.

    Parameters
    ----------
    Y : (>= n, L) float32
    lanes : first, number
    sums : (n,) float64
    """
    first, n = lanes
    for t in range(len(sums)):
        for value in Y[t, first : first + n]:
            sums[t] += value


@kernel(types.void(frozen(float32, 2), pair(int64), float32[::1]))
def largest_lane(Y: Floats, lanes: tuple[int, int], found: Floats) -> None:
    """found[t] = the larger of itself and the largest of some lanes of row t.

    Parameters
    ----------
    Y : (>= n, L) float32
    lanes : first, number
    found : (n,) float32
    """
    first, n = lanes
    for t in range(len(found)):
        for value in Y[t, first : first + n]:
            found[t] = max(found[t], value)


@kernel(types.void(frozen(float32, 2), pair(frozen(float32, 2)), float32[:, :]))
def cell_largest(V: Floats, cells: tuple[Floats, Floats], out: Floats) -> None:
    """out[i n_j + j, t] = max of rows[i, r] columns[j, c] V[r n_c + c, t] over the r, c where both weights are above 0.

    Parameters
    ----------
    V : (n_r n_c, LANES) float32
    cells : rows (n_i, n_r) float32 and columns (n_j, n_c) float32, not below 0
    out : (n_i n_j, n) float32, n <= LANES templates
    """
    rows, columns = cells
    n_i, n_j, n_c = rows.shape[0], columns.shape[0], columns.shape[1]
    found = np.full((n_i * n_j, LANES), -np.inf, np.float32)
    line = np.empty(LANES, np.float32)
    for r in range(rows.shape[1]):
        for j in range(n_j):
            line[:] = -np.inf
            for c in range(n_c):
                share = columns[j, c]
                if share > 0:
                    for t in range(LANES):
                        line[t] = max(line[t], share * V[r * n_c + c, t])
            for i in range(n_i):
                share = rows[i, r]
                if share > 0:
                    for t in range(LANES):
                        found[i * n_j + j, t] = max(found[i * n_j + j, t], share * line[t])
    for cell_number in range(n_i * n_j):
        for t in range(out.shape[1]):
            out[cell_number, t] = found[cell_number, t]


@kernel(types.void(frozen(int64, 1), frozen(float32, 1), float32[:, ::1], float32[:, ::1]))
def order_statistics(ranks: NDArray[np.int64], shares: Floats, V: Floats, out: Floats) -> None:
    """out[t, j] = between the values of V[:, t] at ranks[j] and ranks[j] + 1, at shares[j] of the way; V is sorted.

    All lanes are sorted at once by Batcher's merge exchange (Knuth, Art of Computer Programming 5.2.2 M), which
    compares the same rows whatever they hold: 2.9 us a block at G = 27, 24 us when sorted template by template.

    Parameters
    ----------
    ranks : (k,) int64, from 0 to G - 1
    shares : (k,) float32, from 0 to 1; 0 where ranks is G - 1
    V : (G, LANES) float32
    out : (n, k) float32, n <= LANES templates
    """
    G = V.shape[0]
    top = 1
    while 2 * top < G:
        top *= 2
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            for i in range(G - d):
                if i & p == r:
                    for t in range(LANES):
                        low, high = V[i, t], V[i + d, t]
                        V[i, t] = min(low, high)
                        V[i + d, t] = max(low, high)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
    for j in range(len(ranks)):
        rank = ranks[j]
        above = min(rank + 1, G - 1)
        for t in range(out.shape[0]):
            out[t, j] = V[rank, t] + shares[j] * (V[above, t] - V[rank, t])


@kernel(types.void(frozen(float64, 1), frozen(float32, 2), float32[::1]))
def combine(v: Doubles, W: Floats, out: Floats) -> None:
    """out[j] = sum over i of v[i] W[i, j], in float64, in order of i.

    Parameters
    ----------
    v : (m,) float64
    W : (m, m) float32
    out : (m,) float32
    """
    m = len(v)
    sums = np.zeros(m, np.float64)
    for i in range(0, m - 3, 4):
        a, b, c, d = v[i], v[i + 1], v[i + 2], v[i + 3]
        A, B, C, D = W[i], W[i + 1], W[i + 2], W[i + 3]
        for j in range(m):
            sums[j] = sums[j] + a * A[j] + b * B[j] + c * C[j] + d * D[j]
    for i in range(m - m % 4, m):
        for j in range(m):
            sums[j] += v[i] * W[i, j]
    for j in range(m):
        out[j] = sums[j]
