"""Slow twins of what runs along lanes: structured transforms, orbits by copying, pooling of a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import naive


def transformed(signs: NDArray[Any], Y: NDArray[Any]) -> NDArray[np.float64]:
    """H D_n ... H D_1 Y by matrices, in float64."""
    H = naive.hadamard(len(Y))
    for diagonal in signs.astype(np.float64):
        Y = H @ (diagonal[:, None] * Y)
    return np.asarray(Y, np.float64)


def filled(
    R: NDArray[Any], places: NDArray[Any], copies: tuple[int, int], columns: tuple[int, int]
) -> NDArray[np.float64]:
    """One lane a copy and column of R, the columns fastest."""
    lanes = [[R[place, a] for place in places[:, s]] for s in range(*copies) for a in range(*columns)]
    return np.array(lanes, np.float64).reshape(-1, len(places)).T


def bins(projected: NDArray[Any], thresholds: NDArray[Any]) -> NDArray[np.int64]:
    """How many values of each row lie above none, one, ... all of the row's thresholds; what is no number above all."""
    found = np.zeros((len(projected), thresholds.shape[1] + 1), np.int64)
    for t, row in enumerate(projected):
        for value in row:
            found[t, sum(not value <= tau for tau in thresholds[t])] += 1
    return found


def cos_sin_sums(projected: NDArray[Any]) -> NDArray[np.float64]:
    """Sums of cosines and of sines of each row, (2, n)."""
    return np.array([[math.fsum(f(float(v)) for v in row) for row in projected] for f in (math.cos, math.sin)])
