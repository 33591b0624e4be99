"""RIFF: whatever order and size its chunks have, the samples are those that were put in, or the file is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.audio import decode_audio
from streamfeat.signals.riff import plain_riff
from tests.files import pcm_format, riff

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
WIDTHS = {"u1": (1, 1), "i2": (1, 2), "i3": (1, 3), "i4": (1, 4), "f4": (3, 4), "f8": (3, 8)}
"""Codec and bytes a sample of each kind."""

GUID_TAIL = bytes.fromhex("800000aa00389b71")


def stored(values: NDArray[np.float64], kind: str, order: str) -> tuple[bytes, NDArray[np.float64]]:
    """Values at full scale 1.0 as samples of a kind, and what they are worth after rounding to it."""
    if kind.startswith("f"):
        x = values.astype(f"{order}{kind}")
        return x.tobytes(), x.astype(np.float64)
    bits = 8 * WIDTHS[kind][1]
    whole = np.clip(np.round(values * 2 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype(np.int64)
    if kind == "u1":
        return (whole + 128).astype(np.uint8).tobytes(), whole / 128
    raw = whole.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : bits // 8]
    return (raw if order == "<" else raw[:, ::-1]).tobytes(), whole / 2 ** (bits - 1)


def chunk(kind: bytes, body: bytes, order: str, *, padded: bool = True, pad: bytes = b"\0") -> bytes:
    """A chunk, with its pad byte unless it is forgotten."""
    return kind + struct.pack(f"{order}I", len(body)) + body + pad * (len(body) % 2 * padded)


@st.composite
def wavs(draw: st.DrawFn) -> tuple[bytes, NDArray[np.float64], int]:
    """A file of random format, chunks and order; the values in it; its rate."""
    order = draw(st.sampled_from("<>"))
    kind = draw(st.sampled_from(sorted(WIDTHS)))
    codec, width = WIDTHS[kind]
    n_channels, n_frames = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    rate_hz = draw(st.integers(100, 192_000))
    seed = draw(st.integers(0, 1000))
    body, values = stored(np.random.default_rng(seed).uniform(-1, 1, n_channels * n_frames), kind, order)
    head = pcm_format(rate_hz, n_channels, width, codec, order)
    if draw(st.booleans()):
        guid = struct.pack(f"{order}IHH", codec, 0, 16) + GUID_TAIL
        if draw(st.booleans()):
            guid = struct.pack("<IHH", codec, 0, 16) + GUID_TAIL
        head = pcm_format(rate_hz, n_channels, width, 0xFFFE, order)
        head += struct.pack(f"{order}HHI", 22, 8 * width, 0) + guid
    padded = draw(st.booleans())
    pad = draw(st.sampled_from([b"\0", b"\xff", b"Z", b" "]))  # should be zero
    junk = st.tuples(st.sampled_from([b"LIST", b"JUNK", b"bext", b"id3 ", b"fact"]), st.binary(max_size=7))
    others = [chunk(name, text, order, padded=padded, pad=pad) for name, text in draw(st.lists(junk, max_size=3))]
    own = [chunk(b"fmt ", head, order), chunk(b"data", body, order, padded=padded, pad=pad)]
    if draw(st.booleans()):
        own.reverse()
    parts = [own[0], *others, own[1]] if draw(st.booleans()) else [*others, *own]
    inside = b"WAVE" + b"".join(parts)
    form = b"RIFF" if order == "<" else b"RIFX"
    return form + struct.pack(f"{order}I", len(inside)) + inside, values.reshape(n_frames, n_channels), rate_hz


@settings(deadline=None, max_examples=150)
@given(made=wavs())
def test_samples_are_read_whatever_lies_about_them(made: tuple[bytes, NDArray[np.float64], int]) -> None:
    """Every width and byte order, `fmt ` first or last, odd chunks with and without their pad byte."""
    data, values, rate_hz = made
    recording = decode_audio(data)
    assert recording.rate_hz == rate_hz
    scale = 32768 if recording.frames.dtype == np.int16 else 1
    np.testing.assert_allclose(recording.frames / scale, values, rtol=0, atol=2**-24)  # float32's step under 1


@settings(deadline=None, max_examples=100)
@given(made=wavs(), at=st.floats(0, 1))
def test_cut_anywhere_it_is_whole_or_refused(made: tuple[bytes, NDArray[np.float64], int], at: float) -> None:
    """Never a shorter recording."""
    data, values, _ = made
    try:
        recording = decode_audio(data[: int(at * len(data))])
    except InvalidArgument:
        return
    assert recording.frames.shape == values.shape


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("n_more", [0, 1])
def test_piped_sizes_are_read_to_the_end(size: int, n_more: int) -> None:
    """A length that was never filled in; what is no whole frame at the end is left out with a word."""
    data = riff(pcm_format(8000), RAMP.tobytes() + b"\1" * n_more, data_size=size)
    data = data[:4] + struct.pack("<I", min(size, 0xFFFFFFFF)) + data[8 : len(data) - n_more]
    recording = decode_audio(data)
    np.testing.assert_array_equal(recording.frames[:, 0], RAMP)
    assert "piped" in recording.warnings[0]
    assert len(recording.warnings) == 1 + n_more


def test_an_empty_data_chunk_is_no_piped_one() -> None:
    """With a RIFF length that knows the file, 0 is 0: what follows is no sample."""
    inside = b"WAVE" + chunk(b"fmt ", pcm_format(8000), "<") + chunk(b"data", b"", "<") + chunk(b"LIST", b"text", "<")
    with pytest.raises(InvalidArgument, match="no samples"):
        decode_audio(b"RIFF" + struct.pack("<I", len(inside)) + inside)


def test_64_bit_lengths() -> None:
    """RF64 and BW64 keep the length of the data in ds64; a longer one than is there is refused with both."""
    for form in (b"RF64", b"BW64"):
        for n_said in (RAMP.nbytes, RAMP.nbytes + 2):
            ds64 = chunk(b"ds64", struct.pack("<QQQI", 0, n_said, len(RAMP), 0), "<")
            inside = b"WAVE" + ds64 + chunk(b"fmt ", pcm_format(8000), "<") + b"data\xff\xff\xff\xff" + RAMP.tobytes()
            data = form + b"\xff\xff\xff\xff" + inside
            if n_said == RAMP.nbytes:
                np.testing.assert_array_equal(decode_audio(data).frames[:, 0], RAMP)
            else:
                with pytest.raises(InvalidArgument, match="says 402 bytes, 400 are there"):
                    decode_audio(data)


@pytest.mark.parametrize("tag", [6, 7])
def test_companded_codes(tag: int) -> None:
    """All 256 codes of A-law and mu-law: symmetric, the loudest and the softest as in G.711."""
    codes = np.arange(256, dtype=np.uint8)
    x = decode_audio(riff(pcm_format(8000, n_bytes=1, tag=tag), codes.tobytes())).frames[:, 0] * 32768
    np.testing.assert_array_equal(np.sort(x), np.sort(-x))
    assert np.abs(x).max() == (32256 if tag == 6 else 32124)
    assert x[0xD5 if tag == 6 else 0xFF] == (8 if tag == 6 else 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"RIFF\x04\0\0\0WAVE", "without a fmt chunk"),
        (b"RIFF\x04\0\0\0WAVE" + chunk(b"fmt ", pcm_format(8000), "<"), "without a data chunk"),
        (riff(pcm_format(8000)[:12], b"\0\0"), "fmt chunk has 12 bytes"),
        (riff(pcm_format(8000, tag=0xFFFE), b"\0\0"), "extensible fmt chunk has 40 bytes, got 16"),
        (riff(pcm_format(0), b"\0\0"), "1 channels at 0 Hz"),
        (riff(struct.pack("<HHIIHH", 1, 2, 8000, 64000, 8, 24), bytes(16)), "24 bits, and 4 bytes a sample"),
        (b"RIFF\0\0\0\0WAVEfmt \0\0\xa0\0abc", "fmt chunk says 10485760 bytes, 3 are there"),
    ],
)
def test_what_is_missing_is_named(data: bytes, words: str) -> None:
    """By the chunk."""
    with pytest.raises(InvalidArgument, match=f"^f: .*{words}"):
        plain_riff(data, "f")


def test_the_plain_file_has_three_chunks_at_most() -> None:
    """What libsndfile gets: fmt, fact where it counts, and data, with true lengths."""
    fact: Any = chunk(b"fact", struct.pack("<I", 200), "<")
    before = fact + chunk(b"JUNK", b"x" * 99, "<")
    plain, _ = plain_riff(riff(pcm_format(8000), RAMP.tobytes(), before=before), "f")
    assert plain == riff(pcm_format(8000), RAMP.tobytes())
    adpcm = pcm_format(8000, n_bytes=1, tag=0x11)
    plain, _ = plain_riff(riff(adpcm, RAMP.tobytes(), before=before), "f")
    assert plain == riff(adpcm, RAMP.tobytes(), before=fact)
