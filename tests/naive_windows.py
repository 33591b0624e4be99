"""Slow twins of polar windows: one number of one patch at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pixel(plane: NDArray[Any], y: float, x: float) -> NDArray[np.float64]:
    """The plane (h, w, channels) at a point, bilinear, zero outside."""
    value = np.zeros(plane.shape[2])
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
                value += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[row, column]
    return value


def polar_patches(
    plane: NDArray[Any], size: tuple[int, int], n: tuple[int, int], radii: tuple[float, float]
) -> NDArray[np.float64]:
    """Every patch minus its mean, (rings, angles, height * width * channels)."""
    h, w = plane.shape[:2]
    found = np.empty((*n, size[0] * size[1] * plane.shape[2]))
    for ring in range(n[0]):
        radius = radii[0] + (radii[1] - radii[0]) * (ring / (n[0] - 1) if n[0] > 1 else 0)
        for k in range(n[1]):
            numbers: list[float] = []
            # counter-clockwise as seen: a y that grows goes down
            outwards = np.exp(2j * math.pi * k / n[1])
            for i in range(size[0]):
                for j in range(size[1]):
                    at = (radius + i - (size[0] - 1) / 2) * outwards + (j - (size[1] - 1) / 2) * 1j * outwards
                    numbers += pixel(plane, (h - 1) / 2 - at.imag, (w - 1) / 2 + at.real).tolist()
            found[ring, k] = np.array(numbers) - math.fsum(numbers) / len(numbers)
    return found


def circle_weights(n: int, n_positions: int, overlap: float) -> NDArray[np.float64]:
    """The weights of positions on a circle in n sectors, (n, n_positions), each sector's summing to 1."""
    length, weights = n_positions / n, np.empty((n, n_positions))
    for k in range(n):
        for p in range(n_positions):
            away = abs(p + 0.5 - (k + 0.5) * length)
            weights[k, p] = math.exp(-((min(away, n_positions - away) / (overlap * length)) ** 2) / 2)
    return weights / weights.sum(axis=1, keepdims=True) if n > 1 else np.full((1, n_positions), 1 / n_positions)
