"""Vectors against a stream's templates -> inner products, one block of templates at a time.

A block of `LANES` templates meets all group elements of a few items, and whoever asked pools the result while it is in
cache: 441 x 64 projections are 110 KB. All of them are never there at once.

An item's projections do not depend on the items beside it: every row goes through the same sums, whatever the number of
rows (`kernels.project`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from streamfeat.groups import Elements
from streamfeat.kernels import LANES, ROWS, Floats, padded
from streamfeat.kernels.project import project, project_orbits, rescale
from streamfeat.streams import Stream

ROWS_AT_ONCE = 32
"""Items share a pass until they have this many rows: a bank without a group would waste three rows in four, and stored
orbits are read from memory once a pass, which takes longer than multiplying them by a few rows."""

PROJECTED_BYTES = 4 << 20
"""Items share a pass over stored orbits as long as their projections on a block of templates fit here."""


def items_at_once(stream: Stream) -> int:
    """How many items one pass over the stream's templates takes."""
    if not stream.spec.window.whole:
        return 1
    if stream.form == "dense":
        return min(max(PROJECTED_BYTES // (4 * LANES * stream.n_group), 1), ROWS_AT_ONCE)
    return max(1, ROWS_AT_ONCE // stream.n_group)


def projections(stream: Stream, vectors: Floats) -> Iterator[tuple[int, Floats]]:
    """The projections of some items on each block of templates, renormalised.

    Parameters
    ----------
    stream : Stream
    vectors : (n, d) float32
        At most `items_at_once(stream)` rows of them if the stream is dense or has patches.

    Yields
    ------
    block : int
    P : (n, G, LANES) float32
        P[i, g, t] = <x_i, g t>, overwritten by the next block. With patches g is a position, in C order of the
        grid, and at each of them every element that moves templates.
    """
    if not stream.spec.window.whole:
        for vector in vectors:
            yield from _patch_projections(stream, stream.spec.window.cut(vector, stream.axes.shape))
        return
    n, G = len(vectors), stream.n_group
    if stream.form == "dense":
        X = _rows(stream, n)
        X[:, : stream.d] = vectors
        P = np.empty((n, G, LANES), np.float32)
        for block, orbits in enumerate(stream.arrays["orbits"]):
            project_orbits(X, orbits, P)
            yield block, P
        return
    yield from _products(stream, move(stream, vectors), n, G)


def _patch_projections(stream: Stream, patches: Floats) -> Iterator[tuple[int, Floats]]:
    n = math.prod(stream.grid)
    for block, P in _products(stream, _acted(stream.factors, patches, n), n, stream.n_moves):
        yield block, P.reshape(1, stream.n_group, LANES)


def _products(stream: Stream, X: Floats, n: int, G: int) -> Iterator[tuple[int, Floats]]:
    """The first n G rows of X on each block of templates, renormalised (n, G, LANES)."""
    flat = np.empty((len(X), LANES), np.float32)
    P = flat[: n * G].reshape(n, G, LANES)
    scale = stream.arrays.get("scale")
    for block, templates in enumerate(stream.arrays["templates"]):
        project(X, templates, flat)
        if scale is not None:
            rescale(scale[block], P)
        yield block, P


def move(stream: Stream, vectors: Floats, n_factors: int | None = None) -> Floats:
    """Each vector moved by the adjoint of each group element, or of the product of the first n factors.

    Returns
    -------
    (>= n G, >= d) float32
        Row i G + g is g* x_i; zeros fill rows up to `ROWS` and columns up to those of the templates.
    """
    n = len(vectors)
    X = _rows(stream, padded(n, ROWS))
    X[:n, : stream.d] = vectors
    return _acted(stream.factors[:n_factors], X, n)


def _acted(factors: Sequence[Elements], X: Floats, n: int) -> Floats:
    """The first n rows of X under the adjoint of every element; zeros fill rows up to `ROWS`."""
    for factor in factors:
        moved = np.zeros((padded(n * factor.n, ROWS), X.shape[1]), np.float32)
        factor.act(X[:n], moved)
        X, n = moved, n * factor.n
    return X


def _rows(stream: Stream, n: int) -> Floats:
    return np.zeros((n, padded(stream.d, 4)), np.float32)
