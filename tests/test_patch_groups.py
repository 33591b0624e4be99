"""Groups that move templates of patches: at every position, every element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, orbits, template_vectors
from streamfeat.contactsheet import GAP, contact_sheet
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.signals.signal import Signal
from tests import naive
from tests.test_bank import pictures
from tests.test_outer import shown
from tests.test_streams import HEARD
from tests.test_windows import PAD, POOLINGS, SIZE, STEPS, bank_of, spec_of

TURN = {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 2}
FLIP = {"factor": "flip", "on": "columns", "law": "all"}
GROUP = [TURN, FLIP]
KINDS = ["fourier", "fourier whole", "cdf", "cdf whole", "max", "max hard", "moments"]
LOG = [*HEARD[:2], {"stage": "spectrogram", "bands": 20, "scale": "log", "low_hz": 100}, *HEARD[3:]]
HIGHER = {"factor": "pitch", "law": "grid", "low": 150, "high": 150, "n": 1}
FASTER = {"factor": "tempo", "law": "log-grid", "low": 1.2, "high": 1.2, "n": 1}


def moved(t: NDArray[np.float32], renormalise: bool = True) -> NDArray[np.float64]:
    """Every g t of a template, (6, 12): turned after flipping, the last factor fastest."""
    plane = t.reshape(SIZE).astype(np.float64)
    each = [naive.rotation(f, math.radians(a)) for a in (0, -20, 20) for f in (plane, plane[:, ::-1])]
    orbit = np.array([gt.ravel() for gt in each])
    return orbit * np.linalg.norm(t) / np.linalg.norm(orbit, axis=1, keepdims=True) if renormalise else orbit


def defined(bank: Bank, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """The feature from every position and element, one by one."""
    stream = bank.only
    V = naive.patches(x.reshape(stream.axes.shape), SIZE, STEPS, PAD)
    V /= np.linalg.norm(V, axis=2, keepdims=True) + 0.2
    T = np.array([moved(t) for t in template_vectors(stream)])
    P = np.einsum("rcd,mgd->rcgm", V, T)
    table = bank.spec.as_dict()["pooling"]
    cells = {"rows": 1, "columns": 1, "overlap": 0} if table["cells"] == "whole" else table["cells"]
    weights = naive.cell_weights(cells["rows"], cells["columns"], stream.grid, cells["overlap"])
    if table["kind"] == "fourier":
        waves = [np.einsum("krc,rcgm->km", weights, of(table["gain"] * P)) / 6 for of in (np.cos, np.sin)]
        return np.ravel(waves) / math.sqrt(len(weights) * stream.m)
    if table["kind"] == "max":
        parts = weights / weights.max(axis=(1, 2), keepdims=True)
        return np.array([(P[w > 0] * w[w > 0][:, None, None]).max(axis=(0, 1)) for w in parts]).ravel()
    if table["kind"] == "moments":
        return naive.power_means(((P + 1) ** 2).reshape(-1, stream.m), 2).ravel()
    tau = stream.arrays["thresholds"].transpose(0, 2, 1).reshape(-1, table["n_bins"])[: stream.m]
    below = (P[..., None] <= tau).sum(axis=2)
    return np.array([below[w > 0].sum(axis=0) for w in weights], np.float64).ravel()


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_definition(kind: str) -> None:
    """Every patch against every template moved on the patch's own grid; cells, thresholds and norms as without."""
    fmap = FeatureMap(bank_of(POOLINGS[kind], group=GROUP))
    assert (fmap.bank.only.n_group, fmap.bank.only.n_moves) == (66 * 6, 6)
    signals = pictures(5, side=20, seed=2)
    whole = fmap.transform(signals)
    for i in (0, 3):
        found, expected = fmap.one(signals[i]), defined(fmap.bank, fmap.front_end(signals[i]))
        np.testing.assert_array_equal(found, whole[i])
        if fmap.bank.dtype == "<u2":
            # a projection within float32 rounding of its threshold moves one count, of 138,600 compared
            assert np.abs(found - expected).sum() <= 4
        else:
            np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)  # float32


