"""The spectrogram, held to librosa's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.frontends.spectrogram import Spectrogram
from streamfeat.groups.axes import VARIABLE, Axes


def samples(rate_hz: float = 8000.0) -> Axes:
    """Axes of a waveform."""
    return Axes(("sample",), (VARIABLE,), rate_hz=rate_hz)


def noise(n: int) -> NDArray[np.float32]:
    """The same noise at each call."""
    return np.random.default_rng(7).standard_normal(n).astype(np.float32)


def tone(hz: float, n: int = 4000) -> NDArray[np.float32]:
    """A sine at 8 kHz."""
    return np.sin(2 * np.pi * hz * np.arange(n) / 8000).astype(np.float32)


@pytest.mark.parametrize(
    ("rate_hz", "parameters"),
    [
        (8000, {}),
        (8000, {"window": 200, "n_fft": 256, "hop": 64, "of": "magnitude"}),
        (16000, {"window": 401, "n_fft": 512, "hop": 160, "bands": 64, "low_hz": 0, "high_hz": 8000}),
        (20000, {"window": 1024, "hop": 300, "bands": 80, "low_hz": 50, "high_hz": 7000}),
    ],
)
@pytest.mark.parametrize("n", [1, 79, 300, 8000])
def test_mel_is_librosas(rate_hz: int, parameters: dict[str, Any], n: int) -> None:
    """`librosa.feature.melspectrogram(norm=None)`, to float32 rounding of the transform."""
    import warnings

    from librosa.feature import melspectrogram

    stage = Spectrogram(**parameters)
    step, axes = stage.build(samples(rate_hz))
    x = noise(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # librosa warns of clips shorter than the window
        want = melspectrogram(
            y=x.astype(np.float64),
            sr=rate_hz,
            n_fft=stage.n_fft,
            win_length=stage.window,
            hop_length=stage.hop,
            n_mels=stage.bands,
            fmin=stage.low_hz,
            fmax=stage.high_hz,
            power={"power": 2, "magnitude": 1}[stage.of],
            norm=None,
        )
    got = step(x)
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    # weights, bins and sums of at most 64 of them are float32
    np.testing.assert_allclose(got, want, rtol=4e-6)
    assert axes.rate_hz == rate_hz / stage.hop


def test_band_centres_are_librosas() -> None:
    """`band_hz` are the peaks of the triangles."""
    import librosa

    _, axes = Spectrogram().build(samples())
    np.testing.assert_allclose(axes.band_hz, librosa.mel_frequencies(42, fmin=60, fmax=4000)[1:-1], rtol=1e-12)


def test_log_bands_have_equal_steps_in_cents() -> None:
    """Neighbouring centres have one ratio, from low_hz to high_hz, both of which are feet."""
    _, axes = Spectrogram(scale="log", bands=30, low_hz=100, high_hz=3200).build(samples())
    steps = 1200 * np.diff(np.log2([100, *axes.band_hz, 3200]))
    np.testing.assert_allclose(steps, 6000 / 31, rtol=1e-12)  # five octaves in 31 steps


@pytest.mark.parametrize("scale", ["mel", "log"])
def test_a_tone_sounds_in_its_band(scale: Any) -> None:
    """A tone at a band's centre is loudest there, where bands are wider than Fourier bins."""
    step, axes = Spectrogram(scale=scale, bands=24, low_hz=100, window=512).build(samples())
    for band in range(10, 24):
        got = step(tone(axes.band_hz[band]))
        assert got[:, got.shape[1] // 2].argmax() == band


def test_low_log_bands_are_not_deaf() -> None:
    """Bands narrower than a Fourier bin read between bins: every one hears white noise, and a low tone moves up."""
    step, axes = Spectrogram(scale="log", bands=48).build(samples())
    assert np.diff(axes.band_hz)[0] < 8000 / 256
    assert (step(noise(4000)) > 0).all()
    peaks = [int(step(tone(hz))[:, 25].argmax()) for hz in (125, 250, 500, 1000, 2000)]
    assert (np.diff(peaks) > 0).all()
