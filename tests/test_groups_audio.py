"""Pitch, tempo and time shift of spectrograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends import make_front_end
from streamfeat.groups import Operator, pitch, tempo, time_shift
from streamfeat.groups.axes import Axes
from streamfeat.signals.signal import Signal
from tests import naive

ROUNDING = 1e-5
"""Weights are float32 of coordinates up to 12: 1e-6 of a step, times differences of size 5."""

LOG_HZ = tuple(float(hz) for hz in np.geomspace(60, 3500, 12))
LINEAR_HZ = tuple(float(hz) for hz in np.linspace(100, 3800, 12))


def ground(band_hz: tuple[float, ...], n_frames: int = 7) -> Axes:
    """Axes of a spectrogram."""
    return Axes(("band", "frame"), (len(band_hz), n_frames), band_hz)


def moved(operator: Operator, t: NDArray[Any]) -> NDArray[np.float64]:
    """The spectrogram after the operator."""
    return operator.forward(t.ravel()).reshape(t.shape)


def noise(*shape: int) -> NDArray[np.float64]:
    """The same noise at each call."""
    return np.random.default_rng(6).standard_normal(shape)


@settings(deadline=None, max_examples=60)
@given(cents=st.floats(-2400, 2400), band_hz=st.sampled_from([LOG_HZ, LINEAR_HZ]))
def test_pitch_is_its_slow_twin(cents: float, band_hz: tuple[float, ...]) -> None:
    """Bands read at the frequency they come from, on an even and an uneven scale."""
    t = noise(12, 7)
    np.testing.assert_allclose(moved(pitch(ground(band_hz), cents), t), naive.pitch(t, band_hz, cents), atol=ROUNDING)


@settings(deadline=None, max_examples=60)
@given(rate=st.floats(0.3, 3), n_frames=st.integers(1, 9))
def test_tempo_is_its_slow_twin(rate: float, n_frames: int) -> None:
    """Frames read about the middle one, for odd and even numbers of them."""
    t = noise(12, n_frames)
    np.testing.assert_allclose(moved(tempo(ground(LOG_HZ, n_frames), rate), t), naive.tempo(t, rate), atol=ROUNDING)


@settings(deadline=None, max_examples=40)
@given(frames=st.floats(-9, 9), border=st.sampled_from(["zero", "wrap"]))
def test_time_shift_is_its_slow_twin(frames: float, border: Any) -> None:
    """Whole and fractional shifts."""
    t = noise(12, 7)
    got = moved(time_shift(ground(LOG_HZ), frames, border), t)
    np.testing.assert_allclose(got, naive.time_shift(t, frames, border), atol=ROUNDING)


@pytest.mark.parametrize(
    "make",
    [
        lambda axes: pitch(axes, 130),
        lambda axes: pitch(axes, -400),
        lambda axes: tempo(axes, 0.5),
        lambda axes: tempo(axes, 1.7),
        lambda axes: time_shift(axes, 2.3),
        lambda axes: time_shift(axes, -3, "wrap"),
    ],
)
def test_adjoint_of_the_same_operator(make: Callable[[Axes], Operator]) -> None:
    """<x, R t> = <R^T x, t>."""
    axes = ground(LINEAR_HZ)
    operator = make(axes)
    x, t = np.random.default_rng(2).standard_normal((2, axes.d))
    # the same products summed in another order: nnz * 1e-16
    assert x @ operator.forward(t) == pytest.approx(operator.adjoint(x) @ t, abs=1e-12)


@pytest.mark.parametrize("steps", [-7, -3, 0, 1, 5])
def test_whole_steps_of_a_log_scale_are_copies(steps: int) -> None:
    """A pitch shift by whole steps of a log scale moves bands, exactly, and brings in zeros."""
    step_cents = 1200 * math.log2(LOG_HZ[1] / LOG_HZ[0])
    t = noise(12, 7)
    want = np.zeros_like(t)
    want[max(steps, 0) : 12 + min(steps, 0)] = t[max(-steps, 0) : 12 - max(steps, 0)]
    np.testing.assert_array_equal(moved(pitch(ground(LOG_HZ), steps * step_cents), t), want)


def test_identities_change_nothing() -> None:
    """0 cents, rate 1 and 0 frames are exact copies."""
    t = noise(12, 7)
    for operator in (pitch(ground(LINEAR_HZ), 0), tempo(ground(LINEAR_HZ), 1), time_shift(ground(LINEAR_HZ), 0)):
        np.testing.assert_array_equal(moved(operator, t), t)


def test_time_shift_of_a_waveform() -> None:
    """A waveform is shifted by whole samples."""
    t = noise(10)
    got = time_shift(Axes(("sample",), (10,)), 3).forward(t)
    np.testing.assert_array_equal(got, np.concatenate([np.zeros(3), t[:-3]]))


@pytest.mark.parametrize("scale", ["mel", "log"])
@pytest.mark.parametrize("cents", [-400, -150, 250, 400])
def test_pitch_moves_a_tone_where_a_higher_tone_is(scale: str, cents: float) -> None:
    """The spectrogram of a tone, moved by pitch, has its peak in the band of the tone at f 2^(cents / 1200)."""
    front_end = make_front_end(
        [
            {"stage": "resample", "rate_hz": 8000},
            {"stage": "spectrogram", "scale": scale, "bands": 40},
            {"stage": "frames", "n": 8},
        ]
    )

    def spectrogram(hz: float) -> NDArray[np.float32]:
        return front_end(Signal("audio", np.sin(2 * np.pi * hz * np.arange(4000) / 8000), 8000))

    hz = 900.0
    got = pitch(front_end.axes, cents).forward(spectrogram(hz)).reshape(front_end.axes.shape)
    want = spectrogram(hz * 2 ** (cents / 1200)).reshape(front_end.axes.shape)
    # one band: between two centres the larger neighbour may be either
    assert abs(int(got[:, 4].argmax()) - int(want[:, 4].argmax())) <= 1


def test_impossible_moves_are_refused() -> None:
    """Pitch and tempo of a picture; cents and rates that are none."""
    picture = Axes(("row", "column"), (4, 4))
    for make in (pitch, tempo, time_shift):
        with pytest.raises(ConfigError, match="needs the axes"):
            make(picture, 1.0)
    with pytest.raises(ConfigError, match="two bands"):
        pitch(Axes(("band", "frame"), (4, 4)), 100)
    for cents in (40000, math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="cents"):
            pitch(ground(LOG_HZ), cents)
    for rate in (0, -1, math.nan, 1000):
        with pytest.raises(InvalidArgument, match="tempo"):
            tempo(ground(LOG_HZ), rate)
