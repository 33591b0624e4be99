"""Rotation, translation and scale of pictures: where the pixels go, and the adjoint of going there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups import Operator, make_stack, rotation, scaling, translation
from streamfeat.groups.axes import Axes
from streamfeat.groups.operators import Border
from tests import naive
from tests.files import shared

ROUNDING = 1e-6
"""Weights are float32 (6e-8), four to a pixel, values of size 1 to 5."""

angles_rad = st.floats(-7, 7)
shifts_px = st.floats(-12, 12)
scales = st.floats(0.3, 3)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))


def plane(h: int, w: int) -> Axes:
    """Axes of a grey picture."""
    return Axes(("row", "column"), (h, w))


def moved(operator: Operator, picture: NDArray[Any]) -> NDArray[np.float64]:
    """The picture after the operator."""
    return operator.forward(picture.ravel()).reshape(picture.shape)


def noise(*shape: int) -> NDArray[np.float64]:
    """The same noise at each call."""
    return np.random.default_rng(5).standard_normal(shape)


@settings(deadline=None, max_examples=60)
@given(size=sizes, angle_rad=angles_rad)
def test_rotation_is_its_slow_twin(size: tuple[int, int], angle_rad: float) -> None:
    """Each pixel reads where the twin says, for any size."""
    picture = noise(*size)
    got = moved(rotation(plane(*size), angle_rad), picture)
    np.testing.assert_allclose(got, naive.rotation(picture, angle_rad), atol=ROUNDING)


@settings(deadline=None, max_examples=60)
@given(size=sizes, dy=shifts_px, dx=shifts_px, border=st.sampled_from(["zero", "wrap"]))
def test_translation_is_its_slow_twin(size: tuple[int, int], dy: float, dx: float, border: Any) -> None:
    """Whole and fractional shifts, with zeros or the picture itself from outside."""
    picture = noise(*size)
    got = moved(translation(plane(*size), dy, dx, border), picture)
    np.testing.assert_allclose(got, naive.translation(picture, dy, dx, border), atol=ROUNDING)


@settings(deadline=None, max_examples=40)
@given(size=sizes, scale=scales)
def test_scaling_is_its_slow_twin(size: tuple[int, int], scale: float) -> None:
    """Scale about the middle."""
    picture = noise(*size)
    np.testing.assert_allclose(
        moved(scaling(plane(*size), scale), picture), naive.scaling(picture, scale), atol=ROUNDING
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda axes: rotation(axes, 0.3),
        lambda axes: rotation(axes, math.pi / 2),
        lambda axes: translation(axes, 1.25, -2),
        lambda axes: translation(axes, 1.5, 3, "wrap"),
        lambda axes: scaling(axes, 1.2),
        lambda axes: scaling(axes, 0.7),
    ],
)
@pytest.mark.parametrize("axes", [plane(9, 12), Axes(("row", "column", "channel"), (6, 5, 3))])
def test_adjoint_of_the_same_operator(make: Callable[[Axes], Operator], axes: Axes) -> None:
    """<x, R t> = <R^T x, t>: the transpose of these weights, not the movement back."""
    operator = make(axes)
    x, t = np.random.default_rng(1).standard_normal((2, axes.d))
    # the same products summed in another order: nnz * 1e-16
    assert x @ operator.forward(t) == pytest.approx(operator.adjoint(x) @ t, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 27, 28])
@pytest.mark.parametrize("quarters", [-1, 0, 1, 2, 3, 4, 40])
def test_quarter_turns_are_rot90(n: int, quarters: int) -> None:
    """Counter-clockwise, about the middle, exactly; odd and even sizes."""
    picture = noise(n, n)
    np.testing.assert_array_equal(
        moved(rotation(plane(n, n), quarters * math.pi / 2), picture), np.rot90(picture, quarters)
    )


def test_published_transform_cases() -> None:
    """Turns and shifts that other libraries got wrong."""
    cases = json.loads(shared("cases", "files", "transforms.json").read_text())
    n_checked = 0
    for case in cases:
        if case["op"] not in ("rotate", "translate") or case.get("border") == "reflect":
            continue
        picture = np.array(case["in"])
        # ours fills with zeros: fill -1 is zero fill of the picture raised by one
        lift = -case.get("fill", 0)
        if case["op"] == "rotate":
            operator = rotation(plane(*picture.shape), math.radians(case["degrees"]))
        else:
            border: Border = "wrap" if case["border"] == "wrap" else "zero"
            operator = translation(plane(*picture.shape), case["dy"], case["dx"], border)
        got = moved(operator, picture + lift) - lift
        if "out" in case:
            np.testing.assert_allclose(got, case["out"], atol=case["tol"], err_msg=case["case"])
        else:
            assert case["range"][0] <= got.min()
            assert got.max() <= case["range"][1] + ROUNDING, case["case"]
        n_checked += 1
    assert n_checked >= 7


def test_a_delta_moves_as_a_delta() -> None:
    """A whole shift copies one pixel to one pixel."""
    picture = np.zeros((5, 5))
    picture[1, 2] = 1
    want = np.zeros((5, 5))
    want[3, 2] = 1
    np.testing.assert_array_equal(moved(translation(plane(5, 5), 2, 0), picture), want)


def test_turning_a_blob_there_and_back() -> None:
    """A smooth blob comes back from +-20 degrees almost as it was."""
    y, x = np.mgrid[:28, :28] - 13.5
    blob = np.exp(-((y - 2) ** 2 + (x + 1) ** 2) / (2 * 4.0**2))
    there = moved(rotation(plane(28, 28), math.radians(20)), blob)
    back = moved(rotation(plane(28, 28), math.radians(-20)), there)
    # bilinear reading between pixels is off by at most |f_xx| / 8 + |f_yy| / 8 = 1 / (4 sigma^2), each way
    assert np.abs(back - blob).max() < 2 / (4 * 4.0**2)


@pytest.mark.parametrize("scale", [0.7, 1.5, 2.0])
@pytest.mark.parametrize("axes", [plane(41, 41), Axes(("row", "column", "channel"), (41, 41, 3))])
def test_unitary_scaling_keeps_norms(scale: float, axes: Axes) -> None:
    """Lemma 2.1 of Raj et al. 2017: ||T_g f|| = ||f|| for a smooth blob inside the picture, off by `scale` without."""
    y, x = np.mgrid[:41, :41] - 20.0
    blob = np.repeat(np.exp(-(y**2 + x**2) / (2 * 4.0**2))[:, :, None], axes.n_channels, axis=2)
    # bilinear reading takes at most |f''| / 8 a direction off: 1 / (4 sigma^2) of the blob's height
    close = 1.5 / (4 * min(1, scale) ** 2 * 4.0**2)
    for unitary, wanted in ((True, 1.0), (False, scale)):
        ratio = np.linalg.norm(moved(scaling(axes, scale, unitary), blob)) / np.linalg.norm(blob)
        assert ratio == pytest.approx(wanted, rel=close)
    assert abs(scale - 1) > 2 * close  # so that one is not the other


def test_unitary_is_written_only_when_asked_for() -> None:
    """The same action, divided by scale; a bank saved before there was the option keeps its hash."""
    spec = {"factor": "scale", "law": "grid", "low": 0.5, "high": 2, "n": 2}
    rng = np.random.default_rng(0)
    plain, unitary = (make_stack({**spec, **option}, plane(9, 9), rng) for option in ({}, {"unitary": True}))
    assert "unitary" not in plain.spec
    assert make_stack({**spec, "unitary": False}, plane(9, 9), rng).spec == plain.spec
    assert unitary.spec["unitary"] is True
    scales = np.repeat(unitary.parameters.ravel(), np.diff(unitary.indptr[:, [0, -1]], axis=1).ravel())
    np.testing.assert_allclose(unitary.data * scales, plain.data, rtol=1e-6)  # two float32 roundings


def test_unitary_affine_maps_compose() -> None:
    """Rotation, scale and translation one after the other keep a blob's norm: the product is unitary as its factors."""
    y, x = np.mgrid[:41, :41] - 20.0
    blob = np.exp(-(y**2 + x**2) / (2 * 4.0**2))
    axes = plane(41, 41)
    there = moved(translation(axes, 2.5, -3), moved(scaling(axes, 1.3, unitary=True), moved(rotation(axes, 0.4), blob)))
    # three readings between pixels, each at most 1 / (4 sigma^2) of the height
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(blob), rel=3 / (4 * 4.0**2))


def test_channels_move_alike() -> None:
    """Each channel of a colour picture moves like a grey picture."""
    picture = noise(6, 7, 3)
    got = moved(rotation(Axes(("row", "column", "channel"), picture.shape), 0.4), picture)
    for channel in range(3):
        grey = moved(rotation(plane(6, 7), 0.4), picture[:, :, channel])
        np.testing.assert_array_equal(got[:, :, channel], grey)


def test_impossible_moves_are_refused() -> None:
    """A spectrogram cannot be rotated; a scale of 0 or NaN is no scale."""
    with pytest.raises(ConfigError, match=r"rotation needs the axes row, column.*band, frame"):
        rotation(Axes(("band", "frame"), (3, 4)), 0.1)
    for scale in (0, -1, math.nan, 1e9):
        with pytest.raises(InvalidArgument, match="scale"):
            scaling(plane(3, 3), scale)
