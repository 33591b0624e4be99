"""The invariant SVM (objective 1): optimal, invariant, and right where a plain SVM cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.exact.orbits import cyclic_orbit
from streamfeat.learn.orbitsvm import OrbitSVM
from tests import naive_mmif

N, D, SIGMA = 8, 6, 1.5


def problem(seed: int = 0) -> tuple[NDArray[np.float64], list[str], list[int]]:
    """Orbits of two patterns with noise under cyclic shifts: rows, labels, orbit of each row."""
    rng = np.random.default_rng(seed)
    patterns = np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
    X = patterns[np.arange(N) % 2] + 0.2 * rng.standard_normal((N, D))
    rows = cyclic_orbit(X).reshape(-1, D)
    return rows, [["pair", "apart"][i // D % 2] for i in range(N * D)], [i // D for i in range(N * D)]


@pytest.mark.parametrize("C", [None, 10.0])
def test_the_dual_is_solved(C: float | None) -> None:
    """Constraints hold and the duality gap is nothing, by the slow twin's double sums over both orbits."""
    rows, labels, orbits = problem()
    svm = OrbitSVM("rbf", SIGMA, C).fit(rows, labels, orbits)
    each = rows.reshape(N, D, D)
    K = np.array([[np.mean([[naive_mmif.kernel(x, z, SIGMA) for z in b] for x in a]) for b in each] for a in each])
    y = np.array([1.0, -1.0] * (N // 2))
    bound = C or 1 / N
    assert (svm.alpha_ >= 0).all()
    assert (svm.alpha_ <= bound * (1 + 1e-12)).all()
    assert abs(svm.alpha_ @ y) < 1e-9
    # libsvm stops within 1e-6 of the optimality conditions, over N rows of cost C
    assert 0 <= naive_mmif.duality_gap(K, y, svm.alpha_, svm.intercept_, bound) + 1e-9 < 1e-4


def test_answers_do_not_change_under_the_group() -> None:
    """f(gx) = f(x) for new rows, and they are right where shifts make both patterns the same on average."""
    rows, labels, orbits = problem()
    new, told, _ = problem(1)
    svm = OrbitSVM("rbf", SIGMA, 10.0).fit(rows, labels, orbits)
    scores = svm.decision_function(new).reshape(N, D)
    np.testing.assert_allclose(scores, np.broadcast_to(scores[:, :1], scores.shape), atol=1e-10)
    assert svm.predict(new) == told
    assert svm.classes_ == ["apart", "pair"]


@pytest.mark.parametrize(
    ("labels", "orbits", "message"),
    [
        (["a", "a"], [0, 1], "two labels apart, got 1"),
        (["a", "b"], [0, 0], "orbit 0 has both labels"),
        (["a"], [0, 1], "2 labels, got 1"),
        (["a", "b"], [0], "2 groups, got 1"),
    ],
)
def test_what_is_not_two_classes_of_orbits_is_refused(labels: Any, orbits: Any, message: str) -> None:
    """One label, an orbit of two, names missing, no fit."""
    with pytest.raises(InvalidArgument, match=message):
        OrbitSVM().fit([[1.0, 0.0], [0.0, 1.0]], labels, orbits)
    with pytest.raises(InvalidArgument, match="call fit first"):
        OrbitSVM().decision_function([[1.0]])
    with pytest.raises(InvalidArgument, match="C must be a number over 0"):
        OrbitSVM(C=-1.0)
