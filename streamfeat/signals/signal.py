"""The signal: one recording, one picture or one array of numbers, checked once, where it enters."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, TooLarge

SAMPLE_DTYPES = ("<i2", "<f4", "<f8", "|u1", "<u2")
"""What samples may be made of, on the wire and in memory. Byte order is part of the name."""

FULL_SCALE = {"<i2": 32768.0, "|u1": 255.0, "<u2": 65535.0}
"""Value that stands for 1.0 in an integer signal; floats are at full scale 1.0 already."""

Kind = Literal["audio", "image", "array"]

MAX_FILE_BYTES = 1 << 29
"""A larger file is refused unread: ten minutes of six channels at 48 kHz and 24 bits have 518 million bytes."""

_UNSEEN = ("Cc", "Zl", "Zp")
"""Unicode categories of what is no character to look at: controls, and ends of lines and paragraphs."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A finite waveform at a known rate, a finite image of a known layout, or finite numbers of no kind.

    Parameters
    ----------
    kind : "audio", "image" or "array"
        An array is what is neither heard nor seen: a Coulomb matrix, a one-hot sequence, a descriptor.
    samples : ndarray
        audio: (n,) mono, int16 or float; image: (h, w) grey or (h, w, 3) RGB, uint8, uint16 or float;
        array: (n,) or (r, c), float.
        Little-endian, C order, at least one sample.
    rate_hz : int, optional
        Samples a second; audio only, and always there for audio.
    name : str
        Where it came from, for messages to people.

    Raises
    ------
    InvalidArgument
        Wrong shape, dtype or rate; NaN or infinity, with the first bad index.
    """

    kind: Kind
    samples: NDArray[Any] = field(repr=False)
    rate_hz: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        x = self.samples
        where = f"{self.name}: " if self.name else ""
        if x.dtype.str not in SAMPLE_DTYPES:
            raise InvalidArgument(
                f"{where}{self.kind} samples must be one of {', '.join(SAMPLE_DTYPES)}, got {x.dtype.str!r}"
            )
        _check_layout(self.kind, x, self.rate_hz, where)
        if x.size == 0:
            raise InvalidArgument(f"{where}no samples: shape {x.shape}")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            bad = np.unravel_index(int(np.argmin(np.isfinite(x))), x.shape)
            index = tuple(int(i) for i in bad)
            raise InvalidArgument(
                f"{where}non-finite sample at {index[0] if len(index) == 1 else index}: {x[bad]}; remove or repair it"
            )
        if not x.flags.c_contiguous:
            object.__setattr__(self, "samples", np.ascontiguousarray(x))

    def unit_scale(self) -> NDArray[np.float32]:
        """The samples as float32 at full scale 1.0, so that int16 and float copies of a clip are equal.

        Returns
        -------
        ndarray of float32, the shape of `samples`; always a new array for integers.
        """
        scale = FULL_SCALE.get(self.samples.dtype.str)
        out: NDArray[np.float32] = self.samples.astype(np.float32)
        if scale is not None:
            out /= np.float32(scale)
        return out


def _check_layout(kind: Kind, x: NDArray[Any], rate_hz: int | None, where: str) -> None:
    """Raise `InvalidArgument` unless shape, dtype and rate fit the kind."""
    if kind == "audio":
        if x.ndim != 1:
            raise InvalidArgument(f"{where}audio must be mono, shape (n,), got {x.shape}; mix or pick a channel")
        check_rate(rate_hz, where)
        return
    if kind == "image":
        if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[2] != 3):
            raise InvalidArgument(f"{where}an image must be (h, w) or (h, w, 3), got {x.shape}")
    elif kind == "array":
        if x.ndim not in (1, 2) or x.dtype.kind != "f":
            raise InvalidArgument(
                f"{where}an array must be (n,) or (r, c) of floats, got {x.dtype.str!r} of shape {x.shape}"
            )
    else:
        raise InvalidArgument(f"{where}kind must be 'audio', 'image' or 'array', got {kind!r}")
    if rate_hz is not None:
        raise InvalidArgument(f"{where}an {kind} has no rate_hz, got {rate_hz!r}")


def check_rate(rate_hz: object, where: str) -> None:
    """Raise `InvalidArgument` unless it is a rate that recordings have."""
    if not isinstance(rate_hz, int) or isinstance(rate_hz, bool) or not 100 <= rate_hz <= 768_000:
        raise InvalidArgument(f"{where}audio needs rate_hz, an int of 100 to 768000, got {rate_hz!r}")


def printable(name: str) -> str:
    r"""A file's name as text that can be sent and printed on one line.

    Bytes that are no UTF-8 are shown as \udcXX, line ends and what a terminal would obey as \n, \x1b.
    """
    shown = name.encode("utf-8", "backslashreplace").decode()
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in _UNSEEN else c for c in shown)


def read_source(source: Path | str | bytes, name: str | None) -> tuple[bytes, str]:
    """The bytes of a file (or the bytes given) and the name to use for them in messages.

    Raises
    ------
    InvalidArgument
        The file cannot be read, is a pipe, a device or a folder, or nothing is in it.
    TooLarge
        It has over `MAX_FILE_BYTES`.
    """
    if isinstance(source, bytes):
        data, name = source, name or "<bytes>"
    else:
        name, path = name or str(source), Path(source)
        # a pipe would be waited for without end, a device be read into memory without end
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InvalidArgument(f"{name}: cannot be read: a pipe or device; copy what is in it to a file")
        try:
            n_bytes = path.stat().st_size
            if n_bytes > MAX_FILE_BYTES:
                raise TooLarge(f"{name}: {n_bytes} bytes, files of up to {MAX_FILE_BYTES} are read; cut it in parts")
            data = path.read_bytes()
        except OSError as error:
            raise InvalidArgument(f"{name}: cannot be read: {error.strerror or error}") from error
    if not data:
        raise InvalidArgument(f"{name}: empty, 0 bytes; copy the file again")
    return data, name
