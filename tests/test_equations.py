"""Equations: many rows are answered as few are, without a second copy of them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn import equations, scaling, solution
from streamfeat.learn.equations import Equations
from streamfeat.learn.lambdas import MANY_ROWS, LambdaChoice
from streamfeat.learn.regression import RLSRegressor
from streamfeat.learn.rls import RLS
from streamfeat.learn.rows import Rows
from streamfeat.learn.spectrum import Spectrum
from tests import naive_learn as naive
from tests.test_rls import SHAPES, one_against_all, problem


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Any number of rows is many, and a block is a few of them."""
    monkeypatch.setattr(solution, "LARGE_SIZE", 0)
    monkeypatch.setattr(scaling, "BLOCK_BYTES", 400)
    monkeypatch.setattr(equations, "BLOCK_BYTES", 400)
    return monkeypatch


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_leaving_out_weighted_rows_is_fitting_without(n: int, d: int, intercept: bool) -> None:
    """Leave-one-out and leave-one-group-out of rows with weights are weighted ridge without them."""
    X, codes = problem(n, d)
    Y, w = one_against_all(codes), np.linspace(0.2, 3.0, n)
    rows = Rows.of(X, "centre" if intercept else "none", False, w / w.mean())
    T = Y - np.average(Y, axis=0, weights=w) if intercept else Y
    assert rows.root is not None
    system = Equations.of(rows, rows.root[:, None] * T, intercept, sample=False, rng=np.random.default_rng(0))
    for fold in (None, np.arange(n) % 3):
        held_out = Y - system.held_out_errors(0.5, fold)
        folds = range(n) if fold is None else fold.tolist()
        expected = naive.held_out_scores(X, Y, 0.5, intercept, folds, weights=w / w.mean())
        # condition number about 1e3, and twice a difference of sums
        np.testing.assert_allclose(held_out, expected, atol=1e-9)


@pytest.mark.parametrize("d", [6, 40])
@pytest.mark.parametrize("standardise", ["none", "centre", "z-score"])
@pytest.mark.parametrize("options", [{}, {"unit_norm": True}, {"per_class": True}, {"balance": True}])
@pytest.mark.parametrize("lam", ["loo", "logo", "holdout", 0.03])
def test_many_rows_are_answered_as_few(
    many: pytest.MonkeyPatch, d: int, standardise: str, options: dict[str, Any], lam: Any
) -> None:
    """Wide or tall counts, every way of scaling, weighing and holding out: lambda, table and scores of the spectrum."""
    X, codes = problem(30, d)
    counts = np.round(1000 + 200 * X).astype(np.uint16)
    grid = np.logspace(-5, 0, 6)

    def fit() -> RLS:
        groups = np.arange(30) % 4 if lam == "logo" else None
        return RLS(lam, standardise=standardise, grid=grid, **options).fit(counts, codes, groups)

    large = fit()
    many.setattr(solution, "LARGE_SIZE", 2**26)
    small = fit()
    np.testing.assert_allclose(large.lam_, small.lam_, rtol=1e-9)
    # uncentred counts have one eigenvalue of 1e5 times the next; with the penalty a condition number of 1e8
    np.testing.assert_allclose(large.held_out_.mse, small.held_out_.mse, rtol=1e-6)
    np.testing.assert_array_equal(large.held_out_.accuracies, small.held_out_.accuracies)
    np.testing.assert_allclose(large.decision_function(counts), small.decision_function(counts), atol=1e-6)


@pytest.mark.usefixtures("many")
def test_the_gurls_grid_is_the_same() -> None:
    """Its eigenvalues are found for it, also beside the lifted one."""
    for d in (6, 40):
        X, codes = problem(30, d)
        large = RLS("loo", grid="gurls").fit(X, codes).held_out_.lams
        system = Spectrum.of(X - X.mean(axis=0), one_against_all(codes), True)
        expected = LambdaChoice.of("loo", "gurls", "accuracy", False).candidates(system)
        # the least of 40 eigenvalues is rounding of the largest, and the grid's floor covers it
        np.testing.assert_allclose(large, expected, rtol=1e-6)


def test_numbers_are_answered_as_few(many: pytest.MonkeyPatch) -> None:
    """Regression with several targets, each with its own lambda."""
    X, _ = problem(40, 5)
    Y = np.column_stack([X[:, 0], np.sin(3 * X[:, 1])])
    large = RLSRegressor(per_target=True).fit(X, Y)
    many.setattr(solution, "LARGE_SIZE", 2**26)
    small = RLSRegressor(per_target=True).fit(X, Y)
    np.testing.assert_allclose(large.lam_, small.lam_, rtol=1e-9)
    np.testing.assert_allclose(large.predict(X), small.predict(X), atol=1e-9)


