"""Containers beside RIFF: cut anywhere they are whole or refused; what their headers claim is held to what is there."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import CallerError, InvalidArgument
from streamfeat.signals import read_audio
from streamfeat.signals.audio import decode_audio
from streamfeat.signals.containers import plain_container
from streamfeat.signals.signal import FULL_SCALE

TONE = np.round(9000 * np.sin(np.arange(4000) / 5)).astype(np.int16)
FORMS = [("AIFF", "PCM_16"), ("AU", "PCM_16"), ("W64", "PCM_16"), ("CAF", "PCM_16"), ("FLAC", "PCM_16")]
LOSSY = [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]


def written(form: str, subtype: str) -> bytes:
    """The tone as a file of that form."""
    buffer = io.BytesIO()
    soundfile.write(buffer, TONE, 8000, format=form, subtype=subtype)
    return buffer.getvalue()


@pytest.mark.parametrize(("form", "subtype"), FORMS)
def test_the_samples_of_each(form: str, subtype: str) -> None:
    """To the bit; Wave64 counts its padding as samples."""
    np.testing.assert_array_equal(read_audio(written(form, subtype)).samples[: len(TONE)], TONE)


@pytest.mark.parametrize(("form", "subtype"), FORMS + LOSSY)
def test_cut_files_are_refused(form: str, subtype: str) -> None:
    """At forty places, the last ones within the samples: never a shorter recording."""
    data = written(form, subtype)
    whole = len(read_audio(data).samples)
    rng = np.random.default_rng(0)
    # the last MPEG frame may be filler: up to 144 bytes at this rate
    last = len(data) - (150 if form == "MP3" else 8)
    for n in sorted({*rng.integers(0, last, 40).tolist(), last}):
        try:
            assert len(read_audio(data[:n]).samples) == whole, n
        except CallerError:
            continue


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"FORM\0\0\0\4AIFF", "without an SSND chunk"),
        (b"FORM\0\0\0\4AIFFSSND\0\0\1\0" + bytes(9), "SSND chunk says 256 bytes, 9 are there"),
        (b".snd", "AU header of 4 bytes"),
        (b".snd" + struct.pack(">II", 24, 100) + bytes(20), "says 100 bytes, 8 are there"),
        (b"dns." + struct.pack("<II", 24, 100) + bytes(20), "says 100 bytes, 8 are there"),
        (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0" + bytes(30), "without a data chunk"),
        (b"caff\0\1\0\0", "without a data chunk"),
        (b"caff\0\1\0\0data" + struct.pack(">q", 50) + bytes(9), "says 50 bytes, 9 are there"),
        (b"OggS" + bytes(30), "no last page"),
    ],
)
def test_both_lengths_are_named(data: bytes, words: str) -> None:
    """What is claimed, and what is there."""
    with pytest.raises(InvalidArgument, match=f"^f: .*{words}"):
        plain_container(data, "f")


@pytest.mark.parametrize("data", [b".snd" + struct.pack(">II", 24, 0xFFFFFFFF), b"caff\0\1\0\0data" + b"\xff" * 8])
def test_unknown_lengths_pass(data: bytes) -> None:
    """AU and CAF have a value that says so."""
    plain_container(data, "f")


def samples(values: NDArray[np.int64], n_bytes: int, order: str) -> bytes:
    """Whole numbers, as many bytes each."""
    raw = values.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :n_bytes]
    return (raw if order == "<" else raw[:, ::-1]).tobytes()


def aiff(n_frames: int, body: bytes, *, n_channels: int = 1, bits: int = 16, coding: bytes = b"", **more: Any) -> bytes:
    """An AIFF, or AIFF-C with a coding, whose COMM says so many frames; `odd` chunks, `pad` bytes, `piped` lengths."""
    comm = struct.pack(">HIH", n_channels, n_frames, bits) + struct.pack(">HQ", 16383 + 12, 8000 << 51)
    comm += coding + b"\0\0" if coding else b""
    ssnd = struct.pack(">II", more.get("offset", 0), 0) + bytes(more.get("offset", 0)) + body
    pad = more.get("pad", b"\0")
    parts = [(b"COMM", comm), *more.get("odd", ()), (b"SSND", ssnd)]
    inside = b"AIFC" if coding else b"AIFF"
    for kind, chunk in parts:
        size = more["piped"] if kind == b"SSND" and "piped" in more else len(chunk)
        inside += kind + struct.pack(">I", size) + chunk + pad * (len(chunk) % 2)
    return b"FORM" + struct.pack(">I", more.get("piped", len(inside))) + inside


NAMES = st.sampled_from([b"NAME", b"ANNO", b"APPL", b"MARK"])


@st.composite
def aiffs(draw: st.DrawFn) -> tuple[bytes, NDArray[np.float64]]:
    """A file of random width, order, chunks, pad bytes and offset, and the samples in it at full scale 1.0."""
    n_bytes, n_channels, n_frames = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    little = n_bytes > 1 and draw(st.booleans())
    top = 1 << (8 * n_bytes - 1)
    values = np.random.default_rng(draw(st.integers(0, 1000))).integers(-top, top, n_frames * n_channels)
    data = aiff(
        n_frames,
        samples(values, n_bytes, "<" if little else ">"),
        n_channels=n_channels,
        bits=8 * n_bytes,
        coding=b"sowt" if little else b"",
        pad=draw(st.sampled_from([b"\0", b"", b"Z", b"\xff"])),  # should be zero, and is forgotten
        odd=draw(st.lists(st.tuples(NAMES, st.binary(max_size=7)), max_size=3)),
        offset=draw(st.integers(0, 5)),
    )
    return data, values.reshape(n_frames, n_channels) / top


@settings(deadline=None, max_examples=150)
@given(made=aiffs())
def test_aiff_samples_are_read_whatever_lies_about_them(made: tuple[bytes, NDArray[np.float64]]) -> None:
    """Every width, both orders, chunks of odd length with or without their pad byte, an offset within SSND."""
    frames = decode_audio(made[0]).frames
    np.testing.assert_allclose(frames / FULL_SCALE.get(frames.dtype.str, 1), made[1], rtol=1e-6)


def test_the_frames_of_an_aiff_are_counted() -> None:
    """More than are there: refused with both numbers; fewer: told; none or endless, as of a pipe: to the end."""
    x = np.arange(20, dtype=np.int64)
    body = samples(x, 2, ">")
    with pytest.raises(InvalidArgument, match="says 21 frames, 20 are in the SSND chunk"):
        decode_audio(aiff(21, body))
    fewer = decode_audio(aiff(13, body))
    np.testing.assert_array_equal(fewer.frames[:, 0], x[:13])
    assert fewer.warnings == ("7 frames after the 13 of the header: left out",)
    for n_said, piped in ((0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x7FFFFFFF, 0x7FFFFFFF), (20, 0), (0, 48)):
        piped_one = decode_audio(aiff(n_said, body, piped=piped))
        np.testing.assert_array_equal(piped_one.frames[:, 0], x)
        assert "piped" in piped_one.warnings[0]
        assert len(piped_one.warnings) == 1


@pytest.mark.parametrize(("coding", "bits", "dtype"), [(b"fl32", 32, ">f4"), (b"fl64", 64, ">f8"), (b"ulaw", 16, "u1")])
def test_codings_have_their_own_width(coding: bytes, bits: int, dtype: str) -> None:
    """What COMM says of bits is not always what a sample takes."""
    body = np.arange(12).astype(dtype).tobytes()
    assert decode_audio(aiff(12, body, bits=bits, coding=coding)).frames.shape == (12, 1)
    with pytest.raises(InvalidArgument, match="says 13 frames, 12 are"):
        decode_audio(aiff(13, body, bits=bits, coding=coding))


@settings(deadline=None, max_examples=60)
@given(
    order=st.sampled_from("<>"),
    n_bytes=st.integers(2, 4),
    offset=st.integers(24, 60),
    size=st.sampled_from([None, 0, -1]),
)
def test_au_is_read_from_its_offset_to_its_length(order: str, n_bytes: int, offset: int, size: int | None) -> None:
    """Both orders, a note of any length; a length that was never filled in is that of the file."""
    x = np.arange(-9, 9) << 8 * (n_bytes - 2)
    body = samples(x, n_bytes, order)
    said = len(body) if size is None else size & 0xFFFFFFFF
    words = struct.pack(f"{order}IIIII", offset, said, n_bytes + 1, 8000, 1)
    data = (b".snd" if order == ">" else b"dns.") + words + b"n" * (offset - 24) + body
    recording = decode_audio(data)
    read = recording.frames[:, 0] / FULL_SCALE.get(recording.frames.dtype.str, 1)
    np.testing.assert_allclose(read, x / 2.0 ** (8 * n_bytes - 1), rtol=1e-6)
    assert ("piped" in " ".join(recording.warnings)) == (size is not None)


def test_an_au_header_is_24_bytes_at_least() -> None:
    """Samples cannot begin within it."""
    with pytest.raises(InvalidArgument, match="says that it has 8 bytes"):
        decode_audio(b".snd" + struct.pack(">IIIII", 8, 4, 3, 8000, 1) + bytes(4))
