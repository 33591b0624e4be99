"""Slow twins: what the fast code computes, one number at a time, as its formula reads."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# groups: where each number of a moved vector comes from, one at a time


def read_plane(t: NDArray[Any], y: float, x: float, border: str = "zero") -> float:
    """The value of t (h, w) at (y, x), bilinear; outside is zero, or the plane again."""
    h, w = t.shape
    y, x = (float(round(c)) if abs(c - round(c)) < 1e-9 else c for c in (y, x))
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
            if border == "wrap":
                total += weight * float(t[row % h, column % w])
            elif 0 <= row < h and 0 <= column < w:
                total += weight * float(t[row, column])
    return total


def move_plane(
    t: NDArray[Any], source: Callable[[int, int], tuple[float, float]], border: str = "zero"
) -> NDArray[np.float64]:
    """The plane whose point (r, c) is t at source(r, c)."""
    h, w = t.shape
    return np.array([[read_plane(t, *source(r, c), border) for c in range(w)] for r in range(h)])


def rotation(t: NDArray[Any], angle_rad: float) -> NDArray[np.float64]:
    """t turned counter-clockwise: the point at z (up = imaginary) comes from z exp(-i angle)."""
    h, w = t.shape
    middle = complex((w - 1) / 2, -(h - 1) / 2)

    def source(r: int, c: int) -> tuple[float, float]:
        z = (complex(c, -r) - middle) * cmath.exp(-1j * angle_rad) + middle
        return -z.imag, z.real

    return move_plane(t, source)


def translation(t: NDArray[Any], dy: float, dx: float, border: str = "zero") -> NDArray[np.float64]:
    """t moved down and right."""
    return move_plane(t, lambda r, c: (r - dy, c - dx), border)


def scaling(t: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """t enlarged about its middle."""
    h, w = t.shape
    return move_plane(
        t, lambda r, c: ((h - 1) / 2 + (r - (h - 1) / 2) / scale, (w - 1) / 2 + (c - (w - 1) / 2) / scale)
    )


def pitch(t: NDArray[Any], band_hz: Sequence[float], cents: float) -> NDArray[np.float64]:
    """t (band, frame) with each band read at its frequency over 2^(cents / 1200), the index linear in log f."""

    def index_of(hz: float) -> float:
        i = 0
        while i < len(band_hz) - 2 and hz >= band_hz[i + 1]:
            i += 1
        return i + math.log(hz / band_hz[i]) / math.log(band_hz[i + 1] / band_hz[i])

    return move_plane(t, lambda r, c: (index_of(band_hz[r] / 2 ** (cents / 1200)), float(c)))


def tempo(t: NDArray[Any], rate: float) -> NDArray[np.float64]:
    """t (band, frame) played `rate` times as fast about its middle frame."""
    middle = (t.shape[1] - 1) / 2
    return move_plane(t, lambda r, c: (float(r), middle + rate * (c - middle)))


def time_shift(t: NDArray[Any], frames: float, border: str = "zero") -> NDArray[np.float64]:
    """t (band, frame) moved later."""
    return move_plane(t, lambda r, c: (float(r), c - frames), border)
