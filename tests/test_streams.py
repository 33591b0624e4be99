"""Banks of several streams: each part of a feature is its stream's, whatever stands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.bank import Bank, build_bank, materialise, open_bank, orbits
from streamfeat.bankspec import BankSpec
from streamfeat.baselines import augment, fit_baseline
from streamfeat.client import Client
from streamfeat.contactsheet import contact_sheet
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.frontends import make_front_end, make_front_ends
from streamfeat.kernel_error import kernel_error
from streamfeat.layers import phi, pooled
from streamfeat.signals.signal import Signal
from tests import naive
from tests.cluster import cluster
from tests.test_bank import ROTATION, pictures, words

HEARD: list[dict[str, Any]] = [
    {"stage": "resample", "rate_hz": 8000},
    {"stage": "trim", "top_db": 30},
    {"stage": "spectrogram", "bands": 20},
    {"stage": "compress", "kind": "root"},
    {"stage": "frames", "n": 16},
]
UNTRIMMED = [HEARD[0], *HEARD[2:4], {"stage": "frames", "n": 48}, {"stage": "arclength", "n": 16}]
FRONT_ENDS: list[list[dict[str, Any]]] = [
    [*HEARD, {"stage": "centre", "over": "all"}],
    [*HEARD, {"stage": "centre", "over": "band"}, {"stage": "norm", "kind": "none"}],
    [*UNTRIMMED, {"stage": "centre", "over": "all"}],
    [*UNTRIMMED, {"stage": "delta"}],
]
PATCHES = {"kind": "patches", "height": 6, "width": 4, "stride_rows": 2}
FOURIER = {"kind": "fourier", "gain": 1.2, "cells": {"rows": 2, "columns": 2}}
TWO: list[dict[str, Any]] = [
    {"group": [ROTATION], "templates": {"source": "gaussian", "m": 5}},
    {
        "front_end": [{"stage": "pixels", "height": 9, "width": 9}],
        "templates": {"source": "data", "m": 70},
        "pooling": {"kind": "cdf", "thresholds": "quantile", "n_bins": 3},
    },
]


def spoken(**changes: Any) -> BankSpec:
    """Four streams of spectrogram patches; what they share stands above."""
    table = {
        "name": "spoken",
        "window": PATCHES,
        "templates": {"source": "whitened-data", "m": 8},
        "pooling": FOURIER,
        "streams": [{"front_end": stages} for stages in FRONT_ENDS],
        **changes,
    }
    return BankSpec.from_dict(table)


def seen(**changes: Any) -> BankSpec:
    """Two streams of pictures: counts over turns of 6 x 6, and of 9 x 9 without a group."""
    table = {
        "name": "seen",
        "front_end": [{"stage": "pixels", "height": 6, "width": 6}],
        "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5},
        "streams": TWO,
        **changes,
    }
    return BankSpec.from_dict(table)


def seen_bank(**changes: Any) -> Bank:
    return build_bank(seen(**changes), pictures(90, side=12, seed=1))


# ------------------------------------------------------------------------------------------------------------ specs


def test_streams_take_from_above_what_they_do_not_say() -> None:
    """The canonical table has a list of whole streams, and gives the same spec again."""
    spec = seen()
    assert [stream.templates.m for stream in spec.streams] == [5, 70]
    assert [stream.pooling.n_features(1) for stream in spec.streams] == [5, 3]
    assert [len(stream.group) for stream in spec.streams] == [1, 0]
    table = spec.as_dict()
    assert sorted(table) == ["layer2", "name", "seed", "streams"]
    assert BankSpec.from_dict(table) == spec


def test_a_list_of_one_stream_is_a_flat_spec() -> None:
    """One way to write one thing: the same table, and so the same hash."""
    one = seen(streams=[{"templates": {"source": "gaussian", "m": 8}}])
    assert "streams" not in one.as_dict()
    assert one.only.templates.m == 8
    assert one == BankSpec.from_dict({**one.as_dict()})


@pytest.mark.parametrize(
    ("streams", "told"),
    [
        ([], "streams must contain at least 1"),
        ([{**TWO[0], "pooling": {"kind": "cdf"}}, TWO[0]], "stream 0: .*thresholds"),
        ([TWO[0], {"front_end": TWO[0]["group"]}], "front_end"),
        ([TWO[0], {}], "stream 1: .*'templates'"),
        ([{**TWO[0], "seed": 3}], "no key 'seed'"),
        (
            [
                TWO[0],
                {"templates": {"source": "fourier", "m": 3}, "pooling": {"kind": "fourier", "sigma": 1}},
            ],
            "all give counts .*'cdf', 'fourier'",
        ),
    ],
)
def test_streams_that_do_not_fit_are_refused(streams: list[dict[str, Any]], told: str) -> None:
    """By the number of the stream and what is wrong with it."""
    with pytest.raises(ConfigError, match=told):
        seen(streams=streams)


def test_streams_take_the_same_kind_of_signal() -> None:
    """A word is no picture."""
    streams = [TWO[0], {"front_end": FRONT_ENDS[0], "templates": {"source": "gaussian", "m": 3}}]
    with pytest.raises(ConfigError, match="one kind of signal, got image, audio"):
        build_bank(seen(streams=streams))


# -------------------------------------------------------------------------------------------------------- front ends


def test_front_ends_side_by_side_are_each_alone() -> None:
    """To the bit, in whatever order they share their first stages."""
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        together = make_front_ends([FRONT_ENDS[i] for i in order])
        for word in words(4):
            alone = [make_front_end(FRONT_ENDS[i])(word) for i in order]
            np.testing.assert_array_equal(together(word), np.concatenate(alone))


def test_shared_first_stages_are_computed_once() -> None:
    """Four front ends of 24 stages before their norms, of which 13 differ in themselves or in what comes before."""
    done: dict[str, Any] = {}
    parts = make_front_ends(FRONT_ENDS).parts
    for part in parts:
        part(words(1)[0], done)
    assert len(done) == len(HEARD) + 2 + len(UNTRIMMED) - 1 + 2
    first = dict(done)
    parts[0](words(1)[0], done)
    assert all(done[stages] is array for stages, array in first.items())


# ---------------------------------------------------------------------------------------------------------- features


def test_a_feature_is_the_streams_features_one_after_the_other() -> None:
    """The first is to the bit that of a bank of the first stream alone; Phi carries each stream's weight."""
    bank = seen_bank()
    fmap, signals = FeatureMap(bank), pictures(7, side=12)
    features = fmap.transform(signals)
    assert (features.shape, features.dtype.str, bank.d) == ((7, 5 * 5 + 70 * 3), "<u2", 36 + 81)
    first = FeatureMap(build_bank(seen(streams=TWO[:1])))
    np.testing.assert_array_equal(features[:, :25], first.transform(signals))
    second = bank.streams[1]
    vectors = np.array([make_front_end(second.spec.front_end)(signal) for signal in signals])
    np.testing.assert_array_equal(features[:, 25:], pooled(second, vectors))
    np.testing.assert_array_equal(fmap.dense(features)[:, :25], first.dense(features[:, :25]))
    tau = second.arrays["thresholds"].transpose(0, 2, 1).reshape(-1, 3)[:70]
    K = naive.cdf_feature(orbits(second, range(70)), tau, vectors[0])
    # of 210 comparisons one may be decided by float32 rounding
    assert np.abs(features[0, 25:].reshape(70, 3).astype(int) - K).sum() <= 1


