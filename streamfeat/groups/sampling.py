"""n points of the unit cube from which laws are read: at random, or more evenly than chance spreads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError

Sampling = Literal["random", "stratified", "quasi", "grid"]
Points = NDArray[np.float64]

MAX_POINTS = 100_000

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
"""Bases of the Halton sequence; with larger ones its points line up for longer than anyone samples."""


def unit_points(n: int, p: int, sampling: Sampling, rng: np.random.Generator) -> Points:
    """Points in the open cube (0, 1)^p.

    Parameters
    ----------
    n : int
        How many; for "grid" how many along each axis.
    p : int
    sampling : "random", "stratified", "quasi" or "grid"
        random: independent and uniform. stratified: on each axis one in every n-th part (Latin hypercube, McKay et al.
        1979). quasi: a Halton sequence moved round the cube by chance (Cranley, Patterson 1976), discrepancy
        O(log(n)^p / n). grid: the middles of the n-th parts, all combinations; draws nothing.

    Returns
    -------
    (n, p) float64, or (n^p, p) for a grid, the last axis changing fastest

    Raises
    ------
    ConfigError
        A grid of more than `MAX_POINTS`, or more axes than Halton's sequence is good for.
    """
    points = _SAMPLERS[sampling](n, p, rng)
    # Neither end: the normal law would put them at infinity.
    return np.clip(points, 2.0**-54, 1 - 2.0**-53)


def combinations(values: Points, p: int) -> Points:
    """All combinations of p of the values, the last one changing fastest: (n^p, p)."""
    if len(values) ** p > MAX_POINTS:
        raise ConfigError(f"a grid of n = {len(values)} in {p} parameters has more than {MAX_POINTS} elements")
    return np.stack([grid.ravel() for grid in np.meshgrid(*[values] * p, indexing="ij")], axis=1)


def _random(n: int, p: int, rng: np.random.Generator) -> Points:
    return rng.random((n, p))


def _stratified(n: int, p: int, rng: np.random.Generator) -> Points:
    parts = np.stack([np.arange(n) if axis == 0 else rng.permutation(n) for axis in range(p)], axis=1)
    return (parts + rng.random((n, p))) / n


def _quasi(n: int, p: int, rng: np.random.Generator) -> Points:
    if p > len(PRIMES):
        raise ConfigError(f"sampling = 'quasi' is for at most {len(PRIMES)} parameters, got {p}; use 'stratified'")
    halton = np.stack([_radical_inverses(n, base) for base in PRIMES[:p]], axis=1)
    return (halton + rng.random(p)) % 1


def _radical_inverses(n: int, base: int) -> Points:
    """0 to n - 1 with their digits mirrored at the point."""
    left, out, digit = np.arange(n), np.zeros(n), 1.0
    while left.any():
        digit /= base
        out += digit * (left % base)
        left //= base
    return out


def _grid(n: int, p: int, rng: np.random.Generator) -> Points:  # noqa: ARG001 - as its sisters
    return combinations((np.arange(n) + 0.5) / n, p)


_SAMPLERS: dict[str, Callable[[int, int, np.random.Generator], Points]] = {
    "random": _random,
    "stratified": _stratified,
    "quasi": _quasi,
    "grid": _grid,
}
