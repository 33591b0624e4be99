"""Polar windows: patches on circles as their definition reads, and what turning a picture does to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.bank import build_bank, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.pooling.cells import axis_weights
from streamfeat.signals.signal import Signal
from streamfeat.windows import Polar, read_window, window_table
from tests import naive_windows
from tests.test_bankspec import small

Array = NDArray[Any]

TABLE = {"kind": "polar", "height": 5, "width": 3, "rings": 4, "angles": 12, "outer": 6, "contrast": 0.2}
CELLS = {"rows": 2, "columns": 1, "overlap": 0.5}
POOLINGS: dict[str, dict[str, Any]] = {
    "fourier": {"kind": "fourier", "gain": 1.2, "cells": CELLS},
    "cdf": {"kind": "cdf", "thresholds": "quantile", "n_bins": 5, "cells": {**CELLS, "overlap": 0}},
    "max": {"kind": "max", "kernel": {"kind": "linear"}, "cells": CELLS},
}


def turned(plane: Array, quarters: int = 1) -> Array:
    """Counter-clockwise as seen."""
    return np.ascontiguousarray(np.rot90(plane, quarters))


def patches_of(window: Polar, plane: Array) -> Array:
    """(rings, angles, d)."""
    d = math.prod(window.template_shape(plane.shape))
    cut = window.cut(plane.astype(np.float32).ravel(), plane.shape)
    assert (cut.shape[0] % 4, cut.shape[1] % 4) == (0, 0)
    n = window.rings * window.angles
    assert not cut[n:].any()
    assert not cut[:, d:].any()
    return cut[:n, :d].reshape(window.rings, window.angles, d)


def colours(side: int, n: int, seed: int = 0) -> list[Array]:
    """Noise."""
    return list(np.random.default_rng(seed).integers(0, 256, (n, side, side, 3), np.uint8))


def map_of(planes: list[Array], pooling: dict[str, Any], **changes: Any) -> FeatureMap:
    grey = planes[0].ndim == 2
    pixels = {"stage": "pixels", "height": len(planes[0]), "width": planes[0].shape[1], "grey": grey}
    spec = {
        "front_end": [pixels, {"stage": "norm", "kind": "none"}],
        "window": TABLE,
        "templates": {"source": "whitened-data", "m": 70, "floor": 0.5},
        "pooling": pooling,
    }
    return FeatureMap(build_bank(BankSpec.from_dict(small(**{**spec, **changes})), signals(planes)))


def signals(planes: list[Array]) -> list[Signal]:
    return [Signal("image", plane) for plane in planes]


# ------------------------------------------------------------------------------------------------------- patches


@given(
    st.tuples(st.integers(4, 9), st.integers(4, 9), st.sampled_from([1, 3])),
    st.tuples(st.integers(1, 5), st.integers(2, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 7)),
    st.tuples(st.sampled_from([0.0, 0.7]), st.sampled_from([2.0, 3.9]), st.sampled_from([None, 0.01, 1.0])),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_patches_are_those_of_the_definition(
    shape: tuple[int, int, int],
    size: tuple[int, int],
    n: tuple[int, int],
    radii_and_contrast: tuple[float, float, float | None],
    seed: int,
) -> None:
    """Any size, rings and angles, grey or in colours: each minus its mean, over its norm + c."""
    inner, outer, contrast = radii_and_contrast
    inner = outer if n[0] == 1 else inner
    window = Polar(*size, *n, outer, inner, contrast)
    plane = np.random.default_rng(seed).standard_normal(shape if shape[2] == 3 else shape[:2]).astype(np.float32)
    too_large = size[0] > shape[0] or size[1] > shape[1]
    if too_large or outer > math.hypot(shape[0] - 1, shape[1] - 1) / 2:
        with pytest.raises(ConfigError, match="do not fit into" if too_large else "corners of"):
            window.grid(plane.shape)
        return
    assert window.grid(plane.shape) == n
    V = naive_windows.polar_patches(plane.reshape(shape), size, n, (inner, outer))
    if contrast is not None:
        V /= np.linalg.norm(V, axis=2, keepdims=True) + contrast
    # values of up to 5 are rounded to float32 (3e-7), and at c = .01 divided by norms of .1 and more where flat parts
    # outside the picture leave little
    np.testing.assert_allclose(patches_of(window, plane), V, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("shape", [(8, 8), (9, 9), (8, 11), (9, 6, 3)])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_quarter_turns_shift_the_columns_of_positions(shape: tuple[int, ...], quarters: int) -> None:
    """Exactly: each patch is the one that was a quarter of the circle before."""
    window = Polar(5, 3, 3, 8, 4.0, 0.5, 0.2)
    plane = np.random.default_rng(0).random(shape)
    here, there = patches_of(window, plane), patches_of(window, turned(plane, quarters))
    # sampled in float64 at points that differ by 1e-15, then rounded to float32: the last bit of numbers below 1
    np.testing.assert_allclose(there, np.roll(here, 2 * quarters, axis=1), rtol=0, atol=1.2e-7)
    assert np.abs(there - here).max() > 0.1


@pytest.mark.parametrize("contrast", [None, 1e-3])
def test_a_flat_patch_is_zero_exactly(contrast: float | None) -> None:
    """No rounding of bilinear weights is blown up."""
    assert not Polar(3, 3, 3, 7, 4.0, 0.0, contrast).cut(np.full(400, 0.1, np.float32), (20, 20)).any()


def test_rows_go_outwards_and_columns_counter_clockwise() -> None:
    """Of a picture that is brighter to the right, then of one that is brighter upwards."""
    right = np.tile(np.arange(21.0), (21, 1))
    east = patches_of(Polar(3, 3, 1, 4, 5.0, 5.0), right)[0, 0].reshape(3, 3)
    np.testing.assert_allclose(east, [[-1] * 3, [0] * 3, [1] * 3], atol=1e-6)  # float32
    upwards = turned(right)
    east = patches_of(Polar(3, 3, 1, 4, 5.0, 5.0), upwards)[0, 0].reshape(3, 3)
    np.testing.assert_allclose(east, [[-1, 0, 1]] * 3, atol=1e-6)


def test_patches_to_learn_from_are_drawn_from_all_signals_alike() -> None:
    """As many of each, never flat ones."""
    window, rng = Polar(2, 2, 2, 6, 3.0), np.random.default_rng(0)
    vectors = rng.standard_normal((4, 64)).astype(np.float32)
    vectors[2] = 3.0  # flat
    some = window.sample(vectors, (8, 8), 40, rng)
    owner = [
        next(i for i, v in enumerate(vectors) if (patches_of(window, v.reshape(8, 8)) == p).all(axis=2).any())
        for p in some
    ]
    assert sorted(owner) == [0] * 10 + [1] * 10 + [3] * 10


# ------------------------------------------------------------------------------------------------------ features


def defined(fmap: FeatureMap, plane: Array) -> Array:
    """cos and sin in cells, as the definition reads, in float64."""
    window, bank = fmap.bank.spec.only.window, fmap.bank
    assert isinstance(window, Polar)
    n = window.rings, window.angles
    V = naive_windows.polar_patches(plane, (window.height, window.width), n, (window.inner, window.outer))
    V /= np.linalg.norm(V, axis=2, keepdims=True) + 0.2
    P = V @ template_vectors(bank.only).astype(np.float64).T
    cells = bank.spec.as_dict()["pooling"]["cells"]
    zones = axis_weights(cells["rows"], n[0], cells["overlap"])
    sectors = naive_windows.circle_weights(cells["columns"], n[1], cells["overlap"])
    waves = [np.einsum("ir,jc,rcm->ijm", zones, sectors, of(1.2 * P)) for of in (np.cos, np.sin)]
    return np.ravel(waves) / math.sqrt(len(zones) * len(sectors) * bank.only.m)


@pytest.mark.parametrize("columns", [1, 3])
def test_features_are_those_of_the_definition(columns: int) -> None:
    """Patches of all colours, projections, zones and sectors: one number at a time, in float64."""
    planes = colours(13, 20)
    fmap = map_of(planes, {**POOLINGS["fourier"], "cells": {**CELLS, "columns": columns}})
    assert fmap.bank.only.template_shape == (5, 3, 3)
    for plane in planes[:2]:
        expected = defined(fmap, plane / np.float32(255))
        # float32 projections of 45 numbers, of size up to 6
        np.testing.assert_allclose(fmap.one(Signal("image", plane)), expected, atol=5e-6)


@pytest.mark.parametrize("side", [13, 14])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_quarter_turn_changes_no_feature(side: int, pooling: str) -> None:
    """With one column of cells; with sectors it moves what is in them by a quarter of the circle."""
    planes = colours(side, 12, seed=1)
    fmap = map_of(planes, POOLINGS[pooling])
    here, there = (fmap.transform(signals(some)) for some in (planes, [turned(p) for p in planes]))
    if fmap.bank.dtype == "<u2":
        # a projection whose last bit lies across a threshold would move one count
        assert np.abs(here.astype(int) - there).sum() <= 2
    else:
        np.testing.assert_allclose(there, here, atol=2e-6)  # float32 sums of 48 in another order
    assert (np.abs(here[0] - 1.0 * here[1])).max() > 1e-3


def test_with_flips_of_patches_a_mirrored_picture_changes_no_feature() -> None:
    """Mirroring puts angle a at pi - a and turns a patch's tangent round: rings and both flips have all of it."""
    planes = colours(13, 20)
    fmap = map_of(planes, POOLINGS["fourier"], group=[{"factor": "flip", "on": "columns", "law": "all"}])
    here, there = (fmap.transform(signals(some)) for some in (planes, [p[:, ::-1].copy() for p in planes]))
    # the same projections but for the rounding of places on circles, summed in another order
    np.testing.assert_allclose(there, here, atol=1e-5)
    still = map_of(planes, POOLINGS["fourier"])
    moved = still.transform(signals([p[:, ::-1].copy() for p in planes]))
    assert np.abs(moved - still.transform(signals(planes))).max() > 1e-2


