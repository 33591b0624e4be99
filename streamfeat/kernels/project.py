"""Projections of rows on a block of templates: the matrix product at the heart of a feature.

Templates lie in blocks of `LANES`, coordinate by coordinate: block[k, l] is coordinate k of template l. The inner loop
runs over the lanes, which are contiguous, and applies four coordinates of four rows to each load of four template
vectors, so that the sums are touched once for every four multiplications.

Every number is the sum over k, four at a time, in rising order, whatever else is computed with it: rows are padded
to `ROWS` and coordinates to a multiple of four with zeros, and no other path exists.
"""

from __future__ import annotations

import numba
from numba import float32, types

from streamfeat.kernels import LANES, OPTIONS, ROWS, Floats, frozen, kernel


@numba.njit(**OPTIONS)
def _project_four(X: Floats, first: int, block: Floats, out: Floats, row: int) -> None:
    """out[row:row + 4] = X[first:first + 4] @ block."""
    out[row : row + ROWS] = 0
    a, b, c, d = X[first], X[first + 1], X[first + 2], X[first + 3]
    for k in range(0, block.shape[0], 4):
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for lane in range(LANES):
            t0, t1, t2, t3 = block[k, lane], block[k + 1, lane], block[k + 2, lane], block[k + 3, lane]
            out[row, lane] = out[row, lane] + a0 * t0 + a1 * t1 + a2 * t2 + a3 * t3
            out[row + 1, lane] = out[row + 1, lane] + b0 * t0 + b1 * t1 + b2 * t2 + b3 * t3
            out[row + 2, lane] = out[row + 2, lane] + c0 * t0 + c1 * t1 + c2 * t2 + c3 * t3
            out[row + 3, lane] = out[row + 3, lane] + d0 * t0 + d1 * t1 + d2 * t2 + d3 * t3


@kernel(types.void(frozen(float32, 2), frozen(float32, 2), float32[:, ::1]))
def project(X: Floats, block: Floats, out: Floats) -> None:
    """Inner products of rows and templates.

    Parameters
    ----------
    X : (R, d) float32, R a multiple of ROWS, d of 4
    block : (d, LANES) float32
    out : (R, LANES) float32
    """
    for row in range(0, X.shape[0], ROWS):
        _project_four(X, row, block, out, row)


@kernel(types.void(frozen(float32, 2), frozen(float32, 3), float32[:, :, ::1]))
def project_orbits(X: Floats, orbits: Floats, out: Floats) -> None:
    """Inner products of ROWS items with the orbits of a block of templates, read once from first to last.

    Parameters
    ----------
    X : (ROWS, d) float32, d a multiple of 4
    orbits : (G, d, LANES) float32
    out : (G, ROWS, LANES) float32
    """
    for g in range(orbits.shape[0]):
        _project_four(X, 0, orbits[g], out[g], 0)


@kernel(types.void(frozen(float32, 2), float32[:, ::1]))
def rescale(scale: Floats, out: Floats) -> None:
    """Multiply projections, in place, by what gives each gt the norm of t.

    Parameters
    ----------
    scale : (G, LANES) float32
    out : (n G, LANES) float32, item by item
    """
    G = scale.shape[0]
    for first in range(0, out.shape[0] - G + 1, G):
        for g in range(G):
            for lane in range(LANES):
                out[first + g, lane] *= scale[g, lane]
