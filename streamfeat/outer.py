"""The outer orbit of a bank: copies of an input, moved by interpolation, whose features are pooled.

Where a group moves templates and the first layer pools, an outer orbit moves the input itself, x -> gx, and what is
pooled is F(gx), F all that comes before: layer 2 sees the whole of each copy, and the layout with it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.groups import Axes, OperatorStack, make_factor, stack
from streamfeat.kernels import Floats
from streamfeat.orbits import factor_entries
from streamfeat.streams import MATRICES, Stream

MAX_COUNT = 65535
"""Counts are uint16."""

MAX_COPIES = 10_000
"""Of an input, which is computed as often."""

MAX_MOVED = 1 << 27
"""Numbers of all copies of an input, which are in memory at once: 512 MB."""


def moved_copies(stream: Stream, vectors: Floats) -> Floats:
    """gx for each vector and every g of the outer orbit, (n, d) -> (n |outer|, d), a vector's copies together."""
    X = vectors
    # g = f_1 f_2 ... f_k: the last factor moves first
    for factor in reversed(stream.outer):
        moved = np.empty((len(X) * factor.n, stream.d), np.float32)
        factor.act(X, moved)
        X = moved
    return X


def with_outer(spec: BankSpec, streams: Sequence[Stream], rng: np.random.Generator) -> tuple[BankSpec, list[Stream]]:
    """The spec with its outer factors written out in full, and the streams with their operators.

    Raises
    ------
    ConfigError
        A factor without matrices; streams whose axes give other elements; more counts than a feature can hold.
    """
    if not spec.outer:
        return spec, list(streams)
    # The same elements for every stream, each by operators of its own axes.
    drawn = [_factors(spec.outer, stream.axes, copy.deepcopy(rng)) for stream in streams]
    if any(
        not np.array_equal(one.parameters, other.parameters)
        for factors in drawn[1:]
        for one, other in zip(factors, drawn[0], strict=True)
    ):
        raise ConfigError(
            f"bank {spec.name!r}: the outer orbit has the same elements for every stream; a law that depends on the "
            "axes goes with streams of equal axes"
        )
    n_outer = math.prod(factor.n for factor in drawn[0])
    numbers = n_outer * max(max(stream.d, stream.n_features) for stream in streams)
    if n_outer > MAX_COPIES or numbers > MAX_MOVED:
        raise ConfigError(
            f"bank {spec.name!r}: an outer orbit makes at most {MAX_COPIES} copies of an input and {MAX_MOVED} numbers "
            f"of them, got {n_outer} copies and {numbers} numbers; use fewer elements or smaller inputs"
        )
    most = max(stream.n_group for stream in streams) * n_outer
    if spec.layer2 is None and streams[0].dtype == "<u2" and most > MAX_COUNT:
        raise ConfigError(
            f"bank {spec.name!r} sums counts over |G| |outer| = {most} elements, uint16 takes at most {MAX_COUNT}: use "
            "fewer, or a layer 2"
        )
    canonical = replace(spec, outer=tuple(factor.spec for factor in drawn[0]))
    return canonical, [_moving(stream, factors) for stream, factors in zip(streams, drawn, strict=True)]


def _moving(stream: Stream, factors: Sequence[OperatorStack]) -> Stream:
    arrays = {
        f"outer{j}_{part}": np.asarray(getattr(factor, part))
        for j, factor in enumerate(factors)
        for part in (*MATRICES, "parameters")
    }
    return Stream(stream.spec, {**stream.entry, "outer": factor_entries(factors)}, {**stream.arrays, **arrays})


def _factors(tables: Sequence[Mapping[str, Any]], axes: Axes, rng: np.random.Generator) -> list[OperatorStack]:
    """The elements themselves, where a group keeps their adjoints."""
    factors = []
    for table in tables:
        factor = make_factor(table, axes, rng)
        if not isinstance(factor, OperatorStack):
            raise ConfigError(f"outer factor {table['factor']!r} acts by a rule; [[outer]] takes those with matrices")
        adjoints = (factor.operator(i) for i in range(factor.n))
        elements = [adjoint._replace(out=adjoint.source, source=adjoint.out) for adjoint in adjoints]
        factors.append(stack(elements, factor.parameters, factor.names, factor.spec))
    return factors
