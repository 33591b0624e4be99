"""A readout: features of a bank times a learned matrix, in this process, from a directory, and from real workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import build_bank, materialise, open_bank
from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank
from streamfeat.client import Client
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.learn.mmif import MMIF
from streamfeat.learn.subsetsvm import SubsetSVMs
from streamfeat.learn.whitening import WithinOrbitWhitening
from streamfeat.signals import Signal
from tests.cluster import cluster
from tests.test_bank import ROTATION, SHIFT, pictures
from tests.test_bankspec import small
from tests.test_layer2 import FIRST
from tests.test_orbits import given_orbits
from tests.test_orbits import spec as given_spec

TURNS = {"factor": "rotation", "law": "grid", "low": -180, "high": 90, "n": 4}


def bank_of(first: str = "cdf", **changes: Any) -> Bank:
    """A small bank of pictures, whatever it pools."""
    spec = small(**{"group": [ROTATION, SHIFT], **FIRST[first], **changes})
    return build_bank(BankSpec.from_dict(spec), pictures(20, seed=1))


def matrix(n: int, k: int = 70) -> NDArray[np.float64]:
    """Columns at random: a whole block of lanes and a part of one."""
    M: NDArray[np.float64] = np.random.default_rng(k).standard_normal((n, k)) / np.sqrt(n)
    return M


@pytest.mark.parametrize("changes", [{}, {"layer2": {"kind": "fourier", "m": 9, "sigma": 0.5}}, {"outer": [TURNS]}])
@pytest.mark.parametrize("first", list(FIRST))
def test_features_are_those_of_the_definition(first: str, changes: dict[str, Any]) -> None:
    """(Phi - offset) M of the dense features of the bank beneath: counts, means, layer 2 and outer orbit."""
    plain = FeatureMap(bank_of(first, **changes))
    M, offset = matrix(plain.n_features), np.linspace(0, 0.1, plain.n_features)
    fmap = FeatureMap(plain.bank.with_readout(M, offset))
    X = fmap.transform(pictures(7))
    assert (X.shape, X.dtype.str, fmap.bank.dtype) == ((7, 70), "<f4", "<f4")
    Phi = plain.dense(plain.transform(pictures(7))).astype(np.float64)
    # float32 sums of at most 700 numbers below 1
    np.testing.assert_allclose(X, (Phi - offset) @ M, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(fmap.dense(X), X)
    for i, signal in enumerate(pictures(7)):
        np.testing.assert_array_equal(fmap.one(signal), X[i])


def test_the_hash_holds_the_matrix_and_the_base_is_the_bank_before(tmp_path: Path) -> None:
    """Another matrix or offset, another hash; saved and opened, to the bit; beneath it lies the bank it was made of."""
    bank = bank_of()
    M = matrix(bank.n_features, 5)
    read = bank.with_readout(M)
    others = [bank.with_readout(2 * M), bank.with_readout(M, np.ones(bank.n_features)), bank.with_readout(M, name="x")]
    assert len({bank.hash, read.hash, *(other.hash for other in others)}) == 5
    opened = open_bank(read.save(tmp_path))
    assert (opened.hash, opened.base.hash, opened.n_features) == (read.hash, bank.hash, 5)
    assert (opened.base.n_features, opened.base.dtype) == (bank.n_features, bank.dtype)
    assert bank.base is bank
    expected = FeatureMap(read).transform(pictures(3))
    np.testing.assert_array_equal(FeatureMap(opened).transform(pictures(3)), expected)
    named = others[2].save(tmp_path)
    assert named.name.startswith("x-")


def test_a_bank_of_several_streams_has_one_readout() -> None:
    """Of both streams' features, one after the other."""
    one = small(group=[ROTATION])
    table = {key: one.pop(key) for key in ("templates", "pooling", "group")}
    bank = build_bank(BankSpec.from_dict({**one, "streams": [table, {**table, "group": [SHIFT]}]}), pictures(4))
    plain = FeatureMap(bank)
    M = matrix(bank.n_features, 3)
    Phi = plain.dense(plain.transform(pictures(2)))
    np.testing.assert_allclose(FeatureMap(bank.with_readout(M)).transform(pictures(2)), Phi @ M, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    """Another width, no column, numbers that are none, a second readout, a dense form."""
    bank = bank_of()
    D = bank.n_features
    for M, offset in ((np.ones((D - 1, 2)), None), (np.ones((D, 0)), None), (np.ones((D, 2)), np.ones(2))):
        with pytest.raises(ConfigError, match=f"takes a matrix \\({D}, K\\)"):
            bank.with_readout(M, offset)
    with pytest.raises(ConfigError, match="finite float32"):
        bank.with_readout(np.full((D, 1), 1e39))
    read = bank.with_readout(np.ones((D, 2)))
    with pytest.raises(ConfigError, match="has a readout already"):
        read.with_readout(np.ones((2, 1)))
    with pytest.raises(ConfigError, match="materialise the bank that it was made from"):
        materialise(read)
    with pytest.raises(ConfigError, match="name"):
        bank.with_readout(np.ones((D, 1)), name="Not a name")


def mmif_bank() -> tuple[Bank, list[Signal]]:
    """MMIF of pictures under quarter turns: orbits of 12 templates, SVMs taught by 8 others; and new pictures."""
    rng = np.random.default_rng(0)
    spec = {
        "name": "turned",
        "front_end": [{"stage": "pixels", "height": 10, "width": 10}],
        "templates": {"source": "data", "m": 12},
        "group": [TURNS],
        "pooling": {"kind": "max", "kernel": {"kind": "linear"}},
    }
    seen = [Signal("image", rng.uniform(size=(10, 10)).astype(np.float32)) for _ in range(20)]
    base = FeatureMap.fit(BankSpec.from_dict(spec), seen[:12])
    noisy = [
        Signal("image", np.clip(s.samples + 0.1 * rng.uniform(size=(10, 10)), 0, 1).astype(np.float32))
        for s in seen[12:]
        for _ in range(4)
    ]
    svms = SubsetSVMs(30).fit(base.dense(base.transform(noisy)), np.repeat(np.arange(8), 4))
    new = [Signal("image", rng.uniform(size=(10, 10)).astype(np.float32)) for _ in range(5)]
    return base.bank.with_readout(svms.projection_, name="turned-mmif"), new


def test_mmif_through_real_workers_is_to_the_bit_that_of_this_process(tmp_path: Path) -> None:
    """MMIF as a bank, served by two workers: the numbers of this process, the same for a picture and its turns."""
    bank, new = mmif_bank()
    path = bank.save(tmp_path)
    turned = [Signal("image", np.ascontiguousarray(np.rot90(s.samples, k))) for s in new for k in range(4)]
    expected = FeatureMap(bank).transform(turned)
    scale = np.abs(expected).max()
    # quarter turns only move pixels; sums of 100 float32 in another order, then of 12 by SVMs
    np.testing.assert_allclose(expected.reshape(5, 4, 30), expected[::4, None].repeat(4, axis=1), atol=1e-4 * scale)
    with cluster() as running:
        running.start_broker()
        running.start_features("features-1", [path])
        running.start_features("features-2", [path])
        running.wait_ready("features-1", "features-2")
        with Client(running.front) as client:
            np.testing.assert_array_equal(client.features(turned, bank="turned-mmif"), expected)


def test_whitening_is_served_as_a_readout() -> None:
    """Its mean and its directions: the cosines of `transform`."""
    plain = FeatureMap(bank_of("quantiles"))
    people = pictures(12, seed=3)
    Phi = plain.dense(plain.transform(people))
    whitening = WithinOrbitWhitening(4).fit(Phi, np.arange(12) // 3)
    served = FeatureMap(plain.bank.with_readout(whitening.projection_, whitening.mean_)).transform(people)
    expected = whitening.transform(Phi)
    assert np.einsum("nk,nk->n", served, expected).min() > 0
    # the mean is rounded to float32 before small differences are scaled up
    np.testing.assert_allclose(served, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("kernel", [{"kind": "linear"}, {"kind": "rbf", "sigma": 2.0}])
def test_a_bank_of_given_orbits_gives_the_same_mmif_as_rows(pooling: Any, kernel: dict[str, Any]) -> None:
    """Orbits as arrays, pooled by a bank and read out, or by `MMIF` on rows: the same features but for their size."""
    bank = build_bank(given_spec(pooling={"kind": pooling, "kernel": kernel}, renormalise=False), orbits=given_orbits())
    fmap, people = FeatureMap(bank), pictures(24, seed=5)
    things, names = np.arange(24) // 4, np.repeat(np.arange(5), 7)
    rows = np.array([fmap.front_end(signal) for signal in people])
    mmif = MMIF(10, pooling=pooling, kernel=kernel["kind"], sigma=kernel.get("sigma"))
    mmif.fit(rows, things, templates=given_orbits().reshape(35, -1), orbits=names)
    svms = SubsetSVMs(10).fit(fmap.dense(fmap.transform(people)), things)
    served = FeatureMap(bank.with_readout(svms.projection_)).transform(people)
    expected = mmif.transform(rows)
    # kernels in float32; liblinear stops within 1e-3 of the optimality conditions
    np.testing.assert_allclose(served, expected, atol=1e-2 * np.abs(expected).max())
