"""RLSRegressor: ridge on numbers, with everything the classifier has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.regression import RLSRegressor
from tests import naive_learn as naive
from tests.test_rls import SHAPES


def numbers(n: int, d: int, t: int = 2, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows and targets that depend on them, far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2.0
    return X, X @ rng.standard_normal((d, t)) + 0.1 * rng.standard_normal((n, t)) - 5.0


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("standardise", ["none", "centre"])
def test_answers_are_ridge(n: int, d: int, standardise: str) -> None:
    """W and b minimise the penalised squares; one target answers (n,), several (n, t)."""
    X, Y = numbers(n, d)
    W, b = naive.ridge(X, Y, n * 0.3, standardise == "centre")
    regressor = RLSRegressor(0.3, standardise=standardise)
    # the same sums in another order, condition number below 1e4
    np.testing.assert_allclose(regressor.fit(X, Y).predict(X), X @ W + b, atol=1e-9)
    one = regressor.fit(X, Y[:, 0]).predict(X)
    assert one.shape == (n,)
    np.testing.assert_allclose(one, X @ W[:, 0] + b[0], atol=1e-9)


def test_lambda_is_of_the_least_held_out_error() -> None:
    """By leave-one-out, groups or hold-out; for all targets, or for each its own."""
    X, Y = numbers(40, 30)
    Y[:, 1] += 20 * np.random.default_rng(1).standard_normal(40)
    for lam, groups in (("loo", None), ("logo", np.arange(40) % 8), ("holdout", None)):
        regressor = RLSRegressor(lam).fit(X, Y, groups)  # type: ignore[arg-type]
        table = regressor.held_out_
        assert table.criterion == lam
        assert regressor.lam_ == table.lams[table.mse.mean(axis=1).argmin()]
        assert np.isnan(table.accuracy)
    each = RLSRegressor("loo", per_target=True, grid="gurls").fit(X, Y)
    np.testing.assert_array_equal(each.lam_, each.held_out_.lams[each.held_out_.mse.argmin(axis=0)])
    assert np.ptp(each.lam_) > 0


def test_held_out_error_is_that_of_fits_without() -> None:
    """The leave-one-out table of two targets, by fitting again."""
    X, Y = numbers(10, 4)
    regressor = RLSRegressor("loo", grid=[0.1]).fit(X, Y)
    scores = naive.held_out_scores(X, Y, 10 * float(regressor.lam_), True, range(10))
    # condition number about 1e2; squares of differences
    np.testing.assert_allclose(regressor.held_out_.mse[0], np.mean((Y - scores) ** 2, axis=0), rtol=1e-9)


@pytest.mark.parametrize("standardise", ["none", "centre", "z-score"])
def test_stream_and_merge_are_batch(standardise: str) -> None:
    """Pieces, weighted or not, and two streams merged, give one fit's answers."""
    X, Y = numbers(40, 6)
    w = np.linspace(1, 2, 40)
    batch = RLSRegressor(0.05, standardise=standardise).fit(X, Y, sample_weight=w).predict(X)
    first, second = (RLSRegressor(0.05, standardise=standardise) for _ in range(2))
    for part in np.split(np.arange(25), [3, 4, 20]):
        first.partial_fit(X[part], Y[part], sample_weight=w[part])
    second.partial_fit(X[25:], Y[25:], sample_weight=w[25:])
    # the same sums in another order, condition number below 1e4
    np.testing.assert_allclose(first.merge(second).predict(X), batch, atol=1e-9)
    empty = RLSRegressor(0.05, standardise=standardise).merge(first)
    np.testing.assert_allclose(empty.predict(X), batch, atol=1e-9)


def test_one_row_takes_the_default() -> None:
    """Nothing can be held out of one row: the default lambda, and that row's target."""
    regressor = RLSRegressor("loo").fit([[1.0, 2.0]], [3.0])
    assert regressor.held_out_.criterion == "default"
    np.testing.assert_allclose(regressor.predict([[1.0, 2.0]]), [3.0])


def test_state_comes_back_bit_equal() -> None:
    """from_state(state()) answers bit for bit the same, in the same shape."""
    X, Y = numbers(20, 5)
    for targets in (Y, Y[:, 0]):
        regressor = RLSRegressor("loo", standardise="z-score", unit_norm=True).fit(X, targets)
        back = RLSRegressor.from_state(*regressor.state())
        np.testing.assert_array_equal(back.predict(X), regressor.predict(X))
        assert back.lam_ == regressor.lam_


@pytest.mark.parametrize(
    "bad", [[1.0], [1.0, np.nan], [1.0, np.inf], ["a", "b"], [[[1.0]], [[2.0]]], [True, False], 1.0]
)
def test_impossible_targets_are_refused(bad: Any) -> None:
    """Another count, NaN, infinity, text, three axes: refused by name, and a stream stays as it was."""
    with pytest.raises(InvalidArgument, match="target"):
        RLSRegressor(0.1).fit(np.eye(2), bad)
    stream = RLSRegressor(0.1).partial_fit(np.eye(2), [1.0, 2.0])
    before = stream.predict(np.eye(2))
    with pytest.raises(InvalidArgument, match="target"):
        stream.partial_fit(np.eye(2), bad)
    with pytest.raises(InvalidArgument, match=r"1 columns.*got 2"):
        stream.partial_fit(np.eye(2), np.eye(2))
    np.testing.assert_array_equal(stream.predict(np.eye(2)), before)
