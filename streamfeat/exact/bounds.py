"""How far an estimate may be from its kernel: biases, variances, and the theorems in the form that can be computed.

Paper A: Mroueh, Voinea and Poggio 2015. Paper B: Raj, Kumar, Mroueh, Fletcher and Schoelkopf 2017. The theorems are
stated there up to constants; here the constants come from the inequalities that the proofs rest on.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Floats = NDArray[np.float64]


def sampled_mean(kernel: ArrayLike, base: ArrayLike, r: int) -> Floats:
    """E k_hat = (1 - 1/r) k_{q,G} + (1/r) k(x, z), the r elements drawn once and used on both sides.

    Paper B, equation (6): r of its r^2 terms have i = j, and k(gx, gz) = k(x, z) for a unitary action.
    """
    return (1.0 - 1.0 / r) * np.asarray(kernel, np.float64) + np.asarray(base, np.float64) / r


def debiased(estimate: ArrayLike, base: ArrayLike, r: int) -> Floats:
    """(r k_hat - k(x, z)) / (r - 1): the estimate without its r equal pairs, unbiased for k_{q,G}. Paper B, (6).

    Parameters
    ----------
    estimate : array_like
        k_hat, of r >= 2 elements drawn once and used on both sides.
    base : array_like
        The kernel without the group, k(x, z).
    """
    if r < 2:
        raise InvalidArgument(f"one element has no other to be paired with; debiasing needs r >= 2, got {r}")
    return (r * np.asarray(estimate, np.float64) - np.asarray(base, np.float64)) / (r - 1.0)


def rff_variance(k: ArrayLike, n_outputs: int, pairs: bool = True) -> Floats:
    """Variance of the random Fourier estimate of a Gaussian kernel value k, from n_outputs numbers.

    Sine and cosine pairs, paper B's equation (7) in real numbers: (1 + k^4 - 2 k^2) / D. Cosine with a random offset:
    (1 + k^4 / 2 - k^2) / D. k^4 is the kernel at twice the distance.
    """
    value = np.asarray(k, np.float64)
    if pairs:
        return np.asarray((1.0 + value**4 - 2.0 * value**2) / n_outputs)
    return np.asarray((1.0 + value**4 / 2.0 - value**2) / n_outputs)


def rff_bound(d: int, diameter: float, sigma: float, m: int, delta: float) -> float:
    """epsilon_1 of paper B's Theorem 3.1: with probability 1 - delta no pair of GM is further off.

    Rahimi and Recht 2007, Claim 1, on GM: P(sup >= e) <= 2^8 (sqrt(d) diam / (sigma e))^2 exp(-m e^2 / (4 (d + 2))),
    solved for e by bisection; m frequencies.
    """
    spread = 8.0 * math.log(2.0) + 2.0 * math.log(math.sqrt(d) * diameter / sigma) - math.log(delta)

    def excess(e: float) -> float:
        return spread - 2.0 * math.log(e) - m * e * e / (4.0 * (d + 2.0))

    low, high = 1e-12, 1.0
    while excess(high) > 0:
        high *= 2.0
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def rff_pairs_bound(n_points: int, m: int, delta: float) -> float:
    """epsilon_1 for the pairs of n points: sqrt(2 log(n (n + 1) / delta) / m).

    Hoeffding over m frequencies, each worth a number in [-1, 1], and a union over n (n + 1) / 2 pairs and two sides.
    """
    return math.sqrt(2.0 * math.log(n_points * (n_points + 1) / delta) / m)


def group_bound(r: int, n_points: int, delta: float) -> float:
    """epsilon_2 of paper B's Theorem 3.1 for the pairs of n points: 2 (1 + sqrt(2 log(n / delta))) / sqrt(r).

    |k_hat - k_{q,G}| <= 2 max ||mu_hat - mu||, and an empirical mean embedding of a kernel with k(x, x) = 1 is within
    (1 + sqrt(2 log(1 / delta))) / sqrt(r) of its own; a union over points.
    """
    return 2.0 * (1.0 + math.sqrt(2.0 * math.log(n_points / delta))) / math.sqrt(r)


def cdf_bound(n_points: int, s: float, m: int, n_bins: int, delta: float) -> float:
    """epsilon_0 + epsilon_1 of paper A's Theorem 2 for the pairs of n points: s/n + 2s sqrt(log(n (n+1)/delta) / 2m).

    Hoeffding over m templates, each worth a number in [0, 2s] (and s / n of discretisation), with a union over pairs.
    """
    return s / n_bins + 2.0 * s * math.sqrt(math.log(n_points * (n_points + 1) / delta) / (2.0 * m))


def cdf_group_bound(n_points: int, s: float, m: int, r: int, delta: float) -> float:
    """epsilon_2 of paper A's Theorem 2 for n points, m templates and r elements: 4s sqrt(log(2 n m / delta) / (2r)).

    Each empirical psi is within sqrt(log(2 n m / delta) / (2r)) of its own for all tau at once (Dvoretzky, Kiefer,
    Wolfowitz; Massart's constant) with a union over points and templates; products of two, over an interval of 2s.
    """
    return 4.0 * s * math.sqrt(math.log(2.0 * n_points * m / delta) / (2.0 * r))
