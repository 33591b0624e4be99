"""Fourier pooling: the mean cosine and sine of a template's projections, over all of them or in cells."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import LANES, VECTORS, Floats, frozen, kernel, pair, part

MAX_PROJECTION = 4e4
"""Up to here |cos| and |sin| are right to 1e-6: the turns taken off are whole numbers of at most 13 bits."""

# 2 pi in three parts of few bits, so that turns * part is exact (Cody and Waite).
_TURN_1 = np.float32(6.28125)
_TURN_2 = np.float32(1.93500518798828125e-3)
_TURN_3 = np.float32(3.01991598196e-7)
_PER_TURN = np.float32(1 / (2 * np.pi))
# Adding and taking off 1.5 * 2**23 rounds a float32 to a whole number without a branch.
_ROUND = np.float32(12582912)
_HALF = np.float32(0.5)
_ONE = np.float32(1)
_TWO = np.float32(2)
_EIGHTH = VECTORS // 8
# Taylor coefficients: at the end of the range, pi / 2, the first one left out is 6e-8.
_S3, _S5, _S7, _S9, _S11 = (np.float32(c) for c in (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800))
_C2, _C4, _C6 = np.float32(-1 / 2), np.float32(1 / 24), np.float32(-1 / 720)
_C8, _C10, _C12 = np.float32(1 / 40320), np.float32(-1 / 3628800), np.float32(1 / 479001600)


@part
def _cos_sin(p: np.float32) -> tuple[np.float32, np.float32]:
    """cos p and sin p of a float32.

    Whole turns are taken off, the half angle's sine and cosine come from polynomials on [-pi/2, pi/2], and the double
    angle formulas give sin and cos: no branches, so the lanes stay together.
    """
    turns = (p * _PER_TURN + _ROUND) - _ROUND
    h = (((p - turns * _TURN_1) - turns * _TURN_2) - turns * _TURN_3) * _HALF
    z = h * h
    s = h + h * z * (_S3 + z * (_S5 + z * (_S7 + z * (_S9 + z * _S11))))
    c = _ONE + z * (_C2 + z * (_C4 + z * (_C6 + z * (_C8 + z * (_C10 + z * _C12)))))
    return _ONE - _TWO * s * s, _TWO * s * c


@kernel(types.void(frozen(float32, 2), float32, float32, float32[::1], float32[::1]))
def mean_cos_sin(P: Floats, gain: float, weight: float, out_cos: Floats, out_sin: Floats) -> None:
    """out_cos[t] = weight * mean over g of cos(gain P[g, t]), and the same for the sine.

    Sums are float64, in order of g.

    Parameters
    ----------
    P : (G, LANES) float32, |gain P| <= MAX_PROJECTION
    gain, weight : float32
    out_cos, out_sin : (n,) float32, n <= LANES templates
    """
    G = P.shape[0]
    cosines = np.zeros(LANES, np.float64)
    sines = np.zeros(LANES, np.float64)
    for g in range(G):
        for t in range(LANES):
            cosine, sine = _cos_sin(gain * P[g, t])
            cosines[t] += cosine
            sines[t] += sine
    for t in range(out_cos.shape[0]):
        out_cos[t] = weight * cosines[t] / G
        out_sin[t] = weight * sines[t] / G


@kernel(types.void(frozen(float32, 2), frozen(float32, 1), int64, float32, float32[:, :, :]))
def copies_cos_sin(Y: Floats, gains: Floats, n_copies: int, weight: float, out: Floats) -> None:
    """out[i, 0, t] = weight * mean over c < n_copies of cos(gains[t] Y[t, i n_copies + c]), out[i, 1, t]: of the sine.

    Lanes hold the copies of one item after the other; sums are float64, in order of the copies. Sixteen templates are
    kept back and written together, so that no line of memory is fetched for each.

    Parameters
    ----------
    Y : (>= n, L) float32, |gain Y| <= MAX_PROJECTION
    gains : (n,) float32
    n_copies : int
    weight : float32
    out : (N, 2, n) float32, N n_copies <= L
    """
    N, n = out.shape[0], out.shape[2]
    L = N * n_copies
    cosines, sines = np.empty(L, np.float32), np.empty(L, np.float32)
    kept = np.empty((N, 2, 16), np.float32)
    for first in range(0, n, 16):
        some = min(16, n - first)
        for j in range(some):
            gain, y = gains[first + j], Y[first + j, :L]
            for l in range(L):  # noqa: E741 - a lane
                cosines[l], sines[l] = _cos_sin(gain * y[l])
            for i in range(N):
                cosine, sine = np.float64(0), np.float64(0)
                for c in range(i * n_copies, (i + 1) * n_copies):
                    cosine += cosines[c]
                    sine += sines[c]
                kept[i, 0, j] = weight * cosine / n_copies
                kept[i, 1, j] = weight * sine / n_copies
        for i in range(N):
            for k in range(2):
                for j in range(some):
                    out[i, k, first + j] = kept[i, k, j]


@kernel(types.void(frozen(float32, 2), float32, float32, pair(frozen(float32, 2)), float32[:, :, :]))
def cell_cos_sin(P: Floats, gain: float, weight: float, cells: tuple[Floats, Floats], out: Floats) -> None:
    """out[0, i n_j + j, t] = weight * sum over r, c of rows[i, r] columns[j, c] cos(gain P[r n_c + c, t]); out[1]: sin.

    A row of positions is summed into its columns of cells (float32), then added to every row of cells (float64): a
    position costs n_j sums instead of n_i n_j. Weights that sum to 1 over a row keep its rounding below 1e-6 up to a
    thousand columns.

    Parameters
    ----------
    P : (n_r n_c, LANES) float32, |gain P| <= MAX_PROJECTION
    gain, weight : float32
    cells : rows (n_i, n_r) float32 and columns (n_j, n_c) float32
    out : (2, n_i n_j, n) float32, n <= LANES templates
    """
    rows, columns = cells
    n_i, n_j, n_c = rows.shape[0], columns.shape[0], columns.shape[1]
    sums = np.zeros((n_i * n_j, 2, LANES), np.float64)
    line = np.empty((n_j, 2, LANES), np.float32)
    cosines, sines = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for r in range(rows.shape[1]):
        line[:] = 0
        for c in range(n_c):
            projected = P[r * n_c + c]
            for t in range(LANES):
                cosines[t], sines[t] = _cos_sin(gain * projected[t])
            for j in range(n_j):
                share = columns[j, c]
                cell = line[j]
                for t in range(LANES):
                    cell[0, t] += share * cosines[t]
                    cell[1, t] += share * sines[t]
        for i in range(n_i):
            share = rows[i, r]
            for j in range(n_j):
                for k in range(2):
                    for t in range(LANES):
                        sums[i * n_j + j, k, t] += share * line[j, k, t]
    for cell_number in range(n_i * n_j):
        for k in range(2):
            for t in range(out.shape[2]):
                out[k, cell_number, t] = weight * sums[cell_number, k, t]


@part
def _eighths(values: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats]:
    """VECTORS numbers in eight pieces."""
    k = _EIGHTH
    low = values[:k], values[k : 2 * k], values[2 * k : 3 * k], values[3 * k : 4 * k]
    return *low, values[4 * k : 5 * k], values[5 * k : 6 * k], values[6 * k : 7 * k], values[7 * k :]


@kernel(types.void(frozen(float32, 2), pair(int64), frozen(float32, 1), float64[:, ::1]))
def add_cos_sin(Y: Floats, lanes: tuple[int, int], gains: Floats, sums: NDArray[np.float64]) -> None:
    """sums[0, t] += sum over some lanes l of cos(gain_t Y[t, l]), sums[1, t]: of the sine.

    Lanes are summed in pairs of pairs, down to four sums which are added in float64: no sum waits for the one before
    it, 0.5 ns a projection where a running sum takes 0.9.

    Parameters
    ----------
    Y : (>= n, L) float32, |gain Y| <= MAX_PROJECTION
    lanes : first, number, at most VECTORS
    gains : (n,) float32
    sums : (2, n) float64
    """
    first, n = lanes
    cosines, sines = np.zeros(VECTORS, np.float32), np.zeros(VECTORS, np.float32)
    a0, a1, a2, a3, a4, a5, a6, a7 = _eighths(cosines)
    b0, b1, b2, b3, b4, b5, b6, b7 = _eighths(sines)
    a, b = np.empty(_EIGHTH, np.float32), np.empty(_EIGHTH, np.float32)
    for t in range(sums.shape[1]):
        gain, y = gains[t], Y[t, first : first + n]
        for l in range(n):  # noqa: E741 - a lane
            cosines[l], sines[l] = _cos_sin(gain * y[l])
        for j in range(_EIGHTH):
            a[j] = ((a0[j] + a1[j]) + (a2[j] + a3[j])) + ((a4[j] + a5[j]) + (a6[j] + a7[j]))
            b[j] = ((b0[j] + b1[j]) + (b2[j] + b3[j])) + ((b4[j] + b5[j]) + (b6[j] + b7[j]))
        cosine, sine = np.float64(0), np.float64(0)
        for j in range(4):
            cosine += (a[j] + a[j + 4]) + (a[j + 8] + a[j + 12])
            sine += (b[j] + b[j + 4]) + (b[j + 8] + b[j + 12])
        sums[0, t] += cosine
        sums[1, t] += sine
