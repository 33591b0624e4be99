"""How far two features are apart, and how they are held to be compared.

Distances are 1 - cos ("cosine": 0 to 2; a feature of zeros is at 1 from all) or Euclidean ("l2").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument

Metric = Literal["cosine", "l2"]
Float32s = NDArray[np.float32]


def check_metric(metric: str) -> str:
    """The metric, if it is one."""
    if metric not in get_args(Metric):
        raise InvalidArgument(f"metric must be one of {', '.join(get_args(Metric))}, got {metric!r}")
    return metric


def held(rows: NDArray[Any], metric: str, centre: NDArray[np.float64] | None = None) -> Float32s:
    """Features (n, D) as they are held, contiguous; each row for itself.

    Counts and float32 lose nothing under "l2"; for "cosine" they are centred and scaled to unit length.
    """
    if metric == "l2" and centre is None:
        return np.ascontiguousarray(rows, dtype=np.float32)
    exact = rows.astype(np.float64)
    if centre is not None:
        exact -= centre
    if metric == "cosine":
        norms = np.array([np.sqrt(row @ row) for row in exact])
        exact /= np.where(norms > 0, norms, 1.0)[:, None]
    return exact.astype(np.float32)


def distances(query: Float32s, rows: Iterable[Float32s], metric: str) -> NDArray[np.float64]:
    """From a query to rows, all as `held`, one at a time: sums of one length in one order."""
    exact = query.astype(np.float64)
    wide = (row.astype(np.float64) for row in rows)
    if metric == "cosine":
        return np.array([min(max(1.0 - float(row @ exact), 0.0), 2.0) for row in wide])
    offsets = (row - exact for row in wide)
    return np.array([float(np.sqrt(offset @ offset)) for offset in offsets])