@pytest.mark.parametrize("layer2", [{"kind": "none"}, {"kind": "fourier", "m": 30, "sigma": "median"}])
def test_an_items_feature_depends_on_the_item_alone(layer2: dict[str, Any], tmp_path: Path) -> None:
    """Alone, in any order, from a saved bank: the same to the bit, and the bank is built the same twice."""
    bank = build_bank(spoken(layer2=layer2), words(6))
    assert bank.hash == build_bank(bank.spec, words(6)).hash
    opened = open_bank(bank.save(tmp_path))
    assert opened.spec == bank.spec
    fmap, again, signals = FeatureMap(bank), FeatureMap(opened), words(5)
    whole = fmap.transform(signals)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(again.transform(signals[::-1]), whole[::-1])
    np.testing.assert_array_equal(again.one(signals[2]), whole[2])


def test_streams_draw_for_themselves() -> None:
    """Two streams that say the same have other templates."""
    bank = build_bank(spoken(streams=[{"front_end": FRONT_ENDS[0]}] * 2), words(6))
    one, two = (stream.arrays["templates"] for stream in bank.streams)
    assert one.shape == two.shape
    assert not np.array_equal(one, two)


def test_layer_2_sees_all_streams() -> None:
    """cos and sin of <w, Phi>, Phi of all streams."""
    fmap = FeatureMap(build_bank(spoken(layer2={"kind": "fourier", "m": 70, "sigma": 0.4}), words(6)))
    plain = FeatureMap(build_bank(spoken(), words(6)))
    word = words(1)[0]
    mu = phi(plain.bank, plain.one(word))
    blocks = fmap.bank.arrays["layer2_frequencies"]
    W = blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])[:70, : len(mu)]
    # float32 sums of 256 products, cos to 1e-6
    np.testing.assert_allclose(fmap.one(word), naive.fourier_feature(W, mu), atol=1e-5)


