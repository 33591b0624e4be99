"""Group-invariant Gaussian kernels whose integrals have a name. Paper B, equations (3) and (4).

All are of k(x, z) = exp(-||x - z||^2 / (2 sigma^2)). Where the group keeps norms the kernel is a prefactor,
exp(-(||x||^2 + ||z||^2) / (2 sigma^2)), times a mean of exp(<gx, g'z> / sigma^2). Both are joined in the exponent, so
that neither overflows where the kernel does not.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]

MAX_PERMANENT = 20
"""Ryser's sum has 2^n terms."""
SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
"""Below it numbers lose digits, then vanish."""
LOG_EPSILON = math.log(np.finfo(np.float64).eps) - 5.0
"""Terms smaller than that beside a sum do not change it, nor do all that follow."""


def rotation_kernel(X: ArrayLike, Z: ArrayLike, sigma: float) -> Floats:
    """Haar kernel of SO(d), and of O(d), on R^d, d >= 2: prefactor * Gamma(d/2) (2/a)^(d/2-1) I_{d/2-1}(a).

    a = ||x|| ||z|| / sigma^2, I the modified Bessel function; for SO(2) it is I_0(a). Paper B, equation (4). What
    stands by the prefactor is near exp(a^2 / 2d) at any d; where I is below the smallest float, its series is summed.

    Parameters
    ----------
    X : (n, d), Z : (p, d)

    Returns
    -------
    (n, p)
    """
    from scipy.special import gammaln, ive

    A, B = _points(X), _points(Z)
    d = A.shape[1]
    if d < 2:
        raise InvalidArgument("SO(1) has no rotation; points need at least two numbers")
    a, rest = _length_product(A, B, sigma)
    order = d / 2.0 - 1.0
    bessel = np.asarray(ive(order, a))
    tiny = (bessel < SMALLEST_NORMAL) | (a == 0)
    log = np.empty_like(a)
    log[~tiny] = gammaln(d / 2.0) + order * np.log(2.0 / a[~tiny]) + np.log(bessel[~tiny])
    log[tiny] = _log_series(order, a[tiny]) - a[tiny]
    return np.asarray(np.exp(log + rest))


def von_mises_kernel(X: ArrayLike, Z: ArrayLike, sigma: float, kappa: float, sides: int = 2) -> Floats:
    """Local kernel of rotations of the plane under q(theta) = exp(kappa cos theta) / (2 pi I_0(kappa)).

    Two sides, paper B's equation (3): prefactor * [I_0(a) + 2 sum over n of I_n(a) (I_n(kappa) / I_0(kappa))^2
    cos(n phi)], phi the angle between x and z. One side (x alone is moved): prefactor * I_0(sqrt(kappa^2 + a^2 +
    2 kappa a cos phi)) / I_0(kappa). The mode is the identity; paper B prints exp(-kappa cos theta), whose mode is a
    half turn, against its own reason for it. kappa = 0 is `rotation_kernel`, kappa -> infinity the Gaussian kernel.

    Parameters
    ----------
    X : (n, 2), Z : (p, 2)
    """
    from scipy.special import i0e, ive

    A, B = _points(X), _points(Z)
    if A.shape[1] != 2:
        raise InvalidArgument(f"von Mises rotations turn points of the plane, got points of {A.shape[1]} numbers")
    if not kappa >= 0 or sides not in (1, 2):
        raise InvalidArgument(f"kappa must not be negative and sides 1 or 2, got {kappa!r} and {sides!r}")
    a, rest = _length_product(A, B, sigma)
    phi = np.arctan2(A[:, 1], A[:, 0])[:, None] - np.arctan2(B[:, 1], B[:, 0])
    if sides == 1:
        length = np.sqrt(np.maximum(kappa**2 + a**2 + 2.0 * kappa * a * np.cos(phi), 0.0))
        # e^(a + rest) is the kernel without a turn; exponents are summed before they are raised
        return np.asarray(i0e(length) / i0e(kappa) * np.exp(length - kappa - a + rest))
    total = i0e(a)
    for n in range(1, 100_000):
        ratio = float(ive(n, kappa) / i0e(kappa)) ** 2
        weight = ive(n, a) * ratio
        total = total + 2.0 * weight * np.cos(n * phi)
        if weight.max() <= 1e-18 * total.max():
            break
    return np.asarray(total * np.exp(rest))


def permutation_kernel(X: ArrayLike, Z: ArrayLike, sigma: float) -> Floats:
    """Haar kernel of S_n on the entries of a vector, or on the rows of a matrix: prefactor * perm(E) / n!.

    E_ij = exp(<x_i, z_j> / sigma^2). A permanent has one entry of each row and column in each term, so the prefactor
    goes into the entries: perm(exp(-||x_i - z_j||^2 / (2 sigma^2))) / n!, which cannot overflow. Paper B, equation (4),
    for its permutations; for the sequences of paper A's X_perm the rows are one-hot letters, and E has two values.

    Parameters
    ----------
    X : (n_points, n) or (n_points, n, width), Z : the same with another count
        n <= 20.
    """
    A, B = (np.asarray(P, np.float64) for P in (X, Z))
    A, B = (P[:, :, None] if P.ndim == 2 else P for P in (A, B))
    n = A.shape[1]
    squares = np.square(A[:, None, :, None] - B[None, :, None, :]).sum(axis=-1)
    return np.asarray(permanent(np.exp(squares / (-2.0 * sigma**2))) / math.factorial(n))


