"""What a source of templates is asked for, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError

Floats = NDArray[np.float32]
MAX_TEMPLATES = 1_000_000

MAX_NUMBERS = 1 << 29
"""Of all templates of a stream, or of all their orbits where these are stored: 2 GB."""


@dataclass(frozen=True, eq=False)
class Request:
    """Templates of d numbers.

    Attributes
    ----------
    d : int
    rng : Generator
    vectors : (N, d) float32
        Of the signals the bank is built from; none, if it takes none.
    sigma : float or None
        Width of the kernel whose frequencies are wanted; None: vectors of the size of inputs.
    given : array, optional
        The user's own.
    """

    d: int
    rng: np.random.Generator
    vectors: Floats
    sigma: float | None = None
    given: ArrayLike | None = None


@dataclass(frozen=True, eq=False)
class Drawn:
    """T (m, d) float32, and arrays that the bank keeps beside it."""

    T: Floats
    kept: dict[str, NDArray[Any]] = field(default_factory=dict)


def check_numbers(m: int, epsilon: float) -> None:
    """Raise `ConfigError` unless there are from 1 to `MAX_TEMPLATES` templates and epsilon is positive."""
    if not 1 <= m <= MAX_TEMPLATES:
        raise ConfigError(f"m must be from 1 to {MAX_TEMPLATES}, got {m!r}")
    if not 0 < epsilon <= 100:
        raise ConfigError(f"epsilon must be above 0 and at most 100, got {epsilon!r}")


def check_size(m: int, d: int, n_group: int = 1) -> None:
    """Raise `ConfigError` if m templates of d numbers, or their orbits, are beyond `MAX_NUMBERS`."""
    if m * n_group * d > MAX_NUMBERS:
        raise ConfigError(
            f"templates and stored orbits may have {MAX_NUMBERS} numbers, got m x |G| x d = {m} x {n_group} x {d}; use "
            "fewer, or a front end or window that gives less"
        )
