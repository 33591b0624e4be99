"""Patches of a plane: cut out at every position or sampled on circles, centred, divided by their size."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, types
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel


@kernel(types.void(frozen(float32, 2), frozen(int64, 1), float64, float32[:, ::1]))
def cut_patches(plane: Floats, sizes: NDArray[np.int64], contrast: float, out: Floats) -> None:
    """out[r n_columns + c] = v - mean(v), over ||v - mean(v)|| + contrast; v the patch at position (r, c).

    Means and norms are float64, so that a flat patch is zero exactly; both are taken of a whole row of positions at
    once, each position summing its own numbers in order.

    Parameters
    ----------
    plane : (h, w) float32
    sizes : (6,) int64
        Rows and columns of positions, height and width of a patch, steps between rows and columns of positions.
    contrast : float64
        Below zero: no division.
    out : (R, D) float32, R at least the number of positions, D at least height * width; the rest is left alone
    """
    n_rows, n_columns, height, width, step_rows, step_columns = sizes
    mean = np.empty(n_columns, np.float64)
    scale = np.empty(n_columns, np.float64)
    for r in range(n_rows):
        mean[:] = 0
        for i in range(height):
            line = plane[r * step_rows + i]
            for j in range(width):
                for c in range(n_columns):
                    mean[c] += line[c * step_columns + j]
        for c in range(n_columns):
            mean[c] /= height * width
        scale[:] = 0
        for i in range(height):
            line = plane[r * step_rows + i]
            for j in range(width):
                for c in range(n_columns):
                    from_mean = line[c * step_columns + j] - mean[c]
                    scale[c] += from_mean * from_mean
        for c in range(n_columns):
            scale[c] = 1 / (np.sqrt(scale[c]) + contrast) if contrast >= 0 else 1.0
        for c in range(n_columns):
            patch = out[r * n_columns + c]
            for i in range(height):
                line = plane[r * step_rows + i]
                for j in range(width):
                    patch[i * width + j] = (line[c * step_columns + j] - mean[c]) * scale[c]


@kernel(types.void(frozen(float32, 2), frozen(int64, 1), frozen(float64, 2), float64, float32[:, ::1]))
def cut_polar(
    plane: Floats, sizes: NDArray[np.int64], places: NDArray[np.float64], contrast: float, out: Floats
) -> None:
    """out[p] = v - mean(v), over ||v - mean(v)|| + contrast; v the patch at place p, turned to look outwards.

    Number (i, j) of v is the plane at (radius + i - (height - 1) / 2) u + (j - (width - 1) / 2) n from its middle, u
    the unit vector outwards, n a quarter turn further; bilinear, zero outside. It is rounded to float32 before the mean
    is taken, so that a flat patch is zero exactly.

    Parameters
    ----------
    plane : (h + 3, (w + 3) channels) float32
        One row and column of zeros before the picture and two behind it.
    sizes : (3,) int64
        Height and width of a patch, channels.
    places : (n, 3) float64
        Radius, and how far u goes down and right.
    contrast : float64
        Below zero: no division.
    out : (R, D) float32, R at least n, D at least height * width * channels; the rest is left alone
    """
    height, width, channels = sizes
    bottom, right = float64(plane.shape[0] - 3), float64(plane.shape[1] // channels - 3)
    d = height * width * channels
    for p in range(len(places)):
        radius, down, along = places[p]
        patch = out[p]
        total = 0.0
        for i in range(height):
            outwards = radius + (i - (height - 1) / 2)
            for j in range(width):
                aside = j - (width - 1) / 2
                y = (bottom - 1) / 2 + outwards * down - aside * along
                x = (right - 1) / 2 + outwards * along + aside * down
                # Beyond the frame there are only zeros, as in it.
                y = min(max(y, -1.0), bottom) + 1
                x = min(max(x, -1.0), right) + 1
                top, left = int64(y), int64(x)
                y -= top
                x -= left
                above, below = plane[top], plane[top + 1]
                for c in range(channels):
                    k = left * channels + c
                    upper = (1 - x) * above[k] + x * above[k + channels]
                    lower = (1 - x) * below[k] + x * below[k + channels]
                    value = float32((1 - y) * upper + y * lower)
                    patch[(i * width + j) * channels + c] = value
                    total += value
        mean, squares = total / d, 0.0
        for k in range(d):
            squares += (patch[k] - mean) * (patch[k] - mean)
        scale = 1 / (np.sqrt(squares) + contrast) if contrast >= 0 else 1.0
        for k in range(d):
            patch[k] = (patch[k] - mean) * scale
