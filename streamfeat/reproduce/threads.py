"""One thread for linear algebra: many small decompositions, on cores that others use too."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any


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
