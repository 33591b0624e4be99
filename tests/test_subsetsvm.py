"""SVMs on random subsets of classes: the paper's two rules, and the optimum of each SVM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.subsetsvm import SubsetSVMs
from tests import naive_mmif


@pytest.mark.parametrize(("n_positive", "n_classes", "n_negative"), [(3, 10, 7), (5, None, 15)])
def test_subsets_follow_the_papers_rules(n_positive: int, n_classes: int | None, n_negative: int) -> None:
    """Of twenty classes ten, three of them positive; or five against the rest; each class is met on each side."""
    sides = SubsetSVMs(200, n_positive, n_classes).subsets(20)
    assert ((sides == 1).sum(axis=1) == n_positive).all()
    assert ((sides == -1).sum(axis=1) == n_negative).all()
    assert len(np.unique(sides, axis=0)) > 190
    assert (sides == 1).any(axis=0).all()
    assert (sides == -1).any(axis=0).all()
    fewer = SubsetSVMs(50, n_positive, n_classes).subsets(20)
    np.testing.assert_array_equal(fewer, sides[:50])
    assert (SubsetSVMs(200, n_positive, n_classes, seed=1).subsets(20) != sides).any()


def test_few_classes_are_all_in_and_one_is_negative() -> None:
    """Of two classes one is positive, whatever the rule says of ten."""
    sides = SubsetSVMs(30).subsets(2)
    assert ((sides == 1).sum(axis=1) == 1).all()
    assert ((sides == -1).sum(axis=1) == 1).all()


@pytest.mark.parametrize("D", [3, 40])
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_directions_are_those_of_the_optimum(D: int, C: float) -> None:
    """Wide and tall rows: the slow twin's directions, found by one dual step at a time."""
    rng = np.random.default_rng(D)
    names = np.arange(24) % 4
    X = rng.standard_normal((24, D)) + 2.0 * rng.standard_normal((4, D))[names]
    length = np.sqrt((X**2).sum(axis=1).mean())
    svms = SubsetSVMs(3, 1, None, C).fit(X, names.tolist())
    for side, direction in zip(svms.subsets(4), svms.projection_.T, strict=True):
        y = side[names].astype(float)
        _, w = naive_mmif.linear_svm(X / length, y, C)
        found = direction * length
        # liblinear stops within 1e-3 of the optimality conditions
        assert np.linalg.norm(found - w[:-1]) < 2e-2 * np.linalg.norm(w)
        assert found @ w[:-1] > 0.9999 * np.linalg.norm(found) * np.linalg.norm(w[:-1])


def test_units_do_not_matter_and_state_is_all() -> None:
    """Rows in other units: the same answers; there and back, bit-equal."""
    rng = np.random.default_rng(0)
    X, names = rng.standard_normal((20, 6)).astype(np.float32), ["a", "b", "c", "d"] * 5
    svms = SubsetSVMs(8, 1).fit(X, names)
    scaled = SubsetSVMs(8, 1).fit(1000.0 * X.astype(float), names)
    np.testing.assert_allclose(scaled.transform(1000.0 * X.astype(float)), svms.transform(X), rtol=1e-6, atol=1e-9)
    again = SubsetSVMs.from_state(*svms.state())
    np.testing.assert_array_equal(again.transform(X), svms.transform(X))
    np.testing.assert_array_equal(again.transform(X[3:4])[0], svms.transform(X)[3])


@pytest.mark.parametrize(
    ("settings", "rows", "names", "message"),
    [
        ({}, [[1.0], [2.0]], ["a", "a"], "two of them or more, got 1"),
        ({}, [[0.0], [0.0]], ["a", "b"], "all 2 rows are zero"),
        ({}, [[1.0], [np.inf]], ["a", "b"], "non-finite"),
        ({"n_positive": 10}, [[1.0]], ["a"], "n_positive must be less than n_classes"),
        ({"n_svms": 0}, [[1.0]], ["a"], "n_svms must be an int over 0"),
        ({"C": 0}, [[1.0]], ["a"], "C must be a number over 0"),
    ],
)
def test_what_tells_nothing_apart_is_refused(settings: Any, rows: Any, names: list[str], message: str) -> None:
    """Settings that make no subset, one class, rows without content; and no transform before a fit."""
    with pytest.raises(InvalidArgument, match=message):
        SubsetSVMs(**settings).fit(rows, names)
    with pytest.raises(InvalidArgument, match="call fit first"):
        SubsetSVMs().transform([[1.0]])
