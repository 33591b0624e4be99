"""Outer orbits: the mean of what all layers make of an input's copies, moved one by one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, materialise, open_bank
from streamfeat.bankspec import BankSpec
from streamfeat.client import Client
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.kernel_error import kernel_error
from streamfeat.signals.signal import Signal
from tests import naive
from tests.cluster import cluster
from tests.test_bank import pictures, words
from tests.test_bankspec import small
from tests.test_streams import FRONT_ENDS, spoken

TURNS = {"factor": "rotation", "law": "circle", "n": 12, "identity": False}
PATCHES = {"kind": "patches", "height": 3, "width": 3, "pad": 1, "contrast": 0.2}
LAYER2 = {"kind": "fourier", "m": 70, "sigma": "median", "of_median": 0.8}
PIXELS = [{"stage": "pixels", "height": 9, "width": 9}]
COLOUR = [{"stage": "pixels", "height": 9, "width": 9, "grey": False}]
KINDS: dict[str, dict[str, Any]] = {
    "layer 2 of patches": {
        "window": PATCHES,
        "templates": {"source": "whitened-data", "m": 20},
        "pooling": {"kind": "fourier", "gain": 1.2, "cells": {"rows": 3, "columns": 2}},
        "layer2": LAYER2,
    },
    "layer 2 of counts": {"layer2": LAYER2},
    "means": {"templates": {"source": "fourier", "m": 8}, "pooling": {"kind": "fourier", "sigma": 0.5}},
    "colour": {
        "front_end": COLOUR,
        "templates": {"source": "fourier", "m": 8},
        "pooling": {"kind": "fourier", "sigma": 0.5},
    },
}


def bank_of(kind: str = "means", outer: list[dict[str, Any]] | None = None, **changes: Any) -> Bank:
    """A bank of 9 x 9 pictures under twelve turns, 0 to 330 degrees."""
    table = {"front_end": PIXELS, "outer": [TURNS] if outer is None else outer, **KINDS[kind], **changes}
    return build_bank(BankSpec.from_dict(small(**table)), shown(40, seed=1))


def shown(n: int, seed: int = 0) -> list[Signal]:
    """Colour pictures; a grey front end takes their luma."""
    rng = np.random.default_rng(seed)
    return [Signal("image", rng.integers(0, 256, (9, 9, 3), np.uint8)) for _ in range(n)]


def turned(x: NDArray[np.float32], shape: tuple[int, ...], angle_rad: float) -> NDArray[np.float32]:
    """A vector whose channels are turned alike."""
    planes = x.reshape(*shape[:2], -1)
    moved = [naive.rotation(planes[:, :, c], angle_rad) for c in range(planes.shape[2])]
    return np.stack(moved, axis=2).ravel().astype(np.float32)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_feature_is_the_mean_over_moved_inputs(kind: str) -> None:
    """Each copy interpolated by itself, put through the same bank without the orbit, one at a time."""
    fmap, plain = FeatureMap(bank_of(kind)), FeatureMap(bank_of(kind, outer=[]))
    assert fmap.bank.n_outer == 12
    for signal in shown(2):
        x = fmap.front_end(signal)
        angles = [2 * math.pi * i / 12 for i in range(12)]
        copies = np.array([turned(x, fmap.bank.only.axes.shape, angle) for angle in angles])
        expected = plain.of_vectors(copies).astype(np.float64).mean(axis=0)
        # float32 copies: through counts one of which may move at a threshold by |G| / 12 (x weight), else 1e-5
        atol = 2e-2 if kind == "layer 2 of counts" else 1e-5
        np.testing.assert_allclose(fmap.one(signal), expected, atol=atol)


def test_counts_are_summed() -> None:
    """Quarter turns are copies to the bit: sums of counts, and Phi their mean."""
    quarter = {"factor": "quarter_turn", "law": "all"}
    cdf = {"templates": {"source": "gaussian", "m": 8}, "pooling": small()["pooling"]}
    fmap, plain = (FeatureMap(bank_of(outer=outer, **cdf)) for outer in ([quarter], []))
    signal = shown(1)[0]
    plane = fmap.front_end(signal).reshape(9, 9)
    copies = np.array([np.rot90(plane, k).ravel() for k in range(4)])
    each = plain.of_vectors(copies)
    feature = fmap.one(signal)
    assert feature.dtype.str == "<u2"
    np.testing.assert_array_equal(feature, each.sum(axis=0))
    # float32
    np.testing.assert_allclose(fmap.dense(feature), plain.dense(each).mean(axis=0), rtol=1e-6)
    for copy in copies:
        np.testing.assert_array_equal(fmap.of_vectors(copy[None])[0], feature)


def test_factors_multiply_the_last_moves_first() -> None:
    """g x = f1 (f2 x): a shift, then a quarter turn."""
    shift = {"factor": "translation", "law": "grid", "low": 2, "high": 2, "n": 1, "identity": False}
    turn = {"factor": "quarter_turn", "law": "sampled", "n": 1, "identity": False}
    fmap, plain = FeatureMap(bank_of(outer=[turn, shift])), FeatureMap(bank_of(outer=[]))
    quarters = int(fmap.bank.only.outer[0].parameters[0, 0])
    x = fmap.front_end(shown(1)[0])
    moved = np.rot90(naive.translation(x.reshape(9, 9), 2, 2), quarters).ravel().astype(np.float32)
    np.testing.assert_array_equal(fmap.of_vectors(x[None]), plain.of_vectors(moved[None]))


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_items_feature_depends_on_the_item_alone(kind: str, tmp_path: Path) -> None:
    """Alone, in a batch that shares passes, in any order, from a saved bank: the same to the bit."""
    bank = bank_of(kind)
    assert bank.hash == bank_of(kind).hash != bank_of(kind, outer=[]).hash
    fmap, signals = FeatureMap(bank), shown(17)
    whole = fmap.transform(signals)
    for i in (0, 5, 16):
        np.testing.assert_array_equal(fmap.one(signals[i]), whole[i])
    opened = open_bank(bank.save(tmp_path))
    assert BankSpec.from_dict(opened.spec.as_dict()) == opened.spec == bank.spec
    assert build_bank(opened.spec, shown(40, seed=1)).hash == bank.hash
    order = np.random.default_rng(0).permutation(17)
    np.testing.assert_array_equal(FeatureMap(opened).transform([signals[i] for i in order]), whole[order])


def test_every_stream_is_moved_by_the_same_elements() -> None:
    """Pitch and tempo of a word, drawn once; each stream by operators of its own axes."""
    outer = [
        {"factor": "pitch", "law": "gaussian", "sigma": 100, "n": 3},
        {"factor": "tempo", "law": "log-grid", "low": 0.9, "high": 1.1, "n": 2},
    ]
    longer = [*FRONT_ENDS[0][:-2], {"stage": "frames", "n": 20}]
    spec = spoken(outer=outer, streams=[{"front_end": FRONT_ENDS[0]}, {"front_end": longer}])
    bank = build_bank(spec, words(6))
    one, two = (stream.outer for stream in bank.streams)
    assert bank.n_outer == 4 * 3
    for factor, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(factor.parameters, other.parameters)
        assert factor.d != other.d
    fmap, plain = FeatureMap(bank), FeatureMap(build_bank(spec.plain(), words(6)))
    x = fmap.front_end(words(1)[0])
    band_hz = bank.streams[0].axes.band_hz
    copies = [
        np.concatenate(
            [
                naive.pitch(naive.tempo(part, rate), band_hz, cents).ravel()
                for part in (x[: 20 * 16].reshape(20, 16), x[20 * 16 :].reshape(20, 20))
            ]
        )
        for cents in one[0].parameters[:, 0]
        for rate in one[1].parameters[:, 0]
    ]
    expected = plain.of_vectors(np.array(copies, np.float32)).mean(axis=0)
    np.testing.assert_allclose(fmap.of_vectors(x[None])[0], expected, atol=1e-5)  # float32 copies


def test_a_width_may_be_a_part_of_the_median() -> None:
    """of_median times it; 1 is what there is without the word."""
    half, one, none = (bank_of("layer 2 of counts", layer2=table) for table in _widths(0.5, 1.0, None))
    np.testing.assert_allclose(half.arrays["layer2_sigma"], one.arrays["layer2_sigma"] / 2)
    assert one.hash == none.hash
    for table in ({**LAYER2, "sigma": 0.5}, {**LAYER2, "of_median": 0}):
        with pytest.raises(ConfigError, match=r"of_median, from 0\.001 to 1000"):
            bank_of("layer 2 of counts", layer2=table)


def _widths(*parts: float | None) -> list[dict[str, Any]]:
    bare = {key: value for key, value in LAYER2.items() if key != "of_median"}
    return [bare if part is None else {**bare, "of_median": part} for part in parts]


def test_the_plain_twin_has_no_outer_orbit() -> None:
    """And its table says nothing of one."""
    spec = bank_of().spec
    assert "outer" in spec.as_dict()
    assert "outer" not in spec.plain().as_dict()


def test_a_fleet_gives_the_same_numbers(tmp_path: Path) -> None:
    """To the bit, layer 2 and copies included."""
    fmap = FeatureMap(bank_of("layer 2 of patches"))
    path, signals = fmap.bank.save(tmp_path), shown(5)
    with cluster() as running:
        running.start_broker()
        running.start_features("features", [path])
        running.wait_ready("features")
        with Client(running.front) as client:
            np.testing.assert_array_equal(client.features(signals), fmap.transform(signals))


def test_what_has_no_outer_orbit_says_so() -> None:
    """The dense form, exact kernels, factors without matrices, counts beyond uint16."""
    bank = bank_of()
    with pytest.raises(ConfigError, match="'small' has an outer orbit"):
        materialise(bank)
    with pytest.raises(ConfigError, match=r"\[\[outer\]\] moves inputs by operators"):
        bank_of(form="dense")
    with pytest.raises(InvalidArgument, match="no outer orbit"):
        kernel_error(FeatureMap(bank), pictures(3))
    turns = {"factor": "rotation", "law": "grid", "low": 0, "high": 350, "n": 36}
    with pytest.raises(ConfigError, match=r"at most 10000 copies.*got 46656 copies"):
        bank_of(outer=[turns] * 3)
    with pytest.raises(ConfigError, match="'noisy_norm' acts by a rule"):
        bank_of(outer=[{"factor": "noisy_norm", "law": "gaussian", "sigma": 1, "n": 2}])
    shift = {"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 17}
    counts = {"templates": {"source": "gaussian", "m": 8}, "pooling": small()["pooling"]}
    with pytest.raises(ConfigError, match="83521 elements"):
        bank_of(outer=[{**shift}], group=[shift], **counts)
