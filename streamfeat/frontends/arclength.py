"""The canonical time of a spectrogram: one representative of its orbit under all monotone time warps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.frontends.arrays import even_times, read_frames
from streamfeat.groups.axes import Axes
from streamfeat.kernels.path import path_length

Array = NDArray[np.float32]

STILL = 1e-4
"""A spectrogram whose whole path is shorter than this share of its largest value only rounds: it stands still."""


@dataclass(frozen=True, slots=True)
class Arclength:
    """A spectrogram read at n equal steps along its own path, however fast it went along it.

    With L the frames, smoothed over time, and f(v) = max(v, floor max L)^power for each number of them,

        flux_k = |f(L_{k+1}) - f(L_k)|   (Euclidean, over the bands)

    is the length of a step; the spectrogram is read, linearly, where the sum of the flux so far is 0, 1/(n-1), ... 1
    of the whole. Silence and held vowels shrink, transitions stretch. A recording and the same one under any smooth
    monotone change of its time give the same frames, up to sampling (errors fall with the square of the frame's
    length), since f looks at one moment only. That is also why power acts on the values: the sum of |L_{k+1} - L_k|^2
    would depend on the speed, and a threshold on the flux would too.

    What lies below the floor does not move, so silence and background noise beneath it take no steps. Measured on 88
    synthetic words of unseen voices (whole-signal bank, RLS, learned on clean words): with a second of noise 40 dB down
    before and after, .99 are right, as without, trimmed at 50 dB or not; with floor 0, .92; with noise 20 dB down, .93
    and .49. Strong noise needs a higher floor, faint fricatives a lower one. A spectrogram that stands still (constant,
    silent) is read at even times.

    Takes energies of at least 0 as `compress` gives them; `centre` comes after it.

    Parameters
    ----------
    n : int
        Frames that are read.
    points : int
        The spectrogram is first read at so many even times, which makes a frame the same share of any recording; 0
        takes the frames as they are.
    smooth : int
        The flux is measured on means of so many frames (an odd number; fewer at the ends).
    power : float
        1 weighs a change in a weak band like one in a strong band; 2 the strong ones more.
    floor : float
        Share of the largest value up to which nothing is heard: .35 is 30 dB below the loudest band after the root of
        power .15; 0 hears everything.
    """

    n: int = 32
    points: int = 96
    smooth: int = 3
    power: float = 1.0
    floor: float = 0.35

    def __post_init__(self) -> None:
        if not 2 <= self.n <= 1_000_000 or not (self.points == 0 or 2 <= self.points <= 1_000_000):
            raise ConfigError(
                f"n must be 2 to 1000000 frames and points 0 or 2 to 1000000, got {self.n} and {self.points}"
            )
        if not (1 <= self.smooth <= 99 and self.smooth % 2 == 1):
            raise ConfigError(f"smooth must be an odd number of frames, 1 to 99, got {self.smooth}")
        if not (0 < self.power <= 8 and 0 <= self.floor < 1):
            raise ConfigError(f"needs 0 < power <= 8 and 0 <= floor < 1, got {self.power:g} and {self.floor:g}")

    def build(self, axes: Axes) -> tuple[Callable[[Array], Array], Axes]:
        axes.need("band", "frame", by="arclength")
        return self._step, replace(axes, shape=(axes.shape[0], self.n), rate_hz=0.0)

    def _step(self, x: Array) -> Array:
        if self.points:
            x = read_frames(x, even_times(self.points, x.shape[1] - 1))
        return read_frames(x, self._times(x))

    def _times(self, x: Array) -> NDArray[np.float64]:
        """Where x is read, in frames, (n,)."""
        still = even_times(self.n, x.shape[1] - 1)
        largest = float(x.max())
        if largest <= 0:
            return still
        path = np.empty(x.shape[1])
        path_length(np.ascontiguousarray(x), largest, self.smooth // 2, (self.floor, self.power), path)
        if path[-1] <= STILL:
            return still
        return np.interp(even_times(self.n, float(path[-1])), path, np.arange(path.size))