def permanent(E: ArrayLike) -> Floats:
    """Permanents of matrices (..., n, n) by Ryser's formula: (-1)^n sum over S of (-1)^|S| prod_i sum_{j in S} E_ij.

    Subsets are gone through in Gray code, one column on or off at a time: n 2^n additions. Ryser, "Combinatorial
    Mathematics", 1963. Terms cancel: about n digits of 16 are lost at n = 15.
    """
    M = np.asarray(E, np.float64)
    n = M.shape[-1]
    if M.shape[-2:] != (n, n) or not 1 <= n <= MAX_PERMANENT:
        raise InvalidArgument(f"permanents are of square matrices of up to {MAX_PERMANENT} rows, got {M.shape[-2:]}")
    total = np.zeros(M.shape[:-2])
    rows = np.zeros(M.shape[:-1])
    chosen = 0
    for step in range(1, 1 << n):
        column = (step & -step).bit_length() - 1
        chosen ^= 1 << column
        rows = rows + M[..., column] if chosen >> column & 1 else rows - M[..., column]
        product = rows.prod(axis=-1)
        total = total - product if (n - chosen.bit_count()) % 2 else total + product
    return total


def cyclic_kernel(X: ArrayLike, Z: ArrayLike, sigma: float) -> Floats:
    """Haar kernel of the d cyclic shifts: (1/d) sum over s of exp(-(||x||^2 + ||z||^2 - 2 c_s) / (2 sigma^2)).

    c = irfft(rfft(x) conj rfft(z)) holds <x, T_s z> for every shift s. Paper B, equation (4).

    Parameters
    ----------
    X : (n, d), Z : (p, d)
    """
    A, B = _points(X), _points(Z)
    squares = np.einsum("nd,nd->n", A, A)[:, None] + np.einsum("nd,nd->n", B, B)
    out = np.empty((len(A), len(B)))
    for i, x in enumerate(A):
        c = cyclic_projections(x, B)
        out[i] = np.exp((2.0 * c - squares[i][:, None]) / (2.0 * sigma**2)).mean(axis=1)
    return out


def cyclic_projections(x: ArrayLike, T: ArrayLike) -> Floats:
    """<x, T_s t> for every shift s and template t without a bank: irfft(rfft(x) conj rfft(t)).

    Parameters
    ----------
    x : (d,), T : (m, d)

    Returns
    -------
    (m, d)
    """
    v, B = np.asarray(x, np.float64), _points(T)
    return np.asarray(np.fft.irfft(np.fft.rfft(v) * np.conj(np.fft.rfft(B, axis=1)), n=len(v), axis=1))


def translation_kernel(X: ArrayLike, Z: ArrayLike, sigma: float, spread: float) -> Floats:
    """Points moved by b ~ N(0, spread^2 I), both sides: (v)^(d/2) exp(-||x - z||^2 / (2 (sigma^2 + 2 spread^2))).

    v = sigma^2 / (sigma^2 + 2 spread^2): a Gaussian meets a Gaussian. Paper B, equation (3).

    Parameters
    ----------
    X : (n, d), Z : (p, d)
    """
    A, B = _points(X), _points(Z)
    wide = sigma**2 + 2.0 * spread**2
    squares = np.square(A[:, None] - B).sum(axis=2)
    return np.asarray((sigma**2 / wide) ** (A.shape[1] / 2.0) * np.exp(-squares / (2.0 * wide)))


def _points(given: ArrayLike) -> Floats:
    points = np.asarray(given, np.float64)
    if points.ndim != 2:
        raise InvalidArgument(f"points must have the shape (n, d), got {points.shape}")
    return points


def _length_product(A: Floats, B: Floats, sigma: float) -> tuple[Floats, Floats]:
    """a = ||x|| ||z|| / sigma^2, and -(||x|| - ||z||)^2 / (2 sigma^2), which is a plus the prefactor's exponent."""
    x, z = (np.linalg.norm(P, axis=1) for P in (A, B))
    return x[:, None] * z / sigma**2, np.square(x[:, None] - z) / (-2.0 * sigma**2)


def _log_series(order: float, a: Floats) -> Floats:
    """log of sum over k of (a^2 / 4)^k / (k! (order + 1) ... (order + k)), which is Gamma(order + 1) (2/a)^order I(a).

    All terms are positive: none is lost. Its largest is at k (order + k) = a^2 / 4, which is soon for small a / order.
    """
    total, term = np.zeros_like(a), np.zeros_like(a)
    k = 0
    with np.errstate(divide="ignore"):
        step = 2.0 * np.log(a / 2.0)
    while (term > total + LOG_EPSILON).any():
        k += 1
        term = term + step - math.log(k) - math.log(order + k)
        total = np.logaddexp(total, term)
    return total
