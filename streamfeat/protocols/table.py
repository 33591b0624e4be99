"""Features of many items, computed once: in threads, in order, each the same to the bit as alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.protocols.fitted import Fitted
from streamfeat.protocols.plan import Rows
from streamfeat.signals.signal import Signal
from streamfeat.threads import in_threads, one_blas_thread

CHUNK = 64
"""Items a thread takes at a time."""


@dataclass(frozen=True)
class Table:
    """Features X (n, D) of the items whose numbers are `rows`, rising."""

    rows: Rows
    X: NDArray[Any]

    def take(self, rows: Rows) -> NDArray[Any]:
        """The features of some items; a view, where they lie side by side."""
        places = np.searchsorted(self.rows, rows)
        first = int(places[0])
        if np.array_equal(places, np.arange(first, first + len(places))):
            return self.X[first : first + len(places)]
        return self.X[places]


def featurise(
    fitted: Fitted, read: Callable[[int], Signal], rows: Rows, advance: Callable[[int], None], n_threads: int
) -> Table:
    """Features of the items with these numbers; a number may occur twice.

    Parameters
    ----------
    fitted : Fitted
    read : callable
        The signal of an item, called in the threads.
    rows : (n,) ints
    advance : callable
        Told how many items are done.
    n_threads : int
    """
    rows = np.unique(rows)
    chunks = [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]

    def transform(chunk: Rows) -> NDArray[Any]:
        return fitted.transform([read(int(row)) for row in chunk])

    X: NDArray[Any] | None = None
    first = 0
    with one_blas_thread():
        for some in in_threads(transform, chunks, n_threads if fitted.threads else 1):
            if X is None:
                X = np.empty((len(rows), some.shape[1]), some.dtype)
            X[first : first + len(some)] = some
            first += len(some)
            advance(len(some))
    assert X is not None  # a plan without rows has no trials
    return Table(rows, X)
