"""Threads: one for linear algebra, several for items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from math import ceil, inf
from pathlib import Path
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
    """Cores that this process may use: those it may run on, or fewer where its CPU quota is for fewer."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return cores if quota == inf else max(1, min(cores, ceil(quota)))


def n_threads() -> int:
    """Threads for a process that shares its machine: one, or as many as whoever set its CPU quota gave it cores."""
    quota = cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return 1 if quota == inf else n_cores()


def cpu_quota(own: Path, mounted: Path) -> float:
    """Cores that a process's cgroup, or one above it, allows in the mean; infinity without a limit.

    Parameters
    ----------
    own : Path
        Its /proc/PID/cgroup.
    mounted : Path
        Where cgroups are mounted: version 2 (cpu.max), or 1 (cpu.cfs_quota_us below `cpu`).
    """
    least = inf
    for line in own.read_text().splitlines() if own.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mounted / controllers if controllers and (mounted / controllers).is_dir() else mounted
        root = mounted / "cpu" if controllers and root == mounted and (mounted / "cpu").is_dir() else root
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(mounted):
                break
            least = min(least, _quota(folder))
    return least


def _quota(folder: Path) -> float:
    """The limit of one cgroup, in cores."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
    except OSError:
        return inf
    return inf if quota in ("max", "-1") else int(quota) / int(period)


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
