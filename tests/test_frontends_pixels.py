"""Pixels: pictures of any size, depth and colour to one plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.frontends.pixels import Pixels
from streamfeat.signals.signal import Signal


def apply(stage: Pixels, picture: Any) -> NDArray[np.float32]:
    """The stage on a picture."""
    enter, axes = stage.build()
    out = enter(Signal("image", picture))
    assert out.shape == axes.shape
    assert out.dtype == np.float32
    return out


def test_the_right_size_is_taken_as_it_is() -> None:
    """Full scale 1.0, for 8 and 16 bits and floats."""
    picture = np.arange(12, dtype=np.uint8).reshape(3, 4) * 23
    want = picture / np.float32(255)
    np.testing.assert_array_equal(apply(Pixels(3, 4), picture), want)
    np.testing.assert_array_equal(apply(Pixels(3, 4), want.astype(np.float32)), want)
    sixteen = picture.astype(np.uint16) * 257
    np.testing.assert_allclose(apply(Pixels(3, 4), sixteen), want, rtol=1e-6)  # 65535 = 255 * 257


def test_grey_is_luma() -> None:
    """.299 R + .587 G + .114 B; white stays white."""
    picture = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    np.testing.assert_allclose(apply(Pixels(1, 4), picture), [[0.299, 0.587, 0.114, 1]], rtol=1e-6)


def test_colour_keeps_its_channels() -> None:
    """Channels last; a grey picture has three equal ones."""
    picture = np.random.default_rng(0).integers(0, 256, (3, 4, 3)).astype(np.uint8)
    np.testing.assert_array_equal(apply(Pixels(3, 4, grey=False), picture), picture / np.float32(255))
    grey = apply(Pixels(3, 4, grey=False), picture[:, :, 0])
    np.testing.assert_array_equal(grey, np.repeat((picture[:, :, :1] / np.float32(255)), 3, axis=2))


@pytest.mark.parametrize("size", [(4, 4), (3, 9), (40, 31), (1, 1)])
def test_resizing_stays_in_range(size: tuple[int, int]) -> None:
    """No overshoot, no wrap-around: values between the least and the greatest of the picture."""
    picture = np.random.default_rng(1).integers(0, 256, (13, 11)).astype(np.uint8)
    got = apply(Pixels(*size), picture)
    assert got.min() >= picture.min() / 255 - 1e-6  # float32 weights sum to 1 up to rounding
    assert got.max() <= picture.max() / 255 + 1e-6


def test_shrinking_averages() -> None:
    """A chessboard of single pixels shrinks to grey, not to a few of its fields."""
    board = (np.indices((32, 32)).sum(axis=0) % 2 * 255).astype(np.uint8)
    np.testing.assert_allclose(apply(Pixels(8, 8), board), 0.5, atol=0.02)  # triangle filter at the border


def test_resizing_keeps_the_middle() -> None:
    """A symmetric picture stays symmetric: no half pixel is lost on one side."""
    y, x = np.mgrid[:20, :20] - 9.5
    blob = np.exp(-(y**2 + x**2) / 30).astype(np.float32)
    for n in (9, 10, 28):
        got = apply(Pixels(n, n), blob)
        np.testing.assert_allclose(got, got[::-1], atol=1e-6)
        np.testing.assert_allclose(got, got.T, atol=1e-6)
