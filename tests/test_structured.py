"""Structured templates: fast transforms give what their dense rows give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, compare_features, materialise
from streamfeat.bankspec import BankSpec
from streamfeat.kernels import VECTORS
from streamfeat.layers import features_of, pooled
from streamfeat.signals.signal import Signal
from streamfeat.streams import Stream
from streamfeat.structured import blocks_of_lanes, n_moved_first
from tests.test_bankspec import small

TURNS = {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 3}
SHIFTS = {"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 3}
FLIPS = {"factor": "flip", "on": "both", "law": "all"}
QUARTERS = {"factor": "quarter_turn", "law": "all"}
NOISY = {"factor": "noisy_norm", "law": "gaussian", "sigma": 0.02, "n": 3, "identity": False}
MANY = {"factor": "rotation", "law": "circle", "n": 150}

GROUPS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "copies": [SHIFTS],
    "turned, then copied": [TURNS, SHIFTS],
    "copied, then turned": [SHIFTS, TURNS],
    "copied twice behind a turn": [TURNS, FLIPS, QUARTERS],
    "sorted first": [NOISY, SHIFTS],
    "more turns than lanes": [MANY, FLIPS],
    "one element": [{**TURNS, "n": 1, "low": 7, "high": 7, "identity": False}],
}
POOLINGS: dict[str, dict[str, Any]] = {
    "sigma": {"kind": "cdf", "thresholds": "sigma", "n_bins": 25},
    "sigma, even": {"kind": "cdf", "thresholds": "sigma", "n_bins": 8},
    "one threshold": {"kind": "cdf", "thresholds": "sigma", "n_bins": 1},
    "paper": {"kind": "cdf", "thresholds": "paper", "n_bins": 30},
    "fourier": {"kind": "fourier", "sigma": 0.4},
    "gain": {"kind": "fourier", "gain": 9.0},
    "mean": {"kind": "mean", "kernel": {"kind": "linear"}},
    "max": {"kind": "max", "kernel": {"kind": "linear"}},
}


def bank_of(group: list[dict[str, Any]], pooling: dict[str, Any], side: int = 9, m: int = 200, **more: Any) -> Bank:
    """A bank over side x side matrices."""
    front_end = [{"stage": "array", "rows": side, "columns": side}]
    templates = {"source": "hadamard", "m": m}
    table = small(front_end=front_end, group=group, pooling=pooling, templates=templates, **more)
    return build_bank(BankSpec.from_dict(table))


def without_transforms(stream: Stream) -> Stream:
    """The same stream, its templates taken as dense rows."""
    return replace(stream, arrays={name: array for name, array in stream.arrays.items() if name != "places"})


def vectors(n: int, d: int) -> NDArray[np.float32]:
    """Unit vectors; the first is blank, the second has one number."""
    X = np.random.default_rng(0).standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[0], X[1] = 0, np.eye(d)[3]
    return X.astype(np.float32)


def close(fast: NDArray[Any], dense: NDArray[Any], n_group: int) -> None:
    """Equal but for rounding: of 1.5 log2(p) 2^-23 and of sums in float32, or counts of projections that near."""
    if fast.dtype == np.uint16:
        apart = np.abs(fast.astype(int) - dense)
        assert apart.max() <= max(1, n_group // 100)
        # a projection in 10^4 lies within 1e-6 / .11 of one of 25 thresholds over 6 / sqrt(81)
        assert np.count_nonzero(apart) <= max(2, 1e-3 * apart.size * math.sqrt(n_group))
    else:
        # angles of up to 25 and means of them
        np.testing.assert_allclose(fast, dense, rtol=0, atol=5e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("group", ["none", "turned, then copied"])
def test_every_pooling_gives_what_dense_rows_give(group: str, pooling: str) -> None:
    """m no multiple of p = 128, d no power of two, orbits renormalised."""
    stream = bank_of(GROUPS[group], POOLINGS[pooling]).only
    assert stream.arrays["signs"].shape == (2, 3, 128)
    X = vectors(70, 81)
    close(pooled(stream, X), pooled(without_transforms(stream), X), stream.n_group)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("group", GROUPS)
def test_every_group_is_laid_out(group: str, renormalise: bool) -> None:
    """Copies behind what interpolates are one table; what follows them, or sorts, moves vectors."""
    stream = bank_of(GROUPS[group], POOLINGS["gain"], m=70, renormalise=renormalise).only
    X = vectors(9, 81)
    close(pooled(stream, X), pooled(without_transforms(stream), X), stream.n_group)


def test_quantile_thresholds_are_compared() -> None:
    """Each template's own thresholds, as they are."""
    pooling = {"kind": "cdf", "thresholds": "quantile", "n_bins": 9}
    sides = {"front_end": [{"stage": "array", "rows": 9, "columns": 9}], "templates": {"source": "hadamard", "m": 70}}
    X = vectors(12, 81)
    signals = [Signal("array", x.reshape(9, 9)) for x in X[1:]]
    stream = build_bank(BankSpec.from_dict(small(group=[SHIFTS], pooling=pooling, **sides)), signals).only
    fast, dense = pooled(stream, X), pooled(without_transforms(stream), X)
    # thresholds lie between projections of these very vectors, and some on them
    assert np.abs(fast.astype(int) - dense).max() <= 1
    assert np.mean(fast != dense) < 0.02
    np.testing.assert_array_equal(fast[0], dense[0])


