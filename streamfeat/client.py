"""The client: jobs in, results out, many under way at once.

    with Client("ipc:///run/streamfeat/front.sock") as client:
        for result in client.stream(Job(signal) for signal in signals):
            print(result.feature)

Nothing here waits for ever: connecting has its limit, and so has every item, whether the broker is there, slow, stopped
or gone. A broker that comes back is greeted again and asked again, under the same ids. Items that found no room are
offered again within their time.

A client belongs to the thread and the process that made it: ZeroMQ sockets survive neither another thread nor a fork.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.connection import Connection
from streamfeat.errors import InvalidArgument, StreamfeatError
from streamfeat.keys import Credentials
from streamfeat.payloads import Job, Result
from streamfeat.signals import Signal
from streamfeat.wire.outstanding import Errand, Outcome

__all__ = ["Client", "Job", "Result"]

WINDOW = 128
"""Jobs under way unless the caller says otherwise: four requests, so that workers never wait for the next."""

PULL = 32
"""Jobs taken from the caller between two looks at the socket, and so the items of a REQUEST."""

FIT_TIMEOUT_S = 600.0
PEER_PATTERN = re.compile(r"[0-9a-f]{8,64}")


class Client:
    """A connection to a fleet.

    Parameters
    ----------
    endpoint : str
        The broker's front: ipc:///path or tcp://host:port.
    timeout_s : float
        How long each item may take, unless a call says otherwise.
    connect_timeout_s : float
        How long to wait for the broker's welcome.
    peer : str, optional
        8 to 64 hexadecimal digits that name this run to the broker, drawn at random unless given. The broker remembers
        its answers by (peer, number of the item): give one only to ask for the very same items again.
    credentials : Credentials, optional
        Keys, for a broker that is reached over TCP.
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
        self._connection = connection_to(endpoint, connect_timeout_s, peer, credentials)

    @property
    def endpoint(self) -> str:
        """Where this client connects."""
        return self._connection.endpoint

    @property
    def n_dropped(self) -> int:
        """Answers that came late or twice, and were dropped."""
        return self._connection.n_dropped

    def __enter__(self) -> Client:
        try:
            self.connect()
        except BaseException:
            self.close()  # no block is entered, so none will be left
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Say hello and wait for the welcome. Every other call does it first, so this is for those who want to know.

        Raises
        ------
        NobodyListens, Unreachable, BrokerSilent, Unavailable
            No welcome within `connect_timeout_s`, and as far as is known why.
        NoKey, WrongServerKey, ServerWithoutKeys, Unauthenticated
            The keys of the two sides do not fit; as soon as that is certain.
        ConfigError, VersionMismatch
            The broker refuses this client.
        """
        self._connection.connect()

    def close(self) -> None:
        """Say goodbye and let go of the socket; items under way are withdrawn. Closing twice is harmless."""
        self._connection.close()

    def stream(
        self,
        jobs: Iterable[Job],
        *,
        route: str | Sequence[str] = "features",
        bank: str | None = None,
        ordered: bool = True,
        window: int | None = None,
        options: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Iterator[Result]:
        """Send jobs along a route and yield a result for each, keeping many under way.

        Parameters
        ----------
        jobs : iterable of Job
            Pulled as there is room; may be endless.
        route : str or sequence of str
            Stages, such as "features", "features > learn:digits" or ["features", "search:digits"].
        bank : str, optional
            Name or hash of the bank; needed when the fleet serves several.
        ordered : bool
            Yield in the order of the jobs; else as they are done.
        window : int, optional
            Most jobs pulled and not yet yielded; 128 unless given. The broker's credit is a bound as well.
        options : mapping, optional
            For the last stage, such as {"k": 5} for search.
        timeout_s : float, optional
            For each job, from when it is pulled; the client's own unless given.

        Yields
        ------
        Result
            One for each job; one that failed has `ok` False and its error, and the others go on.

        Raises
        ------
        InvalidArgument
            A window or a timeout that is not positive.
        Unavailable, ConfigError, VersionMismatch
            As `connect`.
        """
        timeout_s = self.timeout_s if timeout_s is None else wait_limit(timeout_s, "timeout_s")
        window = WINDOW if window is None else window
        if window < 1:
            raise InvalidArgument(f"window must be at least 1, got {window!r}")
        self.connect()
        return self._stream(jobs, Errand(stages_of(route), bank, dict(options or {})), ordered, window, timeout_s)

    def features(self, signals: Iterable[Signal], *, bank: str | None = None) -> NDArray[Any]:
        """Features of signals, shape (N, D), in the bank's dtype; raises the first error."""
        results = self.stream((Job(s) for s in signals), bank=bank)
        rows = [result.feature for result in results]
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    def classify(self, signals: Iterable[Signal], model: str, *, bank: str | None = None) -> list[str | int]:
        """The class of each signal, by a model that a learner of the fleet serves; raises the first error."""
        results = self.stream((Job(s) for s in signals), route=("features", f"classify:{model}"), bank=bank)
        return [result.label for result in results]

    def search(
        self, signals: Iterable[Signal], index: str, *, k: int = 1, bank: str | None = None
    ) -> list[list[tuple[str | int | None, int, float]]]:
        """For each signal its k nearest neighbours, nearest first: (label, id, distance); raises the first error."""
        route = ("features", f"search:{index}")
        return [r.neighbours for r in self.stream((Job(s) for s in signals), route=route, bank=bank, options={"k": k})]

    def learn(self, jobs: Iterable[Job], model: str, *, bank: str | None = None) -> int:
        """Commit labelled signals to a model's feature log; how many were new. Raises the first error."""
        return self._commit(jobs, f"learn:{model}", bank)

    def insert(self, jobs: Iterable[Job], index: str, *, bank: str | None = None) -> int:
        """Commit signals to an index; how many were new. Raises the first error."""
        return self._commit(jobs, f"insert:{index}", bank)

    def fit(self, model: str, *, timeout_s: float = FIT_TIMEOUT_S, **options: Any) -> dict[str, Any]:
        """Fit a model to all that it was told; what came of it: lam, n_items, n_classes, accuracy, criterion."""
        (result,) = self.stream([Job(None)], route=(f"fit:{model}",), options=options, timeout_s=timeout_s)
        if result.error is not None:
            raise result.error
        return result.fields

    def status(self) -> dict[str, Any]:
        """The broker's report of itself, its workers and its queues.

        Raises
        ------
        Unavailable
            No report within `timeout_s`.
        """
        self.connect()
        return self._connection.report(self.timeout_s)

    def cancel(self) -> int:
        """Withdraw every job under way: each ends as `Cancelled`. How many there were."""
        self._connection.check_owner()
        return self._connection.withdraw()

    def _commit(self, jobs: Iterable[Job], stage: str, bank: str | None) -> int:
        n_new = 0
        for result in self.stream(jobs, route=("features", stage), bank=bank, ordered=False):
            if result.error is not None:
                raise result.error
            n_new += not result.fields["duplicate"]
        return n_new

    def _stream(
        self, jobs: Iterable[Job], errand: Errand, ordered: bool, window: int, timeout_s: float
    ) -> Iterator[Result]:
        """Pull, turn, yield; `done` holds results by place, and in order only what comes next may leave."""
        source = enumerate(jobs)
        inbox: _Inbox = deque()
        done: dict[int, Result] = {}
        under_way: dict[int, int] = {}
        n_pulled = n_yielded = 0
        more = True
        try:
            while more or n_yielded < n_pulled:
                self._connection.check_owner()
                room = window - (n_pulled - n_yielded)
                pulling = more and (room >= min(PULL, window) or not under_way)
                for _ in range(min(PULL, room) if pulling else 0):
                    place, job = next(source, (-1, None))
                    if job is None:
                        more = False
                        break
                    n_pulled += 1
                    under_way[place] = self._submit(job, place, errand, timeout_s, inbox)
                self._connection.turn(0.0 if inbox or pulling or not under_way else float("inf"))
                while inbox:
                    place, result = inbox.popleft()
                    under_way.pop(place, None)
                    done[place] = result
                while (n_yielded in done) if ordered else done:
                    place = n_yielded if ordered else next(iter(done))
                    n_yielded += 1
                    yield done.pop(place)
        finally:
            self._connection.withdraw(under_way.values())

    def _submit(self, job: Job, place: int, errand: Errand, timeout_s: float, inbox: _Inbox) -> int:
        """Number of the job's item; one that cannot travel ends here, as a failed result."""

        def end(outcome: Outcome) -> None:
            inbox.append((place, result_of(job, outcome)))

        try:
            return self._connection.submit(errand, job.to_item(), timeout_s, end)
        except StreamfeatError as error:
            end(Outcome(None, None, error, 0.0))
            return -1


