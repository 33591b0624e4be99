"""LambdaChoice: which lambdas are tried, and which one wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.lambdas import gurls_grid
from streamfeat.learn.rls import RLS
from tests import naive_learn as naive
from tests.test_rls import problem


@pytest.mark.parametrize(("n", "d", "scale"), [(30, 6, 1.0), (6, 30, 1.0), (20, 20, 1e-6)])
def test_the_gurls_grid_is_gurls(n: int, d: int, scale: float) -> None:
    """Twenty guesses from the extreme eigenvalues over n, as paramsel_lambdaguesses has them, one value at a time."""
    X = scale * np.random.default_rng(0).standard_normal((n, d))
    eigenvalues = np.linalg.eigvalsh(X.T @ X if d <= n else X @ X.T).astype(np.float64)
    expected = naive.gurls_guesses(sorted(eigenvalues.tolist(), reverse=True), min(n, d), n)
    # a power in another order of operations
    np.testing.assert_allclose(gurls_grid(eigenvalues, n), sorted(float(guess) for guess in expected), rtol=1e-10)


def test_rls_tries_the_grid_it_was_told() -> None:
    """ "gurls" by name; numbers as parts of the mean squared row norm; the default eleven decades of it."""
    X, codes = problem(30, 6)
    Z = X - X.mean(axis=0)
    mean_square = np.mean(np.sum(Z**2, axis=1))
    gurls = RLS("loo", grid="gurls").fit(X, codes).held_out_.lams
    np.testing.assert_allclose(
        gurls, gurls_grid(np.linalg.eigvalsh(Z.T @ Z).astype(np.float64), 30), rtol=1e-9
    )  # another route to Z
    own = RLS("loo", grid=[1.0, 0.1]).fit(X, codes).held_out_.lams
    np.testing.assert_allclose(own, [0.1 * mean_square, mean_square], rtol=1e-12)
    assert len(RLS("loo").fit(X, codes).held_out_.lams) == 11
    zeros = RLS("loo", grid="gurls").fit(np.zeros((6, 3)), [0, 0, 0, 0, 1, 1])
    assert zeros.lam_ > 0


@pytest.mark.parametrize("grid", [[], [0.0], [-1.0], [np.nan], "GURLS", 3.0, [[1.0]], None])
def test_impossible_grids_are_refused(grid: Any) -> None:
    """A grid is a known name or numbers over zero."""
    with pytest.raises(InvalidArgument, match="grid must be"):
        RLS(grid=grid)


def test_squared_error_chooses_by_squared_error() -> None:
    """The chosen lambda has the least held-out squared error, whatever it does to accuracy."""
    X, codes = problem(40, 30, seed=3)
    by_hits, by_error = (RLS("loo", measure=m, grid="gurls").fit(X, codes) for m in ("accuracy", "squared-error"))
    table = by_error.held_out_
    assert by_error.lam_ == table.lams[table.mse.mean(axis=1).argmin()]
    assert table.squared_error == table.mse.mean(axis=1).min() <= by_hits.held_out_.squared_error
    assert by_hits.held_out_.accuracy >= table.accuracy
    with pytest.raises(InvalidArgument, match="measure must be"):
        RLS(measure="mse")


def test_held_out_squared_error_of_weighted_rows_is_that_of_fits_without_them() -> None:
    """Each row's error from a weighted ridge on the others, averaged by the weights."""
    X, codes = problem(12, 4)
    w = np.arange(1.0, 13.0)
    rls = RLS("loo", measure="squared-error").fit(X, codes, sample_weight=w)
    Y = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    scale = w / w.mean()
    for lam, mse in zip(rls.held_out_.lams[4:], rls.held_out_.mse[4:], strict=True):
        scores = naive.held_out_scores(X, Y, 12 * lam, True, range(12), weights=scale)
        expected = np.average((Y - scores) ** 2, axis=0, weights=w)
        np.testing.assert_allclose(mse, expected, rtol=1e-7)  # condition number up to 1e6


def test_recall_tells_of_each_class() -> None:
    """850 rows of one class and 10 of another: the accuracy hides what the recall shows, and balance mends it."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [850, 10])
    X = rng.standard_normal((860, 10)) + 1.0 * codes[:, None]
    plain, balance = RLS("loo").fit(X, codes), RLS("loo", balance=True).fit(X, codes)
    assert plain.held_out_.accuracy > 0.98
    assert plain.held_out_.recall[1] < 0.5
    assert balance.held_out_.recall.min() > 0.8
    # accuracy is by weight: with classes of one weight, the mean recall
    assert balance.held_out_.accuracy == pytest.approx(balance.held_out_.recall.mean())
    assert np.isnan(RLS("loo").fit(X[[0, 1, 859]], [0, 0, 1]).held_out_.recall[1])
