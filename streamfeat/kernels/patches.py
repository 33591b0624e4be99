"""Patches of a plane: cut out at every position, centred, divided by their size."""

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
