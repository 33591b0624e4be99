"""The canonical pose: shear, shift and size taken out of pictures of one bright object, and what is not one said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends import make_front_end
from streamfeat.frontends.pose import Pose
from streamfeat.groups.axes import Axes
from streamfeat.signals.signal import Signal
from tests import naive

SIDE = 28


def apply(stage: Pose, picture: Any) -> NDArray[np.float32]:
    """The stage on a picture."""
    picture = np.asarray(picture, np.float32)
    step, axes = stage.build(Axes(("row", "column"), picture.shape))
    out = step(picture)
    assert axes.shape == out.shape == picture.shape
    assert out.dtype == np.float32
    return out


def figure(
    *, shear: float = 0.0, height: float = 1.0, width: float = 1.0, down: float = 0.0, across: float = 0.0
) -> NDArray[np.float64]:
    """A seven of soft strokes, drawn afresh at each place it is moved to: no interpolation but the stage's own."""
    r, c = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    v = (r - down) / height
    u = (c - across - shear * (r - down)) / width
    bar = np.exp(-(((v + 5) / 1.6) ** 2) - (u / 4.0) ** 4)
    stem = np.exp(-(((u - 1.5 + 0.3 * v) / 1.6) ** 2) - ((v - 0.5) / 5.5) ** 4)
    return np.asarray(bar + stem)


# A stroke is a Gaussian of size 1.6 px, at the smallest 1.6 x .8: curvature at most 2 / 1.28^2 = 1.2 a px^2 where it is
# crossed, and at most 1.1 high where two meet. Linear interpolation between pixels errs by an eighth of it down and as
# much across: .3 at the very worst pixel, and a small part of it on the average. Measured: .14 and .012.
WORST, AVERAGE = 0.18, 0.014


def check_same(got: NDArray[np.float32], want: NDArray[np.float32]) -> None:
    """Two posed pictures, up to the interpolation of each."""
    assert np.abs(got - want).max() < WORST
    assert np.abs(got - want).mean() < AVERAGE


@settings(deadline=None, max_examples=40)
@given(shear=st.floats(-0.4, 0.4), down=st.floats(-2, 2), across=st.floats(-2, 2))
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_sheared_and_shifted_figures_take_one_pose(exponent: float, shear: float, down: float, across: float) -> None:
    """Shear along the rows up to .4 (22 degrees), shifts up to 2 px: the same picture, whatever is done to the size."""
    stage = Pose(exponent)
    check_same(apply(stage, figure(shear=shear, down=down, across=across)), apply(stage, figure()))


@settings(deadline=None, max_examples=40)
@given(shear=st.floats(-0.3, 0.3), height=st.floats(0.8, 1.2), width=st.floats(0.8, 1.2))
def test_with_exponent_1_the_size_does_not_matter_either(shear: float, height: float, width: float) -> None:
    """Height and width from .8 to 1.2 and shear up to .3, together."""
    stage = Pose(1.0)
    check_same(apply(stage, figure(shear=shear, height=height, width=width)), apply(stage, figure()))


def test_half_way_is_half_way() -> None:
    """With exponent .5 a ratio of two sizes becomes its root; without the stage the figures differ by far more."""

    def spread(x: NDArray[Any]) -> float:
        rows = x.sum(axis=1) / x.sum()
        at = np.arange(SIDE)
        return float(np.sqrt(rows @ (at - rows @ at) ** 2))

    low, high = figure(height=0.8), figure(height=1.2)
    before = spread(high) / spread(low)
    after = spread(apply(Pose(0.5), high)) / spread(apply(Pose(0.5), low))
    assert before > 1.4
    assert after == pytest.approx(np.sqrt(before), abs=0.01)  # interpolation widens each by about .1 px^2
    assert np.abs(low - high).mean() > 3 * AVERAGE


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_the_posed_figure_has_the_moments_asked_for(exponent: float) -> None:
    """Middle in the middle, no covariance, standard deviations at the target or part of the way."""
    posed = apply(Pose(exponent, row_sd=4.5, column_sd=4.0), figure(shear=0.3, down=1.5)).astype(np.float64)
    r, c = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    share = posed / posed.sum()
    # strokes of 1.6 px read at steps of about a pixel: sums over pixels stand for integrals to a few hundredths
    assert (share * r).sum() == pytest.approx(0, abs=0.05)
    assert (share * c).sum() == pytest.approx(0, abs=0.05)
    assert (share * r * c).sum() == pytest.approx(0, abs=0.25)  # of 18, the product of the two
    if exponent == 1:
        assert np.sqrt((share * r * r).sum()) == pytest.approx(4.5, abs=0.1)
        assert np.sqrt((share * c * c).sum()) == pytest.approx(4.0, abs=0.1)


