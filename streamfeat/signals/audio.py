"""Recordings: any file libsndfile knows, and SPHERE, become mono signals. What a file is, its content decides.

libsndfile reads a WAV that is cut short without a word, and calls MP3 in a RIFF file "not a regular file". So the
RIFF chunks are looked at first: what they declare is held against what is there.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.signal import Channels, Signal, one_channel, read_source
from streamfeat.signals.sphere import is_sphere, read_sphere

BLOCK_FRAMES = 1 << 18
"""Read at a time: memory follows what is decoded, not what a header promises."""

PIPED_BYTES = 0x7FFFF000
"""Data lengths from here up were written by a program that could not know them; the data ends with the file."""

_CODECS = {1, 2, 3, 6, 7, 0x11, 0x31, 0x40, 0xFFFE}  # PCM, ADPCM, float, G.711, IMA, GSM, G.721, extensible
_REFUSED = {
    0x50: "MPEG layer 1 or 2",
    0x55: "MPEG layer 3",
    0xFF: "AAC",
    0x160: "WMA 1",
    0x161: "WMA 2",
    0x162: "WMA 9",
}


class _Riff(NamedTuple):
    """What the chunks of a RIFF file declare; None where a chunk is missing."""

    codec: int | None
    data_bytes: int | None
    data_start: int


def read_audio(source: Path | str | bytes, *, name: str | None = None, channels: Channels = "refuse") -> Signal:
    """The recording in a file or in a file's bytes.

    Parameters
    ----------
    source : path or bytes
    name : str, optional
        What messages and the signal call it; the path when not given.
    channels : "refuse", "mix" or int
        What becomes of several channels: see `one_channel`.

    Returns
    -------
    Signal
        int16 for 16-bit files (and the companded SPHERE codings), otherwise float32 at full scale 1.0, at the
        file's own rate: nothing is resampled here.

    Raises
    ------
    InvalidArgument
        Beginning with the name: cannot be read, empty, not audio (with its first bytes), a codec that is not read,
        cut short (with both lengths), several channels, NaN or infinity (with the index).
    """
    data, name = read_source(source, name)
    if is_sphere(data):
        return read_sphere(data, name, channels=channels)
    if data[:4] in (b"RIFF", b"RIFX", b"RF64") and data[8:12] == b"WAVE":
        _check_riff(data, name)
    frames, rate_hz = _decode(data, name)
    return Signal("audio", one_channel(frames, channels, name), rate_hz=rate_hz, name=name)


def _check_riff(data: bytes, name: str) -> None:
    riff = _riff(data)
    if riff.codec is not None and riff.codec not in _CODECS:
        known = f" ({_REFUSED[riff.codec]})" if riff.codec in _REFUSED else ""
        raise InvalidArgument(f"{name}: RIFF with codec 0x{riff.codec:04x}{known} is not read; convert it to PCM")
    if riff.data_bytes is None or riff.data_bytes >= PIPED_BYTES:
        return
    there = len(data) - riff.data_start
    if there < riff.data_bytes:
        raise InvalidArgument(
            f"{name}: the data chunk says {riff.data_bytes} bytes, {there} are there; copy the cut file again"
        )


def _riff(data: bytes) -> _Riff:
    """Walk the chunks up to `data`. What is not found is left to libsndfile to judge."""
    order = ">" if data[:4] == b"RIFX" else "<"
    codec: int | None = None
    long_bytes: int | None = None
    at = 12
    while at + 8 <= len(data):
        kind, (size,) = data[at : at + 4], struct.unpack_from(f"{order}I", data, at + 4)
        at += 8
        if kind == b"data":
            return _Riff(codec, size if long_bytes is None else long_bytes, at)
        if kind == b"fmt " and at + 2 <= len(data):
            (codec,) = struct.unpack_from(f"{order}H", data, at)
        if kind == b"ds64" and at + 16 <= len(data):  # RF64 keeps the length of `data` here
            (long_bytes,) = struct.unpack_from("<Q", data, at + 8)
        at += size + size % 2
    return _Riff(codec, None, len(data))


@contextlib.contextmanager
def _held(data: bytes) -> Iterator[int]:
    """The descriptor of a file in memory that holds these bytes, at its beginning."""
    with open(os.memfd_create("recording"), "w+b", buffering=0) as file:  # noqa: PTH123 - a descriptor, no path
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        file.seek(0)
        yield file.fileno()


def _decode(data: bytes, name: str) -> tuple[NDArray[Any], int]:
    """Frames (n, n_channels), int16 or float32, and their rate."""
    try:
        # a file in memory, for libsndfile to read by itself: reading from a BytesIO it would call back into Python for
        # every block, and Ctrl-C in such a callback is lost
        with _held(data) as descriptor, soundfile.SoundFile(descriptor, closefd=False) as file:
            dtype = "int16" if file.subtype == "PCM_16" else "float32"
            blocks = [file.read(BLOCK_FRAMES, dtype=dtype, always_2d=True)]
            while len(blocks[-1]) == BLOCK_FRAMES:
                blocks.append(file.read(BLOCK_FRAMES, dtype=dtype, always_2d=True))
            rate_hz, n_said = int(file.samplerate), int(file.frames)
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip().rstrip(".")
        raise InvalidArgument(
            f"{name}: not audio that can be read ({reason}); it begins with {data[:16]!r}. Convert it to WAV or FLAC"
        ) from error
    frames = np.concatenate(blocks)
    if len(frames) < n_said:
        raise InvalidArgument(f"{name}: says {n_said} frames, {len(frames)} are there; the file is cut short")
    return frames, rate_hz
