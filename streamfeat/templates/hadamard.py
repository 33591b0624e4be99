"""Structured templates: rows of products of random signs and Walsh-Hadamard matrices (SORF, Yu et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.templates.request import Drawn, Request, check_numbers

COLUMNS = 64
"""Of a matrix that are there at a time: 16 MB at p = 32,768."""


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

    Returns
    -------
    T : (m, d) float64
    signs, gains
        As `hadamard_signs` gives them.
    """
    signs, gains = hadamard_signs(m, d, rng)
    p = signs.shape[2]
    T = np.empty((m, d))
    for i, matrix in enumerate(signs):
        rows = T[p * i : p * (i + 1)]
        rows[:] = _rows_of(matrix, len(rows))[:, :d]
    T *= gains[:, None]
    return T, signs, gains


def hadamard_signs(m: int, d: int, rng: np.random.Generator) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """What the same rows follow from, without the rows.

    A fast transform gives the projections from the signs: x padded with zeros, signs D1, transform, D2, transform, D3,
    transform; then each number times its row's gain.

    Returns
    -------
    signs : (n_matrices, 3, p) int8
        The diagonals D1, D2, D3; p is the power of two that is at least d. At tiny p a row may vanish on the first d
        columns: its matrix is drawn again.
    gains : (m,) float64
        One over the norms of the rows' first d columns.
    """
    p = 1 << (d - 1).bit_length()
    signs = np.empty((-(-m // p), 3, p), np.int8)
    squares = np.zeros(m)
    for i, matrix in enumerate(signs):
        some = squares[p * i : p * (i + 1)]
        while not some.all():
            matrix[:] = rng.choice(np.array([-1, 1], np.int8), size=(3, p))
            some[:] = _squares_of(matrix, d)[: len(some)]
    return signs, 1 / np.sqrt(squares)


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
    """The first n rows of H D3 H D2 H D1, (n, p), whole numbers; H is symmetric, so a row is e' H D3 H D2 H D1."""
    rows = walsh_hadamard(np.eye(n, signs.shape[1]))
    for diagonal in (signs[2], signs[1]):
        rows = walsh_hadamard(rows * diagonal)
    rows *= signs[0]
    return rows


def _squares_of(signs: NDArray[np.int8], d: int) -> NDArray[np.float64]:
    """Sums of squares of each row's first d columns, (p,): those of all, p^3, less those of the other columns.

    Columns are whole numbers, of squares that float64 adds exactly: a row that vanishes has zero.
    """
    p = signs.shape[1]
    squares = np.full(p, float(p) ** 3)
    for first in range(d, p, COLUMNS):
        columns = np.eye(min(COLUMNS, p - first), p, first)
        for diagonal in signs:
            columns = walsh_hadamard(columns * diagonal)
        squares -= np.square(columns).sum(axis=0)
    return squares
