"""Templates of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from streamfeat.errors import ConfigError
from streamfeat.templates.request import Drawn, Floats, Request, check_numbers


@dataclass(frozen=True)
class User:
    """The array given to `build_bank`, as it is."""

    source: ClassVar[str] = "user"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors", "frequencies"})
    needs_signals: ClassVar[bool] = False

    m: int
    epsilon: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)

    def draw(self, request: Request) -> Drawn:
        """Checked."""
        if request.given is None:
            raise ConfigError("templates.source = 'user' needs an array of templates (m, d), got none")
        return Drawn(user_templates(request.given, self.m, request.d))


def user_templates(templates: ArrayLike, m: int, d: int) -> Floats:
    """The given templates, checked: m rows of d finite numbers."""
    T = np.asarray(templates, np.float32)
    if T.shape != (m, d):
        raise ConfigError(f"user templates must have the shape (m, d) = {(m, d)}, got {T.shape}")
    if not np.isfinite(T).all():
        raise ConfigError(f"user templates must be finite, row {int(np.argmin(np.isfinite(T).all(axis=1)))} is not")
    return T
