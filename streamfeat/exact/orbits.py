"""Double sums over given orbits: any kernel of the distance, Haar or weighted by q."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]
OfSquares = Callable[[Floats], Floats]

BLOCK_DISTANCES = 1 << 22
"""Distances held at a time: 32 MB."""


def gaussian(sigma: float) -> OfSquares:
    """exp(-u / (2 sigma^2)), as a function of u = ||x - z||^2."""
    return lambda squares: np.exp(squares / (-2.0 * sigma * sigma))


def laplacian(sigma: float) -> OfSquares:
    """exp(-||x - z|| / sigma), as a function of ||x - z||^2."""
    return lambda squares: np.exp(np.sqrt(squares) / -sigma)


def distance(squares: Floats) -> Floats:
    """||x - z||, as a function of its square."""
    return np.sqrt(squares)


def orbit_mean(
    X: ArrayLike, Z: ArrayLike, of: OfSquares, *, q: ArrayLike | None = None, q_z: ArrayLike | None = None
) -> Floats:
    """Sum over i, j of q_i q_j f(||x_i - z_j||^2), for every orbit of X with every orbit of Z.

    Where G is a group, acts by isometries and is averaged evenly, one side is enough: f(||gx - g'z||) depends on
    g^-1 g' alone. Give X as orbits of one element then.

    Parameters
    ----------
    X : (n, r, d), Z : (p, s, d)
        Orbits: r and s moved copies of each point.
    of : callable
        f, elementwise on squared distances: `distance`, `gaussian(sigma)`, `laplacian(sigma)` or your own.
    q : (r,), q_z : (s,), optional
        Weights of the elements, which sum to 1; evenly without. `q_z` is `q` where it is left out and r = s.

    Returns
    -------
    (n, p)

    Raises
    ------
    InvalidArgument
        Shapes that do not fit, or weights that are negative or do not sum to 1.
    """
    A, B = (_orbits(given) for given in (X, Z))
    if A.shape[2] != B.shape[2]:
        raise InvalidArgument(f"orbits must hold vectors of one length, got {A.shape[2]} and {B.shape[2]}")
    w = _weights(q, A.shape[1])
    w_z = _weights(q if q_z is None and A.shape[1] == B.shape[1] else q_z, B.shape[1])
    (n, r, d), (p, s, _) = A.shape, B.shape
    squares_a, squares_b = (np.einsum("nrd,nrd->nr", points, points) for points in (A, B))
    out = np.empty((n, p))
    step = max(1, BLOCK_DISTANCES // (r * s))
    for i in range(n):
        for first in range(0, p, step):
            some = B[first : first + step]
            u = (some.reshape(-1, d) @ A[i].T).reshape(len(some), s, r)
            u *= -2.0
            u += squares_b[first : first + step, :, None]
            u += squares_a[i]
            # a point's distance to itself is zero, not the root of a rounding error
            u[u < 1e-14 * squares_a[i].max(initial=1e-300)] = 0.0
            out[i, first : first + step] = of(u) @ w @ w_z
    return out


def orbit_kernel(
    X: ArrayLike, Z: ArrayLike, sigma: float, *, q: ArrayLike | None = None, q_z: ArrayLike | None = None
) -> Floats:
    """k_{q,G}(x, z) = sum of q(g) q(g') exp(-||gx - g'z||^2 / (2 sigma^2)); evenly: the Haar kernel.

    Paper A, equation (1); paper B, equations (3) and, evenly, (4). Parameters as `orbit_mean`.
    """
    return orbit_mean(X, Z, gaussian(sigma), q=q, q_z=q_z)


def orbit_distance(X: ArrayLike, Z: ArrayLike, *, q: ArrayLike | None = None, q_z: ArrayLike | None = None) -> Floats:
    """D(x, z) = E ||gx - g'z||, the integral in paper A's Theorem 1. Parameters as `orbit_mean`."""
    return orbit_mean(X, Z, distance, q=q, q_z=q_z)


def base_mean(X: ArrayLike, Z: ArrayLike, of: OfSquares) -> Floats:
    """f(||x - z||^2) for points X (n, d) and Z (p, d): what one shared element gives, and q = delta at e."""
    return orbit_mean(np.asarray(X)[:, None], np.asarray(Z)[:, None], of)


def cyclic_orbit(X: ArrayLike) -> Floats:
    """All d shifts of each row of X (n, d), (n, d, d): row s is x moved s places on."""
    rows = np.asarray(X, np.float64)
    d = rows.shape[1]
    return np.ascontiguousarray(rows[:, (np.arange(d) - np.arange(d)[:, None]) % d])


def _orbits(given: ArrayLike) -> Floats:
    orbits = np.asarray(given, np.float64)
    if orbits.ndim != 3 or 0 in orbits.shape:
        raise InvalidArgument(f"orbits must have the shape (points, elements, d), got {orbits.shape}")
    return orbits


def _weights(q: ArrayLike | None, n: int) -> Floats:
    if q is None:
        return np.full(n, 1.0 / n)
    w = np.asarray(q, np.float64)
    if w.shape != (n,) or not (w >= 0).all() or not math.isclose(float(w.sum()), 1.0, rel_tol=1e-9):
        raise InvalidArgument(f"q must be {n} weights, none negative, that sum to 1; got {q!r}")
    return w
