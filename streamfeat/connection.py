"""A client's connection: one socket, its conversation with the broker, and the items that wait for an answer.

`Connection.turn` is the whole loop: hear what came, say what is due, sleep a little, end what is late. The decisions
are in `wire.session` and `wire.outstanding`; here are the socket, the clock, and the rule that both belong to one
thread of one process.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import ceil
from pathlib import Path
from typing import Any

import zmq

from streamfeat import __version__, multipart
from streamfeat.endpoints import check_reach, connect_again, open_dealer
from streamfeat.errors import InvalidArgument, NobodyListens, StreamfeatError, Unavailable
from streamfeat.keys import Credentials
from streamfeat.monitor import Monitor
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Item, Message
from streamfeat.wire.outstanding import Errand, Outcome, Outstanding
from streamfeat.wire.session import HELLO_PAUSES_S, Session

LINGER_MS = 500
"""What a goodbye may take."""

LOOK_EVERY_S = 0.1
"""How often a connection that is not made yet is asked what became of it."""


class Connection:
    """A client's side of the conversation with one broker.

    Parameters
    ----------
    endpoint : str
    connect_timeout_s : float
    peer : str
        Hexadecimal name of this run.
    credentials : Credentials, optional
        Keys, for a broker that is reached over TCP.
    """

    def __init__(
        self, endpoint: str, connect_timeout_s: float, peer: str, credentials: Credentials | None = None
    ) -> None:
        self.endpoint = check_reach(endpoint, credentials)
        self._credentials = credentials
        self.connect_timeout_s = connect_timeout_s
        self._peer = peer
        self._owner = (os.getpid(), threading.get_ident())
        about = {"software": f"streamfeat {__version__}", "pid": os.getpid(), "host": socket.gethostname()}
        self._session = Session({"protocol": [1, 1], "role": "client", "peer": peer, **about})
        self._open = Outstanding(random.Random(secrets.randbits(64)))  # noqa: S311 - spreads retries, hides nothing
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._monitor: Monitor | None = None
        self._poller = zmq.Poller()
        self._reports: deque[dict[str, Any]] = deque(maxlen=1)
        self._n_ended = 0

    @property
    def n_dropped(self) -> int:
        """Replies to items that had been answered or given up."""
        return self._open.n_late + self._open.n_duplicate

    def connect(self) -> None:
        """Say hello and wait for the welcome; at once if there was one.

        Raises
        ------
        NobodyListens, Unreachable, BrokerSilent, Unavailable
            No welcome in time, and as far as is known why.
        NoKey, WrongServerKey, ServerWithoutKeys, Unauthenticated
            The keys of the two sides do not fit; as soon as that is certain.
        ConfigError, VersionMismatch
            The broker refuses this client.
        """
        self.open()
        deadline = time.monotonic() + self.connect_timeout_s
        while not self.welcomed:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise self.why_unavailable()
            self.turn(min(left_s, LOOK_EVERY_S))

    @property
    def welcomed(self) -> bool:
        """Whether the broker has welcomed this client, now or before."""
        return self._session.n_welcomes > 0

    def open(self) -> None:
        """Make the socket, which waits for nobody; the `turn`s from now on say hello. Twice is harmless."""
        self.check_owner()
        if self._socket is None:
            self._context = zmq.Context()
            self._socket = open_dealer(
                self._context, self.endpoint, self._peer, linger_ms=LINGER_MS, credentials=self._credentials
            )
            self._monitor = Monitor(self._socket)
            self._poller.register(self._monitor.fd, zmq.POLLIN)
            self._socket.connect(self.endpoint)

    def filenos(self) -> tuple[int, int]:
        """What an event loop watches: when either can be read, a `turn` is due.

        libzmq tells of a change once, and any call may take the news: only a `turn` that gave more than 0 has had all.
        """
        assert self._monitor is not None, "open made it"
        return self._live_socket().FD, self._monitor.fd.FD

    def close(self) -> None:
        """Say goodbye and let go of the socket; in a forked child, where it is not ours, do nothing."""
        context = self.leave()
        if context is not None:
            context.term()

    def leave(self) -> zmq.Context[zmq.Socket[bytes]] | None:
        """As `close`, but for the last wait, until the goodbye is out: `term()` of what is given, in any thread."""
        if self._socket is None or self._context is None or os.getpid() != self._owner[0]:
            return None
        self.check_owner()
        for message in self._session.finish("client closed", time.monotonic()):
            self._send(message)
        nobody = not self._connected
        if self._monitor is not None:
            self._monitor.close()
        self._socket.close(linger=0 if nobody else None)
        context, self._socket, self._monitor, self._context = self._context, None, None, None
        return context

    def submit(self, errand: Errand, item: Item, timeout_s: float, end: Callable[[Outcome], None]) -> int:
        """Add an item; its id. `end` is called with its outcome, from within a later `turn`.

        Raises
        ------
        TooLarge
            The item is over the broker's limits.
        """
        return self._open.submit(errand, item, now=time.monotonic(), timeout_s=timeout_s, ticket=end)

    def withdraw(self, ids: Iterable[int] | None = None) -> int:
        """Give up these items, or all; how many were open. From a thread or process that may not: none."""
        if self._socket is None or self._owner != (os.getpid(), threading.get_ident()):
            return 0
        outcomes, cancel = self._open.cancel(self._open.open_ids() if ids is None else ids, time.monotonic())
        self._end(outcomes)
        if cancel is not None:
            self._send(cancel)
        return len(outcomes)

    def report(self, timeout_s: float) -> dict[str, Any]:
        """The broker's report; asked for again once a heartbeat.

        Raises
        ------
        Unavailable
            No report in time.
        """
        deadline = time.monotonic() + timeout_s
        ask_at = time.monotonic()
        self._reports.clear()
        while not self._reports:
            now = time.monotonic()
            if now >= deadline:
                raise self.no_report(timeout_s)
            if now >= ask_at and self.ask_report():
                ask_at = now + self.heartbeat_s
            self.turn(min(deadline, max(ask_at, now + 0.01)) - now)
        return self._reports.popleft()

    def ask_report(self) -> bool:
        """Ask for a report, if somebody is there to be asked; `take_report` has it once it came."""
        return self._session.state == "ready" and self._send(Message("STATUS"))

    def take_report(self) -> dict[str, Any] | None:
        """A report that came and was not taken yet."""
        return self._reports.popleft() if self._reports else None

    def no_report(self, timeout_s: float) -> Unavailable:
        """The error of a report that did not come."""
        return Unavailable(f"{self.endpoint}: no report within {timeout_s:g} s; the broker is stuck or gone")

    @property
    def heartbeat_s(self) -> float:
        """The broker's heartbeat."""
        return self._session.heartbeat_s

    def turn(self, wait_s: float) -> float:
        """Hear what came, say what is due, end what is late; sleep up to `wait_s` for more if nothing ended so far.

        Returns
        -------
        float
            How long nothing will be due unless something comes; 0 if there may be more at once.
        """
        n_ended = self._n_ended
        due_s = 0.0
        if self._session.state == "greeting" and (refusal := self._refusal()) is not None:
            raise refusal
        self._listen()
        now = time.monotonic()
        blocked = not self._talk(now)
        if n_ended == self._n_ended:
            # unconnected, the session is due at once, so it has no say
            session_s = HELLO_PAUSES_S[0] if blocked else self._session.wait_s(now)
            due_s = min(self._open.wait_s(now), session_s)
            if self._wake(min(wait_s, due_s), zmq.POLLIN | (zmq.POLLOUT if blocked and self._connected else 0)):
                self._listen()
        answering = "answers" if self._session.state == "ready" and self._connected else "does not answer"
        outcomes, cancel = self._open.expire(time.monotonic(), f"the broker at {self.endpoint} {answering}")
        self._end(outcomes)
        if cancel is not None:
            self._send(cancel)
        return due_s if n_ended == self._n_ended else 0.0

    def check_owner(self) -> None:
        """Raise InvalidArgument in another thread, in a forked child, and after `close`."""
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

    def _wake(self, wait_s: float, events: int) -> bool:
        """Sleep until one of these events of the socket, or news of its connection; whether it was the socket."""
        socket_ = self._live_socket()
        self._poller.register(socket_, events)
        ready = dict(self._poller.poll(ceil(wait_s * 1000)))
        if self._monitor is not None and self._monitor.fd in ready:
            self._look(time.monotonic())
        return socket_ in ready

    @property
    def _connected(self) -> bool:
        """Whether anybody hears: what is said to nobody waits in a queue, and would be computed when somebody comes."""
        return self._monitor is not None and self._monitor.connected

    def _look(self, now: float) -> None:
        """Greet the broker anew over a connection that was made anew: its welcome has everything open sent again."""
        if self._monitor is not None and self._monitor.made_again():
            self._session.cut(now)
        if self._monitor is not None and self._monitor.given_up():
            connect_again(self._live_socket(), self.endpoint)

    def _listen(self) -> None:
        while True:
            try:
                frames = multipart.contents(multipart.receive(self._live_socket()))
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
                self._end(self._open.hear(message, now))

    def _talk(self, now: float) -> bool:
        """Say what is due and send what credit allows; False if the socket takes no more, or is not connected yet."""
        if not self._connected:
            self._look(now)
        if not self._connected:
            return False
        was = self._session.state
        messages = self._session.due(now)
        if was == "ready" and self._session.state == "greeting":  # silence
            connect_again(self._live_socket(), self.endpoint)
            return False
        for message in messages:
            self._send(message)
        if messages:  # once a heartbeat, however busy
            self._look(now)
        while self._session.state == "ready" and (request := self._open.next_request(now)) is not None:
            if not self._send_request(request, now):
                return False
        return True

    def _send_request(self, request: Message, now: float) -> bool:
        """Send one request, in halves if it breaks a rule of the wire: so that only the item at fault fails."""
        try:
            sent = self._send(request)
        except StreamfeatError as error:
            half = len(request.items) // 2
            if half == 0:
                self._end(self._open.fail(request.items[0].fields["id"], error, now))
                return True
            first, second = (
                Message("REQUEST", request.fields, p) for p in (request.items[:half], request.items[half:])
            )
            sent_first, sent_second = self._send_request(first, now), self._send_request(second, now)
            return sent_first and sent_second
        if not sent:
            self._open.put_back(request)
        return sent

    def _send(self, message: Message) -> bool:
        try:
            multipart.send(self._live_socket(), encode(message))
        except zmq.Again:
            return False
        return True

    def _end(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._n_ended += 1
            outcome.ticket(outcome)

    def _live_socket(self) -> zmq.Socket[bytes]:
        if self._socket is None:
            raise InvalidArgument("this client is closed; make a new one")
        return self._socket

    def _refusal(self) -> StreamfeatError | None:
        """Why this client will never be welcome, if so."""
        key = None if self._credentials is None else self._credentials.key.name
        return None if self._monitor is None else self._monitor.refused(self.endpoint, key)

    def why_unavailable(self) -> Unavailable:
        """The error of a welcome that did not come within the time."""
        waited = f"{self.connect_timeout_s:g} s"
        tail = f"(waited {waited}); check the endpoint, or start a fleet with `streamfeat serve`"
        if self._session.complaint is not None:
            return Unavailable(f"{self.endpoint}: the broker takes no clients now ({self._session.complaint}) {tail}")
        if (barrier := obstacle(self.endpoint)) is not None:
            return NobodyListens(f"{self.endpoint}: {barrier} {tail}")
        assert self._monitor is not None, "connect made it"
        return self._monitor.absent(self.endpoint, waited)


def obstacle(endpoint: str) -> str | None:
    """What keeps this user from a unix socket; None: nothing that the file system knows of."""
    if not endpoint.startswith("ipc://"):
        return None
    path = endpoint.removeprefix("ipc://")
    try:
        Path(path).stat()
    except PermissionError:
        return "this user may not enter its directory; join the group that may"
    except OSError:
        return "there is no such socket"
    may_connect = os.access(path, os.W_OK, effective_ids=True)
    return None if may_connect else "this user may not connect to the socket; join the group that may"
