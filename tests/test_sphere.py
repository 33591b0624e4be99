"""SPHERE: what the header says is what is there, or the file is refused with both numbers."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals import encode_sphere, parse_header, read_sphere, write_sphere
from streamfeat.signals.sphere import ByteOrder, decode_sphere, encode_header
from tests.files import endless, shared, shorten, sphere_header
from tests.strategies import field_names, int16_frames, int16_samples

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
FIELDS: dict[str, str | int] = {
    "channel_count": 1,
    "sample_count": len(RAMP),
    "sample_rate": 20000,
    "sample_n_bytes": 2,
    "sample_byte_format": "01",
    "sample_coding": "pcm",
}
PACKED = "pcm,embedded-shorten-v2.00"


def made(samples: NDArray[np.int16] = RAMP, /, **changed: str | int | None) -> bytes:
    """The ramp as a SPHERE file with some fields changed, or left out when None."""
    fields = {k: v for k, v in {**FIELDS, **changed}.items() if v is not None}
    return sphere_header(fields) + samples.astype("<i2").tobytes()


@settings(deadline=None, max_examples=50)
@given(samples=int16_samples, rate_hz=st.integers(100, 768_000), order=st.sampled_from(["little", "big"]))
def test_what_is_encoded_is_read_back(samples: NDArray[np.int16], rate_hz: int, order: ByteOrder) -> None:
    """Samples and rate survive the file in both byte orders, as int16."""
    signal = read_sphere(encode_sphere(samples, rate_hz, byte_order=order))
    np.testing.assert_array_equal(signal.samples, samples)
    assert signal.samples.dtype == np.int16
    assert signal.rate_hz == rate_hz


def test_byte_orders_differ_in_the_file_only() -> None:
    """The big-endian file holds the swapped bytes and says so."""
    little, big = (encode_sphere(RAMP, 20000, byte_order=o) for o in ("little", "big"))
    assert big[1024:] == RAMP.byteswap().tobytes()
    assert parse_header(big)["sample_byte_format"] == "10"
    np.testing.assert_array_equal(read_sphere(little).samples, read_sphere(big).samples)


def test_write_sphere_writes_what_encode_gives(tmp_path: Path) -> None:
    """The file on disk is the encoded bytes, further fields first."""
    write_sphere(tmp_path / "1a.wav", RAMP, 20000, fields={"speaker_id": "ae"})
    data = (tmp_path / "1a.wav").read_bytes()
    assert data == encode_sphere(RAMP, 20000, fields={"speaker_id": "ae"})
    assert next(iter(parse_header(data))) == "speaker_id"


def test_encoding_keeps_its_own_fields() -> None:
    """A field made from the samples cannot be given, samples must be int16, the header must fit."""
    with pytest.raises(InvalidArgument, match="sample_count"):
        encode_sphere(RAMP, 20000, fields={"sample_count": 3})
    with pytest.raises(InvalidArgument, match="float64"):
        encode_sphere(RAMP / 2, 20000)
    with pytest.raises(InvalidArgument, match="1024"):
        encode_sphere(RAMP, 20000, fields={"note": "x" * 1000})


@settings(deadline=None, max_examples=50)
@given(
    fields=st.dictionaries(
        field_names,
        st.integers(-(10**17), 10**17)
        | st.floats(-1e30, 1e30)
        | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20),
        max_size=8,
    )
)
def test_headers_are_read_by_name(fields: dict[str, str | int | float]) -> None:
    """Any fields in any order come back with their types."""
    assert parse_header(encode_header(fields)) == fields


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
@example(data=b"")
@example(data=b"NIST_1A\n   1024\n")
@example(data=sphere_header({**FIELDS, "sample_coding": PACKED}) + b"ajkg")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing but InvalidArgument comes out, for bytes alone, after the magic, in a header and behind one."""
    header = sphere_header({**FIELDS, "sample_coding": PACKED})
    in_header = (b"NIST_1A\n   1024\n" + data).ljust(1024) + RAMP.tobytes()
    for candidate in (data, b"NIST_1A\n" + data, in_header, header + b"ajkg\x02" + data[:40]):
        with suppress(InvalidArgument):
            read_sphere(candidate, "x.wav")


def test_every_prefix_is_refused_until_whole() -> None:
    """A file cut anywhere is refused; with bytes to spare it is read exactly."""
    data = made(RAMP[:20], sample_count=20)
    for n in range(len(data)):
        with pytest.raises(InvalidArgument, match=r"^cut\.wav: "):
            read_sphere(data[:n], "cut.wav")
    for tail in (b"", b"\1", b"\1\2\3"):
        np.testing.assert_array_equal(read_sphere(data + tail).samples, RAMP[:20])


def test_truncation_names_both_numbers() -> None:
    """sample_count 200 over 120 samples is refused with both."""
    with pytest.raises(InvalidArgument, match=r"200 samples, 120 are there"):
        read_sphere(made(RAMP[:120]))


