"""The signal: one recording or one picture, checked once, where it enters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument

SAMPLE_DTYPES = ("<i2", "<f4", "<f8", "|u1", "<u2")
"""What samples may be made of, on the wire and in memory. Byte order is part of the name."""

FULL_SCALE = {"<i2": 32768.0, "|u1": 255.0, "<u2": 65535.0}
"""Value that stands for 1.0 in an integer signal; floats are at full scale 1.0 already."""

Kind = Literal["audio", "image"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A finite waveform at a known rate, or a finite image of a known layout.

    Parameters
    ----------
    kind : "audio" or "image"
    samples : ndarray
        audio: (n,) mono, int16 or float; image: (h, w) grey or (h, w, 3) RGB, uint8, uint16 or float.
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
        if self.kind == "audio":
            if x.ndim != 1:
                raise InvalidArgument(f"{where}audio must be mono, shape (n,), got {x.shape}; mix or pick a channel")
            if (
                not isinstance(self.rate_hz, int)
                or isinstance(self.rate_hz, bool)
                or not 100 <= self.rate_hz <= 768_000
            ):
                raise InvalidArgument(f"{where}audio needs rate_hz, an int of 100 to 768000, got {self.rate_hz!r}")
        elif self.kind == "image":
            if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[2] != 3):
                raise InvalidArgument(f"{where}an image must be (h, w) or (h, w, 3), got {x.shape}")
            if self.rate_hz is not None:
                raise InvalidArgument(f"{where}an image has no rate_hz, got {self.rate_hz!r}")
        else:
            raise InvalidArgument(f"{where}kind must be 'audio' or 'image', got {self.kind!r}")
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
