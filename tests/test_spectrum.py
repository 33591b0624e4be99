"""Spectrum: closed forms with weights, and the rows kept within a rank."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.rls import RLS
from streamfeat.learn.spectrum import Spectrum, leading_directions
from tests import naive_learn as naive
from tests.test_rls import SHAPES, one_against_all, problem


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_leaving_out_weighted_rows_is_fitting_without(n: int, d: int, intercept: bool) -> None:
    """Leave-one-out and leave-one-group-out of rows with weights are weighted ridge without them."""
    X, codes = problem(n, d)
    Y, w = one_against_all(codes), np.linspace(0.2, 3.0, n)
    root = np.sqrt(w)
    Z, T = (A - np.average(A, axis=0, weights=w) if intercept else A for A in (X, Y))
    spectrum = Spectrum.of(root[:, None] * Z, root[:, None] * T, intercept, root)
    for fold in (None, np.arange(n) % 3):
        held_out = Y - spectrum.held_out_errors(0.5, fold)
        expected = naive.held_out_scores(X, Y, 0.5, intercept, list(range(n) if fold is None else fold), weights=w)
        # condition number about 1e3, and twice a difference of sums
        np.testing.assert_allclose(held_out, expected, atol=1e-9)


@pytest.mark.parametrize("fold", [None, np.arange(12) % 4])
def test_a_vanishing_penalty_has_a_limit(fold: NDArray[np.intp] | None) -> None:
    """In the dual, with an intercept, held-out errors settle as the penalty goes to 0: nothing cancels in R."""
    X, codes = problem(12, 30)
    Y = one_against_all(codes)
    spectrum = Spectrum.of(X - X.mean(axis=0), Y - Y.mean(axis=0), True)
    near, at = (spectrum.held_out_errors(penalty, fold) for penalty in (1e-9, 1e-13))
    # the least eigenvalue is about 10: what remains of the penalty is 1e-10, and rounding times a condition of 100
    np.testing.assert_allclose(near, at, atol=1e-9)


@pytest.mark.parametrize("standardise", ["none", "centre", "z-score"])
@pytest.mark.parametrize("d", [4, 40])
def test_weights_are_repeated_rows(standardise: str, d: int) -> None:
    """Whole weights give the model of so many copies of each row, at the same lam; only their ratios matter."""
    X, codes = problem(15, d)
    times = 1 + np.arange(15) % 3
    copies = RLS(0.05, standardise=standardise).fit(np.repeat(X, times, axis=0), np.repeat(codes, times))
    for scale in (1.0, 1e-3):
        weighted = RLS(0.05, standardise=standardise).fit(X, codes, sample_weight=scale * times)
        # the same sums in another order; condition number below 1e5
        np.testing.assert_allclose(weighted.decision_function(X), copies.decision_function(X), atol=1e-9)


def test_a_group_of_copies_left_out_is_the_weighted_row_left_out() -> None:
    """Leave-one-out of weighted rows is leave-one-group-out of their copies: one table."""
    X, codes = problem(15, 6)
    times = 1 + np.arange(15) % 3
    copies = RLS("logo").fit(np.repeat(X, times, axis=0), np.repeat(codes, times), np.repeat(np.arange(15), times))
    weighted = RLS("loo").fit(X, codes, sample_weight=times)
    # the same sums in another order; from the fourth lambda on conditions are below 1e8
    np.testing.assert_allclose(weighted.held_out_.lams, copies.held_out_.lams, rtol=1e-12)
    np.testing.assert_allclose(weighted.held_out_.accuracies, copies.held_out_.accuracies, atol=1e-12)
    np.testing.assert_allclose(weighted.held_out_.mse[3:], copies.held_out_.mse[3:], rtol=1e-6)


def test_balance_is_a_weight_for_each_class() -> None:
    """Balanced classes weigh the same: as rows of weight 1 / n_c do, and whether a class comes once or twice over."""
    X, _ = problem(30, 5)
    codes = np.repeat([0, 1, 2], [20, 7, 3])
    by_weight = RLS(0.1).fit(X, codes, sample_weight=1.0 / np.array([20, 7, 3])[codes])
    balanced = RLS(0.1, balance=True).fit(X, codes)
    # the same weights but for rounding, condition number below 1e4
    np.testing.assert_allclose(balanced.coef_, by_weight.coef_, rtol=1e-10)
    repeated = np.concatenate([np.arange(30), np.flatnonzero(codes == 2)])
    again = RLS(0.1, balance=True).fit(X[repeated], codes[repeated])
    np.testing.assert_allclose(again.coef_, balanced.coef_, rtol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 60)])
@pytest.mark.parametrize("heavy", [1e6, 1e12])
def test_huge_weights_and_a_tiny_lambda_are_solved(n: int, d: int, heavy: float) -> None:
    """Three rows outweigh all others, lambda is 1e-8: still the minimum that an SVD of the rows finds."""
    X, codes = problem(n, d)
    w = np.where(np.arange(n) < 3, heavy, 1.0)
    W, b = naive.ridge(X, one_against_all(codes), n * 1e-8, True, w / w.mean())
    scores = RLS(1e-8).fit(X, codes, sample_weight=w).decision_function(X)
    # a condition number of 1e9 to 1e10
    np.testing.assert_allclose(scores, X @ W + b, atol=1e-5)


@pytest.mark.parametrize(
    "bad", [[1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf], [1.0], [[1.0, 1.0]], ["a", "b"]]
)
def test_impossible_weights_are_refused(bad: list[float]) -> None:
    """A weight is a finite number over zero, one a row."""
    with pytest.raises(InvalidArgument, match="weights"):
        RLS(0.1).fit(np.eye(2), [0, 1], sample_weight=bad)
    with pytest.raises(InvalidArgument, match="weights"):
        RLS(0.1).partial_fit(np.eye(2), [0, 1], sample_weight=bad)


@pytest.mark.parametrize("shape", [(80, 30), (30, 80)])
def test_a_full_rank_is_exact(shape: tuple[int, int]) -> None:
    """Rows of rank 6 lose nothing in 6 directions: weights and the held-out table are those of the exact solver."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], 6)) @ rng.standard_normal((6, shape[1]))
    codes = np.arange(shape[0]) % 3
    exact, random = RLS("loo", standardise="none").fit(X, codes), RLS("loo", standardise="none", rank=6).fit(X, codes)
    assert random.lam_ == pytest.approx(exact.lam_, rel=1e-12)
    # eigenvalues from 1e3 down to 1e1; the smallest lambdas magnify rounding by 1e9
    np.testing.assert_allclose(random.coef_, exact.coef_, atol=1e-8)
    np.testing.assert_allclose(random.held_out_.mse[4:], exact.held_out_.mse[4:], rtol=1e-6)


