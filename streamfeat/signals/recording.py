"""What is in an audio file before any channel is chosen: frames, their rate, and what was odd about the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.signal import FULL_SCALE, Signal, check_rate

Channels = Literal["refuse", "mix"] | int
"""What becomes of several channels: none of it, their mean, or the channel of that number (from 0)."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Finite frames at a known rate.

    Parameters
    ----------
    frames : ndarray, shape (n_frames, n_channels)
        int16, or float32 at full scale 1.0; at least one frame.
    rate_hz : int
    name : str
        What messages call it.
    warnings : tuple of str
        What was found odd and read all the same.

    Raises
    ------
    InvalidArgument
        No frames, a rate that no recording has, or NaN or infinity, with the first bad frame.
    """

    frames: NDArray[Any] = field(repr=False)
    rate_hz: int
    name: str
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rate(self.rate_hz, f"{self.name}: ")
        if not self.frames.size:
            raise InvalidArgument(f"{self.name}: no samples: shape {self.frames.shape}")
        if self.frames.dtype.kind == "f" and not np.isfinite(self.frames).all():
            at, channel = np.unravel_index(int(np.argmin(np.isfinite(self.frames))), self.frames.shape)
            which = f" of channel {channel}" if self.frames.shape[1] > 1 else ""
            raise InvalidArgument(
                f"{self.name}: non-finite sample at {at}{which}: {self.frames[at, channel]}; remove or repair it"
            )

    def signal(self, channels: Channels) -> Signal:
        """The mono signal that `channels` asks for; see `one_channel`."""
        return Signal("audio", one_channel(self.frames, channels, self.name), rate_hz=self.rate_hz, name=self.name)


def one_channel(frames: NDArray[Any], channels: Channels, name: str) -> NDArray[Any]:
    """The mono samples that `channels` asks for.

    Parameters
    ----------
    frames : ndarray, shape (n_samples, n_channels)
        int16, or float at full scale 1.0.
    channels : "refuse", "mix" or int
        "refuse" takes one channel only; "mix" gives the mean, float32 at full scale 1.0 when there are
        several; a number picks that channel, counted from 0.

    Returns
    -------
    ndarray, shape (n_samples,)

    Raises
    ------
    InvalidArgument
        Several channels and "refuse", or a number that no channel has.
    """
    n = frames.shape[1]
    if isinstance(channels, int) and not isinstance(channels, bool):
        if not 0 <= channels < n:
            raise InvalidArgument(f"{name}: channel {channels} was asked for, there are {n}, counted from 0")
        picked: NDArray[Any] = frames[:, channels]
        return picked
    if channels not in ("refuse", "mix"):
        raise InvalidArgument(f"{name}: channels must be 'refuse', 'mix' or a number, got {channels!r}")
    if n == 1:
        only: NDArray[Any] = frames[:, 0]
        return only
    if channels == "refuse":
        raise InvalidArgument(
            f"{name}: one channel is needed, there are {n}; mix them or pick one by number: "
            "--channels mix on the command line, channels='mix' in Python"
        )
    scale = FULL_SCALE.get(frames.dtype.str, 1.0)
    mixed: NDArray[np.float32] = (frames.mean(axis=1, dtype=np.float64) / scale).astype(np.float32)
    return mixed
