"""Vectors against structured templates -> pooled features, by fast transforms instead of products.

The templates are rows of H D3 H D2 H D1 (`templates.hadamard`). An item's orbit is laid out lane by lane: what must be
interpolated is moved once for each such element, and all that only copies (whole shifts, flips, permutations; the last
factors of a product) is one table of places. Blocks of at most `VECTORS` lanes are transformed, then pooled in cache.

The same templates as the bank's dense rows: the projections of x differ from theirs by 1.5 log2(p) 2^-23 ||x|| together
at the most, p the length of the transform; a count, only where a projection lies that near a threshold.

A bank keeps, beside `signs`, what this needs:

    gains (m,)        what makes a transformed number the projection on template t
    places (p, S)     number k of copy s is number places[k, s] of a moved vector; d: zero
    lane_scale (m, G) |t| / |gt| in the order of lanes: copies, each with all its columns
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamfeat.groups import Elements, OperatorStack
from streamfeat.kernels import VECTORS, Floats, padded
from streamfeat.kernels.hadamard import SMALLEST, fill_lanes, scale_lanes, transform_lanes, turn
from streamfeat.pooling import LanePool

MOST_PLACES = 1 << 22
"""Entries of a table of places (16 MB); factors before it move vectors one by one. A bank's table was made under it."""

STRUCTURED = ("signs", "gains", "places", "lane_scale")
"""The bank's arrays that the rows of `templates` follow from, and their orbits."""

Span = tuple[int, int]
Arrays = Mapping[str, NDArray[Any]]


class Block(NamedTuple):
    """Copies and columns, (first, end) each, that are transformed together; `first` is where they begin in an orbit."""

    copies: Span
    columns: Span
    first: int

    @property
    def n(self) -> int:
        """Lanes."""
        return (self.copies[1] - self.copies[0]) * (self.columns[1] - self.columns[0])


def n_moved_first(factors: Sequence[Elements], p: int) -> int:
    """How many factors, from the first on, move vectors; the others are one table of places."""
    entries, first = p, len(factors)
    while first > 0:
        factor = factors[first - 1]
        entries *= factor.n
        if not isinstance(factor, OperatorStack) or factor.places is None or entries > MOST_PLACES:
            break
        first -= 1
    return first


def lane_arrays(
    factors: Sequence[Elements], signs: NDArray[np.int8], d: int, scale: Floats | None
) -> dict[str, NDArray[Any]]:
    """`places` and `lane_scale` of a bank; none for transforms shorter than 64.

    Parameters
    ----------
    scale : (m, G) float32, optional
        |t| / |gt| in the order of the group.
    """
    p = signs.shape[2]
    if p < SMALLEST:
        return {}
    first = n_moved_first(factors, p)
    # Row s of what follows: where the numbers of copy s come from; a column more, so that nothing comes from nothing.
    places = np.arange(d + 1, dtype=np.uint32)[None]
    for factor in reversed(factors[first:]):
        assert isinstance(factor, OperatorStack)
        assert factor.places is not None
        wide = np.concatenate([factor.places, np.full((factor.n, 1), d, np.uint32)], axis=1)
        places = wide[:, places].reshape(-1, d + 1)
    table = np.full((p, len(places)), d, np.int32)
    table[:d] = places[:, :d].T
    if scale is None:
        return {"places": table}
    by_lane = scale.reshape(len(scale), -1, len(places)).swapaxes(1, 2).reshape(len(scale), -1)
    return {"places": table, "lane_scale": by_lane}


def blocks_of_lanes(n_copies: int, n_columns: int) -> Iterator[Block]:
    """An orbit in pieces of at most `VECTORS` lanes, whole copies if they are not longer."""
    if n_columns <= VECTORS:
        step = VECTORS // n_columns
        for s in range(0, n_copies, step):
            yield Block((s, min(s + step, n_copies)), (0, n_columns), s * n_columns)
        return
    step = padded(math.ceil(n_columns / math.ceil(n_columns / VECTORS)), 16)
    for s in range(n_copies):
        for a in range(0, n_columns, step):
            yield Block((s, s + 1), (a, min(a + step, n_columns)), s * n_columns + a)


class Transforms:
    """Features of items by fast transforms, a few items at a time; it holds what is used from one to the next.

    Parameters
    ----------
    arrays : mapping
        The bank's.
    d : int
        Numbers a vector.
    n_columns : int
        A, elements of the factors before the table of places.
    """

    def __init__(self, arrays: Arrays, d: int, n_columns: int) -> None:
        self.d, self.gains, self.scale = d, arrays["gains"], arrays.get("lane_scale")
        self.places, self.signs = arrays["places"].view(np.uint32), arrays["signs"].astype(np.float32)
        self.blocks = list(blocks_of_lanes(self.places.shape[1], n_columns))
        self.items_at_once = max(1, VECTORS // (self.places.shape[1] * n_columns))
        self._spaces: dict[int, Floats] = {}

    def pool(self, moved: Floats, pool: LanePool) -> None:
        """Have the projections of a few items pooled; each item's depend on itself alone.

        Parameters
        ----------
        moved : (n, A, >= d) float32
            Each item, moved by the elements of the factors before the table of places; n <= `items_at_once`.
        """
        n, A, wide = moved.shape
        R = np.empty((self.d + 1, n * A), np.float32)
        turn(moved.reshape(n * A, wide), R)
        p = self.signs.shape[2]
        for matrix, diagonals in enumerate(self.signs):
            templates = slice(matrix * p, min(len(self.gains), (matrix + 1) * p))
            for block in self.blocks:
                Y = self._space(n * block.n)
                (a0, a1), size = block.columns, block.n
                for i in range(n):
                    fill_lanes(R, self.places, (block.copies, (i * A + a0, i * A + a1)), i * size, Y)
                transform_lanes(diagonals, Y)
                for i in range(n):
                    if self.scale is not None:
                        scale_lanes(self.scale[templates], block.first, i * size, Y)
                    pool.add(i, Y, (i * size, size), templates)

    def _space(self, n: int) -> Floats:
        """Room for n lanes; those beyond are zero."""
        width = padded(n, 16)
        if width not in self._spaces:
            self._spaces[width] = np.empty((self.signs.shape[2], width), np.float32)
        Y = self._spaces[width]
        Y[:, n:] = 0
        return Y
