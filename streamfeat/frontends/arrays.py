"""Stages on arrays of any front end: which bands and frames, compression, number of frames, mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.frontends.waveform import cut
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.kernels.path import read_at

Array = NDArray[np.float32]
Step = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Compress:
    """Energies S brought to an even scale; both kinds map silence to 0 and do not depend on the level.

    "log": 10 log10(S / max S) + top_db, at least 0: decibels above a floor that lies top_db below the largest.
    "root": gain (S / max S)^power.

    Parameters
    ----------
    kind : "log" or "root"
    top_db : float
        Of "log".
    power, gain : float
        Of "root".
    """

    kind: Literal["log", "root"] = "log"
    top_db: float = 80.0
    power: float = 0.15
    gain: float = 10.0

    def __post_init__(self) -> None:
        if not (0 < self.top_db <= 300 and 0 < self.power <= 1 and self.gain > 0):
            raise ConfigError(
                f"needs 0 < top_db <= 300, 0 < power <= 1 and gain > 0, got {self.top_db}, {self.power}, {self.gain}"
            )

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("band", "frame", by="compress")
        floor = np.float32(10.0 ** (-self.top_db / 10))
        top_db, power, gain = np.float32(self.top_db), np.float32(self.power), np.float32(self.gain)

        def step(S: Array) -> Array:
            largest = S.max()
            if largest <= 0:
                return np.zeros_like(S)
            share: Array = S / largest
            if self.kind == "root":
                return np.power(share, power) * gain
            return np.float32(10) * np.log10(np.maximum(share, floor)) + top_db

        return step, axes


@dataclass(frozen=True, slots=True)
class Frames:
    """A spectrogram of n frames.

    "resample" reads it at n even steps from its first to its last frame, by linear interpolation: every recording
    takes the same length. "crop" keeps real time: the n frames in the middle, with zeros round a shorter one.

    Parameters
    ----------
    n : int
    mode : "resample" or "crop"
    """

    n: int
    mode: Literal["resample", "crop"] = "resample"

    def __post_init__(self) -> None:
        if not 1 <= self.n <= 1_000_000:
            raise ConfigError(f"n must be 1 to 1000000 frames, got {self.n}")

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("frame", by="frames")
        shape = (axes.shape[0], self.n)
        if self.mode == "crop":
            return self._crop, replace(axes, shape=shape)
        return self._resample, replace(axes, shape=shape, rate_hz=0.0)

    def _crop(self, x: Array) -> Array:
        return cut(x, (x.shape[1] - self.n) // 2, self.n)

    def _resample(self, x: Array) -> Array:
        return read_frames(x, even_times(self.n, x.shape[1] - 1))


def even_times(n: int, last: float) -> NDArray[np.float64]:
    """n even steps from 0 to `last`, as `np.linspace` has them, for a fifth of its time."""
    at = np.arange(n, dtype=np.float64) * (last / max(n - 1, 1))
    if n > 1:
        at[-1] = last
    return at


def read_frames(x: Array, at: NDArray[np.float64]) -> Array:
    """x (bands, frames) at times in frames, 0 to the last one, by linear interpolation."""
    out = np.empty((x.shape[0], at.size), np.float32)
    read_at(np.ascontiguousarray(x), at, out)
    return out


@dataclass(frozen=True, slots=True)
class Bands:
    """Some neighbouring bands of a spectrogram, so that streams which hear more and less share one transform.

    Parameters
    ----------
    n : int
        How many.
    first : int
        The lowest of them, from 0.
    """

    n: int
    first: int = 0

    def __post_init__(self) -> None:
        if self.n < 1 or self.first < 0:
            raise ConfigError(f"needs n >= 1 and first >= 0, got {self.n} and {self.first}")

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("band", "frame", by="bands")
        there, last = axes.shape[0], self.first + self.n
        if last > there:
            raise ConfigError(f"takes bands {self.first} to {last - 1}, the spectrogram has {there}; use fewer")
        some = slice(self.first, last)
        return lambda x: x[some], replace(axes, shape=(self.n, *axes.shape[1:]), band_hz=axes.band_hz[some])


@dataclass(frozen=True, slots=True)
class Loud:
    """Energies without the quiet frames at their ends: those whose sum is more than top_db below that of the loudest.

    To a spectrogram what `trim` is to a waveform, so that streams which are trimmed more and less share one transform.
    Silence is kept whole.

    Parameters
    ----------
    top_db : float
    """

    top_db: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.top_db <= 100:
            raise ConfigError(f"top_db must be in (0, 100], got {self.top_db:g}")

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("band", "frame", by="loud")
        floor = np.float32(10.0 ** (-self.top_db / 10))

        def step(S: Array) -> Array:
            energy = np.add.reduce(S, axis=0)
            loud = np.flatnonzero(energy > floor * energy.max())
            return S[:, loud[0] : loud[-1] + 1] if loud.size else S

        return step, replace(axes, shape=(axes.shape[0], VARIABLE))


@dataclass(frozen=True, slots=True)
class Delta:
    """How a spectrogram changes: the frame after less the frame before, the first and the last frame repeated."""

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("frame", by="delta")
        return _delta, axes


def _delta(x: Array) -> Array:
    padded = np.concatenate((x[:, :1], x, x[:, -1:]), axis=1)
    return padded[:, 2:] - padded[:, :-2]


@dataclass(frozen=True, slots=True)
class Centre:
    """The array minus its mean: over all of it, or of each band (which takes a steady filter out of log energies).

    Parameters
    ----------
    over : "all", "band" or "none"
    """

    over: Literal["all", "band", "none"] = "all"

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        if self.over == "band":
            axes.need("band", by="centre over band")
        return {"all": _minus_mean, "band": _minus_band_mean, "none": _same}[self.over], axes


# Means are summed in float64: a constant then centres to exact zeros, not to rounding noise that
# unit norm would blow up.
def _minus_mean(x: Array) -> Array:
    return x - np.float32(x.mean(dtype=np.float64))


def _minus_band_mean(x: Array) -> Array:
    mean: Array = (np.add.reduce(x, axis=1, dtype=np.float64) / x.shape[1]).astype(np.float32)
    return x - mean[:, None]


def _same(x: Array) -> Array:
    return x
