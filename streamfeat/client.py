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

import os
import random
import re
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from streamfeat import __version__
from streamfeat.endpoints import check_endpoint, open_dealer
from streamfeat.errors import InvalidArgument, StreamfeatError, Unavailable
from streamfeat.payloads import Job, Result
from streamfeat.signals import Signal
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Message
from streamfeat.wire.outstanding import Errand, Outcome, Outstanding
from streamfeat.wire.session import HELLO_PAUSES_S, Session

__all__ = ["Client", "Job", "Result"]

WINDOW = 64
"""Jobs under way unless the caller says otherwise: a dozen workers stay busy, and nobody queues for long."""

PULL = 16
"""Jobs taken from the caller between two looks at the socket, and so the items of a REQUEST."""

FIT_TIMEOUT_S = 600.0
LINGER_MS = 500
"""What a goodbye may take."""

PEER_PATTERN = re.compile(r"[0-9a-f]{8,64}")


class Client:
    """A connection to a fleet.

    Parameters
    ----------
    endpoint : str
        The broker's front: ipc:///path or tcp://127.0.0.1:port.
    timeout_s : float
        How long each item may take, unless a call says otherwise.
    connect_timeout_s : float
        How long to wait for the broker's welcome.
    peer : str, optional
        8 to 64 hexadecimal digits that name this run to the broker, drawn at random unless given. The broker remembers
        its answers by (peer, number of the item): give one only to ask for the very same items again.
    """

    def __init__(
        self, endpoint: str, *, timeout_s: float = 30.0, connect_timeout_s: float = 5.0, peer: str | None = None
    ) -> None:
        self.endpoint = check_endpoint(endpoint)
        self.timeout_s = _positive(timeout_s, "timeout_s")
        self.connect_timeout_s = _positive(connect_timeout_s, "connect_timeout_s")
        self._peer = peer or secrets.token_hex(8)
        if not PEER_PATTERN.fullmatch(self._peer):
            raise InvalidArgument(f"peer must be 8 to 64 hexadecimal digits, got {peer!r}")
        self._owner = (os.getpid(), threading.get_ident())
        self._session = Session({"protocol": [1, 1], "role": "client", "peer": self._peer} | _software())
        self._open = Outstanding(random.Random(self._peer))  # noqa: S311 - spreads retries, hides nothing
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._reports: deque[dict[str, Any]] = deque(maxlen=1)
        self._n_ended = 0

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
        Unavailable
            No welcome within `connect_timeout_s`; the message says whether anybody listens.
        ConfigError, VersionMismatch
            The broker refuses this client.
        """
        self._check_owner()
        if self._session.n_welcomes:
            return
        if self._socket is None:
            self._context = zmq.Context()
            self._socket = open_dealer(self._context, self.endpoint, self._peer, linger_ms=LINGER_MS)
        deadline = time.monotonic() + self.connect_timeout_s
        while not self._session.n_welcomes:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise Unavailable(self._why_unavailable())
            self._turn(left_s)

    def close(self) -> None:
        """Say goodbye and let go of the socket; items under way are withdrawn. Closing twice is harmless."""
        if self._socket is None or self._context is None or os.getpid() != self._owner[0]:
            return
        self._check_owner()
        for message in self._session.finish("client closed", time.monotonic()):
            self._send(message)
        self._socket.close()
        self._context.term()
        self._socket = self._context = None

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
            Most jobs pulled and not yet yielded; 64 unless given. The broker's credit is a bound as well.
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
        Unavailable, ConfigError, VersionMismatch
            As `connect`.
        """
        self.connect()
        errand = Errand(_stages(route), bank, dict(options or {}))
        return self._stream(
            jobs, errand, ordered, window or WINDOW, _positive(timeout_s or self.timeout_s, "timeout_s")
        )

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
        deadline = time.monotonic() + self.timeout_s
        self._reports.clear()
        ask_at = time.monotonic()
        while not self._reports:
            now = time.monotonic()
            if now >= deadline:
                raise Unavailable(
                    f"{self.endpoint}: no report within {self.timeout_s:g} s; the broker is stuck or gone"
                )
            if now >= ask_at and self._session.state == "ready":
                self._send(Message("STATUS"))
                ask_at = now + self._session.heartbeat_s
            self._turn(min(deadline, max(ask_at, now + 0.01)) - now)
        return self._reports.popleft()

    def cancel(self) -> int:
        """Withdraw every job under way: each ends as `Cancelled`. How many there were."""
        self._check_owner()
        ids = self._open.open_ids()
        self._withdraw(ids)
        return len(ids)

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
        inbox: deque[tuple[int, Result]] = deque()
        done: dict[int, Result] = {}
        under_way: dict[int, int] = {}
        n_pulled = n_yielded = 0
        more = True
        try:
            while more or n_yielded < n_pulled:
                self._check_owner()
                room = window - (n_pulled - n_yielded)
                pulling = more and (room >= min(PULL, window) or not under_way)
                for _ in range(min(PULL, room) if pulling else 0):
                    place, job = next(source, (-1, None))
                    if job is None:
                        more = False
                        break
                    n_pulled += 1
                    under_way[place] = self._submit(job, errand, timeout_s, (inbox, place, job))
                self._turn(0.0 if inbox or pulling or not under_way else float("inf"))
                while inbox:
                    place, result = inbox.popleft()
                    under_way.pop(place, None)
                    done[place] = result
                while (n_yielded in done) if ordered else done:
                    place = n_yielded if ordered else next(iter(done))
                    n_yielded += 1
                    yield done.pop(place)
        finally:
            self._withdraw(under_way.values())

    def _submit(self, job: Job, errand: Errand, timeout_s: float, ticket: _Ticket) -> int:
        """Number of the job's item; one that cannot travel ends here, as a failed result."""
        try:
            return self._open.submit(errand, job.to_item(), now=time.monotonic(), timeout_s=timeout_s, ticket=ticket)
        except StreamfeatError as error:
            inbox, place, _ = ticket
            inbox.append((place, Result(job, ok=False, error=error)))
            return -1

    def _withdraw(self, ids: Iterable[int]) -> None:
        if self._socket is None or self._owner != (os.getpid(), threading.get_ident()):
            return
        outcomes, cancel = self._open.cancel(ids, time.monotonic())
        self._deliver(outcomes)
        if cancel is not None:
            self._send(cancel)

    def _turn(self, wait_s: float) -> None:
        """Hear what came, say what is due, end what is late; sleep up to `wait_s` for more if nothing ended so far."""
        n_ended = self._n_ended
        self._listen()
        now = time.monotonic()
        blocked = not self._talk(now)
        if n_ended == self._n_ended:
            wait_s = min(wait_s, self._open.wait_s(now), self._session.wait_s(now) or HELLO_PAUSES_S[0])
            if self._live_socket().poll(ceil(wait_s * 1000), zmq.POLLIN | (zmq.POLLOUT if blocked else 0)):
                self._listen()
        answering = "answers" if self._session.state == "ready" else "does not answer"
        outcomes, cancel = self._open.expire(time.monotonic(), f"the broker at {self.endpoint} {answering}")
        self._deliver(outcomes)
        if cancel is not None:
            self._send(cancel)

    def _talk(self, now: float) -> bool:
        """Say what is due and send what credit allows; False if the socket takes no more, or is not connected yet."""
        if self._session.state == "greeting" and not self._live_socket().poll(0, zmq.POLLOUT):
            return False
        for message in self._session.due(now):
            self._send(message)
        while self._session.state == "ready" and (request := self._open.next_request(now)) is not None:
            if not self._send_request(request, now):
                return False
        return True

    def _listen(self) -> None:
        while True:
            try:
                frames = self._live_socket().recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            message = decode(frames)
            now = time.monotonic()
            event = self._session.hear(message, now)
            if event == "welcome":
                self._open.grant(self._session.terms)
                self._open.send_again()
            elif event == "refused" and self._session.refusal is not None:
                raise self._session.refusal
            elif message.verb == "REPORT":
                self._reports.append(message.fields["report"])
                self._n_ended += 1
            elif event is None:
                self._deliver(self._open.hear(message, now))

    def _send_request(self, request: Message, now: float) -> bool:
        """Send one request, in halves if it breaks a rule of the wire: so that only the item at fault fails."""
        try:
            sent = self._send(request)
        except StreamfeatError as error:
            half = len(request.items) // 2
            if half == 0:
                self._deliver(self._open.fail(request.items[0].fields["id"], error, now))
                return True
            first, second = (
                Message("REQUEST", request.fields, p) for p in (request.items[:half], request.items[half:])
            )
            sent_first, sent_second = self._send_request(first, now), self._send_request(second, now)
            return sent_first and sent_second
        if not sent:
            self._open.put_back(request)
        return sent

    def _deliver(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._n_ended += 1
            inbox, place, job = outcome.ticket
            reply = outcome.reply
            result = Result(
                job,
                ok=outcome.error is None,
                error=outcome.error,
                fields={} if reply is None else reply.fields,
                arrays=() if reply is None else tuple(array.to_numpy() for array in reply.arrays),
                latency_ms=1000 * outcome.latency_s,
            )
            inbox.append((place, result))

    def _send(self, message: Message) -> bool:
        try:
            self._live_socket().send_multipart(encode(message), zmq.DONTWAIT, copy=False)
        except zmq.Again:
            return False
        return True

    def _live_socket(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            raise InvalidArgument("this client is closed; make a new one")
        return self._socket

    def _check_owner(self) -> None:
        pid, thread = self._owner
        if os.getpid() != pid:
            made, used = f"process {pid}", f"process {os.getpid()}: a socket does not survive a fork"
        elif threading.get_ident() != thread:
            made, used = f"thread {thread}", f"thread {threading.get_ident()}: a socket belongs to one thread"
        elif self._session.state == "closed" and self._session.refusal is None:
            raise InvalidArgument("this client is closed; make a new one")
        else:
            return
        raise InvalidArgument(f"this client was made in {made} and is used in {used}; make a client in each")

    def _why_unavailable(self) -> str:
        path = self.endpoint.removeprefix("ipc://")
        if self._session.complaint is not None:
            what = f"the broker takes no clients now ({self._session.complaint})"
        elif self._live_socket().poll(0, zmq.POLLOUT):
            what = "a process is there, but it does not answer: stuck, or no broker"
        elif path != self.endpoint and not Path(path).exists():
            what = "there is no such socket"
        else:
            what = "nobody answers there"
        return (
            f"{self.endpoint}: {what} (waited {self.connect_timeout_s:g} s); "
            "check the endpoint, or start a fleet with `streamfeat serve`"
        )


_Ticket = tuple[deque[tuple[int, Result]], int, Job]
"""Where a result goes: the stream's inbox, its place, its job."""


def _stages(route: str | Sequence[str]) -> tuple[str, ...]:
    parts = route.split(">") if isinstance(route, str) else route
    return tuple(part.strip() for part in parts)


def _positive(value: float, name: str) -> float:
    if not 0 < value < float("inf"):
        raise InvalidArgument(f"{name} must be above 0 and finite, got {value!r}: every wait has an end")
    return value


def _software() -> dict[str, Any]:
    return {"software": f"streamfeat {__version__}", "pid": os.getpid(), "host": socket.gethostname()}
