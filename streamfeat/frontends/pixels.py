"""The first stage of images: pixels of one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.errors import ConfigError
from streamfeat.groups.axes import Axes
from streamfeat.signals.signal import Signal

Array = NDArray[np.float32]

LUMA = (np.float32(0.299), np.float32(0.587), np.float32(0.114))
"""ITU-R BT.601, as Pillow and JPEG have it."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """First stage of images: height x width pixels at full scale 1.0.

    A picture of another size is stretched to fit (Pillow's bilinear filter, which averages over the area when it
    shrinks and never leaves the range of its input). Grey is luma, .299 R + .587 G + .114 B.

    Parameters
    ----------
    height, width : int
    grey : bool
        False keeps three channels; a grey picture then has three equal ones.
    """

    kind: ClassVar[Literal["image"]] = "image"
    height: int
    width: int
    grey: bool = True

    def __post_init__(self) -> None:
        if not (1 <= self.height <= 4096 and 1 <= self.width <= 4096):
            raise ConfigError(f"height and width must be 1 to 4096 pixels, got {self.height} and {self.width}")

    def build(self) -> tuple[Callable[[Signal], Array], Axes]:
        if self.grey:
            return self._grey, Axes(("row", "column"), (self.height, self.width))
        return self._colour, Axes(("row", "column", "channel"), (self.height, self.width, 3))

    def _grey(self, signal: Signal) -> Array:
        x = signal.unit_scale()
        if x.ndim == 3:
            x = x[:, :, 0] * LUMA[0] + x[:, :, 1] * LUMA[1] + x[:, :, 2] * LUMA[2]
        return self._resize(x)

    def _colour(self, signal: Signal) -> Array:
        x = signal.unit_scale()
        if x.ndim == 2:
            return np.repeat(self._resize(x)[:, :, None], 3, axis=2)
        return np.stack([self._resize(x[:, :, channel]) for channel in range(3)], axis=2)

    def _resize(self, x: Array) -> Array:
        if x.shape == (self.height, self.width):
            return x
        picture = Image.fromarray(np.ascontiguousarray(x), mode="F")
        return np.asarray(picture.resize((self.width, self.height), Image.Resampling.BILINEAR))