@pytest.mark.parametrize("shape", [(120, 60), (60, 120)])
def test_a_rank_finds_the_leading_directions(shape: tuple[int, int]) -> None:
    """With falling singular values the projection leaves little more than the best one of that rank could."""
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.standard_normal((shape[0], 60)))
    V, _ = np.linalg.qr(rng.standard_normal((shape[1], 60)))
    s = 1.0 / np.arange(1, 61)
    Z = (U * s) @ V.T
    basis = leading_directions(Z, 10, rng)
    np.testing.assert_allclose(basis.T @ basis, np.eye(10), atol=1e-12)
    left = np.linalg.norm(Z - Z @ basis @ basis.T)
    # Halko, Martinsson and Tropp: the excess falls with the power of the ratio across the gap; 2 % is generous
    assert left < 1.02 * np.sqrt(np.sum(s[10:] ** 2))


def test_a_rank_is_rls_on_projected_rows() -> None:
    """Weights of rank k, and their leave-one-out, are exact for the rows projected on the directions found."""
    X, codes = problem(40, 20)
    Y = one_against_all(codes)
    Z, T = X - X.mean(axis=0), Y - Y.mean(axis=0)
    spectrum = Spectrum.of_rank(Z, T, True, root=None, rank=5, rng=np.random.default_rng(0))
    basis = leading_directions(Z, 5, np.random.default_rng(0))
    W, _ = naive.ridge(Z @ basis, Y, 0.3, intercept=True)
    # condition number about 1e3
    np.testing.assert_allclose(spectrum.weights(0.3), basis @ W, atol=1e-10)
    held_out = naive.held_out_scores(Z @ basis, Y, 0.3, True, range(40))
    np.testing.assert_allclose(Y - spectrum.held_out_errors(0.3), held_out, atol=1e-9)


def test_a_rank_is_the_same_every_time() -> None:
    """One seed, one model; a rank over what there is means all of it; others are refused."""
    X, codes = problem(40, 20)
    first, again = (RLS(0.1, rank=5, seed=3).fit(X, codes).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(RLS(0.1, rank=99).fit(X, codes).coef_, RLS(0.1).fit(X, codes).coef_)
    for bad in (0, 2.5, True, "5"):
        with pytest.raises(InvalidArgument, match="rank must be"):
            RLS(rank=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="seed must be"):
        RLS(seed=-1)