@pytest.mark.parametrize("pooling", ["sigma", "fourier", "max", "mean"])
@pytest.mark.parametrize("group", ["none", "copies", "turned, then copied", "more turns than lanes"])
def test_a_feature_depends_on_its_item_alone(group: str, pooling: str) -> None:
    """To the bit, in any batch and place of it, though small orbits share a transform."""
    stream = bank_of(GROUPS[group], POOLINGS[pooling], m=70).only
    X = vectors(140, 81)
    whole = pooled(stream, X)
    for i in (0, 1, 5, 127, 128, 139):
        np.testing.assert_array_equal(pooled(stream, X[i : i + 1])[0], whole[i])
    np.testing.assert_array_equal(pooled(stream, X[::-1]), whole[::-1])
    assert pooled(stream, X[:0]).shape == (0, whole.shape[1])


def test_blank_inputs_lie_at_the_threshold_of_zero() -> None:
    """All projections are 0, and are counted at the middle threshold, as compared."""
    stream = bank_of(GROUPS["turned, then copied"], POOLINGS["sigma"]).only
    counts = pooled(stream, vectors(2, 81)[:1]).reshape(-1, 25)
    np.testing.assert_array_equal(counts[:, :12], 0)
    np.testing.assert_array_equal(counts[:, 12:], stream.n_group)


def test_what_has_no_fast_way_takes_the_rows() -> None:
    """Short transforms, other kernels, moments: as dense rows, to the bit."""
    for bank in (
        bank_of([SHIFTS], POOLINGS["sigma"], side=5),
        bank_of([SHIFTS], {"kind": "moments", "n": 2, "kernel": {"kind": "linear"}}),
        bank_of([SHIFTS], {"kind": "mean", "kernel": {"kind": "polynomial", "degree": 2}}),
    ):
        X = vectors(5, bank.d)
        np.testing.assert_array_equal(pooled(bank.only, X), pooled(without_transforms(bank.only), X))


def test_the_dense_form_keeps_nothing_of_it() -> None:
    """Its orbits are stored, and give the same counts but for rounding."""
    bank = bank_of(GROUPS["turned, then copied"], POOLINGS["sigma"], m=70)
    stored = materialise(bank)
    assert not {"signs", "gains", "places", "lane_scale"} & set(stored.arrays)
    assert compare_features(bank, stored, 20, np.random.default_rng(1)).largest_difference <= 1


def test_second_layers_stand_on_it() -> None:
    """Features of all layers, whichever way the first took."""
    bank = bank_of([TURNS], POOLINGS["fourier"], m=70, layer2={"kind": "fourier", "m": 32, "sigma": 1.0})
    X = vectors(4, 81)
    plain = Bank(bank.manifest, {name: a for name, a in bank.arrays.items() if name != "places"})
    np.testing.assert_allclose(features_of(bank, X), features_of(plain, X), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("n_copies", "n_columns"), [(1, 1), (49, 9), (5, 128), (2, 129), (3, 441), (300, 1)])
def test_blocks_cover_an_orbit_once(n_copies: int, n_columns: int) -> None:
    """Every copy of every column, in the order of lanes, never more than fit."""
    seen: list[tuple[int, int]] = []
    for block in blocks_of_lanes(n_copies, n_columns):
        assert 0 < block.n <= VECTORS
        assert block.first == len(seen)
        seen += [(s, a) for s in range(*block.copies) for a in range(*block.columns)]
    assert seen == [(s, a) for s in range(n_copies) for a in range(n_columns)]


def test_tables_of_places_are_bounded() -> None:
    """A table beyond 16 MB is not made: the factors before it move vectors."""
    (shifts,) = bank_of([SHIFTS], POOLINGS["gain"], m=70).only.factors
    assert n_moved_first([shifts] * 2, 128) == 0
    assert n_moved_first([shifts] * 5, 1024) == 2  # 1024 9^3 entries fit, 1024 9^4 do not
