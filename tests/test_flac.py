"""FLAC without its length: counted from the frames, as libsndfile reads them when the length is there."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import CallerError, InvalidArgument
from streamfeat.signals.audio import decode_audio
from streamfeat.signals.flac import plain_flac

TONE = np.round(9000 * np.sin(np.arange(9000) / 5)).astype(np.int16)


def piped(data: bytes) -> bytes:
    """As an encoder leaves it that could not go back."""
    return data[:21] + bytes([data[21] & 0xF0]) + bytes(4) + data[26:]


def flac(samples: np.ndarray, subtype: str = "PCM_16", rate_hz: int = 8000) -> bytes:
    """Whole, from libFLAC."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format="FLAC", subtype=subtype)
    return buffer.getvalue()


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 20_000),
    n_channels=st.integers(1, 3),
    rate_hz=st.sampled_from([8000, 11_025, 12_345, 20_000, 44_100, 96_000, 655_350]),
    subtype=st.sampled_from(["PCM_S8", "PCM_16", "PCM_24"]),
    loud=st.sampled_from([0, 3, 30_000]),
)
def test_the_length_is_filled_in(n: int, n_channels: int, rate_hz: int, subtype: str, loud: int) -> None:
    """Silence, hum and noise, of any rate and width: the file to the bit as it is with its length."""
    noise = np.random.default_rng(n).integers(-loud, loud + 1, (n, n_channels)).astype(np.int16)
    whole = flac(noise, subtype, rate_hz)
    filled, odd = plain_flac(piped(whole), "f")
    assert filled == whole
    assert "piped" in odd[0]
    assert plain_flac(whole, "f") == (whole, ())
    np.testing.assert_array_equal(decode_audio(piped(whole)).frames, decode_audio(whole).frames)


def test_many_frames_have_numbers_of_several_bytes() -> None:
    """Over 127 frames the number takes two bytes, over 2047 three."""
    x = np.random.default_rng(0).integers(-3, 4, 2100 * 4096).astype(np.int16)
    assert plain_flac(piped(flac(x)), "f")[0] == flac(x)


@settings(deadline=None, max_examples=80)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), is_cut=st.booleans())
def test_damaged_it_is_refused_or_whole(at: float, bit: int, is_cut: bool) -> None:
    """Cut, it ends between two frames or is refused; a flipped bit gives no other samples."""
    data = bytearray(piped(flac(TONE)))
    place = 42 + int(at * (len(data) - 42))
    if is_cut:
        del data[place:]
    else:
        data[place] ^= 1 << bit
    try:
        frames = decode_audio(bytes(data)).frames[:, 0]
    except CallerError:
        return
    assert is_cut == (len(frames) < len(TONE))
    assert len(frames) % 4096 == 0 or len(frames) == len(TONE)
    np.testing.assert_array_equal(frames, TONE[: len(frames)])


def test_what_follows_the_frames_is_named() -> None:
    """A tag behind the last frame, or nothing but blocks of metadata."""
    data = piped(flac(TONE))
    for n_frames, other in ((3, data + b"TAG" + bytes(125)), (0, data[:60]), (0, data[:42] + b"\xff\xf8" * 99_999)):
        with pytest.raises(InvalidArgument, match=rf"^f: FLAC without its length .*whose {n_frames} frames do not go"):
            plain_flac(other, "f")


@settings(deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_counted_or_refused(data: bytes) -> None:
    """Nothing but a refusal."""
    try:
        plain_flac(b"fLaC\x80\0\0\x22" + bytes(34) + data, "f")
    except InvalidArgument as refused:
        reason = str(refused)
        assert reason.startswith("f: ")
