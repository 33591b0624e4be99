"""The loop that every worker runs round its handler: one thread, one socket, items in, results out.

A turn of the loop hears what came, says what is due, feeds the watchdog, and computes one group of items: so a process
that is stuck is silent to the broker and to systemd alike. Results leave as they are done, a few together, so that a
kill loses little. Whatever happens to an item happens to it alone: an exception makes its result `ok: false`, and the
loop goes on.

SIGTERM drains: what is leased is finished or, after `graceful_timeout_s` or a second signal, handed back unharmed.
A silent broker may come back, so its leases are kept while the worker greets it; once another one answers, or this one
does not know the worker, they are dropped. So they are when the connection was cut and made again: nobody knows which
tasks and results were under way in it, so the broker gives everything again. Until the broker answered nothing but
HELLO is sent: lease numbers begin anew with each, and an old result under a new number would be another item's.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile
from math import ceil
from typing import Any

import zmq

from streamfeat import multipart
from streamfeat.endpoints import check_reach, connect_again, open_dealer
from streamfeat.errors import (
    DeadlineExceeded,
    InternalError,
    StreamfeatError,
)
from streamfeat.keys import Credentials
from streamfeat.monitor import Monitor
from streamfeat.payloads import error_result
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Frame, Item, Message
from streamfeat.wire.session import Session

from .handler import Handler, Lease, Reloads, introduction
from .notify import READY, STOPPING, Notifier, Stop
from .outbox import FLUSH_ITEMS, Outbox

log = logging.getLogger("streamfeat.worker")

GRACEFUL_TIMEOUT_S = 20.0
"""What a drain may take; below systemd's TimeoutStopSec of the units."""

WARM_TIMEOUT_S = 600.0
"""What compiling with a cold cache, or reading a large feature log, may take; told to systemd."""

LINGER_MS = 2000
CONNECT_EVERY_S = 0.02
"""How often an unconnected socket is looked at."""

RELOAD_S = 60.0
"""What opening and trying newer banks may take."""

BEAT_EVERY_S = 0.02
"""A handler's signs of life that follow sooner are spared: between small items they cost a tenth of the work."""

BUSY_FACTOR = 4
"""A group may take that many times the slowest one of its kind so far before its worker counts as silent."""


