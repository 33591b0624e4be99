"""A Dask scheduler: one of its own on this machine, or the user's.

Whoever reaches a Dask scheduler's or worker's port runs programs there: its wire uses pickles. So the port of a local
cluster is on loopback, and one of your own is to be reached by people you trust alone, or through `tls://` with keys.
A fleet's wire is another: it carries data only, and checks them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from typing import Any

from streamfeat.errors import ConfigError, Unavailable
from streamfeat.threads import n_cores

try:
    import dask
    import distributed
except ImportError as error:
    raise ConfigError("streamfeat.dask needs dask and distributed: pip install 'streamfeat[dask]'") from error

CONNECT_S = 30.0
"""For a scheduler to answer, and for its first worker to be there."""


BANKS: dict[str, Any] = {"distributed.admin.large-graph-warning-threshold": "4 GiB"}
"""A bank is sent as it is, and is larger than what Dask warns of."""

LOCAL: dict[str, Any] = {
    **BANKS,
    "distributed.worker.profile.enabled": False,
    "distributed.nanny.pre-spawn-environ": {
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), 1),
        "MALLOC_MMAP_THRESHOLD_": 32 << 20,
        "MALLOC_TRIM_THRESHOLD_": 64 << 20,
    },
}
"""Workers of our own keep the memory of one block for the next: by Dask's settings its pages are faulted in anew each
time. Nor do they look a hundred times a second at what they are at."""


@contextmanager
def connect(address: str = "local", n_workers: int | None = None) -> Iterator[distributed.Client]:
    """A client of the scheduler at this address, or of a cluster of its own, closed at the end.

    Parameters
    ----------
    address : str
        "local": one process a core, on this machine; else as `tcp://host:8786`.
    n_workers : int, optional
        Processes of a local cluster; the cores when not given.

    Raises
    ------
    Unavailable
        No scheduler answers there, or it has no worker.
    """
    local = address == "local"
    with ExitStack() as stack:
        stack.callback(_restore, dict(os.environ))  # the cluster puts its workers' variables into ours, and leaves them
        stack.enter_context(dask.config.set(LOCAL if local else BANKS))
        where: Any = address
        if local:
            with _interrupted_later():
                cluster = distributed.LocalCluster(
                    n_workers=n_workers or n_cores(),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                )
            where = stack.enter_context(cluster)
        try:
            # what workers give comes straight from them, not by way of the scheduler: here they can be reached
            client = distributed.Client(where, timeout=CONNECT_S, set_as_default=False, direct_to_workers=local or None)
            stack.enter_context(client)
            client.wait_for_workers(1, timeout=CONNECT_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise Unavailable(
                f"a Dask scheduler with a worker is needed at {address!r}: {error}; start one, or use local"
            ) from error
        yield client


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold SIGINT back, here until the end and from threads and processes that are started meanwhile for ever.

    Ctrl-C goes to every process of a terminal: workers would end with a trace each. They are ended with their cluster.
    """
    resource_tracker.ensure_running()  # a thread that has to start it lets SIGINT through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _restore(environ: Mapping[str, str]) -> None:
    for name in os.environ.keys() - environ.keys():
        del os.environ[name]
    os.environ.update(environ)
