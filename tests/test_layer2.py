"""Layer 2: plain random Fourier features of the first layer's Phi."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import build_bank, materialise
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.layer2 import MEDIAN_ROWS, Layer2, median_distance, median_rows
from streamfeat.templates.hadamard import walsh_hadamard
from tests import naive
from tests.test_bank import ROTATION, SHIFT, pictures
from tests.test_bankspec import small

FIRST: dict[str, dict[str, Any]] = {
    "cdf": {},
    "fourier": {"templates": {"source": "fourier", "m": 70}, "pooling": {"kind": "fourier", "sigma": 0.5}},
    "nystrom": {
        "templates": {"source": "landmarks", "m": 10},
        "pooling": {"kind": "nystrom", "kernel": {"kind": "rbf", "sigma": 0.5}},
    },
    "quantiles": {"pooling": {"kind": "quantiles", "n": 3, "kernel": {"kind": "linear"}}},
}


def map_of(first: str, m: int = 70, sigma: float | str = 0.3, **changes: Any) -> FeatureMap:
    layer2 = {"kind": "fourier", "m": m, "sigma": sigma}
    spec = small(**{"group": [ROTATION, SHIFT], "layer2": layer2, **FIRST[first], **changes})
    return FeatureMap(build_bank(BankSpec.from_dict(spec), pictures(40, seed=1)))


def first_of(fmap: FeatureMap) -> FeatureMap:
    """The same bank without its second layer."""
    spec = fmap.bank.spec.as_dict()
    return FeatureMap(build_bank(BankSpec.from_dict({**spec, "layer2": {"kind": "none"}}), pictures(40, seed=1)))


def frequencies(fmap: FeatureMap) -> NDArray[np.float64]:
    """W (m2, D1) from its blocks."""
    blocks, layer2 = fmap.bank.arrays["layer2_frequencies"], fmap.bank.spec.layer2
    assert layer2 is not None
    return np.asarray(blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])[: layer2.m], np.float64)


@pytest.mark.parametrize("first", list(FIRST))
def test_features_are_those_of_the_definition(first: str) -> None:
    """cos and sin of <w, Phi(x)> over sqrt(m2), Phi the dense feature of the same bank without the second layer."""
    fmap = map_of(first)
    plain = first_of(fmap)
    W = frequencies(fmap)
    assert (fmap.n_features, fmap.bank.dtype) == (140, "<f4")
    for signal in pictures(3):
        phi = plain.dense(plain.one(signal))
        expected = naive.fourier_feature(W[:, : len(phi)], phi)
        assert not W[:, len(phi) :].any()
        # float32 sums of up to 140 products of size 1 / 0.3, cos to 1e-6
        np.testing.assert_allclose(fmap.one(signal), expected, atol=1e-5)
        np.testing.assert_array_equal(fmap.dense(fmap.one(signal)), fmap.one(signal))


@pytest.mark.parametrize("first", list(FIRST))
def test_an_items_feature_depends_on_the_item_alone(first: str, tmp_path: Any) -> None:
    """In any company and order, from a saved bank: the same to the bit; from stored orbits: within rounding."""
    fmap = map_of(first)
    signals = pictures(70)
    whole = fmap.transform(signals)
    order = np.random.default_rng(0).permutation(70)
    again = FeatureMap.open(fmap.bank.save(tmp_path))
    np.testing.assert_array_equal(again.transform([signals[i] for i in order]), whole[order])
    np.testing.assert_array_equal(again.one(signals[3]), whole[3])
    dense = FeatureMap(materialise(fmap.bank)).transform(signals)
    # a count may differ by one where a projection lies within rounding of a threshold: none does for most
    assert np.mean(np.abs(dense - whole) < 1e-5) > 0.99


WIDE: dict[str, Any] = {"templates": {"source": "fourier", "m": 150}, "pooling": {"kind": "fourier", "sigma": 0.5}}
"""300 numbers: a transform of 512."""


@pytest.mark.parametrize("m", [70, 600])
def test_structured_frequencies_are_those_of_their_matrix(m: int) -> None:
    """cos and sin of <w, Phi(x)>, w the rows of H D3 H D2 H D1 at length sqrt(d) / sigma; two matrices from 512 on."""
    layer2 = {"kind": "fourier", "m": m, "sigma": 0.3, "source": "hadamard"}
    fmap = map_of("fourier", **WIDE, layer2=layer2)
    signs, gains = fmap.bank.arrays["layer2_signs"], fmap.bank.arrays["layer2_gains"]
    assert signs.shape == (-(-m // 512), 3, 512)
    H = walsh_hadamard(np.eye(512))
    W = np.concatenate([H @ np.diag(d3) @ H @ np.diag(d2) @ H @ np.diag(d1) for d1, d2, d3 in signs.astype(float)])
    W = gains[:, None] * W[:m, :300]
    # float32 gains
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), math.sqrt(300) / 0.3, rtol=1e-6)
    plain = first_of(fmap)
    for signal in pictures(3):
        expected = naive.fourier_feature(W, plain.dense(plain.one(signal)))
        # float32 sums of 512 numbers of size 1 / 0.3, cos to 1e-6
        np.testing.assert_allclose(fmap.one(signal), expected, atol=2e-5)


def test_structured_features_depend_on_the_item_alone(tmp_path: Path) -> None:
    """In any company and order, with copies of an outer orbit, from a saved bank: the same to the bit."""
    layer2 = {"kind": "fourier", "m": 70, "sigma": "median", "source": "hadamard"}
    fmap = map_of("fourier", **WIDE, layer2=layer2, outer=[{"factor": "rotation", "law": "circle", "n": 5}])
    signals = pictures(40)
    whole = fmap.transform(signals)
    again = FeatureMap.open(fmap.bank.save(tmp_path))
    np.testing.assert_array_equal(again.transform(signals[::-1]), whole[::-1])
    np.testing.assert_array_equal(again.one(signals[3]), whole[3])
    assert fmap.bank.spec == BankSpec.from_dict(fmap.bank.spec.as_dict())


def test_structured_and_gaussian_frequencies_estimate_one_kernel() -> None:
    """Inner products of both, at the same sigma, agree within what 4,000 frequencies scatter."""
    signals, m = pictures(6), 4000
    gram = []
    for source in ("gaussian", "hadamard"):
        layer2 = {"kind": "fourier", "m": m, "sigma": "median", "source": source}
        psi = map_of("fourier", **WIDE, layer2=layer2).transform(signals).astype(np.float64)
        gram.append(psi @ psi.T)
    # each entry's standard deviation is at most 1 / sqrt(2 m) for Gaussian ones, and no more for orthogonal rows
    assert np.abs(gram[0] - gram[1]).max() < 5 * math.sqrt(2 / (2 * m))
    assert gram[0].min() < 0.95


def test_structured_frequencies_want_a_wide_first_layer() -> None:
    """Rows of small matrices are no draw of Gaussian ones; neither are other sources known."""
    with pytest.raises(ConfigError, match="256 numbers or more, got 140"):
        map_of("fourier", layer2={"kind": "fourier", "m": 70, "sigma": 0.3, "source": "hadamard"})
    with pytest.raises(ConfigError, match="'gaussian', 'hadamard', got 'sobol'"):
        Layer2(70, 0.3, source="sobol")  # type: ignore[arg-type]
    assert Layer2(70, 0.3, source="gaussian") == Layer2(70, 0.3)


def test_inner_products_estimate_the_hyperkernel() -> None:
    """<Psi(x), Psi(z)> averages to exp(-||Phi(x) - Phi(z)||^2 / (2 sigma^2)) (Raj et al. 2017, section 4)."""
    m, sigma = 20_000, 0.2
    fmap = map_of("fourier", m=m, sigma=sigma)
    signals = pictures(2)
    phi = first_of(fmap).transform(signals).astype(np.float64)
    expected = math.exp(-np.square(phi[0] - phi[1]).sum() / (2 * sigma**2))
    psi = fmap.transform(signals).astype(np.float64).reshape(2, 2, m)
    per_frequency = m * (psi[0] * psi[1]).sum(axis=0)
    assert abs(per_frequency.mean() - expected) < 5 * per_frequency.std() / math.sqrt(m)  # 5 sigma
    assert 0.05 < expected < 0.95  # so the line above says something


def test_a_median_width_is_the_median_distance() -> None:
    """Of the Phi of the bank's signals; the bank tells it, and builds the same again."""
    fmap = map_of("fourier", sigma="median")
    phi = first_of(fmap).transform(pictures(40, seed=1)).astype(np.float64)
    distances = [np.linalg.norm(phi[i] - phi[j]) for i in range(40) for j in range(i)]
    np.testing.assert_allclose(fmap.bank.arrays["layer2_sigma"], [np.median(distances)], rtol=1e-6)  # float32 Phi
    assert fmap.bank.spec.needs_signals
    assert fmap.bank.hash == map_of("fourier", sigma="median").bank.hash
    with pytest.raises(ConfigError, match="give some"):
        build_bank(fmap.bank.spec)


