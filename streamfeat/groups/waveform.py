"""How waveforms move: phase-vocoder pitch and tempo, through librosa, when a bank is built.

These actions are not linear in what is projected, so a bank that uses them is dense: it stores front_end(g t).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.groups.audio import check_cents, check_rate
from streamfeat.groups.space import Space

WINDOW_S = 0.05
"""Length of the vocoder's window, to the nearest power of two: 512 samples at 8 kHz, 1024 at 20 kHz."""


def waveform_pitch(samples: NDArray[np.float32], rate_hz: int, cents: float) -> NDArray[np.float32]:
    """The waveform with every frequency f at f 2^(cents / 1200) and the same length; 0 cents is the waveform itself.

    Parameters
    ----------
    samples : (n,) float32

    Returns
    -------
    (n,) float32
    """
    check_cents(cents)
    if cents == 0:
        return samples.copy()
    from librosa.effects import pitch_shift  # seconds, and only when a bank is built

    n_fft = _n_fft(rate_hz)
    moved = pitch_shift(_at_least(samples, n_fft), sr=rate_hz, n_steps=cents / 100, n_fft=n_fft, res_type="soxr_hq")
    return np.ascontiguousarray(moved[: samples.size], dtype=np.float32)


def waveform_tempo(samples: NDArray[np.float32], rate_hz: int, rate: float) -> NDArray[np.float32]:
    """The waveform `rate` times as fast with the same frequencies; rate 1 is the waveform itself.

    Parameters
    ----------
    samples : (n,) float32

    Returns
    -------
    (max(1, round(n / rate)),) float32
    """
    check_rate(rate)
    if rate == 1:
        return samples.copy()
    from librosa.effects import time_stretch

    n_fft = _n_fft(rate_hz)
    moved = time_stretch(_at_least(samples, n_fft), rate=rate, n_fft=n_fft)
    n = max(1, round(samples.size / rate))
    return np.ascontiguousarray(_at_least(moved, n)[:n], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class WaveformPitch:
    """Factor "waveform_pitch": cents up."""

    def space(self) -> Space:
        return Space(("cents",), (0.0,))

    def check(self, cents: float) -> None:
        check_cents(cents)

    def move(self, samples: NDArray[np.float32], rate_hz: int, cents: float) -> NDArray[np.float32]:
        return waveform_pitch(samples, rate_hz, cents)


@dataclass(frozen=True, slots=True)
class WaveformTempo:
    """Factor "waveform_tempo": how many times as fast."""

    def space(self) -> Space:
        return Space(("rate",), (1.0,))

    def check(self, rate: float) -> None:
        check_rate(rate)

    def move(self, samples: NDArray[np.float32], rate_hz: int, rate: float) -> NDArray[np.float32]:
        return waveform_tempo(samples, rate_hz, rate)


@dataclass(frozen=True, eq=False)
class WaveformMoves:
    """The elements of one factor that acts on waveforms.

    Attributes
    ----------
    factor : WaveformPitch or WaveformTempo
    parameters : (n, p) float64
    names : tuple of str, length p
    spec : dict
        The canonical factor spec.
    """

    factor: WaveformPitch | WaveformTempo
    parameters: NDArray[np.float64]
    names: tuple[str, ...]
    spec: dict[str, Any]

    @property
    def n(self) -> int:
        """How many elements."""
        return len(self.parameters)

    def move(self, i: int, samples: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
        """Element i on a waveform."""
        return self.factor.move(samples, rate_hz, *self.parameters[i].tolist())


def _n_fft(rate_hz: int) -> int:
    return int(2 ** max(6, round(np.log2(WINDOW_S * rate_hz))))


def _at_least(samples: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """The samples, with zeros behind them up to n (librosa wants at least one window)."""
    return np.pad(samples, (0, max(0, n - samples.size)))