def test_both_forms_count_alike() -> None:
    """Every stream becomes dense; counts differ where a projection is within rounding of a threshold."""
    bank = seen_bank(layer2={"kind": "fourier", "m": 3, "sigma": 1})
    dense = materialise(bank)
    assert [stream.form for stream in dense.streams] == ["dense", "dense"]
    assert materialise(dense) is dense
    signals = pictures(20, side=12)
    found, expected = (FeatureMap(some).transform(signals) for some in (dense, bank))
    assert np.mean(np.abs(found - expected) < 1e-5) > 0.99
    assert seen_bank(form="dense", layer2={"kind": "fourier", "m": 3, "sigma": 1}).hash == dense.hash


def test_the_plain_twin_keeps_every_stream() -> None:
    """Only the groups are gone."""
    plain = build_bank(seen().plain(), pictures(90, side=12, seed=1))
    assert [stream.n_group for stream in plain.streams] == [1, 1]
    for one, other in zip(plain.streams, seen_bank().streams, strict=True):
        np.testing.assert_array_equal(one.arrays["templates"], other.arrays["templates"])


def test_a_fleet_gives_the_same_numbers(tmp_path: Path) -> None:
    """Workers compute several streams like one, to the bit."""
    fmap = FeatureMap(build_bank(spoken(), words(6)))
    path, signals = fmap.bank.save(tmp_path), words(5)
    with cluster() as running:
        running.start_broker()
        running.start_features("features", [path])
        running.wait_ready("features")
        with Client(running.front) as client:
            np.testing.assert_array_equal(client.features(signals), fmap.transform(signals))


def test_a_sheet_draws_every_stream() -> None:
    """One under the other: templates and cells of each."""
    bank = build_bank(spoken(), words(6))
    alone = build_bank(spoken(streams=spoken().as_dict()["streams"][:1]), words(6))
    together, one = (contact_sheet(some, n_templates=1, n_elements=3) for some in (bank, alone))
    assert together.size == (one.size[0], 4 * one.size[1])
    strip = np.asarray(one)
    np.testing.assert_array_equal(np.asarray(together)[: len(strip)], strip)


# ---------------------------------------------------------------------------------------------------------- refusals


def test_what_takes_one_stream_says_how_many_there_are() -> None:
    """Baselines without several streams, copies of a training set, known kernels, given templates."""
    bank, signals = seen_bank(), pictures(3, side=12)
    with pytest.raises(ConfigError, match="'seen' has 2 streams"):
        _ = bank.only
    for name in ("rff", "nystrom", "gicdf", "bag-of-words"):
        with pytest.raises(ConfigError, match="2 streams"):
            fit_baseline(name, bank.spec, signals, sigma=1.0)
    with pytest.raises(ConfigError, match="2 streams"):
        augment(bank, np.zeros((1, 117), np.float32), [0], 1, np.random.default_rng(0))
    with pytest.raises(InvalidArgument, match="2 streams"):
        kernel_error(FeatureMap(bank), signals)
    given = seen(streams=[TWO[0], {"templates": {"source": "user", "m": 3}}])
    with pytest.raises(ConfigError, match="2 streams"):
        build_bank(given, templates=np.eye(3, 36))


def test_raw_and_plain_stand_beside_several_streams() -> None:
    """All vectors one after the other; the streams without their groups."""
    signals = pictures(90, side=12, seed=1)
    raw, plain = (fit_baseline(name, seen(), signals) for name in ("raw", "plain"))
    assert raw.transform(signals).shape == (90, 36 + 81)
    assert plain.n_features == FeatureMap(seen_bank()).n_features


def test_a_wrong_signal_is_named() -> None:
    """As with one stream."""
    with pytest.raises(InvalidArgument, match="item 0: a word: this front end takes image"):
        FeatureMap(seen_bank()).transform([Signal("audio", np.zeros(9, np.float32), 8000, name="a word")])
