"""How the elements of a factor are chosen: lists, and laws to sample from.

A law turns an identity (0 for an angle, a shift or cents; 1 for a rate or a scale) and chance into the parameters of
N elements, (N, p). Lists take all combinations of their values in p parameters. Laws with a density draw n elements
with independent parameters in one of the ways of `sampling`; None is the law's usual way, and is left out of a
canonical spec. Of these,

    quantile(u, identity)        gives the values below which the shares u lie, (N, p) -> (N, p),
    density(values, identity)    is q over the parameters in the units of the spec, (N, p) -> (N,).

Locality is the law's width: q(g) of Raj et al. 2017, eq. 2 and 3, has its mode at the identity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.finite import FINITE_LAWS, FiniteLaw
from streamfeat.groups.sampling import MAX_POINTS, Sampling, combinations, unit_points
from streamfeat.spec import pick, read_table

Identity = tuple[float, ...]
Parameters = NDArray[np.float64]

MAX_ELEMENTS = MAX_POINTS


@dataclass(frozen=True, slots=True)
class Delta:
    """The identity alone: q = delta_e, which gives the kernel k itself back (Raj et al. 2017, below eq. 4)."""

    turns: ClassVar[bool] = False

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        return np.array([identity], np.float64)


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
        return combinations(_steps(self.low, self.high, self.n), len(identity))


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
        return combinations(np.exp(_steps(np.log(self.low), np.log(self.high), self.n)), len(identity))


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform on [low, high]."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.n)
        _leave_out(self, "random")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:  # noqa: ARG002
        return self.low + u * (self.high - self.low)

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:  # noqa: ARG002
        _check_width(self.low, self.high)
        inside = (values >= self.low) & (values <= self.high)
        return _product(inside / (self.high - self.low))


@dataclass(frozen=True, slots=True)
class LogUniform:
    """The logarithm is uniform on [log low, log high]."""

    turns: ClassVar[bool] = False
    low: float
    high: float
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_log_range(self.low, self.high, self.n)
        _leave_out(self, "random")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:  # noqa: ARG002
        values: Parameters = np.exp(np.log(self.low) + u * np.log(self.high / self.low))
        return values

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:  # noqa: ARG002
        _check_width(self.low, self.high)
        inside = (values >= self.low) & (values <= self.high)
        return _product(inside / np.where(inside, values, 1) / np.log(self.high / self.low))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal, of standard deviation `sigma`, about the identity."""

    turns: ClassVar[bool] = False
    sigma: float
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_sigma(self.sigma, self.n)
        _leave_out(self, "random")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:
        return np.asarray(identity) + self.sigma * _normal_quantile(u)

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:
        return _product(_normal_density((values - np.asarray(identity)) / self.sigma) / self.sigma)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """The logarithm is normal, of standard deviation `sigma`, about that of the identity."""

    turns: ClassVar[bool] = False
    sigma: float
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_sigma(self.sigma, self.n)
        _leave_out(self, "random")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:
        values: Parameters = np.exp(_log_of(identity) + self.sigma * _normal_quantile(u))
        return values

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:
        positive = values > 0
        x = np.where(positive, values, 1)
        z = (np.log(x) - _log_of(identity)) / self.sigma
        return _product(np.where(positive, _normal_density(z) / (self.sigma * x), 0))


@dataclass(frozen=True, slots=True)
class VonMises:
    """Angles in degrees, density exp(kappa cos angle) / (2 pi I0(kappa)) in radians; 0 is uniform on the circle.

    The mode is at the identity, as Raj et al. 2017 mean it: exp(-kappa cos angle) would put it opposite.
    """

    turns: ClassVar[bool] = True
    kappa: float
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_n(self.n)
        if self.kappa < 0:
            raise ConfigError(f"kappa must be at least 0, got kappa = {self.kappa:g}")
        _leave_out(self, "random")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:  # noqa: ARG002
        # Twelve standard deviations hold all but e^-70; the trapezoids' sum is right to 1e-6 of one of them.
        reach = math.pi if self.kappa < 15 else 12 / math.sqrt(self.kappa)
        angle = np.linspace(-reach, reach, 16385)
        density = np.exp(-2 * self.kappa * np.sin(angle / 2) ** 2)
        below = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
        return np.degrees(np.interp(u, below / below[-1], angle))

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:  # noqa: ARG002
        from scipy.special import i0e  # half a second, and not while serving

        shape = np.exp(-2 * self.kappa * np.sin(np.radians(values) / 2) ** 2)
        return _product(shape / (360 * i0e(self.kappa)))


