"""What the d numbers of a vector are: the ground that front ends produce and groups move things on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamfeat.errors import ConfigError

VARIABLE = 0
"""Length of an axis that each signal sets for itself. No front end may end in one."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Names and lengths of the axes of a vector in C order.

    Parameters
    ----------
    names : tuple of str
        ("sample",), ("band", "frame"), ("row", "column"), ("row", "column", "channel") or ("entry",).
    shape : tuple of int
        Lengths; `VARIABLE` between stages of a front end only.
    band_hz : tuple of float
        Centre of each band, ascending; empty without a band axis.
    rate_hz : float
        Samples or frames a second; 0 where an even number of them spans the whole signal.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    band_hz: tuple[float, ...] = ()
    rate_hz: float = 0.0

    @property
    def d(self) -> int:
        """How many numbers a vector has."""
        return math.prod(self.shape)

    @property
    def n_channels(self) -> int:
        """Numbers at one point of the plane: 3 for colour, else 1."""
        return self.shape[2] if len(self.shape) == 3 else 1

    @property
    def plane(self) -> tuple[int, int]:
        """The lengths of the two axes that things move along; a vector is a plane of one row."""
        return (1, self.shape[0]) if len(self.shape) == 1 else (self.shape[0], self.shape[1])

    def need(self, *names: str, by: str) -> None:
        """Raise `ConfigError` unless every named axis is there."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ConfigError(
                f"{by} needs the axes {', '.join(names)}; the front end gives {', '.join(self.names)}: "
                f"use another front end or leave {by} out"
            )