_Inbox = deque[tuple[int, Result]]
"""Results of one stream as they end, each with its place among the jobs."""


def connection_to(
    endpoint: str, connect_timeout_s: float, peer: str | None, credentials: Credentials | None
) -> Connection:
    """A connection of a client, made of what its user gave: see `Client`."""
    peer = peer or secrets.token_hex(8)
    if not PEER_PATTERN.fullmatch(peer):
        raise InvalidArgument(f"peer must be 8 to 64 hexadecimal digits, got {peer!r}")
    return Connection(endpoint, wait_limit(connect_timeout_s, "connect_timeout_s"), peer, credentials)


def result_of(job: Job, outcome: Outcome) -> Result:
    """How a job ended, as its user sees it."""
    reply = outcome.reply
    return Result(
        job,
        ok=outcome.error is None,
        error=outcome.error,
        fields={} if reply is None else reply.fields,
        arrays=() if reply is None else tuple(array.to_numpy() for array in reply.arrays),
        latency_ms=1000 * outcome.latency_s,
    )


def stages_of(route: str | Sequence[str]) -> tuple[str, ...]:
    """The stages of a route, given one by one or as "features > learn:digits"."""
    parts = route.split(">") if isinstance(route, str) else route
    return tuple(part.strip() for part in parts)


def wait_limit(value: float, name: str) -> float:
    """The value, if it is a time that ends; else InvalidArgument."""
    if not 0 < value < float("inf"):
        raise InvalidArgument(f"{name} must be above 0 and finite, got {value!r}: every wait has an end")
    return value
