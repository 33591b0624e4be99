"""Sparse operators on rows: how an input is moved by the adjoint of every group element."""

from __future__ import annotations

import numpy as np
from numba import float32, int32, types, uint32
from numpy.typing import NDArray

from streamfeat.kernels import Floats, frozen, kernel


@kernel(types.void(frozen(int32, 2), frozen(int32, 1), frozen(float32, 1), frozen(float32, 2), float32[:, ::1]))
def apply_operators(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], data: Floats, X: Floats, out: Floats
) -> None:
    """Row r n + i of `out` is operator i times row r of X.

    Parameters
    ----------
    indptr : (n, d + 1) int32
        Row starts of n stacked CSR matrices, offsets into `indices` and `data`.
    indices : (nnz,) int32
    data : (nnz,) float32
    X : (R, >= d) float32
    out : (>= R n, >= d) float32; what lies beyond row R n and column d is left alone
    """
    n = indptr.shape[0]
    for r in range(X.shape[0]):
        x = X[r]
        for i in range(n):
            starts = indptr[i]
            y = out[r * n + i]
            end = starts[0]
            for k in range(indptr.shape[1] - 1):
                start, end = end, starts[k + 1]
                value = float32(0)
                for j in range(start, end):
                    value += data[j] * x[indices[j]]
                y[k] = value


@kernel(types.void(frozen(uint32, 2), frozen(float32, 2), float32[:, ::1]))
def copy_places(places: NDArray[np.uint32], X: Floats, out: Floats) -> None:
    """Number k of row r n + i of `out` is number places[i, k] of row r of X: what operators of ones do, by copying.

    Parameters
    ----------
    places : (n, d) uint32, at most d; d: zero. Unsigned, so that no index is looked at for being negative
    X : (R, >= d) float32
    out : (>= R n, >= d) float32; what lies beyond row R n and column d is left alone
    """
    n, d = places.shape
    x = np.zeros(d + 1, np.float32)
    for r in range(X.shape[0]):
        x[:d] = X[r, :d]
        for i in range(n):
            row, y = places[i], out[r * n + i, :d]
            for k in range(d):
                y[k] = x[row[k]]