def test_a_turned_picture_has_its_sectors_shifted() -> None:
    """Weights wrap round: with 4 sectors a quarter turn is the next sector, soft ones too."""
    planes = colours(14, 12, seed=2)
    fmap = map_of(planes, {**POOLINGS["fourier"], "cells": {"rows": 2, "columns": 4}})
    here, there = (
        fmap.transform(signals(some)).reshape(12, 2, 2, 4, 70) for some in (planes, [turned(p) for p in planes])
    )
    np.testing.assert_allclose(there, np.roll(here, 1, axis=3), atol=2e-6)  # float32 sums in another order
    assert np.abs(there - here).max() > 1e-3


@pytest.mark.parametrize("angle_deg", [30, 60, 11])
def test_a_turn_by_any_angle_changes_little(angle_deg: float) -> None:
    """A smooth picture turned exactly; patches and what is pooled differ by no more than interpolation explains.

    Bilinear values of a picture f are within (max |f_xx| + max |f_yy|) / 8 of f. Blobs of standard deviation s and
    height 1 that lie apart have |f_xx| <= 1 / s^2, so two patches of d numbers differ by at most
    2 sqrt(d) / (4 s^2) in norm (taking the mean off makes no difference longer), and cos and sin of <v, t> by |t| times
    that, in each cell. Between the angles of positions (11 degrees) a patch moves by at most 5 degrees: then only the
    distance to another picture is held against it.
    """
    s, side = 3.0, 28
    blobs = np.array([[3, 6], [-6, 2], [1, -8]])  # right and up of the middle, 10 and more from each other

    def picture(turn_deg: float, centres: Array) -> Array:
        right, up = np.meshgrid(np.arange(side) - 13.5, 13.5 - np.arange(side))
        turn = np.exp(1j * math.radians(turn_deg))
        at = [(x + 1j * y) * turn for x, y in centres]
        f = sum(np.exp(-((right - z.real) ** 2 + (up - z.imag) ** 2) / (2 * s * s)) for z in at)
        return np.asarray(f, np.float32)

    window = {"kind": "polar", "height": 5, "width": 5, "rings": 6, "angles": 12, "outer": 9}
    pooling = {"kind": "fourier", "gain": 1.0, "cells": {"rows": 3, "columns": 1}}
    templates = {"source": "gaussian", "m": 64}
    spec = small(
        front_end=[{"stage": "array", "rows": side, "columns": side}, {"stage": "norm", "kind": "none"}],
        window=window,
        pooling=pooling,
        templates=templates,
    )
    fmap = FeatureMap(build_bank(BankSpec.from_dict(spec)))
    other = picture(0, np.array([[8, 0], [-8, 0], [0, 0]]))
    here, there, far = (
        fmap.one(Signal("array", f)).astype(float) for f in (picture(0, blobs), picture(angle_deg, blobs), other)
    )
    longest = np.linalg.norm(template_vectors(fmap.bank.only), axis=1).max()
    bound = longest * 2 * math.sqrt(25) / (4 * s * s)
    cells = np.linalg.norm((here - there).reshape(2, 3, 64), axis=(0, 2)) * math.sqrt(3)
    if angle_deg % 30 == 0:
        assert (cells <= math.sqrt(2) * bound).all()
    # Errors of interpolation have either sign and mostly cancel in what is pooled.
    assert np.linalg.norm(here - there) < 0.05 * np.linalg.norm(here - far)


