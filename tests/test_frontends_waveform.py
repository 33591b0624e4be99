"""Stages on waveforms, held to librosa and soxr."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.frontends.waveform import FixedLength, Peak, Resample, Trim, resample
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.signals.signal import Signal

SAMPLES = Axes(("sample",), (VARIABLE,), rate_hz=8000.0)


def apply(stage: Peak | Trim | FixedLength, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The stage on a waveform."""
    step, _ = stage.build(SAMPLES)
    out = step(x)
    assert out.dtype == np.float32
    return out


def spoken(seed: int, n: int = 6000) -> NDArray[np.float32]:
    """Noise that swells and fades between silences, as a word does."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, n)
    loudness = 10 ** (-6 * np.abs(t - rng.uniform(0.3, 0.7)) * rng.uniform(0.5, 1.5))
    return (0.3 * loudness * rng.standard_normal(n)).astype(np.float32)


@pytest.mark.parametrize(("window", "hop"), [(512, 128), (2048, 512), (256, 80)])
@pytest.mark.parametrize("top_db", [10, 30, 60])
def test_trim_keeps_what_librosa_keeps(window: int, hop: int, top_db: float) -> None:
    """The same samples as `librosa.effects.trim`."""
    from librosa.effects import trim

    for seed in range(8):
        x = spoken(seed, 5000 + 37 * seed)
        want, _ = trim(x, top_db=top_db, frame_length=window, hop_length=hop)
        np.testing.assert_array_equal(apply(Trim(top_db, window, hop), x), want)


def test_trim_of_short_or_silent_clips() -> None:
    """One sample is kept; silence has no loudest part and is kept whole."""
    assert apply(Trim(), np.ones(1, np.float32)).size == 1
    assert apply(Trim(), np.zeros(3000, np.float32)).size == 3000
    for at in (0, 255):
        click = np.zeros(256, np.float32)
        click[at] = 1
        assert apply(Trim(window=128, hop=64), click).max() == 1


def test_trim_does_not_depend_on_the_level() -> None:
    """A recording at 1e-7 of its level is cut at the same places."""
    x = spoken(3)
    assert apply(Trim(), x * np.float32(1e-7)).size == apply(Trim(), x).size < x.size


def test_peak_is_one() -> None:
    """int16's lowest value is -1.0 exactly; silence stays."""
    x = np.array([-32768, 32767, 5], np.int16)
    step, _ = Resample(8000).build()
    np.testing.assert_array_equal(apply(Peak(), step(Signal("audio", x, 8000))), x / np.float32(32768))
    assert np.abs(apply(Peak(), np.array([0.25, -0.125], np.float32))).max() == 1
    assert not apply(Peak(), np.zeros(4, np.float32)).any()


@settings(deadline=None, max_examples=40)
@example(n=1, from_hz=20000, to_hz=16000)
@given(
    n=st.integers(1, 300), from_hz=st.sampled_from([8000, 11025, 20000, 48000]), to_hz=st.sampled_from([8000, 16000])
)
def test_resample_lengths(n: int, from_hz: int, to_hz: int) -> None:
    """round(n to / from) samples, never none."""
    got = resample(np.ones(n, np.float32), from_hz, to_hz)
    assert got.dtype == np.float32
    assert abs(got.size - n * to_hz / from_hz) <= 1
    assert got.size >= 1


def test_resample_keeps_a_tone() -> None:
    """20 kHz to 8 kHz: the tone is the same tone, what lies above 4 kHz is gone."""
    t = np.arange(20000) / 20000
    x = (np.sin(2 * np.pi * 700 * t) + np.sin(2 * np.pi * 6000 * t)).astype(np.float32)
    got = resample(x, 20000, 8000)
    want = np.sin(2 * np.pi * 700 * np.arange(8000) / 8000)
    # soxr HQ: passband ripple and rejection beyond 1e-4; the filter's length (100 samples) is left out at both ends
    np.testing.assert_allclose(got[200:-200], want[200:-200], atol=1e-4)


def test_resample_leaves_an_equal_rate_alone() -> None:
    """The samples themselves, at full scale 1.0."""
    step, axes = Resample(8000).build()
    x = np.array([1, -2, 300], np.int16)
    np.testing.assert_array_equal(step(Signal("audio", x, 8000)), x / np.float32(32768))
    assert axes == SAMPLES


@pytest.mark.parametrize("n", [1, 7, 100, 1000])
def test_fixed_length_has_the_energy_in_the_middle(n: int) -> None:
    """A click lands on n // 2 wherever it was; a longer recording is cropped round its energy."""
    for at in (0, 13, 399):
        x = np.zeros(400, np.float32)
        x[at] = 0.5
        got = apply(FixedLength(n), x)
        assert got.shape == (n,)
        assert np.flatnonzero(got).tolist() == [n // 2]
    assert not apply(FixedLength(n), np.zeros(50, np.float32)).any()


def test_fixed_length_does_not_see_silence_round_a_word() -> None:
    """Zeros before and after change nothing."""
    x = spoken(4, 900)
    shifted = np.concatenate([np.zeros(333, np.float32), x, np.zeros(80, np.float32)])
    np.testing.assert_array_equal(apply(FixedLength(1500), shifted), apply(FixedLength(1500), x))
