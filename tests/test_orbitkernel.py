"""l(x), kernel features against orbits: the slow twin's numbers, theorem 3.1, and what mean pooling loses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.exact.orbits import cyclic_orbit
from streamfeat.learn.orbitkernel import OrbitKernel
from tests import naive_mmif

Floats = NDArray[np.float64]
ALL = [(pooling, kernel) for pooling in ("mean", "max", "cdf") for kernel in ("linear", "rbf")]
D = 5


def permutations(t: Floats) -> Floats:
    """The orbit of a vector under all permutations of its entries."""
    return np.array([t[list(order)] for order in itertools.permutations(range(len(t)))])


GROUPS = {"shifts": lambda t: np.asarray(cyclic_orbit(t[None])[0]), "permutations": permutations}


def templates(group: str, m: int = 4) -> tuple[Floats, list[int], list[Floats]]:
    """Whole orbits as rows, their names, and one by one."""
    orbits = [GROUPS[group](t) for t in np.random.default_rng(0).standard_normal((m, D))]
    return np.concatenate(orbits), [i for i, orbit in enumerate(orbits) for _ in orbit], orbits


@pytest.mark.parametrize(("pooling", "kernel"), ALL)
def test_features_are_the_slow_twins(pooling: Any, kernel: Any) -> None:
    """Orbits of different sizes, their rows in any order, rows of counts: value by value."""
    rng = np.random.default_rng(1)
    T, names = rng.integers(0, 9, (12, 3)).astype(np.uint16), [5, 7, 5, 9, 9, 7, 5, 9, 5, 5, 7, 9]
    X = rng.integers(0, 9, (6, 3))
    features = OrbitKernel(pooling, kernel, 4.0 if kernel == "rbf" else None, n_thresholds=3).fit(T, names)
    thresholds = features.state()[1].get("thresholds", np.zeros((3, 0))).tolist()
    orbits = [T[np.array(names) == name].astype(float).tolist() for name in (5, 7, 9)]
    expected = [
        naive_mmif.orbit_features(x.tolist(), orbits, pooling, 4.0 if kernel == "rbf" else None, thresholds) for x in X
    ]
    # sums of at most 81 * 3
    np.testing.assert_allclose(features.transform(X), expected, rtol=1e-13)
    assert features.n_features == len(expected[0])


@pytest.mark.parametrize(("pooling", "kernel"), ALL)
@pytest.mark.parametrize("group", GROUPS)
def test_whole_orbits_make_features_invariant(group: str, pooling: Any, kernel: Any) -> None:
    """Theorem 3.1: l(gx) = l(x) for every g, under every pooling."""
    T, names, _ = templates(group)
    features = OrbitKernel(pooling, kernel).fit(T, names)
    moved = features.transform(GROUPS[group](np.random.default_rng(2).standard_normal(D)))
    np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-12)


def test_an_orbit_that_is_not_whole_is_not_invariant() -> None:
    """What the theorem asks for is needed: without one element features move."""
    T, names, _ = templates("shifts")
    moved = OrbitKernel("mean", "rbf").fit(T[1:], names[1:]).transform(cyclic_orbit(np.eye(D)[:1])[0])
    assert np.ptp(moved, axis=0).max() > 1e-3


def test_mean_pooling_of_shifts_keeps_the_mean_alone() -> None:
    """Linear kernel, all cyclic shifts: l(x)_i = mean(x) sum(t_i), one for all x of one mean; max tells them apart."""
    T, names, orbits = templates("shifts")
    X = np.random.default_rng(3).standard_normal((20, D))
    X += 1.0 - X.mean(axis=1, keepdims=True)
    l = OrbitKernel("mean").fit(T, names).transform(X)  # noqa: E741 - the paper's letter
    np.testing.assert_allclose(l, X.mean(axis=1)[:, None] * [orbit[0].sum() for orbit in orbits], atol=1e-12)
    np.testing.assert_allclose(l, np.broadcast_to(l[0], l.shape), atol=1e-12)
    for other in (OrbitKernel("max"), OrbitKernel("cdf"), OrbitKernel("mean", "rbf")):
        assert np.ptp(other.fit(T, names).transform(X), axis=0).max() > 0.1


@pytest.mark.parametrize(("pooling", "kernel"), ALL)
def test_state_is_all_a_transform_needs(pooling: Any, kernel: Any) -> None:
    """There and back, bit-equal; a row does not depend on the rows beside it."""
    T, names, _ = templates("shifts")
    X = np.random.default_rng(4).standard_normal((7, D)).astype(np.float32)
    features = OrbitKernel(pooling, kernel, n_thresholds=4).fit(T, names)
    again = OrbitKernel.from_state(*features.state())
    np.testing.assert_array_equal(again.transform(X), features.transform(X))
    np.testing.assert_array_equal(again.transform(X[2:3])[0], features.transform(X)[2])


@pytest.mark.parametrize(
    ("settings", "rows", "names", "message"),
    [
        ({}, np.zeros((0, 2)), [], "one transformed template or more"),
        ({}, [[1.0], [2.0]], ["a"], "2 groups, got 1"),
        ({}, [[np.nan]], ["a"], "non-finite"),
        ({"kernel": "rbf"}, [[1.0], [1.0]], ["a", "a"], "rows that differ"),
        ({"kernel": "rbf"}, [[1.0]], ["a"], "rows that differ"),
        ({"pooling": "sum"}, [[1.0]], ["a"], "pooling must be one of 'mean', 'max', 'cdf'"),
        ({"kernel": "poly"}, [[1.0]], ["a"], "kernel must be one of"),
        ({"sigma": 1.0}, [[1.0]], ["a"], "leave it out with 'linear'"),
        ({"n_thresholds": 0}, [[1.0]], ["a"], "n_thresholds must be an int over 0"),
    ],
)
def test_what_makes_no_features_is_refused(settings: Any, rows: Any, names: list[str], message: str) -> None:
    """Settings that fit nothing, no templates, and a transform before a fit or of another width."""
    with pytest.raises(InvalidArgument, match=message):
        OrbitKernel(**settings).fit(rows, names)
    with pytest.raises(InvalidArgument, match="call fit first"):
        OrbitKernel().transform([[1.0]])
    with pytest.raises(InvalidArgument, match="must have 1 columns"):
        OrbitKernel().fit([[1.0]], ["a"]).transform([[1.0, 2.0]])