def test_missing_count_is_taken_from_the_size() -> None:
    """Without sample_count all samples are read."""
    np.testing.assert_array_equal(read_sphere(made(sample_count=None)).samples, RAMP)


def test_checksum_is_verified() -> None:
    """The right sum passes, any other is refused with both numbers."""
    total = int(RAMP.sum()) % 65536
    assert parse_header(encode_sphere(RAMP, 20000))["sample_checksum"] == total
    read_sphere(made(sample_checksum=total))
    with pytest.raises(InvalidArgument, match=f"{total + 1}.*{total}"):
        read_sphere(made(sample_checksum=total + 1))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sample_rate": None}, "no sample_rate"),
        ({"sample_rate": "fast"}, "sample_rate.*'fast'"),
        ({"sample_rate": 0}, "sample_rate"),
        ({"sample_byte_format": None}, "sample_byte_format"),
        ({"sample_byte_format": "1032"}, "1032"),
        ({"sample_n_bytes": None}, "sample_n_bytes"),
        ({"sample_n_bytes": 8}, "sample_n_bytes 8"),
        ({"sample_coding": "pcm,embedded-wavpack"}, "sample_coding.*wavpack"),
        ({"sample_coding": "celp"}, "sample_coding.*celp"),
        ({"sample_count": -5}, "sample_count.*-5"),
        ({"sample_count": 0}, "no samples"),
        ({"channel_count": 2, "sample_count": 100}, "one channel is needed, there are 2"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, str | int | None], words: str) -> None:
    """Each field that stops a file is named with what it says."""
    with pytest.raises(InvalidArgument, match=f"^f.wav: .*{words}"):
        read_sphere(made(**changed), "f.wav")


def test_damaged_headers_are_named() -> None:
    """Text-mode transfer, a length that is none, no end, a field twice, a string longer than declared."""
    damaged = {
        "CR LF": made().replace(b"\n", b"\r\n"),
        "line 2": made().replace(b"   1024", b"   many"),
        "9999 bytes": made().replace(b"   1024", b"   9999"),
        "end_head": made().replace(b"end_head", b"end_hand"),
        "sample_rate twice": made().replace(b"end_head", b"sample_rate -i 1\nend_head"),
        "3 characters": made(sample_coding=PACKED).replace(b"-s26", b"-s3"),
        "no field": made().replace(b"end_head", b"what?\nend_head"),
    }
    for words, data in damaged.items():
        with pytest.raises(InvalidArgument, match=re.escape(words)):
            read_sphere(data)