def test_some_rows_are_tried_and_told_of(many: pytest.MonkeyPatch) -> None:
    """With fewer rows scored, the table is that of those rows, and theirs alone; one seed, one choice."""
    X, codes = problem(60, 6)
    all_rows = Spectrum.of(X, one_against_all(codes), False).held_out_errors(60 * 0.5)
    many.setattr(equations, "N_SCORED", 20)
    rows = Rows.of(X, "none", False, None)
    system = Equations.of(rows, one_against_all(codes), False, sample=True, rng=np.random.default_rng(0))
    errors = system.held_out_errors(60 * 0.5)
    assert system.scored.sum() == 20
    assert np.isnan(errors[~system.scored]).all()
    # condition number below 1e4
    np.testing.assert_allclose(errors[system.scored], all_rows[system.scored], atol=1e-9)
    first, again = (RLS("loo", seed=5).fit(X, codes) for _ in range(2))
    np.testing.assert_array_equal(first.held_out_.mse, again.held_out_.mse)
    assert not np.array_equal(first.held_out_.mse, RLS("loo", seed=6).fit(X, codes).held_out_.mse)


def test_of_wide_rows_all_are_tried(many: pytest.MonkeyPatch) -> None:
    """In the dual one inverse scores every row."""
    X, codes = problem(60, 80)
    all_rows = Spectrum.of(X, one_against_all(codes), False).held_out_errors(60 * 0.5)
    many.setattr(equations, "N_SCORED", 20)
    rows = Rows.of(X, "none", False, None)
    system = Equations.of(rows, one_against_all(codes), False, sample=True, rng=np.random.default_rng(0))
    # condition number below 1e4
    np.testing.assert_allclose(system.held_out_errors(60 * 0.5), all_rows, atol=1e-9)


@pytest.mark.parametrize("standardise", ["none", "z-score"])
def test_counts_stay_counts(monkeypatch: pytest.MonkeyPatch, standardise: str) -> None:
    """Fitting and scoring uint16 rows takes less than their own size in memory, where float64 would take four times."""
    monkeypatch.setattr(solution, "LARGE_SIZE", 0)
    monkeypatch.setattr(scaling, "BLOCK_BYTES", 2**18)
    monkeypatch.setattr(equations, "BLOCK_BYTES", 2**18)
    monkeypatch.setattr(equations, "N_SCORED", 200)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 4_000)
    counts = rng.integers(0, 400, (4_000, 250)).astype(np.uint16)
    counts[:, :5] += 200 * codes[:, None].astype(np.uint16)
    labels = codes.tolist()
    learner = RLS(0.1, standardise=standardise)
    stream = RLS(0.1, standardise=standardise)
    peaks = []
    for act in (
        lambda: learner.fit(counts, labels),
        lambda: stream.partial_fit(counts, labels),
        lambda: learner.decision_function(counts),
    ):
        tracemalloc.start()
        act()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < counts.nbytes


def test_many_rows_are_offered_smaller_penalties() -> None:
    """From 10,000 rows on the grid reaches 1e-12 of the mean squared row norm."""
    choice = LambdaChoice.of("loo", "relative", "accuracy", False)
    for n, smallest in ((MANY_ROWS - 1, 1e-10), (MANY_ROWS, 1e-12)):
        X = np.full((n, 1), 3.0)
        candidates = choice.candidates(Spectrum.of(X, X, False))
        assert candidates[0] == pytest.approx(9.0 * smallest)
        assert candidates[-1] == pytest.approx(9.0)


@pytest.mark.usefixtures("many")
def test_a_penalty_lost_in_rounding_is_refused() -> None:
    """Rows of rank one with a penalty of 1e-30: no answer is better than one of rounding."""
    X = np.outer(np.arange(1.0, 21.0), np.arange(1.0, 6.0)) / 3.0
    with pytest.raises(InvalidArgument, match="raise lam"):
        RLS(1e-30, standardise="none").fit(X, [0, 1] * 10)


@pytest.mark.parametrize(("n", "width"), [(5, 3), (40, 7), (3, 1100)])
def test_sums_by_tiles_are_products(n: int, width: int) -> None:
    """Z'Z of any width, to rounding, and symmetric to the bit."""
    Z: NDArray[np.float64] = np.random.default_rng(width).standard_normal((n, width))
    rows = Rows.of(Z.astype(np.float32), "none", False, None)
    total = rows.scatter()
    np.testing.assert_array_equal(total, total.T)
    exact = rows.all()
    np.testing.assert_allclose(total, exact.T @ exact, atol=1e-12)
    np.testing.assert_allclose(rows.gram(), exact @ exact.T, rtol=1e-12)


@pytest.mark.parametrize("d", [6, 40])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_of_no_fold_have_their_residual(d: int, intercept: bool) -> None:
    """As a spectrum has it, beside a part that is left out."""
    X, codes = problem(30, d)
    Y = one_against_all(codes) - (one_against_all(codes).mean(axis=0) if intercept else 0.0)
    rows = Rows.of(X, "centre" if intercept else "none", False, None)
    fold = np.where(np.arange(30) % 5 == 0, 0, -1)
    system = Equations.of(rows, Y, intercept, sample=False, rng=np.random.default_rng(0))
    expected = Spectrum.of(rows.all(), Y, intercept).held_out_errors(0.5, fold)
    # condition number about 1e3
    np.testing.assert_allclose(system.held_out_errors(0.5, fold), expected, atol=1e-9)
