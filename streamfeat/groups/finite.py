"""Finite groups: all of their elements, or some drawn from the uniform measure, which is Haar's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups.sampling import MAX_POINTS

Parameters = NDArray[np.float64]


class FiniteGroup(Protocol):
    """A group whose elements can be listed and drawn from."""

    @property
    def name(self) -> str:
        """What it is, for messages: "the permutations of 23 rows"."""

    @property
    def order(self) -> int:
        """How many elements."""

    def every(self) -> Parameters:
        """Parameters of each element once, the identity first, (order, p)."""

    def sample(self, n: int, rng: np.random.Generator) -> Parameters:
        """Parameters of n elements, independent and uniform (Haar), (n, p)."""


@dataclass(frozen=True, slots=True)
class All:
    """Every element of a finite group."""

    def choose(self, group: FiniteGroup, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        if group.order > MAX_POINTS:
            # 23! is a number to read, 784! is not
            order = str(group.order) if group.order < 1e30 else f"about 10^{math.log10(group.order):.0f}"
            raise ConfigError(
                f"{group.name} has {order} elements, law 'all' takes at most {MAX_POINTS}; use law 'sampled' with n"
            )
        return group.every()


@dataclass(frozen=True, slots=True)
class Sampled:
    """n elements of a finite group, independent and uniform (its Haar measure)."""

    n: int

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MAX_POINTS:
            raise ConfigError(f"n must be 1 to {MAX_POINTS}, got n = {self.n}")

    def choose(self, group: FiniteGroup, rng: np.random.Generator) -> Parameters:
        return group.sample(self.n, rng)


FiniteLaw = All | Sampled

FINITE_LAWS: dict[str, type[FiniteLaw]] = {"all": All, "sampled": Sampled}
"""Name in a spec -> law for factors that are finite groups: round shifts, flips, quarter turns, permutations."""
