"""The broker's books: every accepted item, who has it, what it weighs, and what was answered.

All that happens to a lease happens here; who the peers are and what they said is `routing`'s business.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streamfeat.errors import (
    Cancelled,
    DeadlineExceeded,
    InternalError,
    Overloaded,
    Quarantined,
    StreamfeatError,
    TooLarge,
    Unavailable,
)
from streamfeat.wire.budget import Budget
from streamfeat.wire.leases import Deadlines, Dispatched, Lease, Served
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import Item, Message, failed_item
from streamfeat.wire.peers import Client, Worker
from streamfeat.wire.queues import BatchLimits, Queues
from streamfeat.wire.replies import ReplyCache
from streamfeat.wire.services import Route
from streamfeat.wire.settings import BrokerSettings

N_TOOK = 18
"""Bins of how long answers took, each twice as long as the one before: from 0.5 ms to half a minute, and all beyond."""

_REMEMBERED = 4096  # revoked numbers, to tell a late result from one given twice


class Ledger:
    """Leases, queues, deadlines, replies and counters.

    `counts` has accepted, answered, abandoned, redelivered, handed_back, repeated, duplicates, late, stray; `failed`
    and `refused` count error codes, of accepted items and of items refused at the door. At any time accepted =
    answered + abandoned + failed + n_open.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        limits = BatchLimits(settings.max_batch_items, settings.max_batch_cost, settings.batch_wait_ms / 1000)
        self.queues = Queues(limits)
        self.replies = ReplyCache(settings.cached_replies, settings.cached_bytes)
        self.budget = Budget(settings.max_retained_bytes, settings.max_clients)
        self.counts: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.notes: deque[str] = deque(maxlen=1000)
        self.dead_letters: deque[Letter] = deque()
        self.served: deque[Served] = deque(maxlen=10_000)  # for whoever measures; nobody need take them
        self.took = [0] * N_TOOK
        self.dispatched: deque[Dispatched] = deque(maxlen=10_000)
        self._deadlines = Deadlines()
        self._answers: dict[Client, list[Item]] = {}
        self._revoked: OrderedDict[int, None] = OrderedDict()
        self._order = 0
        self._number = 0

    @property
    def n_open(self) -> int:
        """Accepted items that nobody has answered."""
        return self._deadlines.n_open

    @property
    def retained_bytes(self) -> int:
        """Payload of what is open."""
        return self.budget.n_bytes

    def next_deadline(self) -> float | None:
        """When `expire` has something to do."""
        return self._deadlines.next()

    @property
    def ripe_at(self) -> float:
        """When `dispatch` has something to do that waits for company now."""
        return self.queues.ripe_at if self.queues else math.inf

    # --- at the door --------------------------------------------------------------------------------------------------

    def repeated(self, client: Client, item_id: int) -> bool:
        """Whether this id came before: under way, it is left alone; answered, it is answered again."""
        if item_id not in client.leases:
            reply = self.replies.again(client.run, item_id)
            if reply is None:
                return False
            self._answers.setdefault(client, []).append(reply)
        self.counts["repeated"] += 1
        return True

    def refuse(self, client: Client, item_id: int, error: StreamfeatError) -> None:
        """Answer an item that is not accepted; the answer is not remembered, the id may be tried again."""
        self.refused[error.code] += 1
        self._answers.setdefault(client, []).append(failed_item(item_id, error))

    def _admit(self, client: Client, n_bytes: int) -> None:
        """Raise TooLarge or Overloaded, and say which limit it is, if there is no room for the item."""
        limits, again = self.settings, self.settings.retry_after_ms
        if n_bytes > limits.item_bytes:
            raise TooLarge(f"an item has at most {limits.item_bytes} bytes of payload, got {n_bytes}")
        if len(client.leases) >= limits.credit_items:
            raise Overloaded(f"credit of {limits.credit_items} items is used up; wait for replies", again)
        if client.leases and client.n_bytes + n_bytes > limits.credit_bytes:
            raise Overloaded(f"credit of {limits.credit_bytes} bytes is used up; wait for replies", again)
        if n_bytes > self.budget.room(client):
            held = f"{client.held} of the {self.retained_bytes} bytes that the broker holds are yours"
            raise Overloaded(f"{held}, of at most {limits.max_retained_bytes} there is no room for more; wait", again)

    def accept(self, client: Client, item: Item, route: Route, deadline: float, now: float) -> None:
        """Take the item in, and queue it for its first stage.

        Raises
        ------
        TooLarge, Overloaded
            There is no room for it.
        """
        n_bytes = item.n_bytes
        self._admit(client, n_bytes)
        fields = {"stream": client.run, "seq": item.fields["id"], **item.fields}
        if route.bank is not None:
            fields["bank"] = route.bank
        self._order += 1
        lease = Lease(
            client=client,
            id=item.fields["id"],
            fields=fields,
            arrays=item.arrays,
            route=route,
            deadline=deadline,
            accepted=now,
            order=self._order,
            charge=n_bytes,
        )
        lease.weigh(n_bytes)
        client.leases[lease.id] = lease
        client.n_bytes += n_bytes
        self.budget.move(client, n_bytes)
        self.counts["accepted"] += 1
        self._deadlines.add(lease)
        self.queues.put(lease, now)

    # --- to and from workers ------------------------------------------------------------------------------------------

    def dispatch(self, workers_of: Callable[[str], Sequence[Worker]], now: float) -> Iterable[tuple[Worker, Message]]:
        """Lease out what the workers' credit allows; the TASKs, each for its worker."""
        for worker, batch in self.queues.assign(workers_of, now):
            worker.n_tasks += 1
            wait_s = now - min(lease.since for lease in batch)
            op = batch[0].stage.partition(":")[0]
            self.dispatched.append(Dispatched(op, len(batch), sum(lease.cost for lease in batch), wait_s))
            fields: dict[str, Any] = {"stage": batch[0].stage}
            if batch[0].options:
                fields["options"] = batch[0].options
            yield worker, Message("TASK", fields, tuple(self._lease_out(lease, worker, now) for lease in batch))

    def _lease_out(self, lease: Lease, worker: Worker, now: float) -> Item:
        lease.move("dispatch")
        self._number += 1
        lease.number, lease.worker = self._number, worker
        lease.queue_s += now - lease.since
        worker.take(lease.number, lease)
        self.counts["redelivered"] += lease.lost
        lease.lost = False
        ttl_ms = max(1, math.ceil((lease.deadline - now) * 1000))
        return Item({**lease.fields, "id": lease.number, "ttl_ms": ttl_ms}, lease.arrays)

    def result(self, worker: Worker, item: Item, now: float) -> None:
        """Take a worker's result: the item goes on along its route, or its client is answered."""
        number = item.fields["id"]
        lease = worker.release(number)
        if lease is None:
            self.count_unowned(number)
        elif not lease.unanswered:
            lease.move("finish")
            self.counts["late"] += 1
        else:
            lease.compute_ms += item.fields.get("compute_ms", 0.0)
            if item.fields["ok"] and not lease.last_stage:
                self._advance(lease, item, now)
            else:
                self._answer(lease, item.fields, item.arrays, now)

    def _advance(self, lease: Lease, item: Item, now: float) -> None:
        kind, bank = item.fields["kind"], item.fields.get("bank")
        if kind != "features" or bank != lease.route.bank or len(item.arrays) != 1:
            came = f"{kind} of bank {bank} with {len(item.arrays)} arrays"
            self.give_up(lease, InternalError(f"a worker gave {came} at {lease.stage}, not one feature"), now)
            return
        lease.move("advance")
        lease.step += 1
        lease.worker = None
        lease.lost_with.clear()  # it did no harm after all
        # what goes on is a feature: the signal that it came from is history
        lease.fields = {key: value for key, value in lease.fields.items() if key != "signal"}
        lease.arrays = item.arrays
        n_bytes = item.n_bytes
        self.budget.move(lease.client, n_bytes - lease.size)
        lease.weigh(n_bytes)
        self.queues.put(lease, now)

    def count_unowned(self, number: int) -> None:
        """Count a result under a number that the sender does not hold."""
        if number in self._revoked:
            self.counts["late"] += 1
        elif 0 < number <= self._number:
            self.counts["duplicates"] += 1
        else:
            self.counts["stray"] += 1

    def hand_back(self, worker: Worker, numbers: Iterable[int], now: float) -> None:
        """Queue what a worker returns unstarted, in front; it costs no attempt."""
        back = []
        for lease in self._revoke(worker, numbers):
            lease.move("hand back")
            self.counts["handed_back"] += 1
            back.append(lease)
        self.queues.put_back(back, now)

    def lose(self, worker: Worker, now: float) -> None:
        """Queue what a worker went away with, in front and one attempt later.

        Only what it may have been computing is charged: with the last charge it is quarantined.
        """
        begun = worker.begun()
        back = []
        for lease in self._revoke(worker, tuple(worker.leases)):
            if lease.number in begun:
                lease.lost_with.append(worker.name)
            if len(lease.lost_with) < self.settings.max_attempts:
                lease.move("lose")
                lease.attempt += 1
                lease.lost = True
                back.append(lease)
            else:
                self._quarantine(lease, now)
        self.queues.put_back(back, now)

    def _quarantine(self, lease: Lease, now: float) -> None:
        blame = f"{len(lease.lost_with)} workers went away while they had it: {', '.join(lease.lost_with)}"
        self.notes.append(f"quarantined item {lease.id} of client {lease.client.run}: {blame}")
        self.dead_letters.append(Letter.of(lease, blame))
        self.give_up(lease, Quarantined(f"{blame}; look at the item, and at the workers' logs"), now)

    def _revoke(self, worker: Worker, numbers: Iterable[int]) -> Iterable[Lease]:
        """Take leases back from a worker; those that somebody waits for are given."""
        for number in numbers:
            lease = worker.release(number)
            if lease is None:
                self.counts["stray"] += 1
                continue
            self._revoked[number] = None
            if len(self._revoked) > _REMEMBERED:
                self._revoked.popitem(last=False)
            lease.worker = None
            if lease.unanswered:
                yield lease
            else:
                lease.move("finish")

    # --- to clients ---------------------------------------------------------------------------------------------------

    def give_up(self, lease: Lease, error: StreamfeatError, now: float) -> None:
        """Answer an open lease with an error, wherever it stands."""
        if lease.state == "queued":
            self.queues.remove(lease)
        self._answer(lease, failed_item(lease.id, error).fields, (), now)

    def cancel(self, lease: Lease, now: float) -> None:
        """Answer CANCELLED if no worker has it; otherwise it takes its course."""
        if lease.state == "queued":
            self.give_up(lease, Cancelled("withdrawn before it was computed"), now)

    def expire(self, now: float, workers_of: Callable[[str], Sequence[Worker]]) -> None:
        """Answer DEADLINE_EXCEEDED for what is out of time, and say what it was waiting for."""
        for lease in self._deadlines.due(now):
            where = lease.stage[:21]  # a bank's hash is long
            if lease.worker is not None:
                reason = f"worker {lease.worker.name} did not answer in time at {where}; send it with more time"
            elif workers_of(lease.stage):
                reason = f"still queued for {where}; add workers, or send it with more time"
            else:
                reason = f"no worker serves {where} at present; start one"
            if lease.lost_with:
                reason += f" (lost before with {', '.join(lease.lost_with)})"
            self.give_up(lease, DeadlineExceeded(reason), now)

    def abandon(self, client: Client) -> None:
        """Drop what a client that left was waiting for."""
        for lease in client.leases.values():
            if lease.state == "queued":
                self.queues.remove(lease)
            self._close(lease)
            self.counts["abandoned"] += 1
        client.leases.clear()
        client.n_bytes = 0
        self._answers.pop(client, None)

    def close(self, clients: Iterable[Client], now: float) -> None:
        """Answer everything that is open as UNAVAILABLE."""
        for client in clients:
            for lease in tuple(client.leases.values()):
                self.give_up(lease, Unavailable("the broker is stopping; send it again to the next one"), now)

    def take_served(self) -> Sequence[Served]:
        """What was answered since the last call, as far as it is remembered."""
        served, self.served = self.served, deque(maxlen=self.served.maxlen)
        return served

    def take_dispatched(self) -> Sequence[Dispatched]:
        """The TASKs since the last call, as far as they are remembered."""
        dispatched, self.dispatched = self.dispatched, deque(maxlen=self.dispatched.maxlen)
        return dispatched

    def take_answers(self) -> Iterable[tuple[Client, Message]]:
        """The REPLYs that have come together, each for its client."""
        answers, self._answers = self._answers, {}
        for client, items in answers.items():
            yield client, Message("REPLY", {}, tuple(items))

    def _answer(self, lease: Lease, fields: dict[str, Any], arrays: tuple[Any, ...], now: float) -> None:
        if lease.state == "queued":
            lease.queue_s += now - lease.since
        reply = {
            **fields,
            "id": lease.id,
            "attempt": lease.attempt,
            "queue_ms": round(lease.queue_s * 1000, 3),
            "compute_ms": lease.compute_ms,
        }
        if lease.number and lease.worker is not None:
            reply["worker"] = lease.worker.name
        if reply["ok"]:
            self.counts["answered"] += 1
            if lease.route.bank is not None:
                reply.setdefault("bank", lease.route.bank)
        else:
            self.failed[reply["error"]["code"]] += 1
        op, code = lease.route.stages[-1].partition(":")[0], "OK" if reply["ok"] else reply["error"]["code"]
        took_s, compute_s = now - lease.accepted, lease.compute_ms / 1000
        self.took[min(int(2000 * took_s).bit_length(), N_TOOK - 1)] += 1
        self.served.append(Served(op, lease.route.bank, code, took_s, lease.queue_s, compute_s))
        item = Item(reply, arrays)
        self.replies.put(lease.client.run, item)
        self._answers.setdefault(lease.client, []).append(item)
        del lease.client.leases[lease.id]
        lease.client.n_bytes -= lease.charge
        self._close(lease)

    def _close(self, lease: Lease) -> None:
        """Nobody waits any more: the payload goes, and the lease with it unless a worker still has it."""
        held = lease.worker is not None and lease.number in lease.worker.leases
        lease.move("abandon" if held else "finish")
        lease.arrays = ()
        self.budget.move(lease.client, -lease.size)
        self._deadlines.drop()
