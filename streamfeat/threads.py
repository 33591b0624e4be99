"""Threads: one for linear algebra, several for items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def one_blas_thread() -> AbstractContextManager[Any]:
    """While it lasts, BLAS works in the calling thread alone.

    Its threads wait for each other by spinning. Thousands of decompositions of 500 rows took 12 times as long on two
    busy cores as in one thread (106 ms against 9). Without threadpoolctl, which comes with librosa's scikit-learn,
    nothing changes.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits


def n_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def in_threads(function: Callable[[T], R], parts: Sequence[T], n_threads: int) -> Iterator[R]:
    """`function` of each part, in their order, computed in n_threads threads.

    Worth it where the function spends its time outside the interpreter, as kernels do. The first error is raised, and
    parts that were not begun are dropped; so they are when the caller stops asking.
    """
    if n_threads <= 1:
        yield from map(function, parts)
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield from pool.map(function, parts)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
