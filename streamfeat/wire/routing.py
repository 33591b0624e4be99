"""The broker's decisions: (message, sender, now) in, messages out. No socket, no clock, no thread.

What it promises, and where:

- Every accepted item ends in exactly one reply, or its client has left: the table in `leases`, the books in `ledger`.
- A worker that goes away loses its leases to another one. Gone is: a message to it could not be sent, silent for
  `liveness` heartbeats (or past the busy_ms it announced), a HELLO under its name by another run, a message of its
  that cannot be read. Each is charged to the items that it may have been computing, which are tried again one by one;
  with the third charge an item is QUARANTINED. Leases that a worker hands back itself (RETURN, BYE) cost none.
- Who gets what, how much at once and in which order: `queues`.
- An id is computed once: while it is under way a repeated REQUEST attaches to it, afterwards it is answered from
  `replies`, marked dup. Only replies to accepted items are kept: after OVERLOADED an id may be tried again.
- What is refused at the door costs nothing: OVERLOADED over the client's credit or over max_retained_bytes, NOT_FOUND
  for a bank and UNAVAILABLE for a stage that nobody ever served (`services`). If its worker is only away, it waits.
- At its deadline an item is answered DEADLINE_EXCEEDED wherever it is; a worker's late result is counted and dropped.
- learn, classify, fit, insert and search have state behind them: one worker a name. A second one under another name is
  refused; under the same name it replaces the older run.

Not promised: anything across a restart of the broker. A new broker answers HELLO_FIRST and clients send again what
has no answer; features come out the same, and the feature log knows each (stream, seq).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from streamfeat.errors import (
    InvalidArgument,
    StreamfeatError,
    TooLarge,
    Unavailable,
    VersionMismatch,
)
from streamfeat.wire.ledger import Ledger
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import FROM_CLIENT, FROM_WORKER, PROTOCOL, Message, error_fields
from streamfeat.wire.peers import Client, Worker
from streamfeat.wire.presence import Presence
from streamfeat.wire.report import report
from streamfeat.wire.services import Route, Services
from streamfeat.wire.settings import BrokerSettings

Side = Literal["front", "back"]
"""Which socket: clients come in at the front, workers at the back. The same address may exist on both."""


class Outgoing(NamedTuple):
    """A message to send: by which socket, to whom."""

    side: Side
    peer: bytes
    message: Message


class Broker:
    """All state of the broker.

    Each call gives what is to be sent because of it, in order. When a message cannot be sent because there is no
    such peer any more, say `lost(side, peer, now)`.

    Parameters
    ----------
    settings : BrokerSettings
    boot : str
        Hex digits drawn when the process started; WELCOME carries them.
    now : float
        Seconds of any monotonic clock, here and in every call.
    """

    def __init__(self, settings: BrokerSettings, boot: str, now: float) -> None:
        self.settings = settings
        self.boot = boot
        self.started = now
        self.draining = False
        self.services = Services()
        self.ledger = Ledger(settings)
        self.presence = Presence(settings, self.ledger, self.services, now)
        self.clients = self.presence.clients
        self.workers = self.presence.workers
        self._out: list[Outgoing] = []

    # --- calls from the loop ------------------------------------------------------------------------------------------

    def receive(self, side: Side, peer: bytes, message: Message, now: float) -> list[Outgoing]:
        """What follows from a message that arrived."""
        verb = message.verb
        if verb not in (FROM_CLIENT if side == "front" else FROM_WORKER):
            self.ledger.counts["malformed"] += 1
            self._error(side, peer, InvalidArgument(f"{verb} is nothing for a peer at the {side} to send"), verb)
        elif verb == "HELLO":
            self._hello(side, peer, message.fields, now)
        elif verb == "STATUS":
            self._send(side, peer, Message("REPORT", {"report": report(self, now, to=peer)}))
        elif side == "front":
            client = self.clients.get(peer)
            if client is None:
                self._hello_first(side, peer, message)
            else:
                self._from_client(client, message, now)
        else:
            worker = self.workers.get(peer)
            if worker is None:
                self._hello_first(side, peer, message)
            else:
                self._from_worker(worker, message, now)
        return self._flush(now)

    def malformed(
        self,
        side: Side,
        peer: bytes,
        error: StreamfeatError,
        now: float,
        *,
        verb: str | None = None,
        ids: Sequence[int] = (),
    ) -> list[Outgoing]:
        """What follows from frames that could not be decoded; verb and ids as far as `codec.glimpse` could tell."""
        self.ledger.counts["malformed"] += 1
        self._error(side, peer, error, verb, ids)
        if side == "back" and peer in self.workers:  # the results in it would be waited for in vain
            self.presence.lose(self.workers[peer], f"sent what cannot be read: {error}", now)
        return self._flush(now)

    def lost(self, side: Side, peer: bytes, now: float) -> list[Outgoing]:
        """What follows from a message that could not be sent."""
        if side == "back" and peer in self.workers:
            self.presence.lose(self.workers[peer], "cannot be reached", now)
        elif side == "front" and peer in self.clients:
            self.presence.forget(self.clients[peer], "cannot be reached")
        return self._flush(now)

    def tick(self, now: float) -> list[Outgoing]:
        """What follows from the time; call it when `next_wake` is 0."""
        if now >= self.presence.next_sweep:
            for client in self.presence.sweep(now):
                self._send("front", client.address, Message("PING"))
        return self._flush(now)

    def next_wake(self, now: float) -> float:
        """Seconds until `tick` has something to do; at most half a heartbeat."""
        deadline = self.ledger.next_deadline()
        moments = [self.presence.next_sweep, self.ledger.ripe_at]
        return max(0.0, min(moments if deadline is None else [*moments, deadline]) - now)

    def drain(self) -> None:
        """Refuse new items as UNAVAILABLE from now on; what was accepted is finished. Over when `idle`."""
        self.draining = True

    @property
    def idle(self) -> bool:
        """Whether nobody waits for anything."""
        return self.ledger.n_open == 0

    def stop(self, now: float) -> list[Outgoing]:
        """Answer whatever is open as UNAVAILABLE, and say BYE to everyone."""
        self.draining = True
        self.ledger.close(self.clients.values(), now)
        out = self._flush(now)
        bye = Message("BYE", {"reason": "the broker is stopping"})
        out += [Outgoing("front", address, bye) for address in self.clients]
        out += [Outgoing("back", address, bye) for address in self.workers]
        return out

    def report(self, now: float) -> dict[str, Any]:
        """The state of the fleet, in plain values."""
        return report(self, now)

    def take_notes(self) -> list[str]:
        """What an operator may want in the log, one line each, since the last call."""
        notes = list(self.ledger.notes)
        self.ledger.notes.clear()
        return notes

    def take_dead_letters(self) -> list[Letter]:
        """What was quarantined since the last call."""
        letters = list(self.ledger.dead_letters)
        self.ledger.dead_letters.clear()
        return letters

    # --- what they say ------------------------------------------------------------------------------------------------

    def _hello(self, side: Side, peer: bytes, fields: dict[str, Any], now: float) -> None:
        lowest, highest = fields["protocol"]
        role = "client" if side == "front" else "worker"
        try:
            if not lowest <= PROTOCOL <= highest:
                spoken = f"{lowest} to {highest}"
                raise VersionMismatch(f"the broker speaks protocol {PROTOCOL}, you {spoken}; upgrade the older side")
            if fields["role"] != role:
                raise InvalidArgument(f"role: this socket is for a {role}, got {fields['role']!r}; check the endpoint")
            if side == "front":
                self.presence.join_client(peer, fields, now)
            else:
                self.presence.join_worker(peer, fields, now)
        except StreamfeatError as error:
            self._error(side, peer, error, "HELLO")
            return
        known = {"protocol": PROTOCOL, "broker": self.boot, "banks": dict(self.services.banks)}
        self._send(side, peer, Message("WELCOME", {**known, **self.settings.terms()}))

    def _from_client(self, client: Client, message: Message, now: float) -> None:
        self.presence.hear_client(client, message.fields.get("busy_ms", 0) / 1000, now)
        match message.verb:
            case "REQUEST":
                self._request(client, message, now)
            case "CANCEL":
                for item_id in message.fields["ids"]:
                    if item_id in client.leases:
                        self.ledger.cancel(client.leases[item_id], now)
            case "PING":
                self._send("front", client.address, Message("PONG"))
            case "BYE":
                self.presence.forget(client, "left")

    def _from_worker(self, worker: Worker, message: Message, now: float) -> None:
        self.presence.hear_worker(worker, message.fields.get("busy_ms", 0) / 1000, now)
        match message.verb:
            case "RESULT":
                for item in message.items:
                    self.ledger.result(worker, item, now)
            case "RETURN":
                self.ledger.hand_back(worker, message.fields["ids"], now)
            case "PING":
                self._send("back", worker.address, Message("PONG"))
            case "DRAIN":
                worker.draining = True
                self.services.leave(worker)
            case "BYE":
                self.ledger.notes.append(
                    f"worker {worker.name} left: {message.fields.get('reason', 'no reason given')}"
                )
                self.presence.remove(worker)
                self.ledger.hand_back(worker, tuple(worker.leases), now)

    def _request(self, client: Client, message: Message, now: float) -> None:
        # one by one as they are taken in: an id may be there twice in the same message
        news = (item for item in message.items if not self.ledger.repeated(client, item.fields["id"]))
        try:
            route = self._open_door(message)
        except StreamfeatError as error:
            for item in news:
                self.ledger.refuse(client, item.fields["id"], error)
            return
        deadline = now + message.fields["ttl_ms"] / 1000
        for item in news:
            try:
                route.check(item)
                self.ledger.accept(client, item, route, deadline, now)
            except StreamfeatError as error:
                self.ledger.refuse(client, item.fields["id"], error)

    def _open_door(self, message: Message) -> Route:
        """Hold a REQUEST as a whole to the limits, and find its route."""
        header, s = message.fields, self.settings
        if self.draining:
            raise Unavailable("the broker is draining; send it again to the next one")
        if len(message.items) > s.message_items:
            raise TooLarge(f"a message has at most {s.message_items} items, got {len(message.items)}")
        n_bytes = sum(item.n_bytes for item in message.items)
        if n_bytes > s.message_bytes:
            raise TooLarge(f"a message has at most {s.message_bytes} bytes of payload, got {n_bytes}")
        return self.services.resolve(header["route"], header.get("bank"), header.get("options", {}))

    # --- what is sent -------------------------------------------------------------------------------------------------

    def _send(self, side: Side, peer: bytes, message: Message) -> None:
        self._out.append(Outgoing(side, peer, message))

    def _error(
        self, side: Side, peer: bytes, error: StreamfeatError, verb: str | None = None, ids: Sequence[int] = ()
    ) -> None:
        fields = error_fields(error)
        fields.pop("retry_after_ms", None)
        if verb is not None:
            fields["verb"] = verb
        if ids:
            fields["ids"] = list(ids)
        self._send(side, peer, Message("ERROR", fields))

    def _hello_first(self, side: Side, peer: bytes, message: Message) -> None:
        if message.verb in ("BYE", "PONG"):
            return
        ids = [item.fields["id"] for item in message.items] or message.fields.get("ids", [])
        if message.verb == "RESULT":
            for number in ids:
                self.ledger.count_unowned(number)
        reason = "the broker does not know you (it was restarted, or you were silent too long): say HELLO"
        fields = {"code": "HELLO_FIRST", "reason": reason, "verb": message.verb, "ids": ids}
        self._send(side, peer, Message("ERROR", fields))

    def _flush(self, now: float) -> list[Outgoing]:
        """Everything that has come together: answers first, then work for whoever has room; nothing out of time."""
        self.ledger.expire(now, self.services.workers_of)
        out, self._out = self._out, []
        out += [Outgoing("front", client.address, reply) for client, reply in self.ledger.take_answers()]
        if self.ledger.queues:
            tasks = self.ledger.dispatch(self.services.workers_of, now)
            out += [Outgoing("back", worker.address, task) for worker, task in tasks]
        return out