# -------------------------------------------------------------------------------------------------- cells, tables


@given(st.integers(1, 6), st.integers(6, 25), st.sampled_from([0.3, 0.5, 2.0]))
@settings(deadline=None, max_examples=40)
def test_sectors_go_round_the_circle(n: int, n_positions: int, overlap: float) -> None:
    """Weights fall with the shortest way round; one sector is the whole circle, all alike; hard ones need no wrap."""
    found = axis_weights(n, n_positions, overlap, cyclic=True)
    np.testing.assert_allclose(found, naive_windows.circle_weights(n, n_positions, overlap), rtol=1e-9)
    np.testing.assert_array_equal(axis_weights(n, n_positions, 0, cyclic=True), axis_weights(n, n_positions, 0))


def test_a_window_survives_the_way_through_a_table() -> None:
    """Defaults written out, contrast only if there is one."""
    table = {"kind": "polar", "height": 5, "width": 5, "rings": 3, "angles": 8, "outer": 4.0}
    assert window_table(read_window(table)) == {**table, "inner": 0.0}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"window": {**TABLE, "rings": 0}}, "at least 1, got 0 and 12"),
    ({"window": {**TABLE, "inner": 7}}, "got inner = 7.0, outer = 6.0 and rings = 4"),
    ({"window": {**TABLE, "inner": -1}}, "inner = -1.0"),
    ({"window": {**TABLE, "rings": 1}}, "one ring has one radius"),
    ({"window": {**TABLE, "height": 1, "width": 1}}, "at least two numbers"),
    ({"window": {**TABLE, "contrast": -1}}, "contrast must be above 0"),
    ({"window": {**TABLE, "outer": 9.5}}, "corners of 13 x 13 are 8.485 from the middle.* got outer = 9.5"),
    ({"window": {**TABLE, "rings": 600, "angles": 900}}, "at most 262144 positions, got 600 x 900"),
    ({"form": "dense"}, "window.kind = 'polar' needs form = 'operators'"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], told: str) -> None:
    """By name, when it is read or built."""
    with pytest.raises(ConfigError, match=told):
        map_of(colours(13, 2), POOLINGS["fourier"], **changes)


def test_what_has_no_middle_is_not_turned() -> None:
    """Spectrograms have patches, but are no pictures; nor is a list of numbers."""
    front_end = [
        {"stage": "resample", "rate_hz": 8000},
        {"stage": "spectrogram", "bands": 20},
        {"stage": "frames", "n": 20},
    ]
    spec = small(
        front_end=front_end, window=TABLE, templates={"source": "gaussian", "m": 5}, pooling=POOLINGS["fourier"]
    )
    with pytest.raises(ConfigError, match=r"turns with a picture .* gives band, frame"):
        build_bank(BankSpec.from_dict(spec))
    with pytest.raises(ConfigError, match="gives entry"):
        build_bank(BankSpec.from_dict({**spec, "front_end": [{"stage": "array", "rows": 13}]}))
