"""Actions that put numbers elsewhere and change none: round shifts, flips, quarter turns, permutations.

They are exact: no interpolation, inner products kept to the bit, unitarity defect 0. Each is a finite group, so a bank
may hold all of its elements, and then its features do not change at all when the signal is moved (papers.md 6.8).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.axes import Axes
from streamfeat.groups.operators import Operator, copies
from streamfeat.groups.space import Space

Parameters = NDArray[np.float64]
On = Literal["entries", "rows", "columns", "both"]


@dataclass(frozen=True, slots=True)
class CyclicShift:
    """Factor "cyclic_shift": whole steps round; what leaves at one end comes in at the other, as `numpy.roll`.

    Parameters
    ----------
    on : "entries", "rows", "columns" or "both"
        What moves: the numbers of a vector (of a matrix row after row), rows (downwards), columns (to the right), or
        rows and columns each by its own number of steps.
    """

    on: On

    def space(self, axes: Axes) -> Space:
        n_rows, n_columns = _plane(axes, self.on, "cyclic_shift")
        if self.on == "both":
            group = Steps(f"cyclic_shift of {n_rows} rows and {n_columns} columns", (n_rows, n_columns))
            return Space(("down", "right"), (0.0, 0.0), group=group)
        n = n_rows if self.on == "rows" else n_columns
        return Space(("steps",), (0.0,), group=Steps(f"cyclic_shift of {n} {self.on}", (n,)))

    def operator(self, axes: Axes, *steps: float) -> Operator:
        whole = [_whole(value, "a cyclic_shift") for value in steps]
        return copies(axes, np.roll(_places(axes, self.on, "cyclic_shift"), whole, _axes_of(self.on)))


@dataclass(frozen=True, slots=True)
class Flip:
    """Factor "flip": 0 leaves, 1 reverses the order.

    Parameters
    ----------
    on : "entries", "rows", "columns" or "both"
        What is reversed: the numbers of a vector, rows (upside down), columns (mirrored), or rows and columns each by
        its own choice.
    """

    on: On

    def space(self, axes: Axes) -> Space:
        _plane(axes, self.on, "flip")
        names = ("rows", "columns") if self.on == "both" else (self.on,)
        return Space(names, (0.0,) * len(names), group=Steps(f"flip of {self.on}", (2,) * len(names)))

    def operator(self, axes: Axes, *flipped: float) -> Operator:
        if not set(flipped) <= {0.0, 1.0}:
            raise InvalidArgument(f"a flip is 0 or 1, got {flipped}")
        reversed_axes = tuple(axis for axis, flip in zip(_axes_of(self.on), flipped, strict=True) if flip)
        return copies(axes, np.flip(_places(axes, self.on, "flip"), reversed_axes))


@dataclass(frozen=True, slots=True)
class QuarterTurn:
    """Factor "quarter_turn": counter-clockwise quarters of a square plane, as `numpy.rot90`."""

    def space(self, axes: Axes) -> Space:
        _square(axes, "quarter_turn")
        return Space(("quarters",), (0.0,), group=Steps("quarter_turn", (4,)))

    def operator(self, axes: Axes, quarters: float) -> Operator:
        return copies(axes, np.rot90(_square(axes, "quarter_turn"), _whole(quarters, "a quarter_turn")))


@dataclass(frozen=True, slots=True)
class Permutation:
    """Factor "permutation": place i takes what is at place p_i.

    Parameters
    ----------
    on : "rows", "columns", "rows_and_columns" or "entries"
        Rows, columns, both in the same way (P C P', as atoms of a Coulomb matrix are renamed), or all the numbers of
        a vector or matrix.
    """

    on: Literal["rows", "columns", "rows_and_columns", "entries"]

    def space(self, axes: Axes) -> Space:
        if self.on == "rows_and_columns":
            n = len(_square(axes, "permutation on rows_and_columns"))
        else:
            n_rows, n_columns = _plane(axes, self.on, "permutation")
            n = n_rows if self.on == "rows" else n_columns
        identity = tuple(float(i) for i in range(n))
        return Space(tuple(f"from_{i}" for i in range(n)), identity, group=Permutations(n, self.on))

    def operator(self, axes: Axes, *places: float) -> Operator:
        p = np.asarray(places)
        if not np.array_equal(np.sort(p), np.arange(len(p))):
            raise InvalidArgument(
                f"a permutation has each of 0 to {len(p) - 1} once, got {places}; use law 'all' or 'sampled'"
            )
        p = p.astype(np.intp)
        at = _places(axes, "entries" if self.on == "entries" else "both", "permutation")
        if self.on in ("rows", "rows_and_columns"):
            at = at[p]
        if self.on in ("columns", "rows_and_columns", "entries"):
            at = at[:, p]
        return copies(axes, at)


@dataclass(frozen=True, slots=True)
class Steps:
    """Tuples of whole numbers, number i counting from 0 to orders[i] - 1 and round again."""

    name: str
    orders: tuple[int, ...]

    @property
    def order(self) -> int:
        return math.prod(self.orders)

    def every(self) -> Parameters:
        return np.indices(self.orders).reshape(len(self.orders), -1).T.astype(np.float64)

    def sample(self, n: int, rng: np.random.Generator) -> Parameters:
        return rng.integers(0, self.orders, (n, len(self.orders))).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Permutations:
    """The orders of n things, in the alphabet's order."""

    n: int
    things: str

    @property
    def name(self) -> str:
        return f"permutation of {self.n} {self.things}"

    @property
    def order(self) -> int:
        return math.factorial(self.n)

    def every(self) -> Parameters:
        return np.array(list(itertools.permutations(range(self.n))), np.float64)

    def sample(self, n: int, rng: np.random.Generator) -> Parameters:
        return rng.permuted(np.tile(np.arange(self.n, dtype=np.float64), (n, 1)), axis=1)


def _plane(axes: Axes, on: str, by: str) -> tuple[int, int]:
    """The plane on which `on` is meant: entries are one row."""
    if on == "entries":
        return 1, axes.d // axes.n_channels
    if len(axes.shape) == 1:
        raise ConfigError(f"{by} on {on!r} needs two axes, the front end gives {axes.names[0]}; use on = 'entries'")
    return axes.plane


def _places(axes: Axes, on: str, by: str) -> NDArray[np.intp]:
    """Each point's number in C order, laid out as `_plane`."""
    n_rows, n_columns = _plane(axes, on, by)
    return np.arange(n_rows * n_columns, dtype=np.intp).reshape(n_rows, n_columns)


def _square(axes: Axes, by: str) -> NDArray[np.intp]:
    at = _places(axes, "both", by) if len(axes.shape) > 1 else np.empty((0, 1), np.intp)
    if at.shape[0] != at.shape[1]:
        raise ConfigError(f"{by} needs as many rows as columns, the front end gives {axes.shape} ({axes.names})")
    return at


def _axes_of(on: On) -> Sequence[int]:
    return {"entries": (1,), "rows": (0,), "columns": (1,), "both": (0, 1)}[on]


def _whole(value: float, what: str) -> int:
    if not value.is_integer():
        raise InvalidArgument(f"{what} is a whole number of steps, got {value:g}")
    return int(value)
