"""Double sums over orbits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.exact.orbits import (
    Floats,
    OfSquares,
    base_mean,
    cyclic_orbit,
    distance,
    gaussian,
    laplacian,
    orbit_distance,
    orbit_kernel,
    orbit_mean,
)
from tests import naive

# a sum of a few hundred terms of order 1 in float64; squared distances come from a product, which costs some digits
CLOSE = 1e-12


def points(*shape: int) -> Floats:
    """Points of about unit norm."""
    return np.random.default_rng(1).standard_normal(shape) / math.sqrt(shape[-1])


@pytest.mark.parametrize(
    ("of", "one"),
    [
        (distance, math.sqrt),
        (gaussian(0.7), lambda u: math.exp(-u / (2 * 0.49))),
        (laplacian(0.7), lambda u: math.exp(-math.sqrt(u) / 0.7)),
    ],
)
def test_orbit_means_are_the_double_sums(of: OfSquares, one: Callable[[float], float]) -> None:
    """Every orbit with every other, weighted by q on both sides."""
    X, Z = points(3, 4, 5), points(6, 2, 5)[1:]
    q, q_z = [0.1, 0.2, 0.3, 0.4], [0.25, 0.75]
    slow = [[naive.orbit_sum(x, z, one, q, q_z) for z in Z] for x in X]
    np.testing.assert_allclose(orbit_mean(X, Z, of, q=q, q_z=q_z), slow, rtol=CLOSE)


def test_a_group_needs_one_side_only() -> None:
    """Averaged evenly over a group of isometries, moving z alone gives what moving both gives."""
    X = points(4, 6)
    both = orbit_kernel(cyclic_orbit(X), cyclic_orbit(X), 0.5)
    np.testing.assert_allclose(orbit_kernel(X[:, None], cyclic_orbit(X), 0.5), both, rtol=CLOSE)


def test_haar_kernels_do_not_change_under_the_group_and_are_positive() -> None:
    """k_G(gx, g'z) = k_G(x, z) for permutations, and its Gram has no negative eigenvalue beyond rounding."""
    X = points(5, 4)
    orders = np.array(list(itertools.permutations(range(4))))
    G = orbit_kernel(X[:, None], X[:, orders], 0.5)
    np.testing.assert_allclose(orbit_kernel(X[:, [2, 0, 3, 1]][:, None], X[:, orders], 0.5), G, rtol=CLOSE)
    assert np.linalg.eigvalsh(G).min() > -1e-12


def test_all_weight_on_the_identity_is_the_kernel_itself() -> None:
    """q = delta at e gives k back, and r = 1 too."""
    X = points(3, 5)
    plain = base_mean(X, X, gaussian(0.5))
    np.testing.assert_allclose(orbit_kernel(cyclic_orbit(X), cyclic_orbit(X), 0.5, q=np.eye(5)[0]), plain, rtol=CLOSE)


def test_a_point_is_at_no_distance_from_itself() -> None:
    """The diagonal is zero, and not the root of a rounding error."""
    X = points(4, 300)
    assert (np.diag(base_mean(X, X, distance)) == 0).all()


def test_orbit_distance_blocks_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """One orbit at a time gives what many at a time give."""
    X = cyclic_orbit(points(5, 6))
    whole = orbit_distance(X, X)
    monkeypatch.setattr("streamfeat.exact.orbits.BLOCK_DISTANCES", 1)
    # a product of fewer rows is summed in another order
    np.testing.assert_allclose(orbit_distance(X, X), whole, rtol=CLOSE)


@pytest.mark.parametrize(
    ("X", "Z", "q", "told"),
    [
        (np.ones((2, 3)), np.ones((2, 1, 3)), None, "shape"),
        (np.ones((2, 1, 3)), np.ones((2, 1, 4)), None, "one length"),
        (np.ones((2, 2, 3)), np.ones((2, 2, 3)), [0.5, 0.6], "sum to 1"),
        (np.ones((2, 2, 3)), np.ones((2, 2, 3)), [1.5, -0.5], "negative"),
        (np.ones((2, 2, 3)), np.ones((2, 2, 3)), [1.0], "2 weights"),
    ],
)
def test_what_does_not_fit_is_refused(X: Floats, Z: Floats, q: list[float] | None, told: str) -> None:
    """The message says what was needed."""
    with pytest.raises(InvalidArgument, match=told):
        orbit_kernel(X, Z, 1.0, q=q)