def random_figure(seed: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """A few strokes of noise inside a dark border."""
    rng = np.random.default_rng(seed)
    x = np.zeros(shape, np.float32)
    inside = ndimage.gaussian_filter(rng.random((shape[0] - 6, shape[1] - 8)), 1.2)
    x[3:-3, 4:-4] = np.maximum(inside - 0.45, 0) + 0.02
    return x


@pytest.mark.parametrize("shape", [(28, 28), (20, 31), (33, 16)])
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_equals_scipy(shape: tuple[int, int], exponent: float) -> None:
    """ndimage's affine map with the matrix of the formula, and the slow twin, give the same picture."""
    for seed in range(3):
        x = random_figure(seed, shape)
        stage = Pose(exponent, row_sd=3.0, column_sd=3.5)
        matrix, offset = naive.pose_map(x, exponent, (3.0, 3.5), stage.floor)
        want = ndimage.affine_transform(
            x.astype(np.float64), matrix, offset, order=1, mode="grid-constant", prefilter=False
        )
        # float32 weights and sums of values up to 1
        np.testing.assert_allclose(apply(stage, x), want, atol=1e-6)
        np.testing.assert_allclose(apply(stage, x), naive.pose(x, exponent, (3.0, 3.5), stage.floor), atol=1e-6)


@pytest.mark.parametrize("otherwise", ["refuse", "pass"])
def test_blank_stays_blank(otherwise: Any) -> None:
    """Nothing has no pose: zeros, finite, no fault."""
    assert not apply(Pose(otherwise=otherwise), np.zeros((SIDE, SIDE))).any()
    front_end = make_front_end([{"stage": "pixels", "height": 28, "width": 28}, {"stage": "pose"}])
    assert not front_end(Signal("image", np.zeros((50, 40), np.uint8))).any()


@pytest.mark.parametrize("dot", [(14, 14), (1, 1), (26, 3)])
def test_the_smallest_figures_are_finite(dot: tuple[int, int]) -> None:
    """One pixel, one row, one column: moments of nothing, held by the floor; what there is moves to the middle."""
    one = np.zeros((SIDE, SIDE))
    one[dot] = 1
    across, down = np.zeros((SIDE, SIDE)), np.zeros((SIDE, SIDE))
    across[dot[0], 5:20] = 1
    down[5:20, dot[1]] = 1
    for x in (one, across, down):
        posed = apply(Pose(), x)
        assert np.isfinite(posed).all()
        assert posed[12:16, 12:16].max() > 0.2  # a pixel between four is shared by them


def gaussian_field(seed: int) -> NDArray[np.float64]:
    """A made photograph: smooth, bright and dark all over."""
    field = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal((SIDE, SIDE)), 2)
    return np.asarray((field - field.min()) / np.ptp(field))


def two_beside() -> NDArray[np.float64]:
    """Two figures with three dark columns between them."""
    x = np.zeros((SIDE, SIDE))
    x[6:22, 3:12] = figure()[6:22, 10:19]
    x[6:22, 15:24] = figure()[6:22, 10:19]
    return x


FAILURES = {
    "photograph": (gaussian_field(0), "half of its border"),
    "dark on bright": (1.1 - figure() / figure().max(), "half of its border"),
    "two side by side": (two_beside(), "beyond a dark gap"),
    "two one above the other": (two_beside().T, "beyond a dark gap"),
    "below zero": (figure() - 0.5, "darkest value is -0.5"),
    "nothing bright": (np.where(figure() > 0.5, -1.0, 0.0), "darkest value is -1"),
}


@pytest.mark.parametrize(("picture", "measure"), FAILURES.values(), ids=FAILURES.keys())
def test_what_is_not_one_bright_object_on_a_dark_ground(picture: NDArray[np.float64], measure: str) -> None:
    """Refused with the measure that says so, or left as it is to the bit."""
    with pytest.raises(InvalidArgument, match=measure):
        apply(Pose(), picture)
    np.testing.assert_array_equal(apply(Pose(otherwise="pass"), picture), picture.astype(np.float32))


def test_a_refusal_names_the_picture() -> None:
    """In a front end the signal's name comes first."""
    front_end = make_front_end([{"stage": "pixels", "height": 28, "width": 28}, {"stage": "pose"}])
    photograph = (gaussian_field(1) * 255).astype(np.uint8)
    with pytest.raises(InvalidArgument, match=r"^cat\.png: pose needs one bright object on a dark ground"):
        front_end(Signal("image", photograph, name="cat.png"))


def test_a_noisy_ground_and_a_broken_stroke_are_taken() -> None:
    """Noise of a thirtieth, a figure that touches the border, a bar that has come off: still one object."""
    noisy = figure() + np.abs(np.random.default_rng(0).normal(0, 0.03, (SIDE, SIDE)))
    touching = np.roll(figure(), 8, axis=1)
    broken = np.where(np.isin(np.arange(SIDE), (11,))[:, None], 0, figure())
    for x in (noisy, touching, broken):
        assert np.abs(apply(Pose(), x) - x).max() > 0.1


def test_brightness_does_not_matter() -> None:
    """Half as bright, half as bright a result: exact in binary."""
    x = figure(shear=0.2).astype(np.float32)
    np.testing.assert_array_equal(apply(Pose(), x / 2), apply(Pose(), x) / 2)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"exponent": 1.5}, "exponent must be 0"),
        ({"floor": 0.0}, "floor <= row_sd"),
        ({"column_sd": 0.5}, "floor <= row_sd and column_sd"),
        ({"otherwise": "guess"}, "otherwise must be one of refuse, pass"),
    ],
)
def test_impossible_poses_are_refused(stage: dict[str, Any], message: str) -> None:
    """When the front end is made."""
    with pytest.raises(ConfigError, match=message):
        make_front_end([{"stage": "pixels", "height": 28, "width": 28}, {"stage": "pose", **stage}])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"stage": "pixels", "height": 28, "width": 28, "grey": False}, "one plane, got three channels"),
        ({"stage": "pixels", "height": 2, "width": 28}, "at least 3 x 3 pixels, got 2 x 28"),
        ({"stage": "array", "rows": 12}, "needs the axes row, column"),
    ],
)
def test_pose_needs_a_plane(entry: dict[str, Any], message: str) -> None:
    """Grey pictures and matrices, not colours or vectors."""
    with pytest.raises(ConfigError, match=message):
        make_front_end([entry, {"stage": "pose"}])