def test_seeds_and_widths_make_other_features() -> None:
    """Another seed draws other frequencies; half the width doubles them, the first layer staying as it is."""
    one, wide, other = (frequencies(map_of("cdf", **c)) for c in ({}, {"sigma": 0.6}, {"seed": 1}))
    np.testing.assert_allclose(one, 2 * wide, rtol=1e-6)
    assert not np.array_equal(one, other)


def test_a_median_needs_signals_that_differ() -> None:
    """One signal, or equal ones, have no distance."""
    for phi in (np.ones((1, 3), np.float32), np.ones((9, 3), np.float32)):
        with pytest.raises(ConfigError, match="two signals that differ"):
            median_distance(phi)


def test_a_median_is_of_a_thousand_signals_at_the_most() -> None:
    """All of a few; of many so many different ones at random, so that memory does not grow with them."""
    rng = np.random.default_rng(0)
    many = np.arange(1500, dtype=np.float32)[:, None]
    some = median_rows(many, rng)
    assert len(np.unique(some)) == len(some) == MEDIAN_ROWS
    assert not np.array_equal(some, median_rows(many, rng))
    np.testing.assert_array_equal(median_rows(many[:MEDIAN_ROWS], rng), many[:MEDIAN_ROWS])


def test_a_width_too_small_to_compute_is_refused() -> None:
    """cos and sin are right up to a bound."""
    with pytest.raises(ConfigError, match=r"larger layer2\.sigma"):
        Layer2(4, 1e-6).build(10, np.empty((0, 10), np.float32), np.random.default_rng(0))
    with pytest.raises(ConfigError, match=r"larger layer2\.sigma"):
        Layer2(4, 1e-300).build(10, np.empty((0, 10), np.float32), np.random.default_rng(0))


def test_a_layer_beyond_any_memory_is_refused() -> None:
    """Before it is drawn, with what makes it large."""
    with pytest.raises(ConfigError, match="m = 1000000 frequencies of 18432 numbers"):
        Layer2(1_000_000, 1.0).build(18432, np.empty((0, 18432), np.float32), np.random.default_rng(0))
