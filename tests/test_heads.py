"""Turned heads: nothing without a turn, the nose where it should be, black where the picture shows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.protocols.heads import turn, turned

H, W = 48, 36
TURNS = [(0.0, 0.0), (30.0, 0.0), (-40.0, 20.0), (10.0, -20.0), (0.0, 15.0)]


def dot(y: float, x: float) -> NDArray[np.uint8]:
    """A bright disc on grey, so many pixels below and to the right of the middle."""
    row, column = np.arange(H)[:, None] - (H - 1) / 2 - y, np.arange(W) - (W - 1) / 2 - x
    return np.where(row**2 + column**2 < 9, 250, 60).astype(np.uint8)


def place(picture: NDArray[np.uint8]) -> tuple[float, float]:
    """Where its disc is, from the middle."""
    rows, columns = np.nonzero(picture > 150)
    return float(rows.mean() - (H - 1) / 2), float(columns.mean() - (W - 1) / 2)


def test_without_a_turn_the_ellipse_stays() -> None:
    """To the bit; what lies beside it is black."""
    picture = np.random.default_rng(0).integers(1, 256, (H, W), dtype=np.uint8)
    same = turned(picture, turn((H, W), 0.0, 0.0))
    row, column = (np.arange(H)[:, None] - (H - 1) / 2) / (H / 2), (np.arange(W) - (W - 1) / 2) / (W / 2)
    ellipse = row**2 + column**2 <= 1
    np.testing.assert_array_equal(same, np.where(ellipse, picture, 0))


@pytest.mark.parametrize(("yaw", "pitch"), TURNS)
def test_the_nose_goes_right_and_down(yaw: float, pitch: float) -> None:
    """By the sine of the angle, times how deep the head is there."""
    y, x = place(turned(dot(0, 0), turn((H, W), yaw, pitch)))
    a, b = np.deg2rad([yaw, pitch])
    # a disc on a curved surface: its middle moves by half a pixel more or less
    assert x == pytest.approx(W / 2 * np.sin(a), abs=0.7)
    assert y == pytest.approx(W / 2 * np.cos(a) * np.sin(b), abs=0.7)


@pytest.mark.parametrize(("yaw", "pitch"), TURNS)
def test_every_pixel_reads_the_point_that_was_turned_there(yaw: float, pitch: float) -> None:
    """Where it reads, put on the ellipsoid and turned point by point, comes back to it."""
    operator = turn((H, W), yaw, pitch)
    rows, columns = np.indices((H, W)) - np.array([(H - 1) / 2, (W - 1) / 2])[:, None, None]
    y, x, whole = (operator.forward(some.ravel()) for some in (rows, columns, np.ones((H, W))))
    # weights that sum to one: the whole neighbourhood lies in the picture
    read = whole > 1 - 1e-6
    assert read.sum() > 0.5 * np.pi / 4 * H * W
    a, b = np.deg2rad([yaw, pitch])
    for place in np.flatnonzero(read):
        depth = np.sqrt(max(0.0, (W / 2) ** 2 * (1 - (x[place] / (W / 2)) ** 2 - (y[place] / (H / 2)) ** 2)))
        right = np.cos(a) * x[place] + np.sin(a) * depth
        ahead = np.cos(a) * depth - np.sin(a) * x[place]
        down = np.cos(b) * y[place] + np.sin(b) * ahead
        # near the outline depth is a square root of rounding of the float32 weights
        assert right == pytest.approx(columns.flat[place], abs=5e-3)
        assert down == pytest.approx(rows.flat[place], abs=5e-3)


def test_what_comes_from_behind_is_black() -> None:
    """Turned right by 40 degrees: the first tenth of the ellipse from the left, not that of the right."""
    white = np.full((H, W), 255, np.uint8)
    row = turned(white, turn((H, W), 40.0, 0.0))[H // 2]
    # the edge of the picture is seen at W / 2 (1 - cos 40 deg) from the left
    hidden = W / 2 * (1 - np.cos(np.deg2rad(40)))
    assert np.count_nonzero(row[: W // 2] == 0) == pytest.approx(hidden, abs=1.5)
    assert row[W // 2 : -1].min() > 0
    mirrored = turned(white, turn((H, W), -40.0, 0.0))[H // 2, ::-1]
    np.testing.assert_array_equal(row, mirrored)


def test_a_turn_does_not_keep_lengths() -> None:
    """Which theorem 3.1 asks for; the longer the turn, the less."""
    picture = np.full((H, W), 100, np.uint8)
    front, some, far = (np.linalg.norm(turned(picture, turn((H, W), yaw, 0.0)).astype(float)) for yaw in (0, 20, 40))
    assert front > some > far > 0.8 * front
