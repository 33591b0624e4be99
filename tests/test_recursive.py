"""Recursive RLS: after every act, coming, leaving or forgetting, the answer of a batch on the rows that are there."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.recursion import Recursion
from streamfeat.learn.recursive import RecursiveRegressor, RecursiveRLS
from streamfeat.learn.rls import RLS, IllConditioned
from streamfeat.learn.store import open_directory, save_directory
from tests import naive_learn as naive
from tests.test_regression import numbers
from tests.test_rls import RIDGE_OF_30_ROWS, RIDGE_OF_150_ROWS, problem, repeated_columns

Floats = NDArray[np.float64]


def batch(X: Floats, Y: Floats, stream: RecursiveRegressor, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """W and b of the rows at once."""
    recursion = stream.recursion
    return naive.ridge(X, Y, recursion.penalty_now, recursion.moments.centred, weights)


@settings(deadline=None, max_examples=25)
@given(
    acts=st.lists(st.tuples(st.booleans(), st.integers(1, 9)), min_size=1, max_size=12),
    intercept=st.booleans(),
    penalty=st.sampled_from([1e-3, 1.0]),
    seed=st.integers(0, 3),
)
def test_whatever_comes_and_goes_is_a_batch(
    acts: list[tuple[bool, int]], intercept: bool, penalty: float, seed: int
) -> None:
    """Blocks of any size learned and unlearned in any order, with weights: W, b and P are those of the rows left."""
    X, Y = numbers(120, 7, seed=seed)
    w = np.random.default_rng(seed).uniform(0.5, 2.0, 120)
    stream = RecursiveRegressor(penalty, intercept=intercept)
    there: list[int] = []
    fresh = iter(range(120))
    for come, k in acts:
        if come:
            rows = [next(fresh) for _ in range(k)]
            stream.partial_fit(X[rows], Y[rows], sample_weight=w[rows])
            there += rows
        elif there:
            rows = list(np.random.default_rng(k).permutation(there)[:k])
            stream.remove(X[rows], Y[rows], sample_weight=w[rows])
            there = [row for row in there if row not in rows]
        if there:
            W, b = batch(X[there], Y[there], stream, w[there])
            # condition number up to 1e5, and the drift that is let pass
            np.testing.assert_allclose(stream.coef_, W, atol=1e-6)
            np.testing.assert_allclose(stream.intercept_, b, atol=1e-5)
            P = stream.recursion.inverse
            np.testing.assert_array_equal(P, P.T)
            known = stream.recursion.moments.scatter + penalty * np.eye(7)
            # what drift is let pass (1e-8), times a condition number of up to 1e5
            np.testing.assert_allclose(P @ known, np.eye(7), atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_row_by_row_is_rls(intercept: bool) -> None:
    """The classifier's scores are those of RLS at lam = penalty / n, after learning and after unlearning."""
    X, codes = problem(40, 6)
    stream = RecursiveRLS(2.0, intercept=intercept)
    standardise = "centre" if intercept else "none"
    for i in range(40):
        stream.partial_fit(X[i : i + 1], codes[i : i + 1])
        if i > 3:
            expected = RLS(2.0 / (i + 1), standardise=standardise).fit(X[: i + 1], codes[: i + 1])
            # condition number below 1e3; drift let pass is 1e-8 of the sums
            np.testing.assert_allclose(stream.decision_function(X), expected.decision_function(X), atol=1e-8)
    for i in range(30):
        stream.remove(X[i : i + 1], codes[i : i + 1])
    expected = RLS(2.0 / 10, standardise=standardise).fit(X[30:], codes[30:])
    np.testing.assert_allclose(stream.decision_function(X), expected.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(stream.coef_, expected.coef_, atol=1e-8)
    assert stream.predict(X) == expected.predict(X)


@pytest.mark.parametrize("size", [1, 2, 5, 40])
@pytest.mark.parametrize("intercept", [True, False])
def test_forgetting_weighs_rows_by_age(size: int, intercept: bool) -> None:
    """Each row counts forgetting^age, in blocks as one by one, at the penalty that is told, half to all of it."""
    X, Y = numbers(40, 6)
    stream = RecursiveRegressor(0.5, forgetting=0.9, intercept=intercept)
    for start in range(0, 40, size):
        stream.partial_fit(X[start : start + size], Y[start : start + size])
        n = min(start + size, 40)
        assert 0.25 <= stream.recursion.penalty_now <= 0.5
        W, b = batch(X[:n], Y[:n], stream, 0.9 ** np.arange(n - 1.0, -1.0, -1.0, dtype=np.float64))
        np.testing.assert_allclose(stream.coef_, W, atol=1e-8)  # condition number below 1e4
        np.testing.assert_allclose(stream.intercept_, b, atol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
def test_zero_rows_with_forgetting_stay_bounded(intercept: bool) -> None:
    """400,000 rows of silence at forgetting .998, most in blocks, some alone: P stays under 2 / penalty, and learns."""
    X, Y = repeated_columns()
    stream = RecursiveRegressor(1e-3, forgetting=0.998, intercept=intercept)
    zeros, nothing = np.zeros((99_500, 4)), np.zeros((99_500, 3))
    for _ in range(4):
        stream.partial_fit(zeros, nothing)
        for _ in range(500):
            stream.partial_fit(zeros[:1], nothing[:1])
        assert np.linalg.eigvalsh(stream.recursion.inverse)[-1] <= 2.001 / 1e-3
    alone = RecursiveRegressor(1e-3, forgetting=0.998, intercept=intercept)
    for row, target in zip(X, Y, strict=True):
        stream.partial_fit(row[None, :], target[None, :])
        alone.partial_fit(row[None, :], target[None, :])
    assert np.isfinite(stream.coef_).all()
    if not intercept:
        # zeros say nothing about W without an intercept; the penalties differ by a factor of 2 at most
        np.testing.assert_allclose(stream.coef_, alone.coef_, atol=1e-3)
    assert np.abs(stream.predict(X) - Y).mean() < 0.6


def test_one_direction_only_stays_bounded() -> None:
    """The same row for ever: what it never shows is not blown up."""
    stream = RecursiveRegressor(0.1, forgetting=0.9)
    for i in range(300):
        stream.partial_fit([[1.0, 2.0, 3.0]], [float(i % 2)])
    assert np.linalg.eigvalsh(stream.recursion.inverse)[-1] <= 2.001 / 0.1


@pytest.mark.parametrize(("n_times", "expected"), [(1, RIDGE_OF_30_ROWS), (5, RIDGE_OF_150_ROWS)])
@pytest.mark.parametrize("order", ["given", "reversed", "batches"])
def test_ridge_on_repeated_columns(n_times: int, expected: list[list[float]], order: str) -> None:
    """Row by row in any order, and in batches: the known weights of ridge at a penalty of 0.1 in all."""
    X, Y = (np.tile(rows, (n_times, 1)) for rows in repeated_columns())
    stream = RecursiveRegressor(0.1, intercept=False)
    size, step = (7, 1) if order == "batches" else (1, -1 if order == "reversed" else 1)
    for start in range(0, len(X), size):
        stream.partial_fit(X[::step][start : start + size], Y[::step][start : start + size])
    np.testing.assert_allclose(stream.coef_, expected * 2, atol=1e-6)  # given to seven places
    stream.remove(X[30:], Y[30:])
    np.testing.assert_allclose(stream.coef_, RIDGE_OF_30_ROWS * 2, atol=1e-6)


def test_tiny_penalty_on_repeated_columns() -> None:
    """At 1e-8, though P starts at 1e8: equal columns have equal weights, predictions are those of least squares."""
    X, Y = repeated_columns()
    stream = RecursiveRegressor(1e-8, intercept=False)
    for row, target in zip(X, Y, strict=True):
        stream.partial_fit(row[None, :], target[None, :])
        assert np.isfinite(stream.coef_).all()
    # a column's share is known to eps / 1e-8; what is asked of predictions
    np.testing.assert_allclose(stream.coef_[:2], stream.coef_[2:], atol=1e-3)
    np.testing.assert_allclose(stream.predict(X), X @ np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-4)


def test_a_class_that_comes_late_and_goes() -> None:
    """A third class with row 21 leaves the others' weights as they are until it is learned; then all are a batch's."""
    X, _ = problem(21, 4)
    labels = ["1"] * 10 + ["2"] * 10 + ["z"]
    stream = RecursiveRLS(0.1).partial_fit(X[:20], labels[:20])
    before = stream.coef_
    stream.partial_fit(X[20:], labels[20:])
    assert stream.classes_ == ["1", "2", "z"]
    expected = RLS(0.1 / 21).fit(X, labels)
    # condition number about 1e3
    np.testing.assert_allclose(stream.decision_function(X), expected.decision_function(X), atol=1e-9)
    stream.remove(X[20:], labels[20:])
    assert stream.classes_ == ["1", "2"]
    np.testing.assert_allclose(stream.coef_, before, atol=1e-9)
    with pytest.raises(InvalidArgument, match="1 rows of 'z', 0 were learned"):
        stream.remove(X[20:], labels[20:])


def test_all_rows_may_go() -> None:
    """What is left is what it was before the first, and it learns again, at another width too."""
    X, Y = numbers(12, 4)
    stream = RecursiveRegressor(0.1).partial_fit(X, Y).remove(X, Y)
    with pytest.raises(InvalidArgument, match="no rows"):
        stream.predict(X)
    np.testing.assert_allclose(stream.recursion.inverse, np.eye(4) / 0.1)
    W, _ = naive.ridge(X[:, :3], Y[:, :1], 0.1, intercept=True)
    # condition number about 1e3
    np.testing.assert_allclose(stream.partial_fit(X[:, :3], Y[:, :1]).coef_, W, atol=1e-9)


def test_an_inverse_that_drifts_is_computed_afresh() -> None:
    """P spoiled by hand, as rounding might in a long run: the next rows notice, and the answer is the batch's."""
    X, Y = numbers(40, 9)
    stream = RecursiveRegressor(0.1).partial_fit(X[:20], Y[:20])
    stream.recursion.inverse[2, 3] += 1e-3
    stream.partial_fit(X[20:21], Y[20:21])
    # afresh: condition number about 1e3, no drift
    np.testing.assert_allclose(stream.coef_, batch(X[:21], Y[:21], stream)[0], atol=1e-9)


def test_a_long_run_keeps_its_digits() -> None:
    """A window of 20 rows sliding over 2,000: the last weights are those of the last 20 rows."""
    X, Y = numbers(2000, 8)
    stream = RecursiveRegressor(0.1).partial_fit(X[:20], Y[:20])
    for i in range(20, 2000):
        stream.partial_fit(X[i : i + 1], Y[i : i + 1])
        stream.remove(X[i - 20 : i - 19], Y[i - 20 : i - 19])
    W, b = batch(X[-20:], Y[-20:], stream)
    np.testing.assert_allclose(stream.coef_, W, atol=1e-7)  # the drift that is let pass, times a condition of 1e3
    np.testing.assert_allclose(stream.intercept_, b, atol=1e-6)


@pytest.mark.parametrize(
    ("row", "label", "match"),
    [
        ([1.0, 2.0, 3.0], 0, "4 columns.*got 3"),
        ([1.0, float("nan"), 0.0, 0.0], 0, "row 0, column 1"),
        ([1.0, 0.0, 0.0, 0.0], "0", "all ints or all texts"),
        ([1.0, 0.0, 0.0, 0.0], None, "got None"),
    ],
)
def test_refused_rows_leave_all_as_it_was(row: list[float], label: Any, match: str) -> None:
    """A row of another width, a NaN, a label of another type: weights and P bit-equal to before."""
    X, codes = problem(12, 4)
    stream = RecursiveRLS(0.1).partial_fit(X, codes)
    W, P = stream.coef_.copy(), stream.recursion.inverse.copy()
    for act in (stream.partial_fit, stream.remove):
        with pytest.raises(InvalidArgument, match=match):
            act([row], [label])
    np.testing.assert_array_equal(stream.coef_, W)
    np.testing.assert_array_equal(stream.recursion.inverse, P)


def test_what_was_never_learned_cannot_go() -> None:
    """Rows too large, too many, of other weights, or after forgetting: refused, nothing changed."""
    X, Y = numbers(12, 4)
    for intercept in (True, False):
        stream = RecursiveRegressor(0.1, intercept=intercept).partial_fit(X, Y)
        W = stream.coef_.copy()
        with pytest.raises(InvalidArgument, match="not learned"):
            stream.remove(100 * X[:1], Y[:1])
        with pytest.raises(InvalidArgument, match="13 rows of 12"):
            stream.remove(np.vstack([X, X[:1]]), np.vstack([Y, Y[:1]]))
        with pytest.raises(InvalidArgument, match="sample_weight"):
            stream.remove(X, Y, sample_weight=np.full(12, 2.0))
        np.testing.assert_array_equal(stream.coef_, W)
    with pytest.raises(InvalidArgument, match="forgetting=1"):
        RecursiveRegressor(0.1, forgetting=0.9).partial_fit(X, Y).remove(X[:1], Y[:1])


def test_nothing_learned_of_nothing() -> None:
    """Empty blocks change nothing; asking before learning, or of one class, says so."""
    stream = RecursiveRLS().partial_fit(np.zeros((0, 3)), [])
    with pytest.raises(InvalidArgument, match="no rows"):
        stream.predict(np.zeros((1, 3)))
    with pytest.raises(InvalidArgument, match="two classes"):
        stream.partial_fit(np.ones((2, 3)), ["a", "a"]).predict(np.ones((1, 3)))


def test_a_stream_goes_on_from_its_state(tmp_path: Path) -> None:
    """Saved and opened it answers bit-equal, and learns, unlearns and forgets on as if nothing had happened."""
    X, codes = problem(40, 6)
    for forgetting in (1.0, 0.95):
        stream = RecursiveRLS(0.5, forgetting=forgetting).partial_fit(X[:30], codes[:30])
        save_directory(tmp_path / str(forgetting), "stream", *stream.state())
        back = RecursiveRLS.from_state(*open_directory(tmp_path / str(forgetting), "stream"))
        for each in (stream, back):
            each.partial_fit(X[30:], codes[30:])
            if forgetting == 1:
                each.remove(X[:5], codes[:5])
        np.testing.assert_array_equal(back.decision_function(X), stream.decision_function(X))
        assert back.classes_ == stream.classes_
    X, Y = numbers(20, 4)
    regressor = RecursiveRegressor(0.5, intercept=False).partial_fit(X, Y[:, 0])
    fields, arrays = regressor.state()
    before = regressor.predict(X)
    regressor.partial_fit(X, Y[:, 1])
    again = RecursiveRegressor.from_state(fields, arrays)
    np.testing.assert_array_equal(again.predict(X), before)
    again.partial_fit(X, Y[:, 1])
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"penalty": 0.0}, "penalty must be"),
        ({"penalty": float("inf")}, "penalty must be"),
        ({"forgetting": 0.0}, "forgetting must be"),
        ({"forgetting": 1.01}, "forgetting must be"),
        ({"forgetting": True}, "forgetting must be"),
        ({"intercept": None}, "intercept must be"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], match: str) -> None:
    """Named."""
    with pytest.raises(InvalidArgument, match=match):
        Recursion(**{"penalty": 1.0, "forgetting": 1.0, "intercept": True, **options})


def test_ill_conditioned_is_said() -> None:
    """A penalty below rounding warns; an ordinary one does not."""
    X, Y = repeated_columns()
    with pytest.warns(IllConditioned, match=r"condition number .*raise lam"):
        assert np.isfinite(RecursiveRegressor(1e-15).partial_fit(X, Y).coef_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RecursiveRegressor(0.1).partial_fit(X, Y).predict(X)
