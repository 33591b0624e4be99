"""Points of learning curves: rows of them, and the nearest of rows."""

from __future__ import annotations

import numpy as np

from streamfeat.reproduce.curve import NN_METRIC, RLS_METRIC, curve_rows, nearest_rows


def test_the_nearest_row_is_the_nearest() -> None:
    """Against all distances in float64; counts up to 65,535 keep their digits, of equal rows the first is taken."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((70, 7)), rng.integers(60_000, 65_535, (70, 7)).astype(np.uint16)
    for some in drawn:
        some[20] = some[3]
        X, Z = some[:40], some[40:]
        apart = np.square(Z[:, None].astype(np.float64) - X.astype(np.float64)).sum(axis=2)
        np.testing.assert_array_equal(nearest_rows(Z, X), apart.argmin(axis=1))


def test_rows_are_means_over_trials_then_seeds() -> None:
    """A number is the setting n, a word is a split; where nothing was asked of 1-NN there is no row."""
    points = [
        {"column": "5", "seed": seed, "rls": share, "nn": None, "n_items": 10}
        for seed, share in ((0, 0.2), (0, 0.4), (1, 0.5))
    ]
    (few,) = curve_rows("a", points, m=3)
    assert (few["n"], few["m"], few["metric"], few["mean"], few["seeds"]) == (5, 3, RLS_METRIC, 0.4, 2)
    rows = curve_rows("a", [{"column": "girl", "seed": 0, "rls": 0.5, "nn": 0.25, "n_items": 25}])
    assert [(r["split"], r["metric"], r["mean"], r["sd"]) for r in rows] == [
        ("girl", RLS_METRIC, 0.5, 0.1),
        ("girl", NN_METRIC, 0.25, 0.0866),
    ]
