"""A waveform in frames: how loud each is, each under its window, and a frame's Fourier bins summed in bands."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel, pair, part

Doubles = NDArray[np.float64]

ABREAST = 16
"""Frames whose bins are summed together: sums of one frame alone wait for each other."""


@part
def _energy(x: Floats, begin: int, end: int) -> float:
    """The sum of x^2 from `begin` to `end`, of what there is of x; four sums, so that none waits for another."""
    begin, end = max(begin, 0), min(end, x.shape[0])
    a = b = c = d = 0.0
    whole = begin + max(end - begin, 0) // 4 * 4
    for i in range(begin, whole, 4):
        a += np.float64(x[i]) * np.float64(x[i])
        b += np.float64(x[i + 1]) * np.float64(x[i + 1])
        c += np.float64(x[i + 2]) * np.float64(x[i + 2])
        d += np.float64(x[i + 3]) * np.float64(x[i + 3])
    for i in range(whole, end):
        a += np.float64(x[i]) * np.float64(x[i])
    return (a + b) + (c + d)


@kernel(types.void(frozen(float32, 1), int64, int64, float64[::1]))
def frame_energies(x: Floats, window: int, hop: int, out: Doubles) -> None:
    """out[k] = sum of x^2 over `window` samples from k hop - window // 2, those there are, in float64.

    Where hop divides the window a frame is the sum of its hops, and each of those is summed once.

    Parameters
    ----------
    x : (n,) float32
    window, hop : int64
    out : (frames,) float64
    """
    half = window // 2
    if window % hop != 0:
        for k in range(out.shape[0]):
            out[k] = _energy(x, k * hop - half, k * hop - half + window)
        return
    n_hops = window // hop
    hops = np.empty(out.shape[0] + n_hops - 1)
    for j in range(hops.shape[0]):
        hops[j] = _energy(x, j * hop - half, (j + 1) * hop - half)
    for k in range(out.shape[0]):
        total = 0.0
        for j in range(k, k + n_hops):
            total += hops[j]
        out[k] = total


@kernel(types.void(frozen(float32, 1), int64, int64, frozen(float64, 1), float64[:, ::1]))
def windowed(x: Floats, start: int, hop: int, window: Doubles, out: Doubles) -> None:
    """out[k, i] = window[i] x[start + k hop + i], zero where x has nothing.

    Parameters
    ----------
    x : (n,) float32
    start : int64
        May lie before x.
    hop : int64
    window : (n_fft,) float64
    out : (frames, n_fft) float64
    """
    n = x.shape[0]
    n_fft = window.shape[0]
    for k in range(out.shape[0]):
        first = start + k * hop
        begin = min(max(-first, 0), n_fft)
        end = max(min(n - first, n_fft), begin)
        out[k, :begin] = 0
        there, part_of, frame = x[first + begin : first + end], window[begin:end], out[k, begin:end]
        for i in range(end - begin):
            frame[i] = part_of[i] * there[i]
        out[k, end:] = 0


@kernel(types.void(frozen(float64, 2), types.boolean, pair(frozen(int64, 1)), frozen(float32, 1), float32[:, :]))
def band_energies(
    spectrum: Doubles, root: bool, reach: tuple[NDArray[np.int64], NDArray[np.int64]], weights: Floats, out: Floats
) -> None:
    """out[b, k] = sum of weights |s_k|^2 over the bins of band b, or of |s_k| with `root`.

    Parameters
    ----------
    spectrum : (frames, 2 bins) float64
        Real and imaginary part of each bin, one after the other.
    reach : first bins (bands,) int64, and where each band's weights begin and the last's end (bands + 1,) int64
    weights : float32
        Those of every band's bins, one band after the other.
    out : (bands, frames) float32
    """
    firsts, starts = reach
    n, n_bins = spectrum.shape[0], spectrum.shape[1] // 2
    bins = np.zeros((n_bins, ABREAST), np.float32)
    total = np.empty(ABREAST, np.float32)
    for k in range(0, n, ABREAST):
        some = min(ABREAST, n - k)
        for j in range(some):
            frame = spectrum[k + j]
            for i in range(n_bins):
                re, im = frame[2 * i], frame[2 * i + 1]
                bins[i, j] = re * re + im * im
        if root:
            for i in range(n_bins):
                for j in range(ABREAST):
                    bins[i, j] = np.sqrt(bins[i, j])
        for b in range(firsts.shape[0]):
            own = weights[starts[b] : starts[b + 1]]
            heard = bins[firsts[b] : firsts[b] + own.shape[0]]
            for j in range(ABREAST):
                total[j] = 0
            for i in range(own.shape[0]):
                for j in range(ABREAST):
                    total[j] += own[i] * heard[i, j]
            for j in range(some):
                out[b, k + j] = total[j]
