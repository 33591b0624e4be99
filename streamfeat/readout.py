"""The readout of a bank: a matrix that was learned, applied to Phi as the last thing before a feature leaves.

    z = (Phi(x) - offset) M,    M (D, K)

Phi are the features after pooling, layer 2 and outer orbit, scaled as `FeatureMap.dense` does. So what was fitted on
features is served with them: the SVMs of MMIF on kernel features, whitening inside orbits, principal or random
directions. The numbers lie in the bank and in its hash; nothing of it is in a spec, for no spec could make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError
from streamfeat.kernels import LANES, ROWS, Floats, blocks_of, padded
from streamfeat.kernels.project import project

READOUT = "readout_"
"""How the names of its arrays begin."""


def readout_arrays(matrix: ArrayLike, offset: ArrayLike | None, n_features: int) -> dict[str, NDArray[Any]]:
    """`readout_matrix` (n_blocks, >= D, LANES), a lane a column, and `readout_offset` (D,), float32.

    Parameters
    ----------
    matrix : (D, K)
    offset : (D,), optional
        None: zeros.
    n_features : int
        D of the bank it is for.

    Raises
    ------
    ConfigError
        Another D, no column, or numbers that float32 does not hold.
    """
    M, given = np.asarray(matrix, np.float64), np.zeros(n_features) if offset is None else offset
    away = np.asarray(given, np.float64)
    if M.ndim != 2 or M.shape[0] != n_features or M.shape[1] == 0 or away.shape != (n_features,):
        raise ConfigError(
            f"a readout of {n_features} features takes a matrix ({n_features}, K) and an offset ({n_features},), "
            f"got {M.shape} and {away.shape}"
        )
    largest = float(np.finfo(np.float32).max)
    if not (np.abs(M) < largest).all() or not (np.abs(away) < largest).all():
        raise ConfigError("the matrix and the offset of a readout must be finite float32 numbers")
    return {
        f"{READOUT}matrix": blocks_of(M.T, padded(n_features, 4)),
        f"{READOUT}offset": away.astype(np.float32),
    }


def read_out(arrays: Mapping[str, NDArray[Any]], phi: Floats, out: Floats) -> None:
    """z of each row of phi (n, D) into out (n, K); a row's z does not depend on the rows beside it, bit for bit."""
    blocks, n_columns = arrays[f"{READOUT}matrix"], out.shape[1]
    X = np.zeros((padded(len(phi), ROWS), blocks.shape[1]), np.float32)
    np.subtract(phi, arrays[f"{READOUT}offset"], out=X[: len(phi), : phi.shape[1]])
    P = np.empty((len(X), LANES), np.float32)
    for block, W in enumerate(blocks):
        project(X, W, P)
        t = slice(block * LANES, min(n_columns, (block + 1) * LANES))
        out[:, t] = P[: len(phi), : t.stop - t.start]
