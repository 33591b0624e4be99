"""A feature map beside its exact kernel."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from streamfeat.bank import build_bank
from streamfeat.bankspec import BankSpec
from streamfeat.errors import InvalidArgument
from streamfeat.exact.bounds import rff_variance
from streamfeat.exact.cdf import truncated_kernel
from streamfeat.exact.orbits import Floats, base_mean, gaussian, orbit_distance, orbit_kernel
from streamfeat.featuremap import FeatureMap
from streamfeat.groups.operators import Operator, OperatorStack, stack
from streamfeat.kernel_error import base_kernel, kernel_error, own_kernel
from streamfeat.signals import Signal

D = 5
ORDERS = np.array(list(itertools.permutations(range(D))))
FOURIER: dict[str, Any] = {"kind": "fourier", "sigma": 0.5}
PAPER: dict[str, Any] = {"kind": "cdf", "thresholds": "paper", "n_bins": 25}


def permutations(orders: np.ndarray[Any, Any]) -> OperatorStack:
    """Operators that put entry p_i at place i."""
    one = np.ones(D, np.float32)
    operators = [Operator(np.arange(D), order, one, D) for order in orders]
    return stack(operators, orders.astype(np.float64), tuple(f"from_{i}" for i in range(D)), {})


def feature_map(
    pooling: dict[str, Any], m: int, orders: np.ndarray[Any, Any] | None = ORDERS, **keys: Any
) -> FeatureMap:
    """A bank of vectors of five numbers under the given permutations, or none."""
    spec = {
        "name": "vectors",
        "front_end": [{"stage": "array", "rows": D}],
        "templates": {"source": "fourier" if pooling["kind"] == "fourier" else "gaussian", "m": m},
        "group": [] if orders is None else [{"factor": "user"}],
        "pooling": pooling,
        "renormalise": False,
        **keys,
    }
    return FeatureMap(build_bank(BankSpec.from_dict(spec), operators=[] if orders is None else [permutations(orders)]))


def unit_points(n: int = 8) -> Floats:
    """Points of norm 1."""
    X = np.random.default_rng(5).standard_normal((n, D))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def test_own_kernels_are_the_exact_ones() -> None:
    """All of S_5: the double sum over the bank's elements is the one-sided mean; CDF by Theorem 1."""
    X = unit_points().astype(np.float32).astype(np.float64)
    fourier, cdf = feature_map(FOURIER, 4).bank, feature_map(PAPER, 4).bank
    np.testing.assert_allclose(own_kernel(fourier, X), orbit_kernel(X[:, None], X[:, ORDERS], 0.5), rtol=1e-12)
    K = truncated_kernel(orbit_distance(X[:, None], X[:, ORDERS]), D, 0.5)
    np.testing.assert_allclose(own_kernel(cdf, X), K, rtol=1e-12)
    np.testing.assert_allclose(base_kernel(fourier, X), base_mean(X, X, gaussian(0.5)), rtol=1e-12)


@pytest.mark.parametrize("pooling", [FOURIER, PAPER])
def test_features_stay_below_the_bound(pooling: dict[str, Any]) -> None:
    """Full group: templates are the only chance, and the theorem's bound holds with room."""
    error = kernel_error(feature_map(pooling, 500), unit_points())
    assert 0 < error.largest < error.bound
    assert error.spectral < 0.1
    assert error.frobenius < 0.1
    assert (error.n_items, error.m, error.r) == (8, 500, 120)


def test_plain_features_have_the_variance_that_is_known() -> None:
    """|G| = 1: the mean of 40 squared errors is rff_variance within 5 standard errors, and debiasing is nothing."""
    X = unit_points(2)
    K = base_mean(X, X, gaussian(0.5))
    errors = []
    for seed in range(40):
        fmap = feature_map(FOURIER, 50, None, seed=seed)
        Phi = fmap.of_vectors(X.astype(np.float32)).astype(np.float64)
        errors.append((Phi[0] @ Phi[1] - K[0, 1]) ** 2)
        error = kernel_error(fmap, X)
        assert error.debiased_frobenius == error.frobenius
    v = rff_variance(K[0, 1], 100).item()
    assert abs(np.mean(errors) - v) < 5 * v * math.sqrt(2 / 40)  # errors are nearly normal: chi-square of 40


def test_debiasing_takes_the_equal_pairs_off() -> None:
    """Two permutations, drawn a hundred times: the mean error of the debiased estimate is smaller by far."""
    X = unit_points()
    exact = orbit_kernel(X[:, None], X[:, ORDERS], 0.5)
    rng = np.random.default_rng(1)
    plain, better = [], []
    for _ in range(30):
        bank = feature_map(FOURIER, 64, ORDERS[rng.integers(len(ORDERS), size=2)]).bank
        own = own_kernel(bank, X)
        plain.append(own - exact)
        better.append(2 * own - base_kernel(bank, X) - exact)
    assert np.linalg.norm(np.mean(better, axis=0)) < 0.5 * np.linalg.norm(np.mean(plain, axis=0))
    error = kernel_error(feature_map(FOURIER, 4000, ORDERS[[3, 70]]), X, exact)
    assert error.debiased_frobenius < error.frobenius


def test_signals_are_as_good_as_vectors() -> None:
    """The front end is applied to signals."""
    X = unit_points(3).astype(np.float32)
    fmap = feature_map(FOURIER, 20)
    signals = [Signal("array", x) for x in X]
    vectors = np.stack([fmap.front_end(signal) for signal in signals])
    assert kernel_error(fmap, signals) == kernel_error(fmap, vectors)


def test_what_is_not_known_exactly_is_refused() -> None:
    """By what is wrong, and what it would take."""
    X = unit_points(2)
    sigma = feature_map({"kind": "cdf", "thresholds": "sigma", "n_bins": 5}, 4)
    with pytest.raises(InvalidArgument, match="'paper'"):
        kernel_error(sigma, X)
    with pytest.raises(InvalidArgument, match=r"shape \(n, 5\)"):
        kernel_error(feature_map(FOURIER, 4), X[:, :3])
    with pytest.raises(InvalidArgument, match="at least one"):
        kernel_error(feature_map(FOURIER, 4), [])
    with pytest.raises(InvalidArgument, match=r"shape \(2, 2\)"):
        kernel_error(feature_map(FOURIER, 4), X, np.ones((3, 3)))
    half = Operator(np.arange(D), np.arange(D), np.full(D, 0.5, np.float32), D)
    shrunk = stack([half], np.zeros((1, 1)), ("half",), {})
    spec = feature_map(FOURIER, 4).bank.spec.as_dict() | {"group": [{"factor": "user"}], "renormalise": True}
    bank = build_bank(BankSpec.from_dict(spec), operators=[shrunk])
    with pytest.raises(InvalidArgument, match="renormalise = false"):
        kernel_error(FeatureMap(bank), X)
