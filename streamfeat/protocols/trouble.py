"""Recordings in trouble: noise of a given level, and silence round them. For test items only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamfeat.frontends.waveform import resample
from streamfeat.signals.signal import Signal

Floats = NDArray[np.float32]

SNR_DB = 20.0
N_VOICES = 6
"""Recordings that babble is the sum of."""
SILENCE_S = 1.0

WHITE, BABBLE, SILENCE = f"white {SNR_DB:g} dB", f"babble {SNR_DB:g} dB", f"silence {SILENCE_S:g} s"
TROUBLES = (WHITE, BABBLE, SILENCE)


def troubled(signal: Signal, trouble: str, voices: Sequence[Signal], seed: int) -> Signal:
    """The recording with noise `SNR_DB` below it, or with `SILENCE_S` of silence before and after.

    Parameters
    ----------
    signal : Signal
    trouble : one of `TROUBLES`
    voices : sequence of Signal
        What babble is drawn from; another's recordings.
    seed : int
        Of the noise.
    """
    x, rate_hz = signal.unit_scale(), signal.rate_hz or 0
    rng = np.random.default_rng(seed)
    if trouble == SILENCE:
        x = np.pad(x, round(SILENCE_S * rate_hz))
    else:
        noise = rng.standard_normal(x.size) if trouble == WHITE else _babble(voices, x.size, rate_hz, rng)
        x = x + _loudness(x) / (_loudness(noise) or 1.0) * 10.0 ** (-SNR_DB / 20.0) * noise
    return Signal("audio", np.asarray(x, np.float32), rate_hz, f"{signal.name} ({trouble})")


def _babble(voices: Sequence[Signal], n: int, rate_hz: int, rng: np.random.Generator) -> Floats:
    """n samples of `N_VOICES` recordings at once, equally loud, each said over and over from somewhere in it."""
    out = np.zeros(n, np.float32)
    for chosen in rng.choice(len(voices), N_VOICES, replace=len(voices) < N_VOICES):
        voice = resample(voices[chosen].unit_scale(), voices[chosen].rate_hz or rate_hz, rate_hz)
        begun = np.roll(voice, int(rng.integers(voice.size)))
        out += np.resize(begun, n) / np.float32(_loudness(voice) or 1.0)
    return out


def _loudness(x: NDArray[np.floating]) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(x, dtype=np.float64).mean()))