def test_channels_are_refused_mixed_or_picked() -> None:
    """Two channels: refused unless the caller says which or asks for the mean."""
    frames = np.stack([RAMP, -RAMP // 2], axis=1)
    data = encode_sphere(frames, 20000)
    with pytest.raises(InvalidArgument, match="mix"):
        read_sphere(data)
    np.testing.assert_array_equal(read_sphere(data, channels=1).samples, frames[:, 1])
    mixed = read_sphere(data, channels="mix").samples
    np.testing.assert_array_equal(mixed, (frames.sum(axis=1) / 65536).astype(np.float32))  # exact: 17 bits
    with pytest.raises(InvalidArgument, match="channel 2"):
        read_sphere(data, channels=2)


def test_companded_samples_follow_g711() -> None:
    """mu-law and A-law bytes become the values of the recommendation, whatever the law is called."""
    for law, code, value in (("ulaw", 0x80, 32124), ("mu-law", 0x00, -32124), ("alaw", 0xD5, 8), ("alaw", 0xAA, 32256)):
        fields = {**FIELDS, "sample_coding": law, "sample_n_bytes": 1, "sample_count": 3}
        signal = read_sphere(sphere_header(fields) + bytes([code] * 3))
        np.testing.assert_array_equal(signal.samples, np.full(3, value, np.int16))


@pytest.mark.parametrize("order", ["01", "10"])
def test_other_widths_keep_full_scale(order: str) -> None:
    """8-bit samples become int16; 24 and 32 bits become float32, -1.0 at the bottom."""
    for width, expected in ((1, [-32768, 16384]), (3, [-1.0, 0.5]), (4, [-1.0, 0.5])):
        values = [-(1 << (8 * width - 1)), 1 << (8 * width - 2)]
        body = b"".join(v.to_bytes(width, "little" if order == "01" else "big", signed=True) for v in values)
        fields = {**FIELDS, "sample_n_bytes": width, "sample_byte_format": order, "sample_count": 2}
        np.testing.assert_array_equal(read_sphere(sphere_header(fields) + body).samples, expected)


@settings(deadline=None, max_examples=30)
@given(frames=int16_frames, order=st.integers(0, 2), block=st.sampled_from([16, 64, 256]))
def test_embedded_shorten_is_exact(frames: NDArray[np.int16], order: int, block: int) -> None:
    """What the encoder packed is unpacked sample for sample, each channel in its place."""
    n, n_channels = frames.shape
    fields = {**FIELDS, "sample_coding": PACKED, "sample_count": n, "channel_count": n_channels}
    fields["sample_checksum"] = int(frames.sum()) % 65536
    data = sphere_header(fields) + shorten(frames.T.tolist(), order=order, block=block)
    for channel in range(n_channels):
        np.testing.assert_array_equal(read_sphere(data, channels=channel).samples, frames[:, channel])


def test_cut_shorten_is_refused() -> None:
    """A stream that ends early, holds too little or too many channels is refused; so is PCM called shorten."""
    stream = shorten([RAMP.tolist()])
    header = sphere_header({**FIELDS, "sample_coding": PACKED})
    for n in range(0, len(stream) - 1, 7):
        with pytest.raises(InvalidArgument, match="shorten"):
            read_sphere(header + stream[:n])
    with pytest.raises(InvalidArgument, match="shorten"):
        read_sphere(header + RAMP.tobytes())
    with pytest.raises(InvalidArgument, match="200 samples, 150 are there"):
        read_sphere(header + shorten([RAMP[:150].tolist()]))
    with pytest.raises(InvalidArgument, match="channel_count says 1, the shorten stream holds 2"):
        read_sphere(header + shorten([RAMP.tolist(), RAMP.tolist()]))


def test_shorten_made_by_others() -> None:
    """A stream with linear prediction from another encoder gives its 4096 samples; PCM in disguise is refused."""
    folder = shared("data", "awkward", "audio")
    assert len(read_sphere((folder / "derived_embedded_shorten.sph").read_bytes()).samples) == 4096
    with pytest.raises(InvalidArgument, match="shorten"):
        read_sphere((folder / "desphere_shorten_gate.sph").read_bytes())


@settings(deadline=None, max_examples=60)
@given(
    frames=int16_frames,
    width=st.integers(1, 4),
    big=st.booleans(),
    planar=st.booleans(),
    extra=st.binary(max_size=3),
    counted=st.booleans(),
    length=st.sampled_from([1024, 2048]),
    order=st.randoms(),
)
def test_every_layout_holds_the_same_samples(
    *,
    frames: NDArray[np.int16],
    width: int,
    big: bool,
    planar: bool,
    extra: bytes,
    counted: bool,
    length: int,
    order: random.Random,
) -> None:
    """1 to 4 bytes of either order, channels interleaved or one after the other, fields in any order, any header."""
    n, n_channels = frames.shape
    whole = frames.astype(np.int64) if width > 1 else frames.astype(np.int64) >> 4
    scaled = whole * 2 ** (8 * (width - 2)) if width > 2 else whole
    raw = (scaled.T if planar else scaled).reshape(-1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    fields: dict[str, str | int] = {
        "channel_count": n_channels,
        "sample_rate": 20000,
        "sample_n_bytes": width,
        "sample_byte_format": "0123"[:width][:: -1 if big else 1],
        "channels_interleaved": "FALSE" if planar else "TRUE",
    }
    if counted:
        fields["sample_count"] = n
    mixed = list(fields.items())
    order.shuffle(mixed)
    data = sphere_header(dict(mixed), length) + (raw[:, ::-1] if big else raw).tobytes()
    recording = decode_sphere(data + (extra if counted else b""))
    assert recording.frames.shape == (n, n_channels)
    got = recording.frames if width < 3 else recording.frames * 32768
    np.testing.assert_array_equal(got, whole if width > 1 else whole << 8)


def test_what_follows_the_count_is_told() -> None:
    """Whole samples after the last one counted: left out, with both numbers."""
    recording = decode_sphere(made(sample_count=150))
    assert len(recording.frames) == 150
    assert recording.warnings == ("sample_count says 150 samples, 200 are there: the rest is left out",)


def test_an_unknown_layout_of_channels_is_refused() -> None:
    """Neither TRUE nor FALSE."""
    two = np.stack([RAMP, RAMP], axis=1)
    with pytest.raises(InvalidArgument, match="channels_interleaved"):
        decode_sphere(made(two, channel_count=2, channels_interleaved="maybe"))


def test_a_few_bytes_do_not_become_minutes() -> None:
    """A shorten stream of zeros without end is refused at once, whether the header counts its samples or not."""
    for fields in ({}, {"sample_count": 1 << 27}, {"sample_count": 4000}):
        started = time.monotonic()
        with pytest.raises(InvalidArgument, match="shorten stream cannot be unpacked"):
            read_sphere(endless(block=1 << 14, **fields))
        assert time.monotonic() - started < 2  # the most a fuzzed input may take


def test_silence_is_unpacked() -> None:
    """Blocks of zeros, five bits each, as many as the header counts."""
    data = endless(n_blocks=40, block=256, sample_count=40 * 256)
    np.testing.assert_array_equal(read_sphere(data).samples, np.zeros(40 * 256))
