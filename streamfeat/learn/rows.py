"""Training rows as float64, a block at a time: all of them at once would be four times the uint16 counts they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamfeat.learn.scaling import Scaling, Standardise, parts

Floats = NDArray[np.float64]

TILE = 1024
"""Rows and columns of a part of a Gram matrix that is summed at once: 8 MB."""


class Source(Protocol):
    """Features (n, D) that give the rows they are asked for as an array: memory-mapped, or elsewhere."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, which: Any, /) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Some:
    """Rows that were read once, to be found again by their numbers (k,), rising, among the (n, D) that they are of."""

    rows: NDArray[Any]
    numbers: NDArray[np.intp]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, features: Source, numbers: NDArray[np.intp]) -> Some:
        """Read them."""
        return cls(features[numbers], numbers, features.shape)

    def __getitem__(self, which: Any, /) -> NDArray[Any]:
        rows: NDArray[Any] = self.rows[np.searchsorted(self.numbers, which)]
        return rows


@dataclass(frozen=True)
class Rows:
    """Rows z = sqrt(w) (scaling(x) - mean) of training features x.

    Attributes
    ----------
    features : ndarray (n, D), or another Source
        Of any number type; also memory-mapped.
    scaling : Scaling
    mean : ndarray of float64 (D,)
        Of the scaled rows, by their weights, or zeros.
    root : ndarray of float64 (n,) or None
        Square roots of the weights.
    """

    features: Source
    scaling: Scaling
    mean: Floats
    root: Floats | None

    @classmethod
    def of(cls, features: NDArray[Any], standardise: Standardise, unit_norm: bool, weight: Floats | None) -> Rows:
        """Features (n, D) with weights (n,) of mean 1, scaled and centred as asked for."""
        scaling = Scaling.of_rows(features, standardise, unit_norm, weight)
        mean = np.zeros(features.shape[1])
        if standardise != "none":
            for part in parts(*features.shape):
                scaled = scaling.apply(features[part])
                mean += scaled.sum(axis=0) if weight is None else weight[part] @ scaled
            mean /= len(features)
        return cls(features, scaling, mean, None if weight is None else np.sqrt(weight))

    @property
    def shape(self) -> tuple[int, int]:
        """n, D."""
        return self.features.shape[0], len(self.mean)

    def take(self, which: slice | NDArray[np.intp]) -> Floats:
        """Some rows (k, D), as a new array."""
        Z = self.scaling.apply(self.features[which])
        Z -= self.mean
        if self.root is not None:
            Z *= self.root[which, None]
        return Z

    def all(self) -> Floats:
        """Every row."""
        return self.take(slice(None))

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Every row once, block by block, with its place."""
        for part in parts(*self.shape):
            yield part, self.take(part)

    def scatter(self) -> Floats:
        """Z'Z (D, D), in the memory of one and a block."""
        total = np.zeros((len(self.mean), len(self.mean)))
        for _, Z in self.blocks():
            add_scatter(total, Z)
        return total

    def gram(self) -> Floats:
        """ZZ' (n, n), in the memory of one and two blocks."""
        n, width = self.shape
        K = np.empty((n, n))
        for part, Z in self.blocks():
            K[part, part] = Z @ Z.T
            for other in parts(part.start, width):
                K[part, other] = Z @ self.take(other).T
                K[other, part] = K[part, other].T
        return K

    def times(self, W: Floats) -> Floats:
        """Z W (n, C)."""
        return np.concatenate([Z @ W for _, Z in self.blocks()])

    def transposed_times(self, Y: Floats) -> Floats:
        """Z'Y (D, C)."""
        total = np.zeros((len(self.mean), Y.shape[1]))
        for part, Z in self.blocks():
            total += Z.T @ Y[part]
        return total


def add_scatter(total: Floats, Z: Floats) -> None:
    """total += Z'Z in place, tile by tile: half the products, no second matrix, symmetric to the bit."""
    for top in range(0, Z.shape[1], TILE):
        across = Z[:, top : top + TILE]
        total[top : top + TILE, top : top + TILE] += across.T @ across
        for left in range(0, top, TILE):
            product = across.T @ Z[:, left : left + TILE]
            total[top : top + TILE, left : left + TILE] += product
            total[left : left + TILE, top : top + TILE] += product.T
