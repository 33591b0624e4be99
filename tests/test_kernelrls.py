"""Kernel RLS: RLS in the kernel's feature space, whoever gives the kernel; sigma and lambda the best of all pairs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.kernelrls import KernelRegressor, KernelRLS
from streamfeat.learn.rls import RLS, IllConditioned
from tests import naive_learn as naive
from tests.test_regression import numbers
from tests.test_rls import SHAPES, one_against_all, problem


def rings(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Points on two rings, which no line parts."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + codes + 0.1 * rng.standard_normal(n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), codes


def features_of(K: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows whose products are K."""
    eigenvalues, vectors = np.linalg.eigh(K)
    rows: NDArray[np.float64] = vectors * np.sqrt(eigenvalues.clip(min=0))
    return rows


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_linear_kernel_is_rls(n: int, d: int, intercept: bool, weighted: bool) -> None:
    """With the linear kernel, lambda, the held-out table and all scores are those of RLS, primal or dual."""
    X, codes = problem(n, d)
    w = np.linspace(0.5, 2, n) if weighted else None
    rls = RLS("loo", standardise="centre" if intercept else "none").fit(X, codes, sample_weight=w)
    kernel = KernelRLS("loo", kernel="linear", intercept=intercept).fit(X, codes, sample_weight=w)
    assert kernel.lam_ == pytest.approx(rls.lam_, rel=1e-10)
    np.testing.assert_allclose(kernel.held_out_.lams, rls.held_out_.lams, rtol=1e-10)
    # below 1e-6 of the mean square the dual inverts eigenvalues that are rounding where n > D
    np.testing.assert_allclose(kernel.held_out_.mse[5:], rls.held_out_.mse[5:], rtol=1e-6)
    lam = float(rls.lam_)
    again = KernelRLS(lam, kernel="linear", intercept=intercept).fit(X, codes, sample_weight=w)
    queries = X + 0.5
    # the chosen lambda may be 1e-10 of the mean square: a condition number of 1e10
    np.testing.assert_allclose(again.decision_function(queries), rls.decision_function(queries), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("groups", [None, np.arange(14) % 4])
def test_held_out_errors_are_those_of_fits_without(intercept: bool, groups: NDArray[np.intp] | None) -> None:
    """In the Gaussian kernel's feature space: leave-one-out and leave-one-group-out by fitting again."""
    X, codes = problem(14, 3)
    Y = one_against_all(codes)
    rls = KernelRLS("loo" if groups is None else "logo", sigma=2.0, intercept=intercept, grid=[1e-2, 1.0])
    rls.fit(X, codes, groups)
    F = features_of(naive.gaussian_gram(X, X, 2.0))
    of_row = list(range(14)) if groups is None else list(groups)
    for lam, mse in zip(rls.held_out_.lams, rls.held_out_.mse, strict=True):
        scores = naive.held_out_scores(F, Y, 14 * lam, intercept, of_row)
        # a square root of K loses half of its digits in the smallest directions
        np.testing.assert_allclose(mse, np.mean((Y - scores) ** 2, axis=0), rtol=1e-6)


def test_one_kernel_by_every_door() -> None:
    """By name, as a function and as Gram matrices: the same scores."""
    X, codes = rings(40)
    queries, _ = rings(15, seed=1)
    named = KernelRLS("loo", sigma=0.7).fit(X, codes)
    own = KernelRLS("loo", kernel=lambda A, B: naive.gaussian_gram(A, B, 0.7)).fit(X, codes)
    given = KernelRLS("loo", kernel="precomputed").fit(naive.gaussian_gram(X, X, 0.7), codes)
    expected = named.decision_function(queries)
    # the same kernel to a few ulps; the chosen lambda may be a condition number of 1e9
    np.testing.assert_allclose(own.decision_function(queries), expected, atol=1e-7)
    np.testing.assert_allclose(given.decision_function(naive.gaussian_gram(queries, X, 0.7)), expected, atol=1e-7)
    assert named.score(queries, [int(c) for c in np.arange(15) % 2]) > 0.9


@pytest.mark.parametrize("measure", ["accuracy", "squared-error"])
def test_sigma_and_lambda_are_the_best_of_all_pairs(measure: str) -> None:
    """No tried pair answers the held-out rows better; each sigma's table is that of a fit at that sigma."""
    X, codes = rings(60)
    rls = KernelRLS("loo", measure=measure, grid="gurls").fit(X, codes)
    tried = rls.solution_.tried
    assert len(tried) == 25
    if measure == "accuracy":
        assert rls.held_out_.accuracy == max(table.accuracies.max() for table in tried.values())
    else:
        assert rls.held_out_.squared_error == min(table.mse.mean(axis=1).min() for table in tried.values())
    alone = KernelRLS("loo", sigma=rls.sigma_, measure=measure, grid="gurls").fit(X, codes)
    assert alone.lam_ == rls.lam_
    np.testing.assert_array_equal(alone.decision_function(X), rls.decision_function(X))


def test_without_anyone_to_hold_out_the_middle_sigma_is_taken() -> None:
    """One example a class: the default lambda, the middle width, and finite scores."""
    X, _ = problem(4, 6)
    rls = KernelRLS().fit(X, ["a", "b", "c", "d"])
    assert rls.held_out_.criterion == "default"
    assert rls.predict(X) == ["a", "b", "c", "d"]
    assert 0.2 < rls.sigma_ / np.median(np.sqrt(naive.squared_distances(X, X)[np.triu_indices(4, 1)])) < 5


def test_scores_do_not_depend_on_the_batch() -> None:
    """A row alone has bit for bit the scores it has among others."""
    X, codes = problem(37, 50)
    for kernel in ("rbf", "linear"):
        rls = KernelRLS(0.1, kernel=kernel).fit(X, codes)
        alone = np.vstack([rls.decision_function(X[i : i + 1]) for i in range(37)])
        np.testing.assert_array_equal(alone, rls.decision_function(X))


@pytest.mark.parametrize("intercept", [True, False])
def test_a_rank_is_exact_where_the_rank_is_there(intercept: bool) -> None:
    """A kernel of rank 5 in 6 directions: the exact answer; a rank over n: the same to the bit."""
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((40, 5)), np.arange(40) % 3
    exact = KernelRLS(0.1, kernel="linear", intercept=intercept).fit(X, codes).decision_function(X)
    within = KernelRLS(0.1, kernel="linear", intercept=intercept, rank=6).fit(X, codes).decision_function(X)
    # the sixth direction is rounding: eps times the condition of the kept ones
    np.testing.assert_allclose(within, exact, atol=1e-8)
    full = KernelRLS(0.1, kernel="linear", intercept=intercept, rank=40).fit(X, codes).decision_function(X)
    np.testing.assert_array_equal(full, exact)


def test_a_rank_comes_near() -> None:
    """A smooth kernel needs few directions, and the held-out closed forms hold within them."""
    X, codes = rings(120)
    exact, within = (KernelRLS("loo", sigma=1.0, rank=rank).fit(X, codes) for rank in (None, 30))
    assert within.held_out_.accuracy >= exact.held_out_.accuracy - 0.02
    zeros = KernelRLS(0.1, kernel="linear", rank=2).fit(np.zeros((5, 3)), [0, 0, 0, 1, 1])
    assert zeros.predict(np.zeros((1, 3))) == [0]


@pytest.mark.parametrize("d", [4, 30])
def test_kernel_regression_is_kernel_ridge(d: int) -> None:
    """alpha = (K + n lam I)^-1 Y without an intercept, by solving it; one target answers (q,)."""
    X, Y = numbers(20, d)
    regressor = KernelRegressor(0.05, sigma=3.0, intercept=False).fit(X, Y)
    K = naive.gaussian_gram(X, X, 3.0)
    alpha = np.linalg.solve(K + 20 * 0.05 * np.eye(20), Y)
    # condition number about 1e2
    np.testing.assert_allclose(regressor.solution_.alpha, alpha, atol=1e-10)
    np.testing.assert_allclose(regressor.predict(X), K @ alpha, atol=1e-9)
    assert KernelRegressor(0.05).fit(X, Y[:, 0]).predict(X[:3]).shape == (3,)


def test_a_constant_added_to_targets_is_added_to_answers() -> None:
    """The intercept is not penalised."""
    X, Y = numbers(25, 3)
    low, high = (KernelRegressor("loo").fit(X, Y + c).predict(X) for c in (0.0, 1e3))
    # the targets are known to 1e3 eps
    np.testing.assert_allclose(high - 1e3, low, atol=1e-7)


def test_ill_conditioned_is_said() -> None:
    """A lambda below rounding is solved with a warning; ordinary data warn of nothing."""
    X, codes = problem(20, 2)
    with pytest.warns(IllConditioned, match="condition number"):
        KernelRLS(1e-18, sigma=50.0).fit(X, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelRLS().fit(X, codes)


def test_what_is_no_gram_matrix_is_refused() -> None:
    """Not square, not symmetric, with negative eigenvalues, of another width, or from a function that gives less."""
    cases: list[tuple[str, Any]] = [
        ("must be square", np.ones((2, 3))),
        ("must be symmetric", np.array([[1.0, 0.5], [0.0, 1.0]])),
        ("negative eigenvalues", np.array([[1.0, 2.0], [2.0, 1.0]])),
        ("non-finite", np.array([[1.0, np.nan], [np.nan, 1.0]])),
    ]
    for match, K in cases:
        with pytest.raises(InvalidArgument, match=match):
            KernelRLS(0.1, kernel="precomputed").fit(K, [0, 1])
    fitted = KernelRLS(0.1, kernel="precomputed").fit(np.eye(2), [0, 1])
    with pytest.raises(InvalidArgument, match=r"2 columns.*got 3"):
        fitted.predict(np.ones((1, 3)))
    with pytest.raises(InvalidArgument, match="kernel must give"):
        KernelRLS(0.1, kernel=lambda _X, _Z: [1.0]).fit(np.eye(2), [0, 1])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernel": "poly"}, "kernel must be"),
        ({"sigma": 0.0}, "sigma must be"),
        ({"sigma": "loo"}, "sigma must be"),
        ({"intercept": 1}, "intercept must be"),
        ({"balance": 1}, "balance must be"),
        ({"rank": 0}, "rank must be"),
        ({"lam": -1.0}, "lam must be"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], match: str) -> None:
    """Named, with what is known."""
    with pytest.raises(InvalidArgument, match=match):
        KernelRLS(**options)
    with pytest.raises(InvalidArgument, match="call fit"):
        KernelRLS().predict(np.eye(2))