@dataclass(frozen=True, slots=True)
class Circle:
    """Uniform on the circle, in degrees; unless sampled otherwise the n even parts of a full turn, from 0."""

    turns: ClassVar[bool] = True
    n: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        _check_n(self.n)
        _leave_out(self, "grid")

    def draw(self, identity: Identity, rng: np.random.Generator) -> Parameters:
        if self.sampling is None:
            return combinations(np.arange(self.n, dtype=np.float64) * 360 / self.n, len(identity))
        return _sampled(self, identity, rng)

    def quantile(self, u: Parameters, identity: Identity) -> Parameters:  # noqa: ARG002
        return 360 * u

    def density(self, values: Parameters, identity: Identity) -> NDArray[np.float64]:  # noqa: ARG002
        return _product(np.full(np.shape(values), 1 / 360))


Distribution = Uniform | LogUniform | Gaussian | LogNormal | VonMises | Circle
Law = Delta | Grid | LogGrid | Distribution

LAWS: dict[str, type[Law]] = {
    "delta": Delta,
    "grid": Grid,
    "log-grid": LogGrid,
    "uniform": Uniform,
    "log-uniform": LogUniform,
    "gaussian": Gaussian,
    "log-normal": LogNormal,
    "von-mises": VonMises,
    "circle": Circle,
}
"""Name in a spec -> law of numbers; the fields are its parameters. Laws with `turns` are for angles only."""


def make_law(spec: Mapping[str, Any]) -> Law | FiniteLaw:
    """The law of {"law": name, **parameters}.

    Raises
    ------
    ConfigError
        An unknown law, or parameters that are missing, unknown or impossible.
    """
    parameters = dict(spec)
    cls = pick({**LAWS, **FINITE_LAWS}, parameters.pop("law", None), "law")
    return read_table(cls, parameters, f"law {spec['law']!r}")


def identity_first(parameters: Parameters, identity: Identity) -> Parameters:
    """The elements with the identity in front: moved there, or added if it is not among them.

    A value within 1e-9 of the identity is the identity (the middle of a log grid is 1 only up to rounding).
    """
    at = np.flatnonzero(np.isclose(parameters, identity, rtol=0, atol=1e-9).all(axis=1))
    return np.vstack([identity, np.delete(parameters, at[:1], axis=0)])


def _sampled(law: Distribution, identity: Identity, rng: np.random.Generator) -> Parameters:
    return law.quantile(unit_points(law.n, len(identity), law.sampling or "random", rng), identity)


def _leave_out(law: Distribution, usual: Sampling) -> None:
    """One way to write one thing: the usual sampling is not written, as before there were others."""
    if law.sampling == usual:
        object.__setattr__(law, "sampling", None)


def _normal_quantile(u: Parameters) -> Parameters:
    from scipy.special import ndtri  # half a second that only building a bank needs

    out: Parameters = ndtri(u)
    return out


def _normal_density(z: Parameters) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return out


def _product(of_each: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.prod(of_each, axis=-1)
    return out


def _log_of(identity: Identity) -> NDArray[np.float64]:
    if min(identity) <= 0:
        raise ConfigError(f"a law of logarithms needs a factor whose identity is above 0, got {identity}")
    out: NDArray[np.float64] = np.log(identity)
    return out


def _check_n(n: int) -> None:
    if not 1 <= n <= MAX_ELEMENTS:
        raise ConfigError(f"n must be 1 to {MAX_ELEMENTS}, got n = {n}")


def _check_range(low: float, high: float, n: int) -> None:
    _check_n(n)
    if low > high:
        raise ConfigError(f"low must be at most high, got low = {low:g}, high = {high:g}")


def _check_width(low: float, high: float) -> None:
    if low == high:
        raise InvalidArgument(f"a law on one point has no density, got low = high = {low:g}")


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