def test_phi_has_the_size_of_a_mean_over_the_group() -> None:
    """Even templates do not change when they are flipped: twice the counts, and the same Phi."""
    even = np.random.default_rng(0).standard_normal((20, 4, 3))
    even = (even + even[:, :, ::-1]).reshape(20, 12)
    given = {"templates": {"source": "user", "m": 20}, "pooling": {**POOLINGS["cdf"], "thresholds": "sigma"}}
    flipped, plain = (build_bank(spec_of(**given, group=group), templates=even) for group in ([FLIP], []))
    one, two = (FeatureMap(bank) for bank in (flipped, plain))
    signal = pictures(1, side=20)[0]
    np.testing.assert_array_equal(one.one(signal), 2 * two.one(signal))
    np.testing.assert_allclose(one.dense(one.one(signal)), two.dense(two.one(signal)), rtol=1e-6)  # float32


def test_colour_patches_are_moved_channel_by_channel() -> None:
    """Turns of (row, column, channel) templates; the same feature from a whole flip orbit of a flipped picture."""
    front_end = [{"stage": "pixels", "height": 9, "width": 9, "grey": False}, {"stage": "norm", "kind": "none"}]
    window = {"kind": "patches", "height": 3, "width": 3, "contrast": 0.2}
    pooling = {"kind": "fourier", "gain": 1.2, "cells": {"rows": 3, "columns": 1}}
    bank = bank_of(pooling, front_end=front_end, window=window, group=[FLIP], templates={"source": "gaussian", "m": 9})
    t, gt = orbits(bank.only, [4])[0].reshape(2, 3, 3, 3)
    np.testing.assert_array_equal(gt, t[:, ::-1])
    picture = shown(1)[0]
    other = Signal("image", np.ascontiguousarray(picture.samples[:, ::-1]))
    here, there = (FeatureMap(bank).one(signal) for signal in (picture, other))
    np.testing.assert_allclose(here, there, atol=2e-6)  # sums in another order


def test_words_are_moved_in_pitch_and_tempo_alike_everywhere() -> None:
    """150 cents are as many bands at every position of a log scale; a mel scale has no such move."""
    window = {"kind": "patches", "height": 6, "width": 4}
    changes: dict[str, Any] = {"window": window, "templates": {"source": "gaussian", "m": 5}, "renormalise": False}
    bank = bank_of(front_end=LOG, group=[HIGHER, FASTER], **changes)
    stream = bank.only
    step = math.log(stream.axes.band_hz[1] / stream.axes.band_hz[0])
    bands = 150 / 1200 * math.log(2) / step
    t = template_vectors(stream)[2].reshape(6, 4)
    expected = naive.move_plane(naive.tempo(t, 1.2), lambda r, c: (r - bands, float(c)))
    np.testing.assert_allclose(orbits(stream, [2])[0, 3].reshape(6, 4), expected, atol=1e-5)  # float32 weights
    with pytest.raises(ConfigError, match=r"equal steps of log f only; use scale = 'log'"):
        bank_of(front_end=HEARD, group=[HIGHER], **changes)
    with pytest.raises(ConfigError, match=r"equal steps of log f only"):
        bank_of(front_end=HEARD, group=[{"factor": "joint", "n": 1, "of": [{**HIGHER, "n": 1}]}], **changes)
    assert bank_of(front_end=HEARD, group=[FASTER], **changes).only.n_moves == 2


def test_too_many_of_them_are_refused() -> None:
    """Counts beyond uint16, and more than memory takes at once."""
    many = {"factor": "rotation", "law": "circle", "n": 1000}
    with pytest.raises(ConfigError, match="66000; CDF counts"):
        bank_of(POOLINGS["cdf"], group=[many])
    with pytest.raises(ConfigError, match="at most 262144 positions times elements"):
        bank_of(group=[{**many, "n": 4000}])


def test_a_sheet_shows_the_orbits_above_the_cells() -> None:
    """One row a template, one column an element; cells as without a group."""
    sheets = [contact_sheet(bank_of(group=group), n_templates=2, n_elements=6) for group in (GROUP, [])]
    moving, still = (np.asarray(sheet) for sheet in sheets)
    assert moving.shape == still.shape
    side = 19 * 4 + 2 * GAP  # a patch of 4 x 3, enlarged 19 times
    np.testing.assert_array_equal(moving[2 * side :], still[2 * side :])
    t = naive.move_plane(moving[GAP : side - GAP : 19, GAP : 3 * 19 + GAP : 19].astype(float), lambda r, c: (r, 2 - c))
    flipped = moving[GAP : side - GAP : 19, 3 * 19 + 3 * GAP : 6 * 19 + 3 * GAP : 19]
    np.testing.assert_array_equal(flipped, t)
