"""PCM out of a pipe: every encoding, RIFF headers, pieces of any size, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.pcm import ENCODINGS, PcmFormat, PcmReader
from tests.files import pcm_format, riff, wav16

SAMPLES = np.array([0, 1, -1, 256, -256, 32767, -32768, 12345], "<i2")


def read(reader: PcmReader, data: bytes, size: int) -> NDArray[np.float32]:
    """All samples at full scale 1.0, the bytes fed in pieces of this size."""
    parts = [reader.feed(data[at : at + size]) for at in range(0, len(data), size)]
    reader.close()
    return np.concatenate([p / np.float32(32768) if p.dtype == np.int16 else p for p in parts]).astype(np.float32)


def written(encoding: str) -> bytes:
    """SAMPLES in an encoding."""
    wide = SAMPLES.astype("<i4")
    return {
        "u8": ((wide >> 8) + 128).astype(np.uint8).tobytes(),
        "s16le": SAMPLES.tobytes(),
        "s16be": SAMPLES.astype(">i2").tobytes(),
        "s24le": b"".join(struct.pack("<i", int(x) << 8)[:3] for x in wide),
        "s32le": (wide << 16).tobytes(),
        "f32le": (wide / 32768).astype("<f4").tobytes(),
        "f64le": (wide / 32768).astype("<f8").tobytes(),
    }[encoding]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_raw_pcm_is_read_whatever_the_pieces(encoding: str, size: int) -> None:
    """The same samples from every encoding; 8 bits keep the upper byte."""
    wanted = ((SAMPLES >> 8) << 8 if encoding == "u8" else SAMPLES) / np.float32(32768)
    np.testing.assert_array_equal(read(PcmReader(PcmFormat(8000, encoding)), written(encoding), size), wanted)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_riff_says_its_format(size: int) -> None:
    """Chunks before and after the data are passed over, odd ones with their pad; a second recording follows."""
    extra = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    one = riff(pcm_format(11_025), SAMPLES.tobytes(), before=extra)
    reader = PcmReader()
    got = read(reader, one + extra + one, size)
    np.testing.assert_array_equal(got, np.tile(SAMPLES, 2) / np.float32(32768))
    assert reader.format == PcmFormat(11_025)


@pytest.mark.parametrize("said", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_data_chunk_without_its_length_goes_on_to_the_end(said: int) -> None:
    """As programs write that do not know it yet."""
    got = read(PcmReader(), riff(pcm_format(8000), SAMPLES.tobytes(), data_size=said), 5)
    np.testing.assert_array_equal(got, SAMPLES / np.float32(32768))


def test_an_odd_chunk_of_8_bits_ends_before_its_pad_byte() -> None:
    """Three samples, and a second recording after them."""
    one = riff(pcm_format(8000, n_bytes=1), b"\x80\xff\x00")
    np.testing.assert_array_equal(read(PcmReader(), one + one, 1), np.tile([0, 127 / 128, -1], 2).astype(np.float32))


def test_channels_are_mixed_or_picked() -> None:
    """Frame by frame; several are refused unless told."""
    two = riff(pcm_format(8000, 2), SAMPLES.tobytes())
    np.testing.assert_array_equal(read(PcmReader(channels=1), two, 3), SAMPLES[1::2] / np.float32(32768))
    np.testing.assert_array_equal(read(PcmReader(channels="mix"), two, 3)[:2], np.array([0.5, 127.5]) / 32768)
    with pytest.raises(InvalidArgument, match="one channel is needed"):
        read(PcmReader(), two, 3)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (SAMPLES.tobytes(), "raw PCM needs its rate"),
        (b"NIST_1A\n   1024\n", r"begins with b'NIST_1A.n'; .* is read by its name"),
        (b"", "ended before its RIFF header"),
        (wav16(SAMPLES, 8000)[:30], "ended before its RIFF header"),
        (riff(pcm_format(8000, n_bytes=1, tag=7), b"abcd"), "codec 0x0007"),
        (riff(pcm_format(8000, tag=0x55), b"abcd"), "MPEG"),
        (wav16(SAMPLES, 8000) + wav16(SAMPLES, 16_000), "one format"),
    ],
)
def test_what_is_no_pcm_is_refused(data: bytes, said: str) -> None:
    """With what is needed."""
    with pytest.raises(InvalidArgument, match=said):
        read(PcmReader(), data, 4)


@pytest.mark.parametrize(
    "wrong", [{"rate_hz": 0}, {"rate_hz": 8000, "encoding": "mp3"}, {"rate_hz": 8000, "n_channels": 0}]
)
def test_formats_are_checked(wrong: dict[str, int | str]) -> None:
    """Rate, encoding, channels."""
    with pytest.raises(InvalidArgument):
        PcmFormat(**wrong)  # type: ignore[arg-type]
