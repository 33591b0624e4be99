"""Gaussian templates with rejection (Mroueh, Voinea, Poggio 2015, section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.templates.request import Drawn, Floats, Request, check_numbers

MAX_DRAWS = 1000
"""Times that a Gaussian template may be drawn again; at epsilon = 0.01 and d = 20000 six in ten are kept."""


@dataclass(frozen=True)
class Gaussian:
    """n ~ N(0, I/d), drawn again until ||n||^2 < 1 + epsilon."""

    source: ClassVar[str] = "gaussian"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors"})
    needs_signals: ClassVar[bool] = False

    m: int
    epsilon: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)

    def draw(self, request: Request) -> Drawn:
        """Independent of signals."""
        return Drawn(gaussian_templates(self.m, request.d, self.epsilon, request.rng))


def gaussian_templates(m: int, d: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Gaussian templates: n ~ N(0, I/d), drawn again until ||n||^2 < 1 + epsilon.

    Returns
    -------
    (m, d) float32

    Raises
    ------
    ConfigError
        When hardly a draw is short enough (a very negative epsilon).
    """
    T = np.empty((m, d), np.float32)
    waiting = np.arange(m)
    for _ in range(MAX_DRAWS):
        T[waiting] = rng.standard_normal((len(waiting), d)) / math.sqrt(d)
        norms = np.einsum("td,td->t", T[waiting], T[waiting], dtype=np.float64)
        waiting = waiting[norms >= 1 + epsilon]
        if len(waiting) == 0:
            return T
    raise ConfigError(
        f"templates.epsilon = {epsilon!r} refused every one of {MAX_DRAWS} draws of a template of {d} numbers; "
        "use a larger epsilon, such as 0.5"
    )
