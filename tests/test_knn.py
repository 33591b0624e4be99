"""KNN: a vote with a rule for every tie, and what Euclidean distance between CDF features means."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.learn.knn import KNN
from streamfeat.learn.neighbours import NeighbourIndex
from tests import naive, naive_learn

points = st.tuples(st.integers(-2, 2), st.integers(-2, 2))


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(points, min_size=1, max_size=12),
    queries=st.lists(points, min_size=1, max_size=4),
    k=st.integers(1, 15),
    votes=st.sampled_from(["uniform", "distance"]),
    backend=st.sampled_from(["exact", "faiss"]),
    seed=st.integers(0, 99),
)
def test_votes_are_those_of_a_list(
    *, rows: list[Any], queries: list[Any], k: int, votes: str, backend: str, seed: int
) -> None:
    """Any rows with many ties, any k also over their number, both backends: the label a list would give."""
    labels = [int(c) for c in np.random.default_rng(seed).integers(0, 3, len(rows))]
    knn = KNN(k, votes=votes, backend=backend).fit(rows, labels)
    twin = naive_learn.NeighbourList("l2")
    twin.add(rows, labels)
    expected = [naive_learn.vote(twin.search(query, k), votes == "distance") for query in queries]
    scores, predicted = knn.scores(queries), knn.predict(queries)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    for row, answer, twin_answer in zip(scores, predicted, expected, strict=True):
        # sums of 1/d in another order may break a tie that the list sees
        assert row[knn.classes_.index(answer)] == pytest.approx(row[knn.classes_.index(twin_answer)], rel=1e-12)
        if votes == "uniform":
            assert answer == twin_answer


def test_ties_go_to_the_nearer_first_neighbour_then_to_the_older() -> None:
    """One vote each: the nearer wins. Equally far: the one with the smaller id."""
    assert KNN(2).fit([[0.0], [3.0]], ["a", "b"]).predict([[1.0], [2.0]]) == ["a", "b"]
    assert KNN(2).fit([[3.0], [-3.0]], ["b", "a"]).predict([[0.0]]) == ["b"]
    assert KNN(4).fit([[1.0], [2.0], [2.5], [9.0]], ["a", "b", "b", "a"]).predict([[0.0]]) == ["a"]


def test_by_distance_the_near_weigh_more() -> None:
    """Two far ones outvote one near one only where all weigh the same; a copy of the query decides alone."""
    X, y = [[0.0], [10.0], [11.0]], ["near", "far", "far"]
    assert KNN(3).fit(X, y).predict([[1.0]]) == ["far"]
    knn = KNN(3, votes="distance").fit(X, y)
    assert knn.predict([[1.0]]) == ["near"]
    np.testing.assert_allclose(knn.scores([[1.0]]), [[1 / 9 + 1 / 10, 1.0]] / np.array([1 + 1 / 9 + 1 / 10]))
    np.testing.assert_array_equal(knn.scores([[0.0]]), [[0.0, 1.0]])
    # distances near the smallest float: 1 / distance would be infinite
    tiny = KNN(2, votes="distance").fit([[1e-40], [0.0]], ["a", "b"])
    assert np.isfinite(tiny.scores([[3e-40]])).all()


def test_rows_come_and_go(tmp_path: Path) -> None:
    """Removed rows have no vote, a class without rows is gone, ids are not used again; saved, it answers the same."""
    knn = KNN(1)
    assert list(knn.add([[0.0], [1.0]], ["a", "b"])) == [0, 1]
    knn.remove([1])
    assert knn.classes_ == ["a"]
    assert knn.predict([[1.0]]) == ["a"]
    assert list(knn.add([[1.0]], ["c"])) == [2]
    knn.save(tmp_path / "knn")
    back = KNN.of(NeighbourIndex.open(tmp_path / "knn"), 1)
    assert back.predict([[0.9], [0.1]]) == knn.predict([[0.9], [0.1]]) == ["c", "a"]
    assert back.score([[0.9], [0.1]], ["c", "c"]) == 0.5
    knn.remove([0, 2])
    with pytest.raises(InvalidArgument, match="no rows left"):
        knn.predict([[1.0]])


def test_what_cannot_vote_is_refused() -> None:
    """NaN, another width, k of zero, labels missing or of two types: named, and nothing is stored."""
    knn = KNN(1).fit(np.eye(2), [1, 2])
    refused: list[tuple[str, Any]] = [
        ("non-finite", lambda: knn.predict([[np.nan, 0.0]])),
        ("non-finite", lambda: knn.add([[np.inf, 0.0]], [1])),
        ("2 columns", lambda: knn.predict(np.eye(3))),
        ("all ints or all texts", lambda: knn.add(np.eye(2), ["1", "2"])),
        ("label", lambda: knn.add(np.eye(2), [1, None])),
        ("k must be", lambda: KNN(0)),
        ("votes must be", lambda: KNN(1, votes="rank")),
        ("metric must be", lambda: KNN(1, metric="l1").fit(np.eye(2), [1, 2])),
        ("call fit", lambda: KNN(1).predict(np.eye(2))),
    ]
    for match, act in refused:
        with pytest.raises(InvalidArgument, match=match):
            act()
    assert len(knn.index) == 2
    with pytest.raises(NotFound):
        knn.remove([7])
    unlabelled = NeighbourIndex(2)
    unlabelled.add(np.eye(2), ["a", None])
    with pytest.raises(InvalidArgument, match="got None"):
        KNN.of(unlabelled)


# the meaning of distance: CDF features over all permutations of four numbers

D, EPSILON, N_BINS = 4, 0.4, 1000
PERMUTATIONS = np.array(list(permutations(range(D))))


def templates(m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """N(0, I/d), redrawn where the squared norm is 1 + epsilon or more."""
    T = np.empty((0, D))
    while len(T) < m:
        more = rng.standard_normal((m, D)) / np.sqrt(D)
        T = np.vstack([T, more[(more**2).sum(axis=1) < 1 + EPSILON]])
    return T[:m]


def counts(X: NDArray[np.float64], T: NDArray[np.float64]) -> NDArray[np.int64]:
    """#{g : <x, gt> <= s k / n}, k = -n..n, for each x and t (N, m, 2n + 1)."""
    s = 1 + EPSILON
    thresholds = s * np.arange(-N_BINS, N_BINS + 1) / N_BINS
    # sums of four products in one order whatever g: an orbit's projections are one set of numbers, to the bit
    P = np.sort((X[:, None, :, None][:, :, PERMUTATIONS, 0] * T[None, :, None, :]), axis=-1).sum(axis=-1)
    ordered = np.sort(P, axis=-1)
    return np.array([[np.searchsorted(row, thresholds, side="right") for row in of_x] for of_x in ordered])


