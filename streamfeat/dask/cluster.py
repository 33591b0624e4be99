"""A Dask scheduler: one of its own on this machine, or the user's.

Whoever reaches a Dask scheduler's or worker's port runs programs there: its wire uses pickles. So the port of a local
cluster is on loopback, and one of your own is to be reached by people you trust alone, or through `tls://` with keys.
A fleet's wire is another: it carries data only, and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    with ExitStack() as stack:
        where: Any = address
        if address == "local":
            where = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=n_workers or n_cores(),
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=50,
                )
            )
        # a bank is sent as it is, and is larger than what Dask warns of
        stack.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"}))
        try:
            client = stack.enter_context(distributed.Client(where, timeout=CONNECT_S, set_as_default=False))
            client.wait_for_workers(1, timeout=CONNECT_S)
        except (OSError, ValueError, TimeoutError) as error:
            raise Unavailable(
                f"a Dask scheduler with a worker is needed at {address!r}: {error}; start one, or use local"
            ) from error
        yield client
