"""Vectors against a bank -> inner products, one block of templates at a time.

A block of `LANES` templates meets all group elements of a few items, and whoever asked pools the result while it is in
cache: 441 x 64 projections are 110 KB. All of them are never there at once.

An item's projections do not depend on the items beside it: rows are filled up to `ROWS` with zeros and every row goes
through the same sums (`kernels.project`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streamfeat.bankstore import Bank
from streamfeat.kernels import LANES, ROWS, Floats, padded
from streamfeat.kernels.project import project, project_orbits, rescale

ROWS_AT_ONCE = 32
"""Items share a pass until they have this many rows: a bank without a group would waste three rows in four."""


def items_at_once(bank: Bank) -> int:
    """How many items one pass over the bank takes."""
    if not bank.spec.window.whole:
        return 1
    return ROWS if bank.form == "dense" else max(1, ROWS_AT_ONCE // bank.n_group)


def projections(bank: Bank, vectors: Floats) -> Iterator[tuple[int, Floats]]:
    """The projections of some items on each block of templates, renormalised.

    Parameters
    ----------
    bank : Bank
    vectors : (n, d) float32
        At most `items_at_once(bank)` rows of them if the bank is dense or has patches.

    Yields
    ------
    block : int
    P : (n, G, LANES) float32
        P[i, g, t] = <x_i, g t>, overwritten by the next block. With patches g is a position, in C order of the grid.
    """
    if not bank.spec.window.whole:
        for vector in vectors:
            yield from _patch_projections(bank, bank.spec.window.cut(vector, bank.axes.shape))
        return
    n, G = len(vectors), bank.n_group
    if bank.form == "dense":
        X = _rows(bank, ROWS)
        X[:n, : bank.d] = vectors
        P = np.empty((ROWS, G, LANES), np.float32)
        for block, orbits in enumerate(bank.arrays["orbits"]):
            project_orbits(X, orbits, P)
            yield block, P[:n]
        return
    X = move(bank, vectors)
    flat = np.empty((len(X), LANES), np.float32)
    P = flat[: n * G].reshape(n, G, LANES)
    scale = bank.arrays.get("scale")
    for block, templates in enumerate(bank.arrays["templates"]):
        project(X, templates, flat)
        if scale is not None:
            rescale(scale[block], P)
        yield block, P


def _patch_projections(bank: Bank, patches: Floats) -> Iterator[tuple[int, Floats]]:
    P = np.empty((len(patches), LANES), np.float32)
    for block, templates in enumerate(bank.arrays["templates"]):
        project(patches, templates, P)
        yield block, P[None, : bank.n_group]


def move(bank: Bank, vectors: Floats) -> Floats:
    """Each vector moved by the adjoint of each group element.

    Returns
    -------
    (>= n G, >= d) float32
        Row i G + g is g* x_i; zeros fill rows up to `ROWS` and columns up to the bank's.
    """
    n = len(vectors)
    X = _rows(bank, padded(n, ROWS))
    X[:n, : bank.d] = vectors
    for factor in bank.factors:
        moved = _rows(bank, padded(n * factor.n, ROWS))
        factor.act(X[:n], moved)
        X, n = moved, n * factor.n
    return X


def _rows(bank: Bank, n: int) -> Floats:
    return np.zeros((n, padded(bank.d, 4)), np.float32)
