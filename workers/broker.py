"""The broker process: three ROUTER sockets round the decisions of `streamfeat.wire.routing`.

    python -m streamfeat.workers.broker --front ipc:///run/streamfeat/front.sock --back ipc:///run/streamfeat/back.sock

The loop decodes, holds each message to its sender's rights (`gate`), asks the core, encodes and sends; it decides
three things itself, all about sockets. A peer that
cannot be reached (EHOSTUNREACH) is lost. So is one whose queue is full (EAGAIN): credit keeps every honest peer far
below the high-water mark, so it does not read. And workers are pinged several times a second, not to hear from them
but to run into EHOSTUNREACH soon after one was killed.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import zmq

from streamfeat.config import file_mode
from streamfeat.deadletters import DeadLetters
from streamfeat.errors import (
    EXIT_OK,
    ConfigError,
    InternalError,
    InvalidArgument,
    PermissionDenied,
    StreamfeatError,
    Unauthenticated,
)
from streamfeat.keys import open_key
from streamfeat.wire.codec import HEADER_BYTES, decode, encode_parts, glimpse
from streamfeat.wire.messages import FROM_OPERATOR, Frame, Message, error_fields, failed_item
from streamfeat.wire.operate import operate
from streamfeat.wire.rights import Door, check_rights
from streamfeat.wire.routing import Broker, Outgoing, Side
from streamfeat.wire.settings import BrokerSettings

from .doors import Arrival, Doors, Guards
from .journal import write_log
from .launch import Parser, allow_open_files
from .memory import keep_memory
from .notify import READY, STOPPING, Notifier, Stop, begin

if TYPE_CHECKING:
    from .metrics import Metrics

log = logging.getLogger("streamfeat.broker")

PROBE_EVERY_S = 0.2
"""How often each worker is sent a PING; a killed worker is noticed within about that."""

DRAIN_TIMEOUT_S = 10.0
OWN_FILES = 128
"""Open files that are not clients': sockets and their monitors, workers, dead letters, who looks at the metrics."""

RECENT = 20
"""Notes for the log that an operator's report repeats."""

BURST = 64
"""Messages taken from one socket before the other has its turn."""


