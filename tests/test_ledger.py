"""The broker's books balance whatever happens: a machine of clients, workers, deaths and time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamfeat.wire.messages import Item, Message
from streamfeat.wire.peers import Worker
from streamfeat.wire.routing import Side
from tests.fleet import BANK, FEATURE, Fleet, good_result, signal

ROUTES = (["features"], ["features", "learn:m"], ["features", "classify:m"], ["features", "search:i"])
CREDIT_ITEMS = 12
CREDIT_BYTES = 400
RETAINED = 1500
BATCH = 4
POISON = 77  # the sample count of an item that ends each worker that computes it

WORKERS: dict[str, dict[str, Any]] = {
    "w1": {"credit": {"items": 6, "bytes": 120}, "in_hand": 1, "work": {BANK: 3}},
    "w2": {"credit": {"items": 3, "bytes": 1000}},
    "learner": {"kind": "learner", "stages": ["learn:*", "classify:*"], "banks": {}},
    "index": {"kind": "index", "stages": ["search:i", "insert:i"], "banks": {}},
}


class Life(RuleBasedStateMachine):
    """Clients send, cancel, leave and come back; workers answer, lie, hand back, die and return; time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet(
            credit_items=CREDIT_ITEMS,
            credit_bytes=CREDIT_BYTES,
            max_retained_bytes=RETAINED,
            max_clients=10,
            message_bytes=RETAINED,
            item_bytes=RETAINED // 2,
            max_batch_items=BATCH,
            max_batch_cost=300,
            batch_wait_ms=400,
            client_silence_s=20.0,
            cached_replies=50,
        )
        self.ids = itertools.count(1)
        self.runs = itertools.count(1)
        self.clients: dict[bytes, set[int]] = {}  # connected: ids sent in this connection
        self.workers: dict[str, bytes] = {}  # living: name -> address
        self.tasks: dict[bytes, list[Message]] = {}  # what living workers have not answered
        self.dead: list[tuple[bytes, Message]] = []  # what nobody living has, to be answered late
        self.gone: dict[tuple[Side, bytes], int] = {}  # addresses the broker knows are lost: messages heard until then
        self.redelivered = False

    @initialize()
    def everyone_joins(self) -> None:
        """Every stage has been served once, so nothing is refused for want of a worker."""
        for name in WORKERS:
            self.join(name)
        for n in range(2):
            self.connect(n)

    # --- clients ---

    def connect(self, n: int) -> bytes:
        peer = b"client%d.%d" % (n, next(self.runs))
        self.fleet.client(peer, n=0)
        self.clients[peer] = set()
        return peer

    @rule(n=st.integers(0, 1))
    @precondition(lambda self: len(self.clients) < 3)
    def client_joins(self, n: int) -> None:
        """A new process, a new run."""
        self.connect(n)

    @rule(data=st.data(), n=st.integers(1, 6), route=st.sampled_from(ROUTES), ttl_ms=st.sampled_from([900, 30_000]))
    @precondition(lambda self: self.clients)
    def client_sends(self, data: st.DataObject, n: int, route: list[str], ttl_ms: int) -> None:
        """Items of very different sizes."""
        client = data.draw(st.sampled_from(sorted(self.clients)))
        sizes = data.draw(st.lists(st.sampled_from([1, 5, 40, 80]), min_size=n, max_size=n))
        items = [signal(next(self.ids), n=size, label="nine") for size in sizes]
        self.clients[client] |= {item.fields["id"] for item in items}
        self.fleet.request(client, items, route, ttl_ms=ttl_ms, options={"k": data.draw(st.integers(1, 2))})

    @rule(data=st.data())
    @precondition(lambda self: any(self.clients.values()))
    def client_sends_poison_or_repeats(self, data: st.DataObject) -> None:
        """An id again, under way or answered; or an item that ends its workers."""
        client = data.draw(st.sampled_from(sorted(c for c in self.clients if self.clients[c])))
        if data.draw(st.booleans()):
            self.repeat(client, data.draw(st.sampled_from(sorted(self.clients[client]))))
        else:
            item = signal(next(self.ids), n=POISON, label="nine")
            self.clients[client].add(item.fields["id"])
            self.fleet.request(client, [item])

    def repeat(self, client: bytes, item_id: int) -> None:
        """The same id again: at once the reply it had, marked; or a new life, if it was refused or long forgotten."""
        inbox = self.fleet.messages("front", client)
        run = self.fleet.broker.clients[client].run
        if self.fleet.broker.ledger.replies.again(run, item_id) is not None:
            [message] = self.fleet.request(client, [signal(item_id, label="nine")])
            assert [item.fields["id"] for item in message.items] == [item_id]
            assert message.items[0].fields["dup"] is True
            inbox.pop()
        else:
            for n, message in enumerate(inbox):
                items = tuple(item for item in message.items if item.fields["id"] != item_id)
                inbox[n] = Message(message.verb, message.fields, items)
            self.fleet.request(client, [signal(item_id, label="nine")])

    @rule(data=st.data())
    @precondition(lambda self: any(self.clients.values()))
    def client_cancels(self, data: st.DataObject) -> None:
        """Anything it ever sent."""
        client = data.draw(st.sampled_from(sorted(c for c in self.clients if self.clients[c])))
        ids = data.draw(st.lists(st.sampled_from(sorted(self.clients[client])), max_size=3))
        self.fleet.send("front", client, Message("CANCEL", {"ids": ids}))

    @rule(data=st.data(), politely=st.booleans())
    @precondition(lambda self: len(self.clients) > 1)
    def client_leaves(self, data: st.DataObject, politely: bool) -> None:
        """With BYE, or found to be unreachable."""
        client = data.draw(st.sampled_from(sorted(self.clients)))
        del self.clients[client]
        if politely:
            self.fleet.send("front", client, Message("BYE"))
        else:
            self.fleet.lose("front", client)
        self.mark_gone("front", client)

    # --- workers ---

    def join(self, name: str) -> None:
        address = self.fleet.worker(name, run=next(self.runs), **WORKERS[name])
        assert self.fleet.messages("back", address)[-1].verb != "ERROR"
        self.workers[name] = address
        self.tasks[address] = []

    def die(self, name: str) -> bytes:
        """The process ends; the broker has not noticed."""
        address = self.workers.pop(name)
        self.dead += [(address, task) for task in self.tasks.pop(address) + self.fleet.tasks(address)]
        self.redelivered = True
        return address

    @rule(name=st.sampled_from(sorted(WORKERS)))
    def worker_restarts(self, name: str) -> None:
        """Killed or not, a new run joins under the name; the older one is replaced."""
        old = self.die(name) if name in self.workers else None
        self.join(name)
        if old is not None:
            self.mark_gone("back", old)

    @rule(name=st.sampled_from(sorted(WORKERS)))
    @precondition(lambda self: self.workers)
    def worker_cannot_be_reached(self, name: str) -> None:
        """A send fails."""
        if name in self.workers:
            address = self.die(name)
            self.fleet.lose("back", address)
            self.mark_gone("back", address)

    @rule(name=st.sampled_from(sorted(WORKERS)))
    def worker_is_killed(self, name: str) -> None:
        """Nobody tells the broker; it will be silent."""
        if name in self.workers:
            self.die(name)

    @rule(name=st.sampled_from(sorted(WORKERS)), fail=st.booleans(), twice=st.booleans())
    def worker_answers(self, name: str, fail: bool, twice: bool) -> None:
        """The oldest TASK: well, with one failure, twice, or with its death if there is poison in it."""
        if name in self.workers and (mine := self.mine(name)):
            task = mine.pop(0)
            poison = [i for i, item in enumerate(task.items) if item.arrays and item.arrays[0].shape == (POISON,)]
            if poison:
                mine.insert(0, task)
                before = [good_result(item, task.fields["stage"]) for item in task.items[: poison[0]]]
                if before:
                    self.fleet.send("back", self.workers[name], Message("RESULT", task.fields, tuple(before)))
                self.fleet.lose("back", self.workers[name])
                self.mark_gone("back", self.die(name))
                return
            items = [good_result(item, task.fields["stage"]) for item in task.items]
            if fail:
                number = items[-1].fields["id"]
                items[-1] = Item({"id": number, "ok": False, "error": {"code": "ITEM_FAILED", "reason": "bad"}})
            message = Message("RESULT", {"stage": task.fields["stage"]}, tuple(items))
            for _ in range(1 + twice):
                self.fleet.send("back", self.workers[name], message)

    @rule(name=st.sampled_from(sorted(WORKERS)))
    def worker_hands_back(self, name: str) -> None:
        """Everything it has not started."""
        if name in self.workers and (mine := self.mine(name)):
            ids = [item.fields["id"] for task in mine for item in task.items]
            mine.clear()
            self.redelivered = True
            self.fleet.send("back", self.workers[name], Message("RETURN", {"ids": ids}))

    @rule(name=st.sampled_from(sorted(WORKERS)))
    def worker_says_bye(self, name: str) -> None:
        """With work in hand, or without."""
        if name in self.workers:
            address = self.die(name)
            self.fleet.send("back", address, Message("BYE"))
            self.mark_gone("back", address)

    @rule(data=st.data(), stranger=st.booleans())
    @precondition(lambda self: self.dead)
    def dead_worker_answers_after_all(self, data: st.DataObject, stranger: bool) -> None:
        """Under its own old address, or under that of a living worker."""
        address, task = self.dead.pop(data.draw(st.integers(0, len(self.dead) - 1)))
        self.gone.pop(("back", address), None)
        if stranger and self.workers:
            address = min(self.workers.values())
        items = tuple(good_result(item, task.fields["stage"]) for item in task.items)
        self.fleet.send("back", address, Message("RESULT", {"stage": task.fields["stage"]}, items))

    def mine(self, name: str) -> list[Message]:
        """The TASKs that the worker has."""
        address = self.workers[name]
        self.tasks[address] += self.fleet.tasks(address)
        return self.tasks[address]

    # --- time ---

    @rule(seconds=st.sampled_from([0.5, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        """The living ping every quarter of a second; who does not is found out."""
        for _ in range(round(seconds * 4)):
            self.fleet.now += 0.25
            for address in self.workers.values():
                self.fleet.send("back", address, Message("PING"))
            for client in self.clients:
                self.fleet.send("front", client, Message("PING"))
            self.fleet.tick()

    def mark_gone(self, side: Side, peer: bytes) -> None:
        self.gone[side, peer] = len(self.fleet.messages(side, peer))

    # --- what must hold after each step ---

    @invariant()
    def every_accepted_item_is_owned_or_answered_once(self) -> None:
        """accepted = answered + failed + abandoned + open, and no connected client has heard twice."""
        ledger = self.fleet.broker.ledger
        counts = ledger.counts
        closed = counts["answered"] + counts["abandoned"] + sum(ledger.failed.values())
        assert counts["accepted"] == closed + ledger.n_open
        for client, ids in self.clients.items():
            outcome = self.fleet.outcome(client)
            assert set(outcome) | set(self.fleet.broker.clients[client].leases) == ids
            assert not set(outcome) & set(self.fleet.broker.clients[client].leases)

    @invariant()
    def open_items_are_queued_or_with_a_worker(self) -> None:
        """Nobody waits for something that nobody has."""
        broker = self.fleet.broker
        queued = sum(n for _, n, _ in broker.ledger.queues.counts())
        working = [x for w in broker.workers.values() for x in w.leases.values() if x.unanswered]
        assert broker.ledger.n_open == queued + len(working)
        assert all(lease.state == "working" for lease in working)

    @invariant()
    def credit_is_neither_lost_nor_made(self) -> None:
        """What a client has spent is what its open items weighed; what a worker has left, what it does not hold."""
        for client in self.fleet.broker.clients.values():
            charges = [lease.charge for lease in client.leases.values()]
            assert client.n_bytes == sum(charges)
            assert len(charges) <= CREDIT_ITEMS
            assert sum(charges) <= CREDIT_BYTES or len(charges) == 1
        for worker in self.fleet.broker.workers.values():
            sizes = [lease.size for lease in worker.leases.values()]
            assert worker.n_bytes == sum(sizes)
            assert len(sizes) <= worker.credit_items
            assert sum(sizes) <= worker.credit_bytes or len(sizes) == 1

    @invariant()
    def retained_bytes_are_those_of_open_items(self) -> None:
        """Payload of answered items is not kept, and the limit holds."""
        broker = self.fleet.broker
        kept = [lease for c in broker.clients.values() for lease in c.leases.values()]
        assert broker.ledger.retained_bytes == sum(a.n_bytes for lease in kept for a in lease.arrays)
        assert broker.ledger.retained_bytes <= RETAINED + FEATURE.n_bytes * len(kept)
        for client in broker.clients.values():
            assert client.held == sum(lease.size for lease in client.leases.values())
        orphans = [x for w in broker.workers.values() for x in w.leases.values() if not x.unanswered]
        assert all(lease.arrays == () and lease.state == "orphaned" for lease in orphans)

    @invariant()
    def batches_keep_to_their_limits(self) -> None:
        """No TASK over max_batch_items, none over the bytes unless alone, and a suspect has its worker to itself."""
        for address in self.workers.values():
            for task in self.tasks[address] + [m for m in self.fleet.messages("back", address) if m.verb == "TASK"]:
                worker: Worker = self.fleet.broker.workers[address]
                assert len(task.items) <= BATCH
                assert len(task.items) == 1 or sum(i.n_bytes for i in task.items) <= worker.credit_bytes
                n_samples = sum(math.prod(a.shape) for i in task.items for a in i.arrays)
                assert len(task.items) == 1 or n_samples <= 300
        for worker in self.fleet.broker.workers.values():
            if any(lease.lost_with and lease.state == "working" for lease in worker.leases.values()):
                assert len(worker.leases) == 1

    @invariant()
    def the_lost_hear_nothing(self) -> None:
        """After a failed send, a BYE or a replacement no message goes to that address."""
        for (side, peer), n_heard in self.gone.items():
            assert len(self.fleet.messages(side, peer)) <= n_heard

    @invariant()
    def nothing_waits_while_a_worker_is_free(self) -> None:
        """A queue is served as soon as a worker that serves it is idle; only suspects may wait for another one."""
        broker = self.fleet.broker
        open_leases = [lease for client in broker.clients.values() for lease in client.leases.values()]
        for lease in open_leases:
            if lease.state == "queued" and not lease.lost_with:
                assert all(w.leases for w in broker.services.workers_of(lease.stage))

    @invariant()
    def a_client_is_served_in_order(self) -> None:
        """Unless something was redelivered, a queue gives each client's items in the order they came."""
        if self.redelivered:
            return
        for client in self.fleet.broker.clients.values():
            first_stage = [lease for lease in client.leases.values() if lease.step == 0]
            for earlier, later in itertools.combinations(first_stage, 2):
                if (earlier.stage, earlier.options) == (later.stage, later.options):
                    assert not (earlier.state == "queued" and later.state == "working")

    def teardown(self) -> None:
        """With healthy workers everything comes to an end: answers for all, no lease, no byte, no credit left over."""
        if not self.fleet.broker.workers:
            return
        for name in WORKERS:
            self.worker_restarts(name)
        for _ in range(400):
            if self.fleet.broker.idle:
                break
            for name in WORKERS:
                if name not in self.workers:
                    self.join(name)
                self.worker_answers(name, fail=False, twice=False)
            self.time_passes(0.5)
        assert self.fleet.broker.idle
        for client, ids in self.clients.items():
            assert set(self.fleet.outcome(client)) == ids
            assert self.fleet.broker.clients[client].n_bytes == 0
        assert self.fleet.broker.ledger.retained_bytes == 0
        assert not self.fleet.broker.ledger.queues
        for name in tuple(self.workers):
            while self.mine(name):
                self.worker_answers(name, fail=False, twice=False)
        assert not any(w.leases or w.n_bytes for w in self.fleet.broker.workers.values())


TestLife = Life.TestCase
TestLife.settings = settings(
    deadline=None,
    max_examples=150,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking a life takes minutes: turn it on to debug
)


@pytest.mark.parametrize("n_neighbours", [0, 1, 3, 10])
def test_poison_is_quarantined_and_neighbours_are_not(n_neighbours: int) -> None:
    """With two workers that both die of it and come back, the poison is found and everyone else has an answer."""
    fleet = Fleet()
    client = fleet.client()
    workers = {name: fleet.worker(name) for name in ("w1", "w2")}
    runs = itertools.count(1)
    fleet.request(client, [signal(n) for n in range(n_neighbours)] + [signal(99, n=POISON)])
    for _ in range(100):
        for name, address in tuple(workers.items()):
            for task in fleet.tasks(address):
                if any(i.arrays[0].shape == (POISON,) for i in task.items):
                    fleet.lose("back", address)
                    workers[name] = fleet.worker(name, run=next(runs))
                    break
                fleet.finish(address, task)
    outcome = fleet.outcome(client)
    assert outcome.pop(99) == "QUARANTINED"
    assert outcome == dict.fromkeys(range(n_neighbours), "features")
    assert next(runs) == 4
    assert fleet.broker.ledger.retained_bytes == 0
