"""Base kernels: what two vectors have in common before a group comes in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError
from streamfeat.kernels import Floats, blocks_of
from streamfeat.kernels.values import polynomial, rbf
from streamfeat.pooling.material import Material, Pass

PARAMETERS = {"linear": (), "rbf": ("sigma",), "polynomial": ("degree", "offset")}
"""Kind -> its parameters."""

SQUARES = "squares"
"""The array with ||gt||^2, (n_blocks, G, LANES)."""

CHUNK = 256
"""Orbits whose norms are taken at a time."""


@dataclass(frozen=True)
class BaseKernel:
    """k(x, z): linear <x, z>; rbf exp(-||x - z||^2 / (2 sigma^2)); polynomial (<x, z> + offset)^degree."""

    kind: Literal["linear", "rbf", "polynomial"]
    sigma: float | None = None
    degree: int | None = None
    offset: float | None = None

    def __post_init__(self) -> None:
        if self.kind == "polynomial" and self.offset is None:
            object.__setattr__(self, "offset", 1.0)
        takes = PARAMETERS[self.kind]
        for name in ("sigma", "degree", "offset"):
            if (getattr(self, name) is not None) != (name in takes):
                raise ConfigError(
                    f"a {self.kind} kernel takes {' and '.join(takes) or 'no parameter'}, "
                    f"got {name} = {getattr(self, name)!r}"
                )
        if self.sigma is not None and self.sigma <= 0:
            raise ConfigError(f"sigma must be above 0, got {self.sigma!r}")
        if self.degree is not None and not 1 <= self.degree <= 16:
            raise ConfigError(f"degree must be from 1 to 16, got {self.degree!r}")

    def build(self, material: Material) -> dict[str, NDArray[Any]]:
        """`squares` where the kernel needs ||gt||^2."""
        if self.kind != "rbf":
            return {}
        m = material.size.m
        chunks = [range(t, min(t + CHUNK, m)) for t in range(0, m, CHUNK)]
        squares = np.concatenate([np.square(material.orbits(t).astype(np.float64)).sum(axis=2) for t in chunks])
        return {SQUARES: blocks_of(squares)}

    def values(self, some: Pass, i: int, block: int, P: Floats) -> None:
        """The projections P (G, LANES) of item i on a block become kernel values."""
        if self.kind == "rbf" and self.sigma is not None:
            x = some.vectors[i].astype(np.float64)
            rbf(some.arrays[SQUARES][block], float((x * x).sum()), 1 / (2 * self.sigma**2), P)
        elif self.kind == "polynomial":
            polynomial(self.offset or 0.0, self.degree or 1, P)

    def gram(self, X: ArrayLike, Z: ArrayLike) -> NDArray[np.float64]:
        """k(x, z) of all rows, (n, d) and (p, d) -> (n, p), in float64."""
        A, B = np.asarray(X, np.float64), np.asarray(Z, np.float64)
        K: NDArray[np.float64] = A @ B.T
        if self.kind == "rbf" and self.sigma is not None:
            squares = np.square(A).sum(axis=1)[:, None] + np.square(B).sum(axis=1)
            return np.asarray(np.exp(-np.maximum(squares - 2 * K, 0) / (2 * self.sigma**2)))
        if self.kind == "polynomial":
            return np.asarray((K + (self.offset or 0.0)) ** (self.degree or 1), np.float64)
        return K
