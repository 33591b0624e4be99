"""Gram matrices: the kernels that kernel RLS knows by name, the user's own, and the widths worth trying."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]
Kernel = Literal["rbf", "linear", "precomputed"] | Callable[[Floats, Floats], ArrayLike]

N_SIGMA = 25
NEGATIVE = -1e-6
"""Eigenvalues under this part of the largest are no rounding: such a matrix is of no kernel."""

ASYMMETRY = 1e-8


def gram(kernel: Kernel, rows: Floats) -> Floats:
    """K (n, n) of rows (n, D), or of given Gram matrices, checked.

    Raises
    ------
    InvalidArgument
        Not square, not finite, not symmetric, or with negative eigenvalues.
    """
    if kernel == "linear":
        return rows @ rows.T
    K = rows if kernel == "precomputed" else values(kernel, rows, rows)
    if K.shape[0] != K.shape[1]:
        raise InvalidArgument(f"a Gram matrix must be square, got shape {K.shape}; fit takes K of all rows with all")
    scale = float(np.abs(K).max(initial=0.0))
    if np.abs(K - K.T).max(initial=0.0) > ASYMMETRY * scale:
        raise InvalidArgument("a Gram matrix must be symmetric: k(x, z) = k(z, x); take (K + K') / 2 if it is rounding")
    K = (K + K.T) / 2.0
    lowest, highest = np.linalg.eigvalsh(K)[[0, -1]]
    if lowest < NEGATIVE * highest:
        raise InvalidArgument(
            f"a Gram matrix has no negative eigenvalues, got {lowest:.2g} beside {highest:.2g}: that is of no kernel"
        )
    return np.asarray(K, dtype=np.float64)


def values(kernel: Kernel, X: Floats, Z: Floats, sigma: float = 1.0) -> Floats:
    """k(x, z) (q, n) for rows X (q, D) and Z (n, D).

    By name, a row's values do not depend on the rows beside it, bit for bit.
    """
    if callable(kernel):
        K = np.asarray(kernel(X, Z), dtype=np.float64)
        if K.shape != (len(X), len(Z)) or not np.isfinite(K).all():
            raise InvalidArgument(f"the kernel must give finite numbers ({len(X)}, {len(Z)}), got shape {K.shape}")
        return K
    products = np.array([Z @ x for x in X]).reshape(len(X), len(Z))
    if kernel == "linear":
        return products
    squares = np.einsum("nd,nd->n", Z, Z)
    own = np.array([x @ x for x in X])[:, None]
    return gaussian((squares + own - 2.0 * products).clip(min=0.0), sigma)


def gaussian(squared_distances: Floats, sigma: float) -> Floats:
    """exp(-|x - z|^2 / (2 sigma^2))."""
    return np.asarray(np.exp(squared_distances / (-2.0 * sigma**2)))


def squared_distances(rows: Floats) -> Floats:
    """|x - z|^2 (n, n)."""
    squares = np.einsum("nd,nd->n", rows, rows)
    distances = squares + squares[:, None] - 2.0 * (rows @ rows.T)
    distances[np.diag_indices_from(distances)] = 0.0
    return np.asarray(distances.clip(min=0.0))


def sigma_grid(squared: Floats) -> Floats:
    """GURLS' widths (kernel_rbf): 25 values in a geometric row, rising, from squared distances (n, n).

    From the first hundredth of the distances to the largest, over sqrt(2), since GURLS' kernel is exp(-d^2 / sigma^2).
    Where the first hundredth are copies it starts at the smallest distance over zero.
    """
    pairs = np.sort(squared[np.tril_indices(len(squared), -1)])
    apart = pairs[pairs > 0]
    if not len(apart):
        return np.ones(1)
    # MATLAB's index, from 1: round(0.01 n + 0.5)
    hundredth = pairs[min(int(np.floor(0.01 * len(pairs) + 1.0)), len(pairs)) - 1]
    low, high = np.sqrt(hundredth or apart[0]), np.sqrt(apart[-1])
    return np.asarray(np.geomspace(low, high, N_SIGMA) / np.sqrt(2.0))


def check_sigma(sigma: str | float | ArrayLike) -> str | Floats:
    """ "search", or widths over 0 as an array (S,)."""
    if isinstance(sigma, str) and sigma == "search":
        return sigma
    try:
        widths = np.atleast_1d(np.asarray(sigma, dtype=np.float64))
    except (TypeError, ValueError):
        widths = np.empty(0)
    if widths.ndim != 1 or not len(widths) or not (np.isfinite(widths) & (widths > 0)).all():
        raise InvalidArgument(f'sigma must be "search", a number over 0 or a row of them, got {sigma!r}')
    return widths
