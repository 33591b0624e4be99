"""How spectrograms move: pitch along the bands, tempo and shift along the frames. Linear; outside is zero.

Zero is silence for compressed energies and the mean for centred ones, so nothing louder than that is made up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.axes import Axes
from streamfeat.groups.operators import Border, Operator, gather
from streamfeat.groups.space import Space

MOST_CENTS = 4800.0
MOST_RATE = 16.0


def pitch(axes: Axes, cents: float) -> Operator:
    """Move what is at frequency f to f 2^(cents / 1200), along the bands.

    Between the centres of two bands the index is linear in log f, as it is beyond the first and the last; on a log
    scale a whole number of steps is an exact copy.
    """
    axes.need("band", "frame", by="pitch")
    check_cents(cents)
    if len(axes.band_hz) < 2:
        raise ConfigError(f"pitch needs at least two bands of known frequency, got {len(axes.band_hz)}")
    log_hz = np.log(axes.band_hz)
    source = _index_of(log_hz - cents / 1200 * np.log(2), log_hz)
    return gather(axes, source[:, None], np.arange(axes.plane[1]))


def tempo(axes: Axes, rate: float) -> Operator:
    """Play `rate` times as fast about the middle frame: (R t)[j] = t(c + rate (j - c)), c = (n - 1) / 2.

    Slower pushes the ends out of the picture, faster brings in zeros.
    """
    axes.need("frame", by="tempo")
    check_rate(rate)
    h, n = axes.plane
    middle = (n - 1) / 2
    return gather(axes, np.arange(h)[:, None], middle + rate * (np.arange(n) - middle))


def time_shift(axes: Axes, frames: float, border: Border = "zero") -> Operator:
    """Move `frames` frames (or samples, for a waveform) later; whole numbers are exact copies.

    Fractions are read linearly between frames, which takes the highs from a waveform: `sample_shift` does not.
    """
    if "sample" not in axes.names:
        axes.need("frame", by="time_shift")
    h, n = axes.plane
    return gather(axes, np.arange(h)[:, None], np.arange(n) - frames, border)


@dataclass(frozen=True, slots=True)
class Pitch:
    """Factor "pitch": cents up, on the band axis of a spectrogram."""

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("cents",), (0.0,))

    def operator(self, axes: Axes, cents: float) -> Operator:
        return pitch(axes, cents)


@dataclass(frozen=True, slots=True)
class Tempo:
    """Factor "tempo": how many times as fast, on the frame axis of a spectrogram."""

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("rate",), (1.0,))

    def operator(self, axes: Axes, rate: float) -> Operator:
        return tempo(axes, rate)


@dataclass(frozen=True, slots=True)
class TimeShift:
    """Factor "time_shift": frames (or samples) later."""

    border: Border = "zero"

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("frames",), (0.0,))

    def operator(self, axes: Axes, frames: float) -> Operator:
        return time_shift(axes, frames, self.border)


def check_cents(cents: float) -> None:
    """Raise `InvalidArgument` unless |cents| <= 4800."""
    if not abs(cents) <= MOST_CENTS:  # also NaN
        raise InvalidArgument(f"a pitch shift must be within +-{MOST_CENTS:g} cents, got {cents}")


def check_rate(rate: float) -> None:
    """Raise `InvalidArgument` unless 1/16 <= rate <= 16."""
    if not 1 / MOST_RATE <= rate <= MOST_RATE:  # also NaN
        raise InvalidArgument(f"a tempo must be 1/{MOST_RATE:g} to {MOST_RATE:g} times as fast, got {rate}")


def _index_of(at: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fractional index of values among ascending knots, linear between and beyond them."""
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    return left + (at - knots[left]) / (knots[left + 1] - knots[left])
