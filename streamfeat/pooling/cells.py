"""Cells: a grid laid over the positions of patches; each pools for itself, so that the layout is kept.

    pooling = {kind = "fourier", gain = 1.2, cells = {rows = 4, columns = 4, overlap = 0.5}}

Cell k of n along an axis of N positions has its centre at (k + 1/2) N / n - 1/2. With overlap = 0 it is hard: its
positions are those from k N / n up to (k + 1) N / n, all alike. Otherwise it is a Gaussian whose standard deviation is
`overlap` times the length of a cell. The weight of a position in a cell is a product of one for its row and one for its
column. Columns of positions that go round a circle (polar windows) have the last beside the first: distances along them
are the shortest way round, and one column of cells has all of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.kernels import Floats
from streamfeat.pooling.material import Size

ROW_WEIGHTS, COLUMN_WEIGHTS = "cell_rows", "cell_columns"
"""The bank's arrays, (rows, n_rows) and (columns, n_columns) float32; n_moves columns a position."""


@dataclass(frozen=True)
class Cells:
    """rows x columns cells; for spectrograms rows lie along the bands, columns along the frames; of polar windows rows
    are zones of the radius, columns sectors."""

    rows: int
    columns: int
    overlap: float = 0.5

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= 4096 and 1 <= self.columns <= 4096):
            raise ConfigError(f"cells must be 1 to 4096 rows and columns, got {self.rows!r} and {self.columns!r}")
        if not 0 <= self.overlap <= 10:
            raise ConfigError(f"cells.overlap must be from 0 to 10, got {self.overlap!r}")

    def build(self, size: Size) -> dict[str, Floats]:
        """The weights of the grid's rows and columns in each row and column of cells; each cell's sum to 1.

        The elements that move templates stand beside each other at a position, and share its column's weight.
        """
        grid = size.grid
        if self.rows > grid[0] or self.columns > grid[1]:
            raise ConfigError(
                f"{self.rows} x {self.columns} cells need at least as many positions, the window has "
                f"{grid[0]} x {grid[1]}; use fewer cells or smaller strides"
            )
        columns = axis_weights(self.columns, grid[1], self.overlap, size.cyclic)
        return {
            ROW_WEIGHTS: axis_weights(self.rows, grid[0], self.overlap).astype(np.float32),
            COLUMN_WEIGHTS: (np.repeat(columns, size.n_moves, axis=1) / size.n_moves).astype(np.float32),
        }


Where = Cells | Literal["whole"]


def n_cells(cells: Where) -> int:
    """How many; "whole" is one."""
    return cells.rows * cells.columns if isinstance(cells, Cells) else 1


def cells_of(pooling: object) -> Cells | None:
    """The grid that a pooling lays over patches; None: it takes the whole."""
    cells = getattr(pooling, "cells", None)
    return cells if isinstance(cells, Cells) else None


def axis_weights(n: int, n_positions: int, overlap: float, cyclic: bool = False) -> NDArray[np.float64]:
    """Weights of positions in the n cells along one axis or circle, (n, n_positions), each row summing to 1."""
    length = n_positions / n
    k, p = np.arange(n)[:, None], np.arange(n_positions)
    if overlap == 0 or (cyclic and n == 1):
        weights = (p * n // n_positions == k).astype(np.float64)
    else:
        away = p - ((k + 0.5) * length - 0.5)
        if cyclic:
            away = (away + n_positions / 2) % n_positions - n_positions / 2
        weights = np.exp(-0.5 * np.square(away / (overlap * length)))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)


def weights_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
    """The weights of rows and of columns that a bank keeps."""
    return arrays[ROW_WEIGHTS], arrays[COLUMN_WEIGHTS]


def members(weights: tuple[Floats, Floats], P: Floats) -> list[Floats]:
    """The rows of P, (n_rows * n_columns, LANES), that belong to each hard cell, cell by cell in C order."""
    rows, columns = weights
    plane = P.reshape(rows.shape[1], columns.shape[1], -1)
    spans = [[slice(at[0], at[-1] + 1) for at in map(np.flatnonzero, axis)] for axis in weights]
    return [plane[r, c].reshape(-1, P.shape[1]) for r in spans[0] for c in spans[1]]
