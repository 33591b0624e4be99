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

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from streamfeat.errors import (
    ConfigError,
    InvalidArgument,
    Overloaded,
    StreamfeatError,
    TooLarge,
    Unavailable,
    VersionMismatch,
)
from streamfeat.wire.ledger import Ledger
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import FROM_CLIENT, FROM_WORKER, PROTOCOL, Message, error_fields
from streamfeat.wire.peers import Client, Worker
from streamfeat.wire.report import report
from streamfeat.wire.services import Route, Services
from streamfeat.wire.settings import BrokerSettings

Side = Literal["front", "back"]
"""Which socket: clients come in at the front, workers at the back. The same address may exist on both."""


_ABOUT = ("bank_bytes", "warm_ms", "compiled", "reloads")
_NAMES = 4096  # of workers that were there, to tell a restart from a newcomer


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
        self.clients: dict[bytes, Client] = {}
        self.workers: dict[bytes, Worker] = {}
        self.services = Services()
        self.ledger = Ledger(settings)
        self.restarts: Counter[str] = Counter()
        """By a worker's name."""
        self._last_run: dict[str, str] = {}
        self._runs: dict[str, Client] = {}
        self._window_s = settings.heartbeat_ms * settings.liveness / 1000
        self._swept = now
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
            self._lose_worker(self.workers[peer], f"sent what cannot be read: {error}", now)
        return self._flush(now)

    def lost(self, side: Side, peer: bytes, now: float) -> list[Outgoing]:
        """What follows from a message that could not be sent."""
        if side == "back" and peer in self.workers:
            self._lose_worker(self.workers[peer], "cannot be reached", now)
        elif side == "front" and peer in self.clients:
            self._forget_client(self.clients[peer], "cannot be reached")
        return self._flush(now)

    def tick(self, now: float) -> list[Outgoing]:
        """What follows from the time; call it when `next_wake` is 0."""
        if now >= self._swept + self._sweep_s:
            self._sweep(now)
        return self._flush(now)

    def next_wake(self, now: float) -> float:
        """Seconds until `tick` has something to do; at most half a heartbeat."""
        deadline = self.ledger.next_deadline()
        moments = [self._swept + self._sweep_s, self.ledger.ripe_at]
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

    # --- who is there -------------------------------------------------------------------------------------------------

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
                self._join_client(peer, fields, now)
            else:
                self._join_worker(peer, fields, now)
        except StreamfeatError as error:
            self._error(side, peer, error, "HELLO")
            return
        known = {"protocol": PROTOCOL, "broker": self.boot, "banks": dict(self.services.banks)}
        self._send(side, peer, Message("WELCOME", {**known, **self.settings.terms()}))

    def _join_client(self, peer: bytes, fields: dict[str, Any], now: float) -> None:
        run = fields["peer"]
        older = self.clients.get(peer)
        if older is not None and older.run != run:  # another process got the address
            self._forget_client(older, "was replaced")
        client = self._runs.get(run)
        if client is None:
            if len(self.clients) >= self.settings.max_clients:
                raise Overloaded(f"the broker has its limit of {self.settings.max_clients} clients", 1000)
            client = self._runs[run] = Client(peer, run, now, now, fields.get("software", ""))
        else:
            del self.clients[client.address]  # the same client may have moved
            client.address = peer
        self.clients[peer] = client
        client.heard, client.alive_until = now, now + self.settings.client_silence_s

    def _join_worker(self, peer: bytes, fields: dict[str, Any], now: float) -> None:
        worker = Worker(
            address=peer,
            run=fields["peer"],
            name=fields["name"],
            kind=fields["kind"],
            announced=tuple(fields["stages"]),
            banks=fields["banks"],
            credit_items=fields["credit"]["items"],
            credit_bytes=fields["credit"]["bytes"],
            heard=now,
            alive_until=now + self._window_s,
            work=fields.get("work", {}),
            in_hand=fields.get("in_hand"),
            pid=fields.get("pid"),
            host=fields.get("host"),
            about={key: fields[key] for key in _ABOUT if key in fields},
        )
        for other in tuple(self.workers.values()):
            if other.name == worker.name or other.address == peer:
                continue
            shared = other.shares_stage(worker.stages)
            if shared is not None:
                self.ledger.notes.append(f"worker {worker.name} refused: {other.name} serves {shared}")
                raise ConfigError(f"{shared} is served by worker {other.name!r} and has one owner; stop one of the two")
        for other in tuple(self.workers.values()):
            if other.run == worker.run and other.address == peer:  # it says HELLO again: what it has, it keeps
                worker.leases, worker.n_bytes, worker.alone = other.leases, other.n_bytes, other.alone
                worker.n_tasks, worker.resting = other.n_tasks, other.resting
                for lease in worker.leases.values():
                    lease.worker = worker
                self.services.leave(other)
                self._count_reloads(other, worker)
                if fields.get("afresh"):
                    self.ledger.hand_back(worker, tuple(worker.leases), now)
            elif other.name == worker.name or other.address == peer:
                self._lose_worker(other, "was replaced by a newer run", now)
        self.workers[peer] = worker
        self._count_restart(worker)
        self.services.join(worker)
        self.ledger.notes.append(f"worker {worker.name} joined: {', '.join(worker.announced)}")

    def _count_restart(self, worker: Worker) -> None:
        """Another run under a name that was there before."""
        self.restarts[worker.name] += self._last_run.get(worker.name, worker.run) != worker.run
        self._last_run[worker.name] = worker.run
        if len(self._last_run) > _NAMES:
            name = next(iter(self._last_run))
            del self._last_run[name], self.restarts[name]

    def _count_reloads(self, before: Worker, worker: Worker) -> None:
        was, told = before.about.get("reloads", {}), worker.about.get("reloads", {})
        self.ledger.counts["reloads"] += max(0, told.get("done", 0) - was.get("done", 0))
        if told.get("failed", 0) > was.get("failed", 0):
            self.ledger.counts["reloads_failed"] += told["failed"] - was.get("failed", 0)
            self.ledger.notes.append(f"worker {worker.name} could not reload: {told.get('error', 'no reason given')}")

    def _forget_client(self, client: Client, why: str) -> None:
        if client.leases:
            self.ledger.notes.append(f"client {client.run} {why}: {len(client.leases)} items dropped")
        self.ledger.abandon(client)
        del self.clients[client.address], self._runs[client.run]

    def _lose_worker(self, worker: Worker, why: str, now: float) -> None:
        self.ledger.notes.append(f"worker {worker.name} {why}: {len(worker.leases)} leases go elsewhere")
        self.ledger.counts["workers_lost"] += 1
        self._remove_worker(worker)
        self.ledger.lose(worker, now)

    def _remove_worker(self, worker: Worker) -> None:
        del self.workers[worker.address]
        self.services.leave(worker)

    @property
    def _sweep_s(self) -> float:
        return self.settings.heartbeat_ms / 2000

    def _sweep(self, now: float) -> None:
        """Find who has been silent for too long.

        If the broker itself was away for that long (stopped, swapped out, the machine asleep), what they said
        meanwhile is still in the sockets: everyone gets the time again.
        """
        was_away = now - self._swept > self._window_s
        self._swept = now
        if was_away:
            for worker in self.workers.values():
                worker.alive_until = max(worker.alive_until, now + self._window_s)
            for client in self.clients.values():
                client.alive_until = max(client.alive_until, now + self.settings.client_silence_s)
            return
        for worker in [w for w in self.workers.values() if w.alive_until <= now]:
            self._lose_worker(worker, f"was silent for {now - worker.heard:.1f} s", now)
        for client in [c for c in self.clients.values() if c.alive_until <= now]:
            self._forget_client(client, f"was silent for {now - client.heard:.1f} s")

    # --- what they say ------------------------------------------------------------------------------------------------

    def _from_client(self, client: Client, message: Message, now: float) -> None:
        busy_s = message.fields.get("busy_ms", 0) / 1000
        client.heard, client.alive_until = now, now + max(self.settings.client_silence_s, busy_s)
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
                self._forget_client(client, "left")

    def _from_worker(self, worker: Worker, message: Message, now: float) -> None:
        busy_s = message.fields.get("busy_ms", 0) / 1000
        worker.heard, worker.alive_until = now, now + max(self._window_s, busy_s)
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
                self._remove_worker(worker)
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
                self.ledger.admit(client, item)
            except StreamfeatError as error:
                self.ledger.refuse(client, item.fields["id"], error)
            else:
                self.ledger.accept(client, item, route, deadline, now)

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
