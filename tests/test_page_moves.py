"""Sliders of the page, and what is drawn of a signal."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from streamfeat.errors import InvalidArgument
from streamfeat.page.drawing import picture, sound
from streamfeat.page.moves import MOVES, moved
from streamfeat.signals import Signal, read_audio

TONE = Signal("audio", np.sin(2 * np.pi * 440 * np.arange(8000) / 8000).astype(np.float32), 8000, "tone.wav")


def loudest_hz(signal: Signal) -> float:
    """Frequency of the largest line of the spectrum."""
    spectrum = np.abs(np.fft.rfft(signal.unit_scale()))
    return float(np.fft.rfftfreq(signal.samples.size, 1 / 8000)[spectrum.argmax()])


@pytest.mark.parametrize("name", list(MOVES))
def test_the_still_amount_is_the_signal_itself(name: str) -> None:
    """And it is among the amounts that a curve is drawn through."""
    signal = TONE if MOVES[name].kind == "audio" else Signal("image", np.eye(5, dtype=np.float32))
    assert moved(signal, name, MOVES[name].still) is signal
    assert MOVES[name].still in MOVES[name].amounts


def test_pitch_and_tempo_move_a_tone() -> None:
    """600 cents: a factor sqrt(2) in frequency at the same length; tempo: another length at the same frequency."""
    higher = moved(TONE, "pitch", 600.0)
    assert higher.samples.size == TONE.samples.size
    assert loudest_hz(higher) == pytest.approx(440 * 2**0.5, rel=0.02)  # the vocoder's bins
    faster = moved(TONE, "tempo", 1.5)
    assert faster.samples.size == pytest.approx(8000 / 1.5, abs=1)
    assert loudest_hz(faster) == pytest.approx(440, rel=0.02)


@pytest.mark.parametrize("shape", [(9, 9), (9, 9, 3)])
def test_a_quarter_turn_is_exact_and_others_keep_the_ground(shape: tuple[int, ...]) -> None:
    """Anticlockwise, as rot90 turns; what comes in at the corners is as the border is."""
    x = np.full(shape, 0.25, np.float32)
    x[2:5, 3:7] = 1.0
    assert np.allclose(moved(Signal("image", x), "angle", 90.0).samples, np.rot90(x), atol=1e-6)
    turned = moved(Signal("image", x), "angle", 45.0).samples
    assert np.allclose(turned[0, 0], 0.25)


@pytest.mark.parametrize(
    ("name", "amount", "said"),
    [("pich", 0.0, "pitch"), ("angle", 0.0, "image"), ("pitch", 601.0, "601"), ("tempo", float("nan"), "nan")],
)
def test_what_no_slider_does_is_refused(name: str, amount: float, said: str) -> None:
    """An unknown move, one of another kind of signal, an amount beyond the ends."""
    with pytest.raises(InvalidArgument, match=said):
        moved(TONE, name, amount)


def pixels_of(url: str) -> Image.Image:
    """The picture in a data URL."""
    return Image.open(io.BytesIO(base64.b64decode(url.removeprefix("data:image/png;base64,"))))


def test_pictures_fit_and_show_what_is_there() -> None:
    """A small picture is magnified pixel by pixel, a spectrogram has the tone where it is; both within the side."""
    dots = pixels_of(picture(Signal("image", np.eye(4, dtype=np.float32)), 64))
    assert dots.size == (64, 64)
    assert (np.asarray(dots)[::16, ::16] == 255 * np.eye(4)).all()
    heat = np.asarray(pixels_of(picture(TONE, 320))).astype(int).sum(axis=2)
    assert heat.shape == (200, 320)
    row = int(heat[:, 100:200].mean(axis=1).argmax())
    assert 1 - row / 200 == pytest.approx(440 / 4000, abs=0.02)  # of half the rate, from the bottom


def test_sound_is_the_recording() -> None:
    """A WAV of the same samples, to 16 bits."""
    heard = read_audio(base64.b64decode(sound(TONE).removeprefix("data:audio/wav;base64,")), name="x.wav")
    assert heard.rate_hz == 8000
    assert np.abs(heard.unit_scale() - TONE.samples).max() < 2 / 32768
