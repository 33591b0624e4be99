"""Who is there: clients and workers by address, who is who when they come again, and who was silent for too long.

A client is its run: under another address it is the same one, and its items are its own. A worker is its name: another
run takes the older one's place, whose leases go elsewhere. What they have and wait for is `ledger`'s business, what can
be asked of them `services`'.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from streamfeat.errors import ConfigError, Overloaded
from streamfeat.wire.ledger import Ledger
from streamfeat.wire.peers import Client, Worker
from streamfeat.wire.services import Services
from streamfeat.wire.settings import BrokerSettings

_ABOUT = ("bank_bytes", "warm_ms", "compiled", "reloads")
_NAMES = 4096  # of workers that were there, to tell a restart from a newcomer


class Presence:
    """Everybody who said HELLO and has not left.

    Parameters
    ----------
    settings : BrokerSettings
    ledger : Ledger
        Is told of leases whose owner has gone.
    services : Services
        Is told of workers that come and go.
    now : float
    """

    def __init__(self, settings: BrokerSettings, ledger: Ledger, services: Services, now: float) -> None:
        self.clients: dict[bytes, Client] = {}
        self.workers: dict[bytes, Worker] = {}
        self.restarts: Counter[str] = Counter()
        """By a worker's name."""
        self._settings = settings
        self._ledger = ledger
        self._services = services
        self._runs: dict[str, Client] = {}
        self._last_run: dict[str, str] = {}
        self._window_s = settings.heartbeat_ms * settings.liveness / 1000
        self._swept = now

    @property
    def next_sweep(self) -> float:
        """When `sweep` is due: twice a heartbeat."""
        return self._swept + self._settings.heartbeat_ms / 2000

    def join_client(self, peer: bytes, fields: dict[str, Any], now: float) -> None:
        """A client says HELLO: a new run, or one that moved.

        Raises
        ------
        Overloaded
            There are `max_clients` already.
        """
        run = fields["peer"]
        older = self.clients.get(peer)
        if older is not None and older.run != run:  # another process got the address
            self.forget(older, "was replaced")
        client = self._runs.get(run)
        if client is None:
            if len(self.clients) >= self._settings.max_clients:
                raise Overloaded(f"the broker has its limit of {self._settings.max_clients} clients", 1000)
            client = self._runs[run] = Client(peer, run, now, now, fields.get("software", ""))
        else:
            del self.clients[client.address]  # the same client may have moved
            client.address = peer
        self.clients[peer] = client
        self.hear_client(client, 0.0, now)

    def join_worker(self, peer: bytes, fields: dict[str, Any], now: float) -> None:
        """A worker says HELLO: a new run, which takes the place of an older one of its name, or again.

        Raises
        ------
        ConfigError
            It would serve a stage that has one owner, and has it.
        """
        worker = _worker(peer, fields, now)
        self.hear_worker(worker, 0.0, now)
        for other in tuple(self.workers.values()):
            if other.name == worker.name or other.address == peer:
                continue
            shared = other.shares_stage(worker.stages)
            if shared is not None:
                self._ledger.notes.append(f"worker {worker.name} refused: {other.name} serves {shared}")
                raise ConfigError(f"{shared} is served by worker {other.name!r} and has one owner; stop one of the two")
        is_news = True
        for other in tuple(self.workers.values()):
            if other.run == worker.run and other.address == peer:  # it says HELLO again: what it has, it keeps
                is_news = fields.get("afresh", False) or other.announced != worker.announced
                worker.take_over(other)
                self._services.leave(other)
                self._count_reloads(other, worker)
                if fields.get("afresh"):
                    self._ledger.hand_back(worker, tuple(worker.leases), now)
            elif other.name == worker.name or other.address == peer:
                self.lose(other, "was replaced by a newer run", now)
        self.workers[peer] = worker
        self._count_restart(worker)
        self._services.join(worker)
        if is_news:  # a HELLO is said again until it is answered
            self._ledger.notes.append(f"worker {worker.name} joined: {', '.join(worker.announced)}")

    def hear_client(self, client: Client, busy_s: float, now: float) -> None:
        """It is alive, and will be for a while."""
        client.heard, client.alive_until = now, now + max(self._settings.client_silence_s, busy_s)

    def hear_worker(self, worker: Worker, busy_s: float, now: float) -> None:
        """It is alive, and will be for a while."""
        worker.heard, worker.alive_until = now, now + max(self._window_s, busy_s)

    def _count_restart(self, worker: Worker) -> None:
        """Another run under a name that was there before."""
        self.restarts[worker.name] += self._last_run.get(worker.name, worker.run) != worker.run
        self._last_run[worker.name] = worker.run
        if len(self._last_run) > _NAMES:
            name = next(iter(self._last_run))
            del self._last_run[name], self.restarts[name]

    def _count_reloads(self, before: Worker, worker: Worker) -> None:
        was, told = before.about.get("reloads", {}), worker.about.get("reloads", {})
        self._ledger.counts["reloads"] += max(0, told.get("done", 0) - was.get("done", 0))
        if told.get("failed", 0) > was.get("failed", 0):
            self._ledger.counts["reloads_failed"] += told["failed"] - was.get("failed", 0)
            self._ledger.notes.append(f"worker {worker.name} could not reload: {told.get('error', 'no reason given')}")

    def forget(self, client: Client, why: str) -> None:
        """The client is gone, and nobody waits for what it asked for."""
        if client.leases:
            self._ledger.notes.append(f"client {client.run} {why}: {len(client.leases)} items dropped")
        self._ledger.abandon(client)
        del self.clients[client.address], self._runs[client.run]

    def lose(self, worker: Worker, why: str, now: float) -> None:
        """The worker is gone, and what it had goes elsewhere."""
        self._ledger.notes.append(f"worker {worker.name} {why}: {len(worker.leases)} leases go elsewhere")
        self._ledger.counts["workers_lost"] += 1
        self.remove(worker)
        self._ledger.lose(worker, now)

    def remove(self, worker: Worker) -> None:
        """The worker serves nothing any more; what it has is for the caller to see to."""
        del self.workers[worker.address]
        self._services.leave(worker)

    def sweep(self, now: float) -> list[Client]:
        """Lose who has been silent for too long; those to be pinged, to learn whether they can be reached at all.

        A client has a long time to come back, and of one that ended without a word nothing else is heard: it would
        keep its place among `max_clients` and its items for all that time.

        If the broker itself was away for that long (stopped, swapped out, the machine asleep), what they said
        meanwhile is still in the sockets: everyone gets the time again.
        """
        was_away = now - self._swept > self._window_s
        self._swept = now
        if was_away:
            for worker in self.workers.values():
                worker.alive_until = max(worker.alive_until, now + self._window_s)
            for client in self.clients.values():
                client.alive_until = max(client.alive_until, now + self._settings.client_silence_s)
            return []
        for worker in [w for w in self.workers.values() if w.alive_until <= now]:
            self.lose(worker, f"was silent for {now - worker.heard:.1f} s", now)
        for client in [c for c in self.clients.values() if c.alive_until <= now]:
            self.forget(client, f"was silent for {now - client.heard:.1f} s")
        unheard = [c for c in self.clients.values() if max(c.heard, c.probed) + self._window_s <= now]
        for client in unheard:
            client.probed = now
        return unheard


def _worker(peer: bytes, fields: dict[str, Any], now: float) -> Worker:
    return Worker(
        address=peer,
        run=fields["peer"],
        name=fields["name"],
        kind=fields["kind"],
        announced=tuple(fields["stages"]),
        banks=fields["banks"],
        credit_items=fields["credit"]["items"],
        credit_bytes=fields["credit"]["bytes"],
        heard=now,
        alive_until=now,
        work=fields.get("work", {}),
        in_hand=fields.get("in_hand"),
        pid=fields.get("pid"),
        host=fields.get("host"),
        about={key: fields[key] for key in _ABOUT if key in fields},
    )
