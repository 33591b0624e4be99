"""What a pooling is told of a bank, what it may use while one is built, and what it pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.kernels import LANES, Floats

Array = NDArray[Any]


@dataclass(frozen=True)
class Size:
    """m templates of d numbers, |G| = n_group, squared norms below 1 + epsilon.

    With patches the group is their positions, times the elements that move templates, and grid their rows and columns;
    cyclic if the last column of them is beside the first.
    """

    m: int
    d: int
    n_group: int
    epsilon: float
    grid: tuple[int, int] = (1, 1)
    cyclic: bool = False

    @property
    def n_moves(self) -> int:
        """Elements that move templates at each position."""
        return self.n_group // math.prod(self.grid)


@dataclass(frozen=True, eq=False)
class Material:
    """What arrays of a pooling are made from.

    Attributes
    ----------
    size : Size
    vectors : (N, d) float32
        Of the signals the bank is built from; none, if it takes none.
    templates : callable
        -> every t, (m, d).
    orbits : callable
        Numbers of templates -> every gt, (n, G, d).
    moves_templates : bool
        Whether there is a gt: no, if a factor depends on the input; `orbits` then gives copies of t.
    project : callable
        Vectors (N, d) -> (slice of items, block, P), a few items at a time.
    rng : Generator
    """

    size: Size
    vectors: Floats
    templates: Callable[[], Floats]
    orbits: Callable[[Sequence[int]], Floats]
    moves_templates: bool
    project: Callable[[Floats], Iterator[tuple[slice, int, Floats]]]
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Pass:
    """A few items on their way past every block of templates.

    Attributes
    ----------
    arrays : mapping
        The bank's.
    vectors : (n, d) float32
    projected : iterable of (block, P)
        P (n, G, LANES), the projections on one block of templates; the next overwrites it, and so may who reads it.
    """

    arrays: Mapping[str, Array]
    vectors: Floats
    projected: Iterable[tuple[int, Floats]]


def lanes_of(block: int) -> slice:
    """The numbers of a block's templates; a last block that is not full is cut off by the array it indexes."""
    return slice(block * LANES, (block + 1) * LANES)
