"""Stages on waveforms: rate, level, silence at the ends, length."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import soxr
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.kernels.spectrum import frame_energies
from streamfeat.signals.signal import Signal

Array = NDArray[np.float32]
Step = Callable[[Array], Array]

SILENCE = 2.0**-24
"""A recording that nowhere exceeds one step of 24-bit audio is silent: zeros, not its rounding noise made loud."""


@dataclass(frozen=True, slots=True)
class Resample:
    """First stage of audio: the waveform at one rate, full scale 1.0 (soxr, quality HQ; untouched when equal).

    Parameters
    ----------
    rate_hz : int
        Samples a second for all that follows.
    """

    kind: ClassVar[Literal["audio"]] = "audio"
    rate_hz: int

    def __post_init__(self) -> None:
        if not 100 <= self.rate_hz <= 768_000:
            raise ConfigError(f"rate_hz must be 100 to 768000, got {self.rate_hz}")

    def build(self) -> tuple[Callable[[Signal], Array], Axes]:
        def enter(signal: Signal) -> Array:
            x = signal.unit_scale()
            if float(np.abs(x).max()) < SILENCE:
                x = np.zeros_like(x)
            return resample(x, signal.rate_hz or self.rate_hz, self.rate_hz)

        return enter, Axes(("sample",), (VARIABLE,), rate_hz=float(self.rate_hz))


def resample(x: Array, from_hz: int, to_hz: int) -> Array:
    """x at another rate: round(n to_hz / from_hz) samples, at least one."""
    if from_hz == to_hz:
        return x
    n = x.size
    shortest = math.ceil(from_hz / to_hz)  # soxr makes nothing of less
    if n < shortest:
        x = np.pad(x, (0, shortest - n))
    out: Array = soxr.resample(x, from_hz, to_hz, quality="HQ")
    return out if n >= shortest else out[: max(1, round(n * to_hz / from_hz))]


@dataclass(frozen=True, slots=True)
class Peak:
    """The waveform scaled so that its largest magnitude is 1; silence stays silence."""

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("sample", by="peak")

        def step(x: Array) -> Array:
            peak = np.abs(x).max()
            return x / peak if peak > 0 else x

        return step, axes


@dataclass(frozen=True, slots=True)
class Trim:
    """The waveform without what is quiet at its ends; what `librosa.effects.trim` keeps.

    Frames centred every `hop` samples, zeros beyond the ends; those whose RMS is more than `top_db` below the loudest
    are quiet. Unlike librosa's there is no absolute floor: the cut does not depend on the recording's level.

    Parameters
    ----------
    top_db : float
        At most 100: below that float32 has nothing to say.
    window, hop : int
        In samples; at most half a window a hop, so that no sample is missed and something is always kept.
    """

    top_db: float = 30.0
    window: int = 512
    hop: int = 128

    def __post_init__(self) -> None:
        if not (0 < self.top_db <= 100 and 1 <= self.hop <= self.window // 2):
            raise ConfigError(
                "top_db must be in (0, 100] and hop 1 to half the window, "
                f"got top_db = {self.top_db:g}, window = {self.window}, hop = {self.hop}"
            )

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("sample", by="trim")
        floor = 10.0 ** (-self.top_db / 10)

        def step(x: Array) -> Array:
            energy = np.empty(x.size // self.hop + 1)
            frame_energies(np.ascontiguousarray(x), self.window, self.hop, energy)
            loud = np.flatnonzero(energy > floor * energy.max())
            if loud.size == 0:
                return x
            return x[loud[0] * self.hop : (loud[-1] + 1) * self.hop]

        return step, replace(axes, shape=(VARIABLE,))


@dataclass(frozen=True, slots=True)
class FixedLength:
    """n samples of the waveform, its energy in the middle: the rest is cropped, or zeros are put round it.

    The sample at the centre of mass of x^2, rounded, comes to n // 2. So a recording that is shifted within silence
    gives the same vector.

    Parameters
    ----------
    n : int
        Samples.
    """

    n: int

    def __post_init__(self) -> None:
        if not 1 <= self.n <= 10_000_000:
            raise ConfigError(f"n must be 1 to 10000000 samples, got {self.n}")

    def build(self, axes: Axes) -> tuple[Step, Axes]:
        axes.need("sample", by="fixed_length")

        def step(x: Array) -> Array:
            energy = np.square(x, dtype=np.float64)
            total = float(energy.sum())
            where = float((energy * np.arange(x.size)).sum()) / total if total > 0 else (x.size - 1) / 2
            return cut(x, round(where) - self.n // 2, self.n)

        return step, replace(axes, shape=(self.n,))


def cut(x: Array, start: int, n: int) -> Array:
    """n steps along the last axis of x from `start`, which may lie outside; zeros where x has none."""
    out = np.zeros((*x.shape[:-1], n), x.dtype)
    first, last = max(start, 0), min(start + n, x.shape[-1])
    if first < last:
        out[..., first - start : last - start] = x[..., first:last]
    return out
