"""Pitch and tempo of waveforms, through librosa."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups import acts_on_waveforms, make_waveform_group, n_elements, waveform_pitch, waveform_tempo


def tone(hz: float, n: int = 8000, rate_hz: int = 8000) -> NDArray[np.float32]:
    """A sine of half the full scale."""
    return (0.5 * np.sin(2 * np.pi * hz * np.arange(n) / rate_hz)).astype(np.float32)


def peak_hz(x: NDArray[np.float32], rate_hz: int = 8000) -> float:
    """Frequency of the largest Fourier bin."""
    return float(np.abs(np.fft.rfft(x * np.hanning(x.size))).argmax() * rate_hz / x.size)


@pytest.mark.parametrize("cents", [-400, -100, 200, 400])
def test_pitch_moves_a_tone(cents: float) -> None:
    """f becomes f 2^(cents / 1200); the length stays."""
    x = waveform_pitch(tone(500), 8000, cents)
    assert x.dtype == np.float32
    assert x.shape == (8000,)
    assert peak_hz(x) == pytest.approx(500 * 2 ** (cents / 1200), abs=1)  # bins are 1 Hz apart


@pytest.mark.parametrize("rate", [0.5, 0.8, 1.25, 2.0])
def test_tempo_keeps_the_tone(rate: float) -> None:
    """The frequency stays; the length is round(n / rate)."""
    x = waveform_tempo(tone(500), 8000, rate)
    assert x.shape == (round(8000 / rate),)
    assert peak_hz(x) == pytest.approx(500, abs=8000 / x.size)  # one bin


def test_identities_are_exact_copies() -> None:
    """0 cents and rate 1 give the samples back, in an array of their own."""
    x = tone(500)
    for same in (waveform_pitch(x, 8000, 0), waveform_tempo(x, 8000, 1)):
        np.testing.assert_array_equal(same, x)
        assert not np.shares_memory(same, x)


@pytest.mark.parametrize("n", [1, 2, 300, 511, 513])
def test_short_clips(n: int) -> None:
    """Clips shorter than the vocoder's window keep the rule of lengths and stay finite."""
    x = tone(500, n)
    for rate in (0.5, 2.0, 3.0):
        moved = waveform_tempo(x, 8000, rate)
        assert moved.shape == (max(1, round(n / rate)),)
        assert np.isfinite(moved).all()
    moved = waveform_pitch(x, 8000, 300)
    assert moved.shape == (n,)
    assert np.isfinite(moved).all()


def test_silence_stays_silent() -> None:
    """Zeros give zeros."""
    assert not waveform_pitch(np.zeros(2000, np.float32), 8000, 200).any()
    assert not waveform_tempo(np.zeros(2000, np.float32), 8000, 0.7).any()


def test_impossible_moves_are_refused() -> None:
    """No endless loop, no terabytes."""
    for cents in (40000, math.nan):
        with pytest.raises(InvalidArgument, match="cents"):
            waveform_pitch(tone(500), 8000, cents)
    for rate in (0, -1, math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="tempo"):
            waveform_tempo(tone(500), 8000, rate)


def test_group_of_waveform_moves() -> None:
    """A product of both, identity first, canonical specs that give the same group again."""
    specs = [
        {"factor": "waveform_pitch", "law": "grid", "low": -400, "high": 400, "n": 3},
        {"factor": "waveform_tempo", "law": "log-grid", "low": 0.5, "high": 2, "n": 3},
    ]
    assert acts_on_waveforms(specs)
    pitches, tempos = make_waveform_group(specs, np.random.default_rng(0))
    assert n_elements((pitches, tempos)) == 9
    assert pitches.parameters.ravel().tolist() == [0, -400, 400]
    np.testing.assert_allclose(tempos.parameters.ravel(), [1, 0.5, 2], rtol=1e-12)
    assert tempos.parameters[0] == 1
    np.testing.assert_array_equal(pitches.move(2, tone(500), 8000), waveform_pitch(tone(500), 8000, 400))
    again = make_waveform_group([pitches.spec, tempos.spec], np.random.default_rng(1))
    assert [factor.spec for factor in again] == [pitches.spec, tempos.spec]


def test_waveform_laws_are_checked() -> None:
    """A rate of 0 is refused when the group is made, with the law that gave it; kinds do not mix."""
    with pytest.raises(ConfigError, match=r"waveform_tempo.*low = 0.*tempo"):
        make_waveform_group(
            [{"factor": "waveform_tempo", "law": "grid", "low": 0, "high": 2, "n": 3}], np.random.default_rng(0)
        )
    with pytest.raises(ConfigError, match="not on both"):
        acts_on_waveforms([{"factor": "pitch"}, {"factor": "waveform_tempo"}])
    assert not acts_on_waveforms([])
