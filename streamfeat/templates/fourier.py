"""Frequencies of shift-invariant kernels (Raj et al. 2017, eq. 5: Bochner's theorem)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.templates.request import Drawn, Floats, Request, check_numbers

MAX_NORM = 2e4
"""Of a frequency: <x, w> for a unit x then stays below half of what cos and sin are computed to."""

MAX_REFUSED = 0.01
"""Part of the Cauchy draws that may be longer than `MAX_NORM`."""


@dataclass(frozen=True)
class Frequencies:
    """w of the Gaussian kernel exp(-||x - z||^2 / (2 sigma^2)) or the Laplacian one exp(-||x - z||_1 / sigma)."""

    source: ClassVar[str] = "fourier"
    gives: ClassVar[frozenset[str]] = frozenset({"frequencies"})
    needs_signals: ClassVar[bool] = False

    m: int
    epsilon: float = 0.5
    # None is "gaussian": banks from before there was a choice keep their hashes.
    kernel: Literal["gaussian", "laplacian"] | None = None

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)
        if self.kernel == "gaussian":
            object.__setattr__(self, "kernel", None)

    def draw(self, request: Request) -> Drawn:
        """Of the width that the pooling asks for."""
        sigma = request.sigma or math.nan
        draw = fourier_templates if self.kernel is None else cauchy_templates
        return Drawn(draw(self.m, request.d, sigma, request.rng))


def fourier_templates(m: int, d: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Frequencies of the Gaussian kernel exp(-||x - z||^2 / (2 sigma^2)): w ~ N(0, sigma^-2 I).

    Returns
    -------
    (m, d) float32
    """
    return np.asarray(rng.standard_normal((m, d)) / sigma, np.float32)


def cauchy_templates(m: int, d: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Frequencies of the Laplacian kernel exp(-||x - z||_1 / sigma): d independent Cauchy numbers of scale 1 / sigma.

    ||.||_1 is kept by permutations, shifts and flips only; other actions average a kernel that they also distort. Rows
    longer than `MAX_NORM` are drawn again: of a chance p of them (about 2 d / (pi sigma MAX_NORM)) the kernel moves by
    less than 2 p / (1 - p).

    Returns
    -------
    (m, d) float32

    Raises
    ------
    ConfigError
        More than 1 row in 100 is too long: sigma is too small for d numbers.
    """
    refused = 2 * d / (math.pi * sigma * MAX_NORM)
    if refused > MAX_REFUSED:
        raise ConfigError(
            f"pooling.sigma = {sigma!r} is too small for a Laplacian kernel of {d} numbers: {refused:.1%} of its "
            f"frequencies are beyond {MAX_NORM:g}; use at least {2 * d / (math.pi * MAX_REFUSED * MAX_NORM):.3g}"
        )
    W = np.empty((m, d))
    waiting = np.arange(m)
    while len(waiting):
        W[waiting] = rng.standard_cauchy((len(waiting), d)) / sigma
        waiting = waiting[np.linalg.norm(W[waiting], axis=1) > MAX_NORM]
    return W.astype(np.float32)
