"""The client for asyncio: as `client`, with `await`.

    async with AsyncClient("ipc:///run/streamfeat/front.sock") as client:
        async for result in client.stream(Job(signal) for signal in signals):
            print(result.feature)

Credit, deadlines, asking again and errors are those of `Client`: the same `Connection` decides. What differs is who
waits: the event loop, and nothing runs beside it. (One step may take longer: a handshake over TCP that is cut short is
looked into for up to a second.)

A task that is cancelled while it waits for an item withdraws the item. `asyncio.gather`, `asyncio.as_completed` and
task groups take `client.submit(job)` as any other coroutine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.asyncconnection import AsyncConnection
from streamfeat.client import FIT_TIMEOUT_S, PULL, WINDOW, connection_to, stages_of, wait_limit
from streamfeat.errors import InvalidArgument
from streamfeat.keys import Credentials
from streamfeat.payloads import Job, Result
from streamfeat.signals import Signal
from streamfeat.wire.outstanding import Errand

__all__ = ["AsyncClient", "Job", "Result"]

T = TypeVar("T")
Signals = Iterable[Signal] | AsyncIterable[Signal]
Jobs = Iterable[Job] | AsyncIterable[Job]


class AsyncClient:
    """A connection to a fleet, for the tasks of one event loop.

    Parameters
    ----------
    endpoint, timeout_s, connect_timeout_s, peer, credentials
        As of `streamfeat.Client`.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout_s: float = 30.0,
        connect_timeout_s: float = 5.0,
        peer: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.timeout_s = wait_limit(timeout_s, "timeout_s")
        self._asked = connection_to(endpoint, connect_timeout_s, peer, credentials)
        self._connection = AsyncConnection(self._asked)

    @property
    def endpoint(self) -> str:
        """Where this client connects."""
        return self._asked.endpoint

    @property
    def n_dropped(self) -> int:
        """Answers that came late or twice, and were dropped."""
        return self._asked.n_dropped

    async def __aenter__(self) -> AsyncClient:
        try:
            await self.connect()
        except BaseException:
            await self.close()  # no block is entered, so none will be left
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Say hello and wait for the welcome. Every other call does it first, so this is for those who want to know.

        Raises
        ------
        StreamfeatError
            As `Client.connect`.
        """
        await self._connection.connect()

    async def close(self) -> None:
        """Say goodbye and let go of the socket; items under way are withdrawn. Closing twice is harmless."""
        await self._connection.close()

    async def submit(
        self,
        job: Job,
        *,
        route: str | Sequence[str] = "features",
        bank: str | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Result:
        """Send one job along a route and wait for its result.

        Jobs that are submitted in one step of the loop, on one errand, travel together.

        Parameters
        ----------
        job : Job
        route, bank, options, timeout_s
            As of `Client.stream`.

        Returns
        -------
        Result
            One that failed has `ok` False and its error.

        Raises
        ------
        StreamfeatError
            As `connect`.
        """
        timeout_s = self._limit(timeout_s)
        await self.connect()
        return await self._connection.start(job, Errand(stages_of(route), bank, dict(options or {})), timeout_s)

    def stream(
        self,
        jobs: Jobs,
        *,
        route: str | Sequence[str] = "features",
        bank: str | None = None,
        ordered: bool = True,
        window: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Result, None]:
        """Send jobs along a route and yield a result for each, keeping many under way.

        To leave it before its end, use `contextlib.aclosing`: what is under way is withdrawn at once.

        Parameters
        ----------
        jobs : iterable or asynchronous iterable of Job
            Pulled as there is room; may be endless.
        route, bank, ordered, window, options, timeout_s
            As of `Client.stream`.

        Yields
        ------
        Result
            One for each job; one that failed has `ok` False and its error, and the others go on.

        Raises
        ------
        InvalidArgument
            A window or a timeout that is not positive.
        StreamfeatError
            As `connect`.
        """
        timeout_s = self._limit(timeout_s)
        window = WINDOW if window is None else window
        if window < 1:
            raise InvalidArgument(f"window must be at least 1, got {window!r}")
        return self._stream(jobs, Errand(stages_of(route), bank, dict(options or {})), ordered, window, timeout_s)

    async def features(self, signals: Signals, *, bank: str | None = None) -> NDArray[Any]:
        """Features of signals, shape (N, D), in the bank's dtype; raises the first error."""
        rows = [result.feature async for result in self.stream(_jobs(signals), bank=bank)]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    async def classify(self, signals: Signals, model: str, *, bank: str | None = None) -> list[str | int]:
        """The class of each signal, by a model that a learner of the fleet serves; raises the first error."""
        results = self.stream(_jobs(signals), route=("features", f"classify:{model}"), bank=bank)
        return [result.label async for result in results]

    async def search(
        self, signals: Signals, index: str, *, k: int = 1, bank: str | None = None
    ) -> list[list[tuple[str | int | None, int, float]]]:
        """For each signal its k nearest neighbours, nearest first: (label, id, distance); raises the first error."""
        results = self.stream(_jobs(signals), route=("features", f"search:{index}"), bank=bank, options={"k": k})
        return [result.neighbours async for result in results]

    async def learn(self, jobs: Jobs, model: str, *, bank: str | None = None) -> int:
        """Commit labelled signals to a model's feature log; how many were new. Raises the first error."""
        return await self._commit(jobs, f"learn:{model}", bank)

    async def insert(self, jobs: Jobs, index: str, *, bank: str | None = None) -> int:
        """Commit signals to an index; how many were new. Raises the first error."""
        return await self._commit(jobs, f"insert:{index}", bank)

    async def fit(self, model: str, *, timeout_s: float = FIT_TIMEOUT_S, **options: Any) -> dict[str, Any]:
        """Fit a model to all that it was told; what came of it: lam, n_items, n_classes, accuracy, criterion."""
        result = await self.submit(Job(None), route=(f"fit:{model}",), options=options, timeout_s=timeout_s)
        if result.error is not None:
            raise result.error
        return result.fields

    async def status(self) -> dict[str, Any]:
        """The broker's report of itself, its workers and its queues.

        Raises
        ------
        Unavailable
            No report within `timeout_s`.
        """
        return await self._connection.report(self.timeout_s)

    def cancel(self) -> int:
        """Withdraw every job under way: each ends as `Cancelled`. How many there were."""
        return self._connection.withdraw()

    async def _commit(self, jobs: Jobs, stage: str, bank: str | None) -> int:
        n_new = 0
        async for result in self.stream(jobs, route=("features", stage), bank=bank, ordered=False):
            if result.error is not None:
                raise result.error
            n_new += not result.fields["duplicate"]
        return n_new

    async def _stream(
        self, jobs: Jobs, errand: Errand, ordered: bool, window: int, timeout_s: float
    ) -> AsyncGenerator[Result, None]:
        """A task pulls and starts jobs while there is room; `coming` holds them in the order to be yielded, then it."""
        await self.connect()
        coming: asyncio.Queue[asyncio.Future[Any]] = asyncio.Queue()
        room = asyncio.Semaphore(window)
        under_way: set[asyncio.Future[Result]] = set()

        def start(job: Job) -> None:
            future = self._connection.start(job, errand, timeout_s)
            under_way.add(future)
            future.add_done_callback(under_way.discard)
            if ordered:
                coming.put_nowait(future)
            else:
                future.add_done_callback(coming.put_nowait)

        feeding = asyncio.create_task(_feed(jobs, start, room))
        feeding.add_done_callback(coming.put_nowait)
        n_started, n_yielded, n_freed = -1, 0, 0
        try:
            while n_yielded != n_started:
                future = await coming.get()
                if future is feeding:
                    n_started = feeding.result()
                    continue
                yield await future
                n_yielded += 1
                n_freed += 1
                if n_freed >= min(PULL, window):  # so that jobs travel together
                    for _ in range(n_freed):
                        room.release()
                    n_freed = 0
        finally:
            if not feeding.cancel() and not feeding.cancelled():
                feeding.exception()  # of a source whose results nobody waits for any more
            for future in tuple(under_way):
                future.cancel()

    def _limit(self, timeout_s: float | None) -> float:
        return self.timeout_s if timeout_s is None else wait_limit(timeout_s, "timeout_s")


async def _feed(jobs: Jobs, start: Callable[[Job], None], room: asyncio.Semaphore) -> int:
    """Start jobs as there is room; how many there were."""
    source = _each(jobs)
    n_started = 0
    while True:
        await room.acquire()
        try:
            job = await anext(source)
        except StopAsyncIteration:
            return n_started
        start(job)
        n_started += 1


async def _each(things: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """One by one; an iterable that never waits gives others their turn."""
    if isinstance(things, AsyncIterable):
        async for thing in things:
            yield thing
        return
    for n, thing in enumerate(things, 1):
        yield thing
        if n % PULL == 0:
            await asyncio.sleep(0)


async def _jobs(signals: Signals) -> AsyncIterator[Job]:
    async for signal in _each(signals):
        yield Job(signal)
