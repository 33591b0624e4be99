"""Structured templates: rows of products of random signs and Walsh-Hadamard matrices (SORF, Yu et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.templates.request import Drawn, Request, check_numbers


@dataclass(frozen=True)
class Hadamard:
    """m unit rows of H D3 H D2 H D1, times sqrt(d) / sigma where frequencies are wanted.

    Rows of one matrix are orthogonal, so errors fall faster than with Gaussian templates. They are no exact draw: the
    estimate is biased where d is small (-.035 of a kernel value measured at d = 16) and is right only as d grows. Use
    Gaussian templates for d < 256 and wherever an expectation must hold.
    """

    source: ClassVar[str] = "hadamard"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors", "frequencies"})
    needs_signals: ClassVar[bool] = False

    m: int
    epsilon: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)

    def draw(self, request: Request) -> Drawn:
        """The rows, and what they follow from: `signs` (n_matrices, 3, p) int8 and `gains` (m,) float32."""
        T, signs, gains = hadamard_templates(self.m, request.d, request.rng)
        size = 1.0 if request.sigma is None else math.sqrt(request.d) / request.sigma
        return Drawn((size * T).astype(np.float32), {"signs": signs, "gains": (size * gains).astype(np.float32)})


def hadamard_templates(
    m: int, d: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.float64]]:
    """The first m rows of independent matrices H D3 H D2 H D1 one after the other, cut to d columns, at unit norm.

    A fast transform gives the same projections from the signs: x padded with zeros, signs D1, transform, D2, transform,
    D3, transform; then each number times its row's gain.

    Returns
    -------
    T : (m, d) float64
    signs : (n_matrices, 3, p) int8
        The diagonals D1, D2, D3; p is the power of two that is at least d. At tiny p a row may vanish on the first d
        columns: its matrix is drawn again.
    """
    p = 1 << (d - 1).bit_length()
    signs = np.empty((-(-m // p), 3, p), np.int8)
    T = np.zeros((m, d))
    for i, matrix in enumerate(signs):
        rows = T[p * i : p * (i + 1)]
        while not rows.any(axis=1).all():
            matrix[:] = rng.choice(np.array([-1, 1], np.int8), size=(3, p))
            rows[:] = _rows_of(matrix, len(rows))[:, :d]
    norms = np.linalg.norm(T, axis=1)
    return T / norms[:, None], signs, 1 / (p * math.sqrt(p) * norms)


def walsh_hadamard(X: NDArray[Any]) -> NDArray[np.float64]:
    """Each row times the Walsh-Hadamard matrix of +-1 (Sylvester's order), (n, p), p a power of two."""
    n, p = X.shape
    Y, half = np.asarray(X, np.float64), 1
    while half < p:
        pairs = Y.reshape(n, -1, 2, half)
        Y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(n, p)
        half *= 2
    return Y


def _rows_of(signs: NDArray[np.int8], n: int) -> NDArray[np.float64]:
    """The first n rows of H D3 H D2 H D1, (n, p); H is symmetric, so a row is e' H D3 H D2 H D1. Whole numbers over
    p sqrt(p): a row that vanishes is zero exactly."""
    p = signs.shape[1]
    rows = walsh_hadamard(np.eye(n, p))
    for diagonal in (signs[2], signs[1]):
        rows = walsh_hadamard(rows * diagonal)
    rows *= signs[0] / (p * math.sqrt(p))
    return rows
