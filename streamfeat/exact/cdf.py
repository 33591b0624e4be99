"""What CDF features estimate: the truncated kernel K_s of paper A, in closed form at any d.

Paper A: Mroueh, Voinea and Poggio 2015. Templates are t = n ~ N(0, I/d) where ||n||^2 < 1 + epsilon, s = 1 + epsilon.
The paper's Theorem 1 gives K_s = 1 - d_G up to epsilon and terms that vanish with d; here they are computed: a uniform
direction meets a length whose mean under rejection is a ratio of two chi-square distributions.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]
Rejection = Literal["redraw", "zero", "none"]


def acceptance(d: int, epsilon: float) -> tuple[float, float]:
    """p = P(||n||^2 < 1 + epsilon), and c = E ||n|| under rejection over E ||n|| without.

    p = F_d(d (1 + epsilon)) and c = F_{d+1}(d (1 + epsilon)) / p, F_k the chi-square distribution of k degrees: the
    density of ||n|| times the length is that of one degree more. Paper A, section 3 (templates) and Theorem 1.
    """
    from scipy.special import gammainc  # P(k/2, u/2) is the chi-square distribution

    if d < 1 or not epsilon > -1:
        raise InvalidArgument(f"a template has d >= 1 numbers and epsilon > -1, got d = {d}, epsilon = {epsilon}")
    half = d * (1.0 + epsilon) / 2.0
    p = float(gammainc(d / 2.0, half))
    return p, float(gammainc((d + 1) / 2.0, half)) / p


def group_distance(D: ArrayLike, d: int) -> Floats:
    """d_G = D / sqrt(2 pi d), D = E ||gx - g'z|| (`orbits.orbit_distance`). Paper A, Theorem 1."""
    return np.asarray(D, np.float64) / math.sqrt(2.0 * math.pi * d)


def truncated_kernel(D: ArrayLike, d: int, epsilon: float, rejection: Rejection = "redraw") -> Floats:
    """K_s(x, z) = E_t of the integral over -s..s of psi(x, t, tau) psi(z, t, tau), for D = E ||gx - g'z||.

    Paper A, section 3 and Theorem 1, whose bounds it replaces by an equality, for ||x||, ||z|| <= 1:

    "redraw" (a refused template is drawn again, as banks do): K_s = s - c d_G
    "zero" (a refused template counts as nothing):             K_s = p s - p c d_G
    "none" (no template is refused; s alone truncates):        K_s = s - d_G, up to what lies beyond s

    Parameters
    ----------
    D : array_like
        Orbit distances, any shape.
    d : int
    epsilon : float
        s = 1 + epsilon.
    """
    p, c = acceptance(d, epsilon)
    d_g = group_distance(D, d)
    if rejection == "redraw":
        return 1.0 + epsilon - c * d_g
    if rejection == "zero":
        return p * (1.0 + epsilon) - p * c * d_g
    if rejection == "none":
        return 1.0 + epsilon - d_g
    raise InvalidArgument(f"rejection must be 'redraw', 'zero' or 'none', got {rejection!r}")


def template_integral(a: ArrayLike, b: ArrayLike, s: float) -> Floats:
    """The integral over -s..s of F_x F_z for one template: s - mean over i, j of clip(max(a_i, b_j), -s, s).

    Paper A, the integral in K_s before its mean over t; F_x and F_z are the empirical psi.

    Parameters
    ----------
    a : (..., r), b : (..., r')
        Projections <g_i x, t> and <g_j z, t>.

    Returns
    -------
    (...)
    """
    A, B = np.asarray(a, np.float64), np.asarray(b, np.float64)
    largest = np.maximum(A[..., :, None], B[..., None, :])
    return np.asarray(s - np.clip(largest, -s, s).mean(axis=(-2, -1)))


def discretisation_bound(s: float, n: int) -> float:
    """0 < (s/n) sum over k of F_x F_z - the integral <= s / n, tau_k = s k / n, k = -n..n; its mean is near s / (2n).

    Paper A, the n of Theorem 2: the products rise with tau, so the sum is an upper one and its gap telescopes.
    """
    return s / n


def sampled_kernel(D: ArrayLike, base: ArrayLike, r: int, d: int, epsilon: float) -> Floats:
    """E <Phi(x), Phi(z)> where r elements are drawn once and used for x and for z.

    s - c / sqrt(2 pi d) [(1 - 1/r) D + ||x - z|| / r]. Paper A's estimate (section 3) has g_i x and g_i z
    in it: with probability 1/r the two elements are the same one.

    Parameters
    ----------
    D : array_like
        E ||gx - g'z|| of the law.
    base : array_like
        ||x - z||.
    """
    mixed = (1.0 - 1.0 / r) * np.asarray(D, np.float64) + np.asarray(base, np.float64) / r
    return truncated_kernel(mixed, d, epsilon)


def energy_distance(D_xz: ArrayLike, D_xx: ArrayLike, D_zz: ArrayLike, d: int, epsilon: float) -> Floats:
    """E ||Phi(x) - Phi(z)||^2 -> c / sqrt(2 pi d) (2 D(x, z) - D(x, x) - D(z, z)).

    So 1-NN on features is 1-NN in the energy distance of orbits, which is zero on equal orbits and nowhere else. Paper
    A, section 4 (1-NN); from K_s above.
    """
    _, c = acceptance(d, epsilon)
    gap = 2.0 * np.asarray(D_xz, np.float64) - np.asarray(D_xx, np.float64) - np.asarray(D_zz, np.float64)
    return c * group_distance(gap, d)


def column_product(rho: ArrayLike, tau: ArrayLike, d: int) -> Floats:
    """P(<gx, t> <= tau and <g'z, t> <= tau) for t ~ N(0, I/d) and unit x, z with <gx, g'z> = rho.

    Phi(h) - 2 T(h, sqrt((1 - rho) / (1 + rho))), h = tau sqrt(d), T Owen's function; 1/2 - arccos(rho) / (2 pi) at 0.
    Its mean over g, g' is what the product of one pair of CDF columns of paper A has as its mean, without rejection.
    Shapes broadcast.
    """
    from scipy.special import ndtr, owens_t

    rho_, tau_ = np.broadcast_arrays(np.asarray(rho, np.float64), np.asarray(tau, np.float64))
    h = tau_ * math.sqrt(d)
    # rho = -1 asks for T(h, inf), which scipy knows; rounding may put rho past either end
    clipped = np.clip(rho_, -1.0, 1.0)
    with np.errstate(divide="ignore"):
        slope = np.sqrt((1.0 - clipped) / (1.0 + clipped))
    return np.asarray(ndtr(h) - 2.0 * owens_t(h, slope))
