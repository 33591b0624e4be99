"""Slow twins of frames of a waveform, and of Fourier bins in bands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sample(x: NDArray[Any], i: int) -> float:
    """A sample, zero beyond the ends."""
    return float(x[i]) if 0 <= i < len(x) else 0.0


def frame_energies(x: NDArray[Any], window: int, hop: int, n_frames: int) -> list[float]:
    """The sum of squares of each frame, whose middle is at k hop."""
    starts = [k * hop - window // 2 for k in range(n_frames)]
    return [math.fsum(sample(x, i) ** 2 for i in range(start, start + window)) for start in starts]


def windowed(x: NDArray[Any], start: int, hop: int, window: NDArray[Any], n_frames: int) -> NDArray[np.float64]:
    """Each frame times the window."""
    n = len(window)
    return np.array([[float(window[i]) * sample(x, start + k * hop + i) for i in range(n)] for k in range(n_frames)])


def band_energies(spectrum: NDArray[Any], root: bool, filters: NDArray[Any]) -> NDArray[np.float64]:
    """filters (bands, bins) times |s|^2, or |s| with `root`, of spectrum (frames, bins)."""
    out = np.zeros((len(filters), len(spectrum)))
    for b, weights in enumerate(filters):
        for k, frame in enumerate(spectrum):
            sizes = [abs(complex(s)) for s in frame]
            out[b, k] = math.fsum(float(w) * (a if root else a * a) for w, a in zip(weights, sizes, strict=True))
    return out
