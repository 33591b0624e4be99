"""WithinOrbitWhitening: directions in which views of one thing differ count for little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.verification import verify
from streamfeat.learn.whitening import WithinOrbitWhitening
from tests.naive_verification import whitened_cosines


def views(n_orbits: int, d: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Things that differ little, shown from five sides that differ much along a few directions."""
    rng = np.random.default_rng(seed)
    orbits = np.repeat(np.arange(n_orbits), 5)
    # the nuisance is the same for all seeds
    nuisance = np.random.default_rng(99).standard_normal((3, d))
    X = rng.standard_normal((n_orbits, d))[orbits] + 3.0 * rng.standard_normal((len(orbits), 3)) @ nuisance
    return X + 0.3 * rng.standard_normal(X.shape), orbits


@pytest.mark.parametrize(("n_orbits", "d", "k"), [(12, 8, 5), (12, 8, None), (6, 40, 10), (6, 40, 100), (6, 40, None)])
@pytest.mark.parametrize("floor", [0.1, 1.0])
def test_cosines_are_those_of_the_inverse_covariance(n_orbits: int, d: int, k: int | None, floor: float) -> None:
    """More rows than columns or fewer, all directions or some: the metric is (C + floor mean)^-1 in k directions."""
    X, orbits = views(n_orbits, d)
    queries = views(4, d, seed=1)[0]
    Z = WithinOrbitWhitening(k, floor).fit(X, [f"o{i}" for i in orbits]).transform(queries)
    Z /= np.linalg.norm(Z, axis=1)[:, None]
    expected = whitened_cosines(X, list(orbits), queries, min(k or d, d, len(X) - 1), floor)
    # condition number of the penalised covariance below 1e3
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-9)


def test_things_not_met_are_told_apart_better() -> None:
    """Whitening learned on some orbits verifies others: the nuisance is in common, the things are not."""
    whitening = WithinOrbitWhitening(floor=0.01).fit(*views(30, 20, seed=0))
    X, orbits = views(30, 20, seed=1)
    before, after = verify(X, orbits, [0.01]), verify(whitening.transform(X), orbits, [0.01])
    assert before.vr[0.01] < 0.5
    assert after.vr[0.01] > 0.95
    assert after.eer < 0.05 < before.eer


def test_units_and_order_do_not_matter() -> None:
    """Rows in other units, moved elsewhere, or in another order: the same cosines."""
    X, orbits = views(8, 6)
    order = np.random.default_rng(2).permutation(len(X))
    Z, moved = (
        WithinOrbitWhitening().fit(A, o).transform(A)
        for A, o in ((X, orbits), ((1e-3 * X + 7.0)[order], orbits[order]))
    )
    unit, other = (A / np.linalg.norm(A, axis=1)[:, None] for A in (Z[order], moved))
    # 7 + 1e-3 x keeps 12 digits of x
    np.testing.assert_allclose(unit @ unit.T, other @ other.T, atol=1e-8)


def test_a_row_alone_counts_for_the_directions_only() -> None:
    """An orbit of one view says nothing of views, but lies in the span that is kept."""
    X = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 5.0, 0.0]])
    Z = WithinOrbitWhitening().fit(X, ["a", "a", "b"]).transform(np.eye(3))
    assert Z.shape == (3, 2)
    # along the second axis nothing varies inside an orbit: only the floor is there
    assert abs(Z[1] - Z[2]).max() > abs(Z[0] - Z[2]).max()


def test_state_is_all_a_transform_needs() -> None:
    """There and back: bit-equal, also for integer counts; a row does not depend on the rows beside it."""
    X, orbits = views(8, 6)
    counts = np.round(100 + 10 * X).clip(0).astype(np.uint16)
    whitening = WithinOrbitWhitening(4, floor=0.5).fit(counts, orbits)
    again = WithinOrbitWhitening.from_state(*whitening.state())
    np.testing.assert_array_equal(again.transform(counts), whitening.transform(counts))
    np.testing.assert_array_equal(again.transform(counts[3:4])[0], whitening.transform(counts)[3])
    assert (again.n_components, again.floor) == (4, 0.5)
    everything = WithinOrbitWhitening().fit(counts, orbits)
    assert WithinOrbitWhitening.from_state(*everything.state()).n_components is None
    assert again.mean_.shape == (6,)
    assert again.projection_.shape == (6, 4)


@pytest.mark.parametrize(
    ("rows", "orbits", "message"),
    [
        ([[1.0], [2.0]], ["a", "b"], "orbit of two rows"),
        (np.zeros((0, 2)), [], "orbit of two rows"),
        ([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]], ["a", "a", "b"], "all alike"),
        ([[1.0], [2.0]], ["a"], "2 groups, got 1"),
        ([[1.0], [np.nan]], ["a", "a"], "non-finite"),
    ],
)
def test_what_tells_nothing_of_views_is_refused(rows: Any, orbits: list[str], message: str) -> None:
    """Rows each alone, views that do not differ, names missing."""
    with pytest.raises(InvalidArgument, match=message):
        WithinOrbitWhitening().fit(rows, orbits)


@pytest.mark.parametrize(("n_components", "floor"), [(0, 0.1), (2.5, 0.1), (True, 0.1), (5, 0.0), (5, np.inf)])
def test_impossible_options_are_refused(n_components: Any, floor: Any) -> None:
    """A count of directions and a floor over zero; and no transform before a fit."""
    with pytest.raises(InvalidArgument, match="must be a"):
        WithinOrbitWhitening(n_components, floor)
    with pytest.raises(InvalidArgument, match="call fit first"):
        WithinOrbitWhitening().transform([[1.0]])