class BrokerLoop:
    """The sockets of a broker, and the loop between them and its core."""

    def __init__(
        self,
        settings: BrokerSettings,
        doors: Doors,
        *,
        stop: Stop,
        notifier: Notifier,
        drain_timeout_s: float,
        dead_letters: DeadLetters | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._core = Broker(settings, secrets.token_hex(8), time.monotonic())
        self._doors = doors
        self._metrics = metrics
        self._recent: deque[tuple[float, str]] = deque(maxlen=RECENT)
        self._stop = stop
        self._notifier = notifier
        self._drain_timeout_s = drain_timeout_s
        self._dead_letters = dead_letters
        self._next_probe = 0.0

    def run(self) -> None:
        """Serve until told to stop; then refuse what is new, finish what was accepted, and say goodbye."""
        poller = zmq.Poller()
        self._doors.register(poller)
        poller.register(self._stop.fd, zmq.POLLIN)
        self._stop.defer()
        self._notifier.say(READY)
        drain_until = float("inf")
        while time.monotonic() < drain_until and self._stop.count < 2 and not (self._core.draining and self._core.idle):
            ready = dict(poller.poll(ceil(1000 * self._wait_s(time.monotonic(), drain_until))))
            if self._stop.fd in ready:
                self._stop.clear()
            if self._stop.count and not self._core.draining:
                log.info("draining")
                self._notifier.say(STOPPING)
                self._core.drain()
                drain_until = time.monotonic() + self._drain_timeout_s
            self._turn(self._doors.busy(ready, time.monotonic()))
        self._send_all(self._core.stop(time.monotonic()))
        self._doors.close()
        if self._metrics is not None:
            self._metrics.close()

    def _wait_s(self, now: float, drain_until: float) -> float:
        moments = (self._core.next_wake(now), self._next_probe - now, drain_until - now, self._notifier.wait_s(now))
        return max(0.0, min(moments))

    def _turn(self, doors: Collection[Door]) -> None:
        """Take what came to these doors, all others being quiet, and say what is due."""
        for side in get_args(Side):
            for _ in range(BURST if side in doors else 0):
                arrival = self._doors.receive(side)
                if arrival is None:
                    break
                self._send_all(self._answer(side, arrival, time.monotonic()))
        while "admin" in doors and (arrival := self._doors.receive("admin")) is not None:
            self._obey(arrival, time.monotonic())
        now = time.monotonic()
        self._send_all(self._core.tick(now))
        if now >= self._next_probe:
            self._next_probe = now + PROBE_EVERY_S
            self._send_all([Outgoing("back", address, Message("PING")) for address in list(self._core.workers)])
            for note in self._core.take_notes():
                log.info("%s", note)
                self._recent.append((now, note))
            if self._metrics is not None:
                self._metrics.show(self.report(now))
            self._notifier.status(f"{len(self._core.workers)} workers, {len(self._core.clients)} clients")
        self._notifier.beat(now)
        if self._metrics is not None:
            self._metrics.turn(now)
            self._metrics.served(self._core.ledger.take_served())
            self._metrics.dispatched(self._core.ledger.take_dispatched())

    def _file_letters(self) -> None:
        """File what was quarantined; if that cannot be, its client is told all the same."""
        for letter in self._core.take_dead_letters():
            if self._dead_letters is None:
                continue
            try:
                name = self._dead_letters.put(letter, time.time())
                log.warning("dead letter %s: %s", name, letter.reason)
            except OSError as error:
                log.error("a dead letter cannot be filed in %s: %s", self._dead_letters.folder, error)

    def _answer(self, side: Side, arrival: Arrival, now: float) -> list[Outgoing]:
        """What the core makes of a message; a bug in it costs that message and nothing else."""
        peer, frames, rights = arrival
        try:
            if isinstance(rights, Unauthenticated):
                return [_complaint(side, peer, rights, frames), *self._core.lost(side, peer, now)]
            try:
                message = decode(frames)
                check_rights(message, rights)
            except PermissionDenied as error:
                self._doors.gate.denied(error)
                return [_complaint(side, peer, error, frames)]
            except StreamfeatError as error:
                verb, ids = glimpse(frames)
                return self._core.malformed(side, peer, error, now, verb=verb, ids=ids)
            if self._metrics is not None:
                self._metrics.received(message)
            return self._core.receive(side, peer, message, now)
        except Exception:
            error_id = secrets.token_hex(4)
            log.exception("error %s with a message at the %s", error_id, side)
            return [_complaint(side, peer, InternalError(f"a bug in the broker, error id {error_id}"), frames)]

    def _obey(self, arrival: Arrival, now: float) -> None:
        """Answer an operator: REPORT or ERROR."""
        peer, frames, rights = arrival
        try:
            if isinstance(rights, Unauthenticated):
                raise rights
            order = decode(frames)
            if order.verb not in FROM_OPERATOR:
                raise InvalidArgument(f"the admin socket takes STATUS and ADMIN, got {order.verb}")
            if order.verb == "ADMIN":
                about = operate(self._core, order)
                if order.fields["act"] == "reload":
                    self._send_all([Outgoing("back", worker.address, Message("RELOAD")) for worker in about])
                log.info("%s: %s", order.fields["act"], ", ".join(worker.name for worker in about))
                answer = Message("REPORT", {"report": {"workers": [worker.name for worker in about]}})
            else:
                answer = Message("REPORT", {"report": self.report(now)})
        except StreamfeatError as error:
            answer = _complaint("front", peer, error, frames).message
        for part in self._encode(answer):
            self._doors.send("admin", peer, part)

    def report(self, now: float) -> dict[str, Any]:
        """The core's report, and what came to the doors."""
        gate = self._doors.gate
        recent = [{"ago_s": round(now - at, 1), "what": what} for at, what in self._recent]
        letters = 0 if self._dead_letters is None else len(self._dead_letters.names())
        seen = {
            "turned_away": dict(gate.refused),
            "events": gate.events(),
            "recent": recent,
            "dead_letters": letters,
        }
        return {**self._core.report(now), **seen}

    def _send_all(self, outgoing: Iterable[Outgoing]) -> None:
        """Send, and send what follows from what could not be sent."""
        waiting = deque(outgoing)
        self._file_letters()  # first: who is told QUARANTINED may look for the letter
        while waiting:
            side, peer, message = waiting.popleft()
            if self._metrics is not None:
                self._metrics.sent(message)
            if not all(self._doors.send(side, peer, frames) for frames in self._encode(message)):
                waiting.extend(self._core.lost(side, peer, time.monotonic()))
                self._file_letters()  # of what was lost with its last worker just now

    def _encode(self, message: Message) -> list[list[Frame]]:
        """Frames of a message; of one that breaks the wire's rules (a bug of ours), what can still be said."""
        try:
            return encode_parts(message)
        except StreamfeatError as error:
            log.error("%s cannot travel: %s", message.verb, error)
            if message.verb != "REPLY":
                return []
            failed = InternalError(f"the reply cannot travel: {error}")
            items = tuple(failed_item(item.fields["id"], failed) for item in message.items)
            return encode_parts(Message("REPLY", {}, items))


def _complaint(side: Side, peer: bytes, error: StreamfeatError, frames: Sequence[Frame]) -> Outgoing:
    """The ERROR about a message, with its verb and its items' ids as far as they can be read."""
    verb, ids = glimpse(frames)
    fields = {**error_fields(error), "ids": ids}
    fields.pop("retry_after_ms", None)
    return Outgoing(side, peer, Message("ERROR", fields if verb is None else {**fields, "verb": verb}))


def _room_for_clients(n_files: int, wanted: int) -> int:
    """How many clients there may be: each is an open file, and libzmq ends the process when there are no more."""
    if n_files < 2 * OWN_FILES:
        raise ConfigError(
            f"a broker needs at least {2 * OWN_FILES} open files, the limit is {n_files}; raise it, with ulimit -n or"
            " LimitNOFILE= in its unit"
        )
    return min(wanted, n_files - OWN_FILES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the broker; its exit status."""
    stop, notifier = begin(os.environ)
    keep_memory()
    write_log("broker", os.environ)
    usual = BrokerSettings()
    parser = Parser(prog="python -m streamfeat.workers.broker", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--front", required=True, metavar="ENDPOINT", help="where clients connect")
    parser.add_argument("--back", required=True, metavar="ENDPOINT", help="where workers connect")
    parser.add_argument("--admin", metavar="ENDPOINT", help="where operators connect")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="where /metrics, /livez and /readyz are shown")
    parser.add_argument("--front-mode", default="0600", metavar="MODE", help="of the clients' unix socket")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the broker's own key, for tcp")
    parser.add_argument("--authorised", type=Path, metavar="DIR", help="public keys of those who may connect by tcp")
    parser.add_argument("--insecure", action="store_true", help="tcp without keys")
    parser.add_argument("--heartbeat-ms", type=int, default=usual.heartbeat_ms, metavar="MS")
    parser.add_argument("--credit-items", type=int, default=usual.credit_items, metavar="N", help="of each client")
    parser.add_argument("--credit-bytes", type=int, default=usual.credit_bytes, metavar="N", help="of each client")
    parser.add_argument("--retained-bytes", type=int, default=usual.max_retained_bytes, metavar="N", help="of all")
    parser.add_argument("--batch-items", type=int, default=usual.max_batch_items, metavar="N", help="in one message")
    parser.add_argument("--batch-wait-ms", type=float, default=usual.batch_wait_ms, metavar="MS", help="for company")
    parser.add_argument(
        "--dead-letters", type=Path, metavar="DIR", help="where quarantined items go; without it: nowhere"
    )
    parser.add_argument("--drain-timeout-s", type=float, default=DRAIN_TIMEOUT_S, metavar="S")
    parser.add_argument(
        "--stop-with-parent",
        nargs="?",
        type=int,
        const=0,
        metavar="PID",
        help="stop when the process that started it ends",
    )
    args = parser.parse_args(argv)
    if args.stop_with_parent is not None:
        stop.with_parent(args.stop_with_parent)
    try:
        settings = BrokerSettings(
            max_clients=_room_for_clients(allow_open_files(), usual.max_clients),
            heartbeat_ms=args.heartbeat_ms,
            credit_items=args.credit_items,
            credit_bytes=args.credit_bytes,
            max_retained_bytes=args.retained_bytes,
            max_batch_items=args.batch_items,
            batch_wait_ms=args.batch_wait_ms,
        )
        guards = Guards(
            front_mode=file_mode(args.front_mode, "--front-mode"),
            key=None if args.key is None else open_key(args.key),
            authorised=args.authorised,
            insecure=args.insecure,
        )
        endpoints: dict[Door, str] = {"front": args.front, "back": args.back}
        if args.admin is not None:
            endpoints["admin"] = args.admin
        doors = Doors(endpoints, guards, settings.item_bytes + HEADER_BYTES)
        metrics = None
        if args.metrics is not None:
            from .metrics import Metrics

            metrics = Metrics(args.metrics)
        BrokerLoop(
            settings,
            doors,
            stop=stop,
            notifier=notifier,
            drain_timeout_s=args.drain_timeout_s,
            dead_letters=None if args.dead_letters is None else DeadLetters(args.dead_letters),
            metrics=metrics,
        ).run()
    except StreamfeatError as error:
        log.error("%s: %s", error.code, error)
        return error.exit_status
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
