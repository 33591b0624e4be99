"""Compiled inner loops: arrays in, `out` last, nothing returned, nothing checked. The caller checks and allocates.

A kernel never calls a kernel of another file: numba's cache is stamped with one file's date, so a change next door
would leave old machine code in use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core.typing.templates import Signature
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    # Threads of the caller may run kernels side by side; no kernel starts threads of its own.
    "nogil": True,
    "error_model": "numpy",
    # a * b + c in one rounding. The other "fast" rules stay off: NaN and infinity keep their meaning, and
    # sums keep their order, so that a row's result does not depend on the rows computed with it.
    "fastmath": {"contract"},
}
"""The one set of compiler flags."""

LANES = 64
"""Templates side by side in memory: four AVX-512 or eight AVX2 registers a row, and no remainder loop."""

ROWS = 4
"""Input rows that share one pass over a block of templates; `project` also takes the vector four numbers at a time."""

VECTORS = 128
"""Vectors side by side in a fast transform, at most: 64 rows of them are 32 KB, and stay in the first cache.

448 vectors of 1,024, three transforms, one thread: 32 abreast 0.58 ms, 64 0.31 ms, 128 0.33 ms with AVX-512; with AVX2
0.85, 0.58 and 0.41 ms.
"""


def frozen(dtype: types.Type, ndim: int) -> types.Array:
    """The numba type of a C-ordered array that may be mapped read-only; a writable one fits too."""
    return types.Array(dtype, ndim, "C", readonly=True)


def pair(of: types.Type) -> types.Type:
    """The numba type of two values of one type."""
    made: types.Type = types.UniTuple(of, 2)  # type: ignore[no-untyped-call]
    return made


def padded(n: int, step: int) -> int:
    """The multiple of `step` that is at least n."""
    return -(-n // step) * step


def blocks_of(values: NDArray[Any], rows: int | None = None) -> Floats:
    """(m, n) values, one row a template, in blocks (n_blocks, rows, LANES); lanes and rows are filled up with zeros."""
    m, n = values.shape
    blocks = np.zeros((padded(m, LANES) // LANES, n if rows is None else rows, LANES), np.float32)
    for block in range(len(blocks)):
        some = values[block * LANES : (block + 1) * LANES]
        blocks[block, :n, : len(some)] = some.T
    return blocks


def part(function: Function) -> Function:
    """A piece of kernels of the same file, compiled into each of them."""
    compiled: Function = numba.njit(**OPTIONS)(function)
    return compiled


def kernel(signature: Signature) -> Callable[[Function], Function]:
    """Compile a function for one signature when it is imported, from numba's cache if there is a usable one."""

    def compile_function(function: Function) -> Function:
        compiled: Any
        try:
            compiled = numba.njit(signature, cache=True, **OPTIONS)(function)
        except Exception as error:
            # No directory to write to, or a cut cache file: numba raises anything from RuntimeError to EOFError.
            # What is not the cache's fault is raised again by compiling without one.
            compiled = numba.njit(signature, **OPTIONS)(function)
            logging.getLogger(__name__).warning(
                "kernel %s compiled without numba's cache (%s): seconds at every start; set NUMBA_CACHE_DIR to a "
                "writable directory, or empty the one in use",
                function.__name__,
                error,
            )
        return cast(Function, compiled)

    return compile_function
