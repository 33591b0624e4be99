"""RLS of rows that are in many places: their sums are made where they are, and merged in a tree.

    leaf:  Moments of some rows (n_b, D): weight, means, centred Gram matrix, D^2 numbers however many rows
    node:  two of them by Chan's rule, `Moments.merge`
    root:  comes here; lambda is chosen and the equations are solved as by `RLS.fit`, `learn.equations`

Which rows are summed with which is told by the chunks alone, so whoever dies, the weights are the same to the bit. From
those of `RLS.fit` they differ by the rounding of sums in another order, times the condition number of the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import distributed
import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument, WorkerLost
from streamfeat.featureset import read_features
from streamfeat.learn.checks import check_features
from streamfeat.learn.moments import Moments
from streamfeat.learn.rls import RLS

Floats = NDArray[np.float64]

LEAST_ROWS = 256
ROWS_FOR_WIDTH = 4
"""A leaf has D / 4 rows or more: D^3 / 4 products for D^2 numbers to send and to merge."""


def fit(
    rls: RLS,
    X: Any,
    y: Sequence[object] | NDArray[Any],
    groups: Sequence[object] | NDArray[Any] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    holdout: ArrayLike | None = None,
    client: distributed.Client | None = None,
    finished: Callable[[int], None] | None = None,
) -> RLS:
    """`rls.fit` on a dask array, whose rows stay where they are: what is sent are sums, and the rows held out.

    Parameters
    ----------
    rls : RLS
        Fitted in place.
    X : dask array (n, D)
        Features, in chunks of known length.
    y, groups, sample_weight, holdout
        As of `RLS.fit`, held here.
    client : distributed.Client, optional
        Who computes; without it, Dask's default scheduler.
    finished : callable, optional
        Called with a number of rows each time so many have been added up; needs a client.

    Returns
    -------
    RLS
        The same.

    Raises
    ------
    InvalidArgument
        As `RLS.fit_sums`; X is no dask array of rows.
    WorkerLost
        Rows that ended every worker they were given to.
    """
    if not isinstance(X, da.Array) or X.ndim != 2 or np.isnan(X.shape[0]):
        raise InvalidArgument(f"a dask array (n, D) is needed, its chunks of known length, got {X!r}")
    centred = rls.recipe.centred

    def add_up(Y: Floats, w: Floats) -> Moments:
        leaves = _leaves(X, Y, w, centred)
        root = _tree(leaves, centred)
        if client is None:
            [moments] = compute(root)
        else:
            moments = _watched(client, root, leaves, finished)
        return moments  # type: ignore[no-any-return]

    try:
        return rls.fit_sums(_Fetched(X, client), y, groups, add_up=add_up, sample_weight=sample_weight, holdout=holdout)
    except distributed.scheduler.KilledWorker as error:
        raise WorkerLost(f"rows that ended every worker they were given to: {error}; look at its memory") from error


def stored(place: Path, *, send: bool = False) -> Any:
    """The rows of a feature set as a dask array (n, D).

    Parameters
    ----------
    place : Path
        What `streamfeat featurize` wrote.
    send : bool
        Rows are read here and sent, for workers that do not see this place; until the end they are in the memory of
        this process and of the scheduler. Otherwise each worker reads its own.
    """
    rows = read_features(place).rows
    n, width = rows.shape
    size = _leaf_rows(width)
    parts = []
    for first in range(0, n, size):
        last = min(first + size, n)
        if send:
            part = delayed(_same, pure=False)(np.asarray(rows[first:last]))
        else:
            part = delayed(_read_rows, pure=False)(str(place.absolute()), first, last)
        parts.append(da.from_delayed(part, (last - first, width), rows.dtype))
    return da.concatenate(parts) if parts else da.zeros((0, width), rows.dtype)


class _Fetched:
    """Rows of a dask array, brought here when they are asked for."""

    def __init__(self, X: Any, client: distributed.Client | None) -> None:
        self.X, self.client = X, client

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]), int(self.X.shape[1]))

    def __getitem__(self, which: Any, /) -> NDArray[Any]:
        wanted = self.X[which]
        return np.asarray(wanted.compute() if self.client is None else self.client.compute(wanted).result())


def _leaf_rows(width: int) -> int:
    return max(LEAST_ROWS, width // ROWS_FOR_WIDTH)


def _leaves(X: Any, Y: Floats, w: Floats, centred: bool) -> list[tuple[Any, int]]:
    """Sums of the rows of each chunk, small chunks together, and how many rows they are."""
    size = _leaf_rows(X.shape[1])
    if max(X.chunks[0], default=0) < size:
        X = X.rechunk({0: size})
    ends = np.cumsum(X.chunks[0])
    blocks = X.rechunk({1: -1}).to_delayed()[:, 0]
    add_up = delayed(_sums, pure=False)
    places = [slice(end - length, end) for end, length in zip(ends, X.chunks[0], strict=True)]
    return [
        (add_up(block, Y[place], w[place], centred, place.start), place.stop - place.start)
        for block, place in zip(blocks, places, strict=True)
    ]


def _tree(leaves: Sequence[tuple[Any, int]], centred: bool) -> Any:
    """Neighbours merged, then neighbours of those, down to one."""
    level = [leaf for leaf, _ in leaves]
    merge = delayed(_merged, pure=False)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [merge(one, other, centred) for one, other in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def _watched(
    client: distributed.Client,
    root: Any,
    leaves: Sequence[tuple[Any, int]],
    finished: Callable[[int], None] | None,
) -> Moments:
    """The root, computed with a word for each leaf: what is held is that word, so that merged sums can go."""
    said = delayed(_counted, pure=False)
    [future, *words] = client.compute([root, *(said(leaf, n) for leaf, n in leaves)], optimize_graph=False)
    for _, n in distributed.as_completed(words, with_results=True, loop=client.loop):
        if finished is not None:
            finished(n)
    return future.result()  # type: ignore[no-any-return]


def _read_rows(place: str, first: int, last: int) -> NDArray[Any]:
    """On a worker that sees the place."""
    return np.asarray(read_features(Path(place)).rows[first:last])


def _same(rows: NDArray[Any]) -> NDArray[Any]:
    return rows


def _sums(rows: NDArray[Any], Y: Floats, w: Floats, centred: bool, first: int) -> Moments:
    """On a worker: a leaf, of rows `first` and on."""
    moments = Moments(centred)
    try:
        moments.take(check_features(rows), Y, w)
    except InvalidArgument as error:
        raise InvalidArgument(f"rows from {first} on, counted from there: {error.reason}") from None
    return moments


def _merged(one: Moments, other: Moments, centred: bool) -> Moments:
    """On a worker: a node, as a new thing, for what a task is given may be given again."""
    both = Moments(centred)
    both.merge(one)
    both.merge(other)
    return both


def _counted(_: Moments, n: int) -> int:
    return n
