"""Recordings: any file libsndfile knows, and SPHERE, become mono signals. What a file is, its content decides.

libsndfile reads files that are cut short without a word. So what a header declares is held against what is there
first: RIFF in `riff`, the other containers in `containers`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.signals.containers import plain_container
from streamfeat.signals.foreign import refuse_foreign
from streamfeat.signals.recording import Channels, Recording
from streamfeat.signals.riff import is_riff, plain_riff
from streamfeat.signals.signal import Signal, read_source
from streamfeat.signals.sphere import decode_sphere, is_sphere

BLOCK_FRAMES = 1 << 18
"""Read at a time: memory follows what is decoded, not what a header promises."""

MAX_VALUES = 1 << 28
"""Values that are kept of one recording, channels counted: an hour of stereo at 37 kHz, 1 GiB as float32."""

FORMATS = ("WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "FLAC", "OGG", "MP3")
"""What of libsndfile is used: formats that say what they are, and whose length can be checked."""


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
    TooLarge
        Over `MAX_FILE_BYTES` or `MAX_VALUES`.
    """
    return decode_audio(source, name=name).signal(channels)


def decode_audio(source: Path | str | bytes, *, name: str | None = None) -> Recording:
    """All channels of the recording in a file or in a file's bytes, with what was odd about it; see `read_audio`."""
    data, name = read_source(source, name)
    refuse_foreign(data, name)
    if is_sphere(data):
        return decode_sphere(data, name)
    if is_riff(data):
        plain, warnings = plain_riff(data, name)
    else:
        plain, warnings = plain_container(data, name)
    frames, rate_hz = _decode(plain, data[:16], name)
    return Recording(frames, rate_hz, name, warnings)


@contextlib.contextmanager
def _held(data: bytes) -> Iterator[int]:
    """The descriptor of a file in memory that holds these bytes, at its beginning."""
    with open(os.memfd_create("recording"), "w+b", buffering=0) as file:  # noqa: PTH123 - a descriptor, no path
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        file.seek(0)
        yield file.fileno()


def _decode(data: bytes, head: bytes, name: str) -> tuple[NDArray[Any], int]:
    """Frames (n, n_channels), int16 or float32, and their rate."""
    try:
        # a file in memory, for libsndfile to read by itself: reading from a BytesIO it would call back into Python for
        # every block, and Ctrl-C in such a callback is lost
        with _held(data) as descriptor, soundfile.SoundFile(descriptor, closefd=False) as file:
            if file.format not in FORMATS:
                raise InvalidArgument(f"{name}: {file.format_info} is not read; convert it to WAV or FLAC")
            blocks = list(_blocks(file, name))
            rate_hz, n_said = int(file.samplerate), int(file.frames)
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip().rstrip(".")
        raise InvalidArgument(
            f"{name}: not audio that can be read ({reason}); it begins with {head!r}. Convert it to WAV or FLAC"
        ) from error
    frames = np.concatenate(blocks)
    if len(frames) < n_said:
        raise InvalidArgument(f"{name}: says {n_said} frames, {len(frames)} are there; the file is cut short")
    return frames, rate_hz


def _blocks(file: soundfile.SoundFile, name: str) -> Iterator[NDArray[Any]]:
    """All frames, block by block, as long as they are within the limit."""
    dtype = "int16" if file.subtype == "PCM_16" else "float32"
    n_values = 0
    while True:
        block = file.read(BLOCK_FRAMES, dtype=dtype, always_2d=True)
        n_values += block.size
        if n_values > MAX_VALUES:
            raise TooLarge(f"{name}: over the limit of {MAX_VALUES} values of all channels; cut the recording in parts")
        yield block
        if len(block) < BLOCK_FRAMES:
            return
