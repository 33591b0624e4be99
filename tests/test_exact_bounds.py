"""Biases, variances and bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.exact.bounds import (
    cdf_bound,
    cdf_group_bound,
    debiased,
    group_bound,
    rff_bound,
    rff_pairs_bound,
    rff_variance,
    sampled_mean,
)
from streamfeat.exact.orbits import Floats, base_mean, gaussian, orbit_kernel

ORDERS = np.array(list(itertools.permutations(range(4))))


def estimates(r: int, draws: int) -> tuple[Floats, float, float]:
    """k_hat from r shared permutations, many times; with k_G and k."""
    x, z = np.random.default_rng(0).standard_normal((2, 1, 4)) / 2
    drawn = ORDERS[np.random.default_rng(1).integers(len(ORDERS), size=(draws, r))]
    X, Z = x[0][drawn], z[0][drawn]
    squares = np.square(X[:, :, None] - Z[:, None]).sum(axis=3)
    k_hat = np.exp(-squares / (2 * 0.25)).mean(axis=(1, 2))
    k_g = orbit_kernel(x[None], z[:, ORDERS], 0.5)[0, 0]
    return k_hat, k_g, base_mean(x, z, gaussian(0.5))[0, 0]


@pytest.mark.parametrize("r", [2, 5])
def test_shared_elements_bias_and_how_it_goes(r: int) -> None:
    """20,000 draws: the mean is the mixture, and the debiased mean is the kernel, within 5 standard errors."""
    k_hat, k_g, k = estimates(r, 20_000)
    error = k_hat.std(ddof=1) / math.sqrt(len(k_hat))
    assert abs(k_hat.mean() - sampled_mean(k_g, k, r)) < 5 * error
    assert abs(debiased(k_hat, k, r).mean() - k_g) < 5 * error * r / (r - 1)
    assert debiased(sampled_mean(k_g, k, r), k, r) == pytest.approx(k_g, rel=1e-14)


def test_one_element_has_no_pair() -> None:
    """r = 1 cannot be debiased."""
    with pytest.raises(InvalidArgument, match="r >= 2"):
        debiased(0.5, 0.5, 1)


@pytest.mark.parametrize("pairs", [True, False])
def test_variance_of_fourier_features(pairs: bool) -> None:
    """64 outputs, u = 0.9, 40,000 maps: the variance of k_hat within 5 of its standard errors (sqrt(2/n) v)."""
    rng = np.random.default_rng(2)
    n, outputs, u = 40_000, 64, 0.9
    w = rng.standard_normal((n, outputs // 2 if pairs else outputs))
    if pairs:
        k_hat = np.cos(w * u).mean(axis=1)  # cos a cos b + sin a sin b
    else:
        b = rng.uniform(0, 2 * np.pi, w.shape)
        k_hat = 2 * (np.cos(b) * np.cos(w * u + b)).mean(axis=1)
    k = math.exp(-(u**2) / 2)
    v = rff_variance(k, outputs, pairs).item()
    assert abs(k_hat.var(ddof=1) - v) < 5 * v * math.sqrt(2 / n)


def test_bounds_hold_on_draws() -> None:
    """At delta = 0.05 no bound may fail in more than 5 of 100 draws; these fail in none, being unions."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 4)) / 2
    K = base_mean(X, X, gaussian(0.5))
    k_g = orbit_kernel(X[:, None], X[:, ORDERS], 0.5)
    for _ in range(100):
        w = rng.standard_normal((200, 4)) / 0.5
        phase = X @ w.T
        k_hat = (np.cos(phase) @ np.cos(phase).T + np.sin(phase) @ np.sin(phase).T) / 200
        assert np.abs(k_hat - K).max() < rff_pairs_bound(12, 200, 0.05)
        drawn = X[:, ORDERS[rng.integers(24, size=10)]]
        assert np.abs(orbit_kernel(drawn, drawn, 0.5) - k_g).max() < group_bound(10, 12, 0.05)


def test_the_uniform_bound_solves_its_inequality() -> None:
    """At e the probability is delta; it falls as sqrt(log m / m), and lies above the one for given pairs."""
    d, diameter, sigma, m, delta = 5, 2.0, 0.5, 10_000, 0.05
    e = rff_bound(d, diameter, sigma, m, delta)
    p = 2**8 * (math.sqrt(d) * diameter / (sigma * e)) ** 2 * math.exp(-m * e**2 / (4 * (d + 2)))
    assert p == pytest.approx(delta, rel=1e-9)
    assert e / rff_bound(d, diameter, sigma, 100 * m, delta) == pytest.approx(10, rel=0.2)  # the logarithm's share
    assert e > rff_pairs_bound(50, m, delta)


def test_rates_are_those_of_the_theorems() -> None:
    """1/sqrt(m), 1/sqrt(r), and s/n beside them."""
    assert rff_pairs_bound(9, 100, 0.1) / rff_pairs_bound(9, 10_000, 0.1) == pytest.approx(10)
    assert group_bound(10, 9, 0.1) / group_bound(1000, 9, 0.1) == pytest.approx(10)
    assert cdf_group_bound(9, 1.5, 50, 10, 0.1) / cdf_group_bound(9, 1.5, 50, 1000, 0.1) == pytest.approx(10)
    assert cdf_bound(9, 1.5, 100, 25, 0.1) - 0.06 == pytest.approx(10 * (cdf_bound(9, 1.5, 10_000, 25, 0.1) - 0.06))
