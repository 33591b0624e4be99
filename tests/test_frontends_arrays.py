"""Stages on spectrograms: compression, frames, mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.frontends.arrays import Bands, Centre, Compress, Delta, Frames, Loud
from streamfeat.groups.axes import VARIABLE, Axes
from tests import naive

GROUND = Axes(("band", "frame"), (3, VARIABLE), (100.0, 200.0, 400.0), 100.0)


def apply(stage: Bands | Loud | Compress | Frames | Delta | Centre, x: Any) -> NDArray[np.float32]:
    """The stage on bands x frames."""
    step, _ = stage.build(GROUND)
    out = step(np.asarray(x, np.float32))
    assert out.dtype == np.float32
    return out


def test_log_is_decibels_above_the_floor() -> None:
    """The largest is top_db, what is top_db or more below is 0."""
    S = [[1e-3, 10, 1], [0.1, 1e-6, 0], [10, 10, 1e-2]]
    # float32 logarithms of size 40
    np.testing.assert_allclose(apply(Compress("log", top_db=40), S), [[0, 40, 30], [20, 0, 0], [40, 40, 10]], atol=1e-5)


def test_root_is_a_power_of_the_share() -> None:
    """gain (S / max)^power."""
    got = apply(Compress("root", power=0.25, gain=10), [[16, 1, 0], [4, 16, 1], [0, 0, 0]])
    np.testing.assert_allclose(got, [[10, 5, 0], [10 / np.sqrt(2), 10, 5], [0, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["log", "root"])
def test_silence_compresses_to_zero(kind: Any) -> None:
    """No division by the maximum of nothing."""
    assert not apply(Compress(kind), np.zeros((3, 5))).any()


@pytest.mark.parametrize(("n_in", "n"), [(1, 4), (2, 5), (7, 7), (7, 3), (50, 32), (5, 1)])
def test_resample_reads_a_line_exactly(n_in: int, n: int) -> None:
    """What is linear in time stays so, from the first frame to the last."""
    line = np.outer([1.0, -2.0, 0.5], np.linspace(0, 1, n_in)) + 3
    got = apply(Frames(n), line)
    want = np.outer([1.0, -2.0, 0.5], np.linspace(0, 1, n) if n_in > 1 else np.zeros(n)) + 3
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_resample_to_the_same_number_changes_nothing() -> None:
    """As many frames as there are: the same frames."""
    x = np.random.default_rng(0).standard_normal((3, 9)).astype(np.float32)
    np.testing.assert_array_equal(apply(Frames(9), x), x)


def test_crop_takes_the_middle_or_pads() -> None:
    """Real time: n frames from the middle, zeros round a shorter one."""
    x = np.arange(1, 22, dtype=np.float32).reshape(3, 7)
    np.testing.assert_array_equal(apply(Frames(3, "crop"), x), x[:, 2:5])
    padded = np.zeros((3, 10))
    padded[:, 2:9] = x
    np.testing.assert_array_equal(apply(Frames(10, "crop"), x), padded)


def test_axes_of_frames() -> None:
    """Resampling gives up real time, cropping keeps it."""
    assert Frames(5).build(GROUND)[1] == Axes(("band", "frame"), (3, 5), GROUND.band_hz, 0.0)
    assert Frames(5, "crop").build(GROUND)[1] == Axes(("band", "frame"), (3, 5), GROUND.band_hz, 100.0)


def test_bands_are_some_rows() -> None:
    """Those asked for, with their frequencies."""
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(apply(Bands(2, first=1), x), x[1:])
    step, axes = Bands(2).build(GROUND)
    np.testing.assert_array_equal(step(x.astype(np.float32)), x[:2])
    assert axes == Axes(("band", "frame"), (2, VARIABLE), (100.0, 200.0), 100.0)


def test_no_more_bands_than_there_are() -> None:
    """Says which are asked for and how many there are."""
    with pytest.raises(ConfigError, match="bands 2 to 3, the spectrogram has 3"):
        Bands(2, first=2).build(GROUND)


def test_quiet_frames_at_the_ends_are_left_out() -> None:
    """Frames more than top_db below the loudest, all their bands together; a pause between loud ones stays."""
    energies = np.array([1e-4, 2e-3, 1, 0, 1.01e-3, 0.99e-3, 0])
    got = apply(Loud(30), np.outer([0.5, 0.25, 0.25], energies))
    np.testing.assert_array_equal(got, np.outer([0.5, 0.25, 0.25], energies)[:, 1:5].astype(np.float32))


@pytest.mark.parametrize("level", [1e-30, 1.0, 1e20])
def test_what_is_loud_does_not_depend_on_the_level(level: float) -> None:
    """The same frames at every level; silence, which has no loudest frame, is kept whole."""
    x = np.outer([1.0, 2.0, 3.0], [1e-5, 1, 0.1, 1e-4])
    assert apply(Loud(35), level * x).shape == (3, 2)
    assert apply(Loud(35), 0 * x).shape == (3, 4)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_delta_is_the_next_frame_less_the_one_before(n: int) -> None:
    """The edge frames repeated; what is constant has none, and the axes stay."""
    x = np.random.default_rng(0).standard_normal((3, n)).astype(np.float32)
    np.testing.assert_allclose(apply(Delta(), x), naive.delta(x), rtol=1e-6)  # rounded once
    assert not apply(Delta(), np.full((3, n), 7.7)).any()
    assert Delta().build(GROUND)[1] == GROUND


def test_centre_takes_the_mean_away() -> None:
    """Of everything, of each band, or not at all; a constant becomes exact zeros."""
    x = np.random.default_rng(0).standard_normal((3, 9)).astype(np.float32) + np.float32(5)
    # means are rounded to float32 at values of size 5
    assert abs(apply(Centre("all"), x).mean()) < 1e-6
    np.testing.assert_allclose(apply(Centre("band"), x).mean(axis=1), 0, atol=1e-6)
    np.testing.assert_array_equal(apply(Centre("none"), x), x)
    steady = np.repeat([[0.1], [0.3], [7.7]], 1001, axis=1)
    assert not apply(Centre("band"), steady).any()
    assert not apply(Centre("all"), np.full((3, 1001), 0.1)).any()
