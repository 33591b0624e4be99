"""MMIF: invariant under the group its templates were moved by, linear in l(x), and what is left without the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.exact.orbits import cyclic_orbit
from streamfeat.learn.knn import KNN
from streamfeat.learn.mmif import MMIF
from streamfeat.learn.verification import verify

Floats = NDArray[np.float64]
D = 12


def things(n: int, seed: int, noise: float = 0.0) -> tuple[Floats, NDArray[np.intp]]:
    """n things of `D` numbers under every cyclic shift: rows, and which thing each shows."""
    rng = np.random.default_rng(seed)
    rows = cyclic_orbit(rng.standard_normal((n, D))).reshape(-1, D)
    return rows + noise * rng.standard_normal(rows.shape), np.repeat(np.arange(n), D)


def fitted(noise: float = 0.0, **settings: Any) -> MMIF:
    """From 20 orbits, and 12 other things."""
    T, orbits = things(20, 0)
    X, names = things(12, 1, noise)
    return MMIF(20, **settings).fit(X, names, templates=T, orbits=orbits)


@pytest.mark.parametrize("pooling", ["mean", "max", "cdf"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_features_do_not_change_under_the_group(pooling: Any, kernel: Any) -> None:
    """Theorem 3.1: MMIF(gx) = MMIF(x) for every shift of things never seen."""
    # the SVMs need rows that differ: of whole orbits without noise each thing is one point
    mmif = fitted(0.1, pooling=pooling, kernel=kernel)
    X, _ = things(5, 2)
    features = mmif.transform(X).reshape(5, D, -1)
    np.testing.assert_allclose(features, np.broadcast_to(features[:, :1], features.shape), atol=1e-10)


def test_features_are_linear_in_the_kernel_features() -> None:
    """MMIF(x) = W' l(x), without an offset."""
    mmif = fitted(0.1)
    X, _ = things(3, 2)
    assert mmif.orbit_kernel is not None
    expected = mmif.orbit_kernel.transform(X) @ mmif.svms.projection_
    np.testing.assert_allclose(mmif.transform(X), expected, rtol=1e-10, atol=1e-12)


def test_shifted_things_are_known_by_cosine_where_the_ablation_fails() -> None:
    """Things never seen, each shifted, with noise: verified and found by cosine; without the kernel they are not."""
    X, names = things(8, 3, noise=0.05)
    found = {}
    for pooling in ("max", "none"):
        rows = fitted(0.05, pooling=pooling).transform(X)
        found[pooling] = verify(rows, names, [0.01]).vr[0.01]
    assert found["max"] > 0.9
    assert found["none"] < 0.3
    rows = fitted(0.05).transform(X)
    first = np.arange(8) * D
    knn = KNN(metric="cosine")
    knn.add(rows[first], names[first])
    assert np.mean(np.array(knn.predict(rows)) == names) > 0.95


def test_one_set_may_be_both_templates_and_things() -> None:
    """Without templates the rows' own things are the orbits."""
    X, names = things(12, 1)
    alone = MMIF(20).fit(X, names)
    both = MMIF(20).fit(X, names, templates=X, orbits=names)
    np.testing.assert_array_equal(alone.transform(X[:5]), both.transform(X[:5]))


@pytest.mark.parametrize("pooling", ["mean", "cdf", "none"])
def test_state_is_all_a_transform_needs(pooling: Any) -> None:
    """There and back, bit-equal."""
    mmif, (X, _) = fitted(0.1, pooling=pooling), things(3, 2)
    again = MMIF.from_state(*mmif.state())
    np.testing.assert_array_equal(again.transform(X), mmif.transform(X))


def test_templates_and_orbits_go_together() -> None:
    """One without the other is refused."""
    X, names = things(4, 0)
    with pytest.raises(InvalidArgument, match="go together"):
        MMIF().fit(X, names, templates=X)
    with pytest.raises(InvalidArgument, match="pooling must be one of"):
        MMIF(pooling="sum")  # type: ignore[arg-type]
