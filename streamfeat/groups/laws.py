"""How the elements of a factor are chosen: grids, and laws to sample from.

A law turns an identity (0 for an angle, a shift or cents; 1 for a rate or a scale) and chance into the parameters of
N elements, (N, p). Grids of a factor with p parameters take all n^p combinations; sampled laws draw n elements with
independent parameters. Locality is the law's width (Raj et al. 2017, section 3: q(g) with its mode at the identity).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.spec import pick, read_table

Identity = tuple[float, ...]
Parameters = NDArray[np.float64]

MAX_ELEMENTS = 100_000


@dataclass(frozen=True, slots=True)
class Grid:
    """n even steps from low to high, both included; the middle when n is 1."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        return _combine(_steps(self.low, self.high, self.n), len(identity))


@dataclass(frozen=True, slots=True)
class LogGrid:
    """n steps of equal ratio from low to high, both included; the geometric middle when n is 1."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        _check_log_range(self.low, self.high, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        return _combine(np.exp(_steps(np.log(self.low), np.log(self.high), self.n)), len(identity))


@dataclass(frozen=True, slots=True)
class Uniform:
    """n draws, uniform on [low, high)."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return rng.uniform(self.low, self.high, (self.n, len(identity)))


@dataclass(frozen=True, slots=True)
class LogUniform:
    """n draws whose logarithm is uniform."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        _check_log_range(self.low, self.high, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return np.exp(rng.uniform(np.log(self.low), np.log(self.high), (self.n, len(identity))))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """n draws from a normal law of standard deviation `sigma` about the identity."""

    turns: ClassVar[bool] = False
    sigma: float
    n: int

    def __post_init__(self) -> None:
        _check_sigma(self.sigma, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return rng.normal(identity, self.sigma, (self.n, len(identity)))


@dataclass(frozen=True, slots=True)
class LogGaussian:
    """n draws whose logarithm is normal, of standard deviation `sigma`, about the identity."""

    turns: ClassVar[bool] = False
    sigma: float
    n: int

    def __post_init__(self) -> None:
        _check_sigma(self.sigma, self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        if min(identity) <= 0:
            raise ConfigError(f"a law of logarithms needs a factor whose identity is above 0, got {identity}")
        return np.exp(rng.normal(np.log(identity), self.sigma, (self.n, len(identity))))


@dataclass(frozen=True, slots=True)
class VonMises:
    """n angles in degrees with density ~ exp(kappa cos angle): kappa 0 is uniform on the circle."""

    turns: ClassVar[bool] = True
    kappa: float
    n: int

    def __post_init__(self) -> None:
        _check_n(self.n)
        if self.kappa < 0:
            raise ConfigError(f"kappa must be at least 0, got kappa = {self.kappa:g}")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return np.degrees(rng.vonmises(0.0, self.kappa, (self.n, len(identity))))


@dataclass(frozen=True, slots=True)
class Circle:
    """The n even parts of a full turn, in degrees from 0."""

    turns: ClassVar[bool] = True
    n: int

    def __post_init__(self) -> None:
        _check_n(self.n)

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        return _combine(np.arange(self.n, dtype=np.float64) * 360 / self.n, len(identity))


Law = Grid | LogGrid | Uniform | LogUniform | Gaussian | LogGaussian | VonMises | Circle

LAWS: dict[str, type[Law]] = {
    "grid": Grid,
    "log-grid": LogGrid,
    "uniform": Uniform,
    "log-uniform": LogUniform,
    "gaussian": Gaussian,
    "log-gaussian": LogGaussian,
    "von-mises": VonMises,
    "circle": Circle,
}
"""Name in a spec -> law; the fields are its parameters. Laws with `turns` are for angles only."""


def make_law(spec: Mapping[str, Any]) -> Law:
    """The law of {"law": name, **parameters}.

    Raises
    ------
    ConfigError
        An unknown law, or parameters that are missing, unknown or impossible.
    """
    parameters = dict(spec)
    cls = pick(LAWS, parameters.pop("law", None), "law")
    return read_table(cls, parameters, f"law {spec['law']!r}")


def identity_first(parameters: Parameters, identity: Identity) -> Parameters:
    """The elements with the identity in front: moved there, or added if it is not among them.

    A value within 1e-9 of the identity is the identity (the middle of a log grid is 1 only up to rounding).
    """
    at = np.flatnonzero(np.isclose(parameters, identity, rtol=0, atol=1e-9).all(axis=1))
    return np.vstack([identity, np.delete(parameters, at[:1], axis=0)])


def _check_n(n: int) -> None:
    if not 1 <= n <= MAX_ELEMENTS:
        raise ConfigError(f"n must be 1 to {MAX_ELEMENTS}, got n = {n}")


def _check_range(low: float, high: float, n: int) -> None:
    _check_n(n)
    if low > high:
        raise ConfigError(f"low must be at most high, got low = {low:g}, high = {high:g}")


def _check_log_range(low: float, high: float, n: int) -> None:
    _check_range(low, high, n)
    if low <= 0:
        raise ConfigError(f"low must be above 0 for a logarithm, got low = {low:g}")


def _check_sigma(sigma: float, n: int) -> None:
    _check_n(n)
    if sigma <= 0:
        raise ConfigError(f"sigma must be above 0, got sigma = {sigma:g}")


def _steps(low: float, high: float, n: int) -> Parameters:
    return np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2], np.float64)


def _combine(values: Parameters, p: int) -> Parameters:
    """All combinations of p of the values, the last one changing fastest: (n^p, p)."""
    if len(values) ** p > MAX_ELEMENTS:
        raise ConfigError(f"a grid of n = {len(values)} in {p} parameters has more than {MAX_ELEMENTS} elements")
    return np.stack([grid.ravel() for grid in np.meshgrid(*[values] * p, indexing="ij")], axis=1)
