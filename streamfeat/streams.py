"""The streams of a bank: each a front end's vectors against templates of its own, pooled to a part of the feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import StreamSpec
from streamfeat.groups import Axes, Elements, OperatorStack, input_moves
from streamfeat.kernels import Floats

Array = NDArray[Any]

MATRICES = ("indptr", "indices", "data")
"""What a factor's operators are stored as."""


@dataclass(frozen=True, eq=False)
class Stream:
    """One stream of a bank: what it was built from, what the manifest says of it, and its arrays.

    Attributes
    ----------
    spec : StreamSpec
    entry : mapping
        axes, n_group, factors and perhaps outer, as in the manifest.
    arrays : mapping of str to ndarray
        Under the names that a bank of this stream alone gives them.
    """

    spec: StreamSpec
    entry: Mapping[str, Any] = field(repr=False)
    arrays: Mapping[str, Array] = field(repr=False)

    @cached_property
    def axes(self) -> Axes:
        """What the numbers of a vector are."""
        a = self.entry["axes"]
        return Axes(tuple(a["names"]), tuple(a["shape"]), tuple(a["band_hz"]), a["rate_hz"])

    @cached_property
    def template_axes(self) -> Axes:
        """What the numbers of a template are, which is what factors act on."""
        return template_axes(self.spec, self.axes)

    @cached_property
    def factors(self) -> tuple[Elements, ...]:
        """What moves templates, in the order of the product; form operators only, the other has its orbits."""
        return tuple(self._factor(j, entry) for j, entry in enumerate(self.entry["factors"]))

    @cached_property
    def outer(self) -> tuple[OperatorStack, ...]:
        """The factors of the outer orbit; matrices are those of the elements themselves, not of their adjoints."""
        entries = self.entry.get("outer", ())
        return tuple(self._stack(f"outer{j}", entry, {"factor": entry["factor"]}) for j, entry in enumerate(entries))

    def _factor(self, j: int, entry: Mapping[str, Any]) -> Elements:
        table, name = self.spec.group[j], f"factor{j}"
        if f"{name}_indptr" not in self.arrays:
            return input_moves(table, self.template_axes, self.arrays[f"{name}_parameters"])
        return self._stack(name, entry, table)

    def _stack(self, name: str, entry: Mapping[str, Any], table: Mapping[str, Any]) -> OperatorStack:
        indptr, indices, data, parameters = (self.arrays[f"{name}_{part}"] for part in (*MATRICES, "parameters"))
        return OperatorStack(indptr, indices, data, parameters, tuple(entry["parameters"]), table)

    @property
    def form(self) -> str:
        """ "operators" or "dense"."""
        return self.spec.form

    @property
    def d(self) -> int:
        """Numbers that the front end gives."""
        return self.axes.d

    @property
    def template_shape(self) -> tuple[int, ...]:
        """That of the front end's axes, or of a patch."""
        return self.spec.window.template_shape(self.axes.shape)

    @property
    def template_d(self) -> int:
        """Numbers a template."""
        return math.prod(self.template_shape)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the window's positions."""
        return self.spec.window.grid(self.axes.shape)

    @property
    def m(self) -> int:
        """Templates."""
        return self.spec.templates.m

    @property
    def n_group(self) -> int:
        """|G|; with patches, how many positions they have times the elements that move their templates."""
        return int(self.entry["n_group"])

    @property
    def n_moves(self) -> int:
        """Elements that move templates."""
        return self.n_group // math.prod(self.grid)

    @property
    def n_features(self) -> int:
        """Numbers of the first layer's feature."""
        return self.spec.pooling.n_features(self.m)

    @property
    def dtype(self) -> str:
        """Of the first layer's feature: "<u2" (CDF counts) or "<f4" (all others)."""
        return self.spec.pooling.dtype


def template_axes(spec: StreamSpec, axes: Axes) -> Axes:
    """What the numbers of a template are: the front end's axes, or a patch of them.

    A patch has frequencies where its bands are at equal steps of log f, so that they mean the same at every position.
    """
    if spec.window.whole:
        return axes
    shape, steps = spec.window.template_shape(axes.shape), np.diff(np.log(axes.band_hz))
    if len(steps) == 0 or not np.allclose(steps, steps.mean(), rtol=1e-6, atol=0):
        return Axes(axes.names, shape, (), axes.rate_hz)
    band_hz = axes.band_hz[0] * np.exp(steps.mean() * np.arange(shape[0]))
    return Axes(axes.names, shape, tuple(band_hz.tolist()), axes.rate_hz)


def split(vectors: Floats, lengths: Sequence[int]) -> list[Floats]:
    """The columns of (N, sum of lengths) vectors that are each stream's."""
    ends = np.cumsum(lengths)[:-1]
    return [np.ascontiguousarray(part) for part in np.split(vectors, ends, axis=1)]
