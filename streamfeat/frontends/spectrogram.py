"""The stage from waveform to bands x frames: short-time Fourier transform and triangular filters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.kernels.spectrum import band_energies, windowed

Array = NDArray[np.float32]

FRAMES_AT_ONCE = 64
"""They stay in the second cache. Of 101 frames of 512 numpy's transform takes 66 us in float64, 345 in float32."""


@dataclass(frozen=True, slots=True)
class Spectrogram:
    """Energy in bands, one column a frame: what `librosa.feature.melspectrogram` gives with `norm=None`.

    Periodic Hann window, frames centred every `hop` samples with zeros beyond the ends, 1 + n // hop of them.
    Triangular filters of height 1 between neighbouring centres, not normalised. Scale "mel" is Slaney's (librosa's
    default); "log" has equal steps in cents, so that a pitch shift is a shift of bands. There a triangle is at least
    as wide as the distance of two Fourier bins, so that low bands interpolate the spectrum instead of missing it.

    Parameters
    ----------
    window, n_fft, hop : int
        In samples; the window is padded to n_fft with zeros on both sides. n_fft 0 stands for the window's length.
    bands : int
    low_hz, high_hz : float
        Feet of the first and the last triangle.
    scale : "mel" or "log"
    of : "power" or "magnitude"
    """

    window: int = 256
    hop: int = 80
    bands: int = 40
    low_hz: float = 60.0
    high_hz: float = 4000.0
    scale: Literal["mel", "log"] = "mel"
    of: Literal["power", "magnitude"] = "power"
    n_fft: int = 0

    def __post_init__(self) -> None:
        if self.n_fft == 0:
            object.__setattr__(self, "n_fft", self.window)
        if not 4 <= self.window <= self.n_fft <= 65536 or self.hop < 1:
            raise ConfigError(
                f"needs 4 <= window <= n_fft <= 65536 and hop >= 1, got {self.window}, {self.n_fft} and {self.hop}"
            )
        lowest = 0.0 if self.scale == "mel" else 1.0
        if not (1 <= self.bands <= 4096 and lowest <= self.low_hz < self.high_hz):
            raise ConfigError(
                f"needs 1 <= bands <= 4096 and {lowest:g} <= low_hz < high_hz on the {self.scale} scale, "
                f"got {self.bands}, {self.low_hz:g}, {self.high_hz:g}"
            )

    def build(self, axes: Axes) -> tuple[Callable[[Array], Array], Axes]:
        axes.need("sample", by="spectrogram")
        if self.high_hz > axes.rate_hz / 2:
            raise ConfigError(f"high_hz must be at most half the rate of {axes.rate_hz:g} Hz, got {self.high_hz:g}")
        edges_hz = self._edges_hz()
        filters = _triangles(edges_hz, axes.rate_hz, self.n_fft, widen=self.scale == "log")
        empty = np.flatnonzero(~filters.any(axis=1))
        if empty.size:
            raise ConfigError(
                f"band {empty[0]} at {edges_hz[empty[0] + 1]:.0f} Hz lies between two Fourier bins; "
                "use fewer bands, a larger n_fft or the log scale"
            )
        # Each filter touches a few neighbouring bins.
        firsts = (filters > 0).argmax(axis=1)
        touched = np.count_nonzero(filters, axis=1)
        reach = firsts, np.concatenate(([0], np.cumsum(touched)))
        weights = filters[filters > 0].astype(np.float32)
        hann = _padded_hann(self.window, self.n_fft)

        def step(x: Array) -> Array:
            n_frames = 1 + x.size // self.hop
            out = np.empty((self.bands, n_frames), np.float32)
            frames = np.empty((min(n_frames, FRAMES_AT_ONCE), self.n_fft))
            for k in range(0, n_frames, FRAMES_AT_ONCE):
                some = frames[: n_frames - k]
                windowed(x, k * self.hop - self.n_fft // 2, self.hop, hann, some)
                spectrum = np.fft.rfft(some).view(np.float64)
                band_energies(spectrum, self.of == "magnitude", reach, weights, out[:, k : k + len(some)])
            return out

        band_hz = tuple(float(hz) for hz in edges_hz[1:-1])
        return step, Axes(("band", "frame"), (self.bands, VARIABLE), band_hz, axes.rate_hz / self.hop)

    def _edges_hz(self) -> NDArray[np.float64]:
        """Feet and peaks of the triangles, (bands + 2,): triangle i rises from i to i + 1 and falls to i + 2."""
        if self.scale == "log":
            return np.geomspace(self.low_hz, self.high_hz, self.bands + 2)
        return mel_to_hz(np.linspace(hz_to_mel(self.low_hz), hz_to_mel(self.high_hz), self.bands + 2))


# Slaney's mel scale (Auditory Toolbox): 200/3 Hz a mel up to 1 kHz, then 27 mels for a factor of 6.4.
MEL_HZ = 200 / 3
BREAK_HZ = 1000.0
MELS_PER_LOG = 27 / math.log(6.4)


def hz_to_mel(hz: float) -> float:
    """Slaney's mel of a frequency."""
    return hz / MEL_HZ if hz < BREAK_HZ else BREAK_HZ / MEL_HZ + math.log(hz / BREAK_HZ) * MELS_PER_LOG


def mel_to_hz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """The frequencies of Slaney's mels."""
    straight = BREAK_HZ / MEL_HZ
    return np.where(mel < straight, mel * MEL_HZ, BREAK_HZ * np.exp((mel - straight) / MELS_PER_LOG))


def _triangles(edges_hz: NDArray[np.float64], rate_hz: float, n_fft: int, widen: bool) -> NDArray[np.float64]:
    """Filters (bands, n_fft // 2 + 1); with `widen` no flank is steeper than one Fourier bin."""
    step_hz = rate_hz / n_fft
    bins_hz = np.arange(n_fft // 2 + 1) * step_hz
    flank = np.diff(edges_hz)
    if widen:
        flank = np.maximum(flank, step_hz)
    peak = edges_hz[1:-1, None]
    rising = (bins_hz - peak) / flank[:-1, None] + 1
    falling = (peak - bins_hz) / flank[1:, None] + 1
    return np.maximum(0.0, np.minimum(rising, falling))


def _padded_hann(window: int, n_fft: int) -> NDArray[np.float64]:
    """The periodic Hann window in the middle of n_fft samples."""
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    left = (n_fft - window) // 2
    return np.pad(hann, (left, n_fft - window - left))