def unit(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of length 1."""
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def test_distance_is_the_orbits_energy_distance() -> None:
    """The mean over templates of |Phi(x) - Phi(z)|^2 is c / sqrt(2 pi d) times the energy distance of the orbits."""
    rng = np.random.default_rng(0)
    x, z = unit(rng.standard_normal((2, D)))
    m = 600
    of_x, of_z = counts(np.array([x, z]), templates(m, rng))
    s = 1 + EPSILON
    per_template = (s / N_BINS) * (((of_x - of_z) / len(PERMUTATIONS)) ** 2).sum(axis=1)
    c = chi2.cdf(D * s, D + 1) / chi2.cdf(D * s, D)
    expected = c / np.sqrt(2 * np.pi * D) * naive.energy_distance(x[PERMUTATIONS], z[PERMUTATIONS])
    # 5 sigma of the mean, and the bins: s / n times a total variation below 1, of random sign
    spread = 5 * per_template.std() / np.sqrt(m) + 1e-4
    assert abs(per_template.mean() - expected) < spread
    assert spread < 0.25 * expected


@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_one_orbit_is_at_distance_zero(backend: str) -> None:
    """Any permutation of a stored row is found, at distance 0, and answered with its label."""
    rng = np.random.default_rng(1)
    X, T = unit(rng.standard_normal((8, D))), templates(12, rng)
    features = counts(X, T).reshape(8, -1).astype(np.uint16)
    knn = KNN(1, backend=backend).fit(features, range(8))
    moved = counts(np.array([row[rng.permutation(D)] for row in X]), T).reshape(8, -1).astype(np.uint16)
    assert knn.predict(moved) == list(range(8))
    np.testing.assert_array_equal(knn.index.search(moved, 1).distances, 0.0)


def test_neighbours_are_those_by_energy_distance() -> None:
    """With many templates the nearest row by features is the nearest by the orbits' energy distance."""
    rng = np.random.default_rng(2)
    X, T = unit(rng.standard_normal((7, D))), templates(300, rng)
    features = counts(X, T)[:, :, ::20].reshape(7, -1).astype(np.uint16)
    knn = KNN(1).fit(features[1:], range(1, 7))
    by_energy = [naive.energy_distance(X[0][PERMUTATIONS], row[PERMUTATIONS]) for row in X[1:]]
    first, second = np.sort(by_energy)[:2]
    assert second > 1.3 * first  # the draw leaves no doubt
    assert knn.predict(features[:1]) == [1 + int(np.argmin(by_energy))]
