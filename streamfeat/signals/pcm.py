"""PCM as it comes out of a pipe: bytes in pieces of any size, mono samples out; a RIFF header is read on the way.

What `read_audio` does with a whole file cannot be done with one that has no end. So plain PCM and float are read here,
raw or in RIFF, one recording after another if they come so.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.recording import Channels, one_channel
from streamfeat.signals.riff import PIPED_BYTES, parse_format
from streamfeat.signals.signal import check_rate

ENCODINGS = {"u8": 1, "s16le": 2, "s16be": 2, "s24le": 3, "s32le": 4, "f32le": 4, "f64le": 8}
"""Name of an encoding (ffmpeg's) -> bytes a sample."""

_OF_RIFF = {(1, 8): "u8", (1, 16): "s16le", (1, 24): "s24le", (1, 32): "s32le", (3, 32): "f32le", (3, 64): "f64le"}


@dataclass(frozen=True)
class PcmFormat:
    """What the bytes mean."""

    rate_hz: int
    encoding: str = "s16le"
    n_channels: int = 1

    def __post_init__(self) -> None:
        check_rate(self.rate_hz, "PCM: ")
        if self.encoding not in ENCODINGS:
            raise InvalidArgument(f"encoding must be one of {', '.join(ENCODINGS)}, got {self.encoding!r}")
        if not 1 <= self.n_channels <= 64:
            raise InvalidArgument(f"1 to 64 channels are read, got {self.n_channels!r}")

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of each channel."""
        return ENCODINGS[self.encoding] * self.n_channels

    def frames(self, data: bytes) -> NDArray[Any]:
        """Whole frames as (n, n_channels): int16 as it is, all others float32 at full scale 1.0."""
        if self.encoding in ("s16le", "s16be"):
            frames = np.frombuffer(data, "<i2" if self.encoding == "s16le" else ">i2").astype("<i2")
        elif self.encoding in ("f32le", "f64le"):
            frames = np.frombuffer(data, f"<f{ENCODINGS[self.encoding]}").astype(np.float32)
        elif self.encoding == "u8":
            frames = (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128
        elif self.encoding == "s32le":
            frames = (np.frombuffer(data, "<i4") / 2.0**31).astype(np.float32)
        else:  # three bytes as the upper ones of four
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            frames = (wide.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
        return frames.reshape(-1, self.n_channels)


class PcmReader:
    """Bytes of a pipe, in pieces of any size -> mono samples.

    Parameters
    ----------
    format : PcmFormat, optional
        Of raw PCM. None: a RIFF header says it, and more recordings may follow the first if they are alike.
    channels : "refuse", "mix" or int
        As `read_audio`.
    name : str
        For messages to people.
    """

    def __init__(self, format: PcmFormat | None = None, *, channels: Channels = "refuse", name: str = "-") -> None:
        self.format = format
        self.channels = channels
        self.name = name
        self._raw = format is not None
        self._bytes = b""
        self._left: int | None = None
        """Bytes of the data chunk that are still to come, `PIPED_BYTES` where it has no end; None outside of one."""
        self._pad = 0
        self._to_skip = 0
        self._begun = False

    def feed(self, data: bytes) -> NDArray[Any]:
        """The samples that are whole with these bytes, (n,): int16 or float32.

        Raises
        ------
        InvalidArgument
            No RIFF header where one is needed, a codec that is not PCM, several channels and "refuse".
        """
        self._bytes += data
        parts = []
        while (part := self._part()) is not None:
            parts.append(part)
        return np.concatenate(parts) if parts else np.zeros(0, "<i2")

    def close(self) -> None:
        """Say that nothing more will come.

        Raises
        ------
        InvalidArgument
            There was no header, or it was cut short.
        """
        if not self._raw and self.format is None:
            raise InvalidArgument(f"{self.name}: ended before its RIFF header did; raw PCM needs its rate and format")

    def _part(self) -> NDArray[Any] | None:
        """Samples, or an empty array for a piece of header; None when more bytes are needed."""
        if self._raw:
            return self._samples(len(self._bytes))
        if self._to_skip:
            n = min(self._to_skip, len(self._bytes))
            self._take(n)
            self._to_skip -= n
            return np.zeros(0, "<i2") if n else None
        if self._left is not None:
            return self._data()
        return np.zeros(0, "<i2") if self._header() else None

    def _data(self) -> NDArray[Any] | None:
        """Samples of the data chunk; a frame that it cuts short is left out with its pad byte."""
        assert self._left is not None
        assert self.format is not None
        if self._left < self.format.frame_bytes:
            self._to_skip, self._left = self._left + self._pad, None
            return np.zeros(0, "<i2")
        before = len(self._bytes)
        part = self._samples(min(before, self._left))
        if self._left < PIPED_BYTES:
            self._left -= before - len(self._bytes)
        return part

    def _samples(self, n_bytes: int) -> NDArray[Any] | None:
        assert self.format is not None
        n = n_bytes - n_bytes % self.format.frame_bytes
        return one_channel(self.format.frames(self._take(n)), self.channels, self.name) if n else None

    def _header(self) -> bool:
        """Read one piece of header; False when more bytes are needed."""
        if len(self._bytes) < (8 if self._begun else 12):
            return False
        kind, (size,) = self._bytes[:4], struct.unpack_from("<I", self._bytes, 4)
        if not self._begun or kind == b"RIFF":
            if len(self._bytes) < 12:
                return False
            if kind != b"RIFF" or self._bytes[8:12] != b"WAVE":
                raise InvalidArgument(
                    f"{self.name}: no RIFF header, it begins with {bytes(self._bytes[:8])!r}; raw PCM needs its rate "
                    "and format, and a file of another kind (SPHERE, FLAC ...) is read by its name, not from a pipe"
                )
            self._begun = True
            self._take(12)
        elif kind == b"fmt ":
            if len(self._bytes) < 8 + min(size, 64):
                return False
            self._learn(self._bytes[8 : 8 + min(size, 64)])
            self._take(8)
            self._to_skip = size + size % 2
        elif kind == b"data":
            if self.format is None:
                raise InvalidArgument(f"{self.name}: a RIFF data chunk before its fmt chunk; no recording")
            self._take(8)
            self._left, self._pad = PIPED_BYTES if size == 0 else min(size, PIPED_BYTES), size % 2
        else:
            self._take(8)
            self._to_skip = size + size % 2
        return True

    def _learn(self, head: bytes) -> None:
        codec, n_channels, rate_hz, _, n_bits = parse_format(head, self.name)
        encoding = _OF_RIFF.get((codec, n_bits))
        if encoding is None:
            raise InvalidArgument(
                f"{self.name}: RIFF with codec 0x{codec:04x} of {n_bits} bits is not read from a pipe; give the file, "
                "or convert it to PCM"
            )
        found = PcmFormat(rate_hz, encoding, n_channels)
        if self.format is not None and found != self.format:
            raise InvalidArgument(f"{self.name}: began as {self.format}, goes on as {found}; a stream is of one format")
        self.format = found

    def _take(self, n: int) -> bytes:
        taken, self._bytes = self._bytes[:n], self._bytes[n:]
        return taken