class Runtime:
    """One worker's loop.

    Parameters
    ----------
    handler : Handler
    connect : str
        The broker's endpoint for workers.
    name : str
        Unique within the fleet; a restarted worker with the same name takes the place of the older run.
    n_together : int
        Items handed to the handler at once, if they are of one stage.
    credentials : Credentials, optional
        Keys, for a broker that is reached over TCP.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        connect: str,
        name: str,
        stop: Stop,
        notifier: Notifier,
        n_together: int,
        graceful_timeout_s: float = GRACEFUL_TIMEOUT_S,
        credentials: Credentials | None = None,
    ) -> None:
        self._handler = handler
        self._connect = check_reach(connect, credentials)
        self._credentials = credentials
        self._name = name
        self._stop = stop
        self._notifier = notifier
        self._n_together = n_together
        self._in_hand = FLUSH_ITEMS - 1 + n_together  # results that wait for company, and those being computed
        self._graceful_timeout_s = graceful_timeout_s
        self._peer = secrets.token_hex(8)
        self._leases: deque[Lease] = deque()
        self._outbox = Outbox(handler.kind)
        self._slowest_s: dict[str, float] = {}
        self._last_s = self._next_beat = 0.0
        self._broker, self._n_let_go = "", 0
        self._reload_asked, self._reloads, self._warm_s = False, Reloads(), 0.0
        self._drain_until, self._drained = float("inf"), False

    def run(self) -> None:
        """Warm up, then serve until told to stop.

        Raises
        ------
        StreamfeatError
            The broker refuses this worker, or warming failed.
        """
        self._notifier.say("STATUS=warming", f"EXTEND_TIMEOUT_USEC={int(WARM_TIMEOUT_S * 1e6)}")
        begun = time.monotonic()
        self._handler.warm()
        self._warm_s = time.monotonic() - begun
        self._stop.defer()
        self._session = Session(self._introduction())
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = open_dealer(
            context, self._connect, self._peer, linger_ms=LINGER_MS, credentials=self._credentials
        )
        self._monitor = Monitor(self._socket)
        self._socket.connect(self._connect)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor.fd, zmq.POLLIN)
        self._poller.register(self._stop.fd, zmq.POLLIN)
        try:
            while self._session.state != "closed":
                self._turn()
            self._send_waiting()
        finally:
            self._notifier.say(STOPPING)
            self._handler.close()
            self._monitor.close()
            self._socket.close(linger=None if self._monitor.connected else 0)
            context.term()
        if self._session.refusal is not None:
            raise self._session.refusal

    def _turn(self) -> None:
        idle = not self._leases and not self._outbox.n_results
        self._listen(self._wait_s(time.monotonic()) if idle else 0.0)
        now = time.monotonic()
        self._refuse_strangers()
        self._obey(now)
        if self._stop.take_reload() or self._reload_asked:
            self._reload(now)
        self._talk(now)
        if self._leases:
            self._compute()
        self._flush(time.monotonic())

    def _refuse_strangers(self) -> None:
        """Raise what keeps this worker from its broker however long it waits; absence alone does not."""
        key = None if self._credentials is None else self._credentials.key.name
        refusal = self._monitor.refused(self._connect, key) if self._session.state == "greeting" else None
        if refusal is not None:
            raise refusal

    def _wait_s(self, now: float) -> float:
        session_s = self._session.wait_s(now) or CONNECT_EVERY_S  # 0: due, but the socket is not connected
        # what could not be sent, the socket's queue being full
        full_s = 0.01 if self._outbox.waiting and self._session.state != "greeting" else float("inf")
        return max(0.0, min(session_s, full_s, self._notifier.wait_s(now), self._drain_until - now))

    def _listen(self, wait_s: float) -> None:
        """Take everything that waits in the socket; sleep up to `wait_s` for the first message or signal."""
        if wait_s > 0:
            ready = dict(self._poller.poll(ceil(wait_s * 1000)))
            if self._stop.fd in ready:
                self._stop.clear()
            if self._monitor.fd in ready:
                self._look(time.monotonic())
        while True:
            try:
                frames = multipart.contents(multipart.receive(self._socket))
            except zmq.Again:
                return
            self._hear(frames)

    def _look(self, now: float) -> None:
        """Greet the broker afresh over a connection that was made anew."""
        if self._monitor.made_again() and self._session.cut(now):
            self._let_go("the connection was cut")
        if self._monitor.given_up():
            connect_again(self._socket, self._connect)

    def _hear(self, frames: Sequence[Frame]) -> None:
        now = time.monotonic()
        try:
            message = decode(frames)
        except StreamfeatError as error:
            log.error("a message of the broker cannot be read: %s", error)
            return
        event = self._session.hear(message, now)
        if event == "welcome":
            if self._session.broker != self._broker:
                self._let_go("another broker answers")
            self._broker = self._session.broker
            if self._session.n_welcomes == 1:
                self._notifier.say(READY, f"STATUS=ready, {', '.join(self._handler.stages)}")
            log.info("welcomed by broker %s", self._session.broker)
        elif event is not None:
            self._let_go(f"the broker is gone ({event})")
        elif message.verb == "TASK":
            self._take(message, now)
        elif message.verb == "RELOAD":
            self._reload_asked = True
        elif message.verb == "PONG":
            self._drained = self._session.state == "draining"
        elif message.verb == "ERROR":
            log.warning("the broker refused a message: %s", message.fields.get("reason"))

    def _take(self, task: Message, now: float) -> None:
        stage, options = str(task.fields["stage"]), task.fields.get("options") or {}
        for item in task.items:
            self._leases.append(Lease(stage, options, item, now + item.fields["ttl_ms"] / 1000))

    def _let_go(self, why: str) -> None:
        """What the broker gave is not this worker's any more; whoever is there gives it again."""
        if n_had := len(self._leases) + self._outbox.n_results:
            log.warning("%s: %d leases dropped", why, n_had)
        self._n_let_go += 1
        self._leases.clear()
        self._outbox.clear()

    def _obey(self, now: float) -> None:
        """Act on signals: the first drains, the second ends the drain, and so does its time."""
        if self._stop.count and self._drain_until == float("inf"):
            self._drain_until = now + self._graceful_timeout_s
            self._notifier.say(STOPPING, "STATUS=draining")
            log.info("draining: %d items in hand", len(self._leases))
            # the answer to this PING comes after the last TASK that was sent before the broker read DRAIN
            for message in [*self._session.drain(now), *self._session.busy(0, now)]:
                self._outbox.post(message)
        if self._stop.count > 1:
            self._drain_until = min(self._drain_until, now)
        if self._session.state == "draining":
            told = self._drained or not self._monitor.connected  # nobody is there who would answer that PING
            finished = told and not self._leases and not self._outbox.n_results
            if finished or now >= self._drain_until:
                self._leave(now)

    def _reload(self, now: float) -> None:
        """Take up what is newer on disk and announce it; what fails leaves everything as it was."""
        self._reload_asked = False
        self._ask_patience(RELOAD_S, now)
        try:
            changed = self._handler.reload()
            self._reloads.note(changed)
            state = f"ready, {', '.join(self._handler.stages)}" if changed else "ready, nothing was newer"
        except Exception as error:
            log.exception("reload failed, what was there goes on")
            self._reloads.note_failure(error)
            state = f"ready; the last reload failed: {error}"
        self._notifier.status(state)
        for message in self._session.announce(self._introduction()):
            self._outbox.post(message)

    def _introduction(self) -> dict[str, Any]:
        return introduction(
            self._handler,
            self._peer,
            self._name,
            in_hand=self._in_hand,
            warm_s=self._warm_s,
            reloads=self._reloads,
        )

    def _leave(self, now: float) -> None:
        self._flush(float("inf"))
        if self._leases:
            log.info("%d items handed back", len(self._leases))
            self._outbox.post(Message("RETURN", {"ids": [lease.item.fields["id"] for lease in self._leases]}))
            self._leases.clear()
        for message in self._session.finish("stopped", now):
            self._outbox.post(message)

    def _talk(self, now: float) -> None:
        if not self._monitor.connected:
            self._look(now)
        if self._monitor.connected:
            was = self._session.state
            messages = self._session.due(now)
            if was == "ready" and self._session.state == "greeting":  # silence
                connect_again(self._socket, self._connect)
                messages = []
            for message in messages:
                self._send(message)
            if messages:  # once a heartbeat, however busy
                self._look(now)
        self._send_waiting()
        self._notifier.beat(now)

    def _compute(self) -> None:
        """One group of leases: expired ones are answered, the others computed."""
        now = time.monotonic()
        live = []
        for lease in self._next_group():
            if lease.deadline > now:
                live.append(lease)
            else:
                self._finish(lease, error_result(DeadlineExceeded("expired before it was computed")), 0.0)
        if not live:
            return
        verb = live[0].stage.partition(":")[0]
        slowest_s = self._slowest_s.get(verb, 0.0)
        if BUSY_FACTOR * slowest_s > self._session.heartbeat_s:
            self._ask_patience(BUSY_FACTOR * slowest_s, now)
        n_let_go = self._n_let_go
        results = self._handle(live)
        self._last_s = took_s = time.monotonic() - now
        self._slowest_s[verb] = max(took_s, 0.95 * slowest_s)
        if n_let_go != self._n_let_go:  # while the handler beat
            return
        for lease, result in zip(live, results, strict=True):
            self._finish(lease, result, 1000 * took_s / len(live))

    def _next_group(self) -> list[Lease]:
        first = self._leases[0]
        front = islice(self._leases, self._n_together)
        same = list(takewhile(lambda x: (x.stage, x.options) == (first.stage, first.options), front))
        return [self._leases.popleft() for _ in same]

    def _handle(self, leases: Sequence[Lease]) -> list[Item]:
        """Results of a group; if the group fails as a whole, of each item alone."""
        first = leases[0]
        try:
            results = self._handler.handle(first.stage, [x.item for x in leases], first.options, self._beat)
            if len(results) != len(leases):
                raise InternalError(f"{self._handler.kind} gave {len(results)} results for {len(leases)} items")
        except Exception as error:
            if len(leases) > 1:
                return [result for lease in leases for result in self._handle([lease])]
            return [error_result(self._told(error, first))]
        return results

    def _told(self, error: Exception, lease: Lease) -> StreamfeatError:
        """The error as its sender may see it: ours unchanged, any other with an id that leads to the trace."""
        if isinstance(error, StreamfeatError):
            return error
        error_id = secrets.token_hex(4)
        about = {"error_id": error_id, "stage": lease.stage, "item": lease.item.fields.get("name", "")}
        about |= {key: lease.item.fields.get(key) for key in ("stream", "seq")}
        log.exception("error %s at stage %s, item %r", error_id, lease.stage, about["item"], extra=about)
        return InternalError(f"{type(error).__name__} in the {self._handler.kind} worker, error id {error_id}")

    def _beat(self, busy_ms: int) -> None:
        """The handler's sign of life: the same one for the broker and for systemd."""
        now = time.monotonic()
        if busy_ms <= 0 and now < self._next_beat:
            return
        self._next_beat = now + BEAT_EVERY_S
        self._listen(0.0)
        self._talk(now)
        if busy_ms > 0:
            self._ask_patience(busy_ms / 1000, now)

    def _ask_patience(self, busy_s: float, now: float) -> None:
        self._notifier.stretch(busy_s, now)
        for message in self._session.busy(ceil(busy_s * 1000), now):
            self._send(message)

    def _finish(self, lease: Lease, result: Item, compute_ms: float) -> None:
        fields = {**result.fields, "id": lease.item.fields["id"], "compute_ms": round(compute_ms, 3)}
        self._outbox.put(lease.stage, Item(fields, result.arrays), time.monotonic())

    def _flush(self, now: float) -> None:
        """Send the results there are, once they are enough, have waited enough, or are the last."""
        if self._outbox.n_results and (not self._leases or self._outbox.ripe(now + self._last_s)):
            self._outbox.flush()
            self._send_waiting()

    def _send_waiting(self) -> None:
        if self._session.state != "greeting":
            self._outbox.send(self._send_frames)

    def _send(self, message: Message) -> None:
        """Say what may be lost, because it will be said again."""
        self._send_frames(encode(message))

    def _send_frames(self, frames: list[Frame]) -> bool:
        try:
            multipart.send(self._socket, frames)
        except zmq.Again:
            return False
        return True
