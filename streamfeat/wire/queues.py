"""What waits for a worker: one queue for each stage, bank and set of options, and who gets what next.

Fairness: within a queue each client gets the same cost (samples x what each of them meets in the bank), by deficits: a
client with items of seconds gets one where another gets ten of a tenth. Among queues, next is the one where the client
waits who was given least so far, in all of them: other options for each item are no way to more turns. Who comes anew
begins where the others stand (start-time fair queueing, Goyal, Vin and Cheng 1996). Each client's items stay in order
within a queue.

A batch is bounded in items, bytes and cost. One that is not full may wait for company while its worker has something to
do: for `batch_wait_ms` from when its first item was queued, and never for more than a tenth of the time that an item
has left.

A suspect, an item that was with a worker when it went away, goes first and alone: it waits for an idle worker, and
the worker gets nothing else until it has answered. So an item that ends its worker takes no neighbour with it. While it
waits, the least loaded worker gets nothing new and becomes idle; the same is done for an item over every worker's free
bytes. Workers that a suspect was lost with are avoided while there are others.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from streamfeat.wire.leases import Lease
from streamfeat.wire.peers import Client, Worker

Key = tuple[str, str | None, str]
"""Stage, bank, options: items under the same key may travel in one TASK."""


class BatchLimits(NamedTuple):
    """What a TASK may hold, and how long one that could hold more may wait."""

    n_items: int
    cost: int
    wait_s: float


class StageQueue:
    """The leases that wait under one key."""

    def __init__(self) -> None:
        self.suspects: OrderedDict[int, Lease] = OrderedDict()
        self.n_bytes = 0
        self._deficits: dict[Client, int] = {}  # cost that a client may still be given before others have their turn
        self._lines: OrderedDict[Client, OrderedDict[int, Lease]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.suspects) + sum(map(len, self._lines.values()))

    def __bool__(self) -> bool:
        return bool(self.suspects or self._lines)

    def put(self, lease: Lease) -> None:
        """At the end of its client's line."""
        self.n_bytes += lease.size
        self._lines.setdefault(lease.client, OrderedDict())[lease.order] = lease
        self._deficits.setdefault(lease.client, 0)

    def put_back(self, lease: Lease) -> None:
        """At the front: among the suspects, or in its client's line if nothing is held against it."""
        if lease.lost_with:
            self.n_bytes += lease.size
            self.suspects[lease.order] = lease
            self.suspects.move_to_end(lease.order, last=False)
        else:
            self.put(lease)
            self._lines[lease.client].move_to_end(lease.order, last=False)
            self._lines.move_to_end(lease.client, last=False)

    def remove(self, lease: Lease) -> None:
        """Take it out, wherever it stands."""
        if self.suspects.pop(lease.order, None) is None:
            self._leave(lease)
        else:
            self.n_bytes -= lease.size

    @property
    def clients(self) -> Iterable[Client]:
        """Who waits, suspects apart."""
        return self._lines.keys()

    def head(self) -> Lease | None:
        """Who is next, suspects apart: of the first client in turn whose deficit covers its first item.

        One client alone needs no deficit.
        """
        if not self._lines:
            return None
        if len(self._lines) == 1:
            [line] = self._lines.values()
            return next(iter(line.values()))
        for client, line in self._lines.items():
            lease = next(iter(line.values()))
            if lease.cost <= self._deficits[client]:
                return lease
        # nobody: all get as much more as the first of them needs
        heads = {client: next(iter(line.values())) for client, line in self._lines.items()}
        least = min(lease.cost - self._deficits[client] for client, lease in heads.items())
        for client in heads:
            self._deficits[client] += least
        return self.head()

    def take(self, n_items: int, n_bytes: int, cost: int) -> list[Lease]:
        """The next ones, clients in turn: the head in any case, more while bytes and cost last."""
        batch: list[Lease] = []
        while len(batch) < n_items and (lease := self.head()) is not None:
            if batch and (lease.size > n_bytes or lease.cost > cost):
                break
            self._deficits[lease.client] = max(0, self._deficits[lease.client] - lease.cost)  # alone, it needs none
            self._lines.move_to_end(lease.client)
            self._leave(lease)
            n_bytes -= lease.size
            cost -= lease.cost
            batch.append(lease)
        return batch

    def ripe_at(self, n_items: int, cost: int) -> float:
        """When what waits may go though it is no full batch; at once (minus infinity) if it is one."""
        if len(self) >= n_items:
            return float("-inf")
        leases = [lease for line in self._lines.values() for lease in line.values()]
        if sum(lease.cost for lease in leases) >= cost:
            return float("-inf")
        return min((lease.ripe for lease in leases), default=float("inf"))

    def _leave(self, lease: Lease) -> None:
        """Out of its client's line, which ends with its last item; so does what the client had saved."""
        self.n_bytes -= lease.size
        line = self._lines[lease.client]
        del line[lease.order]
        if not line:
            del self._lines[lease.client], self._deficits[lease.client]


class Queues:
    """All queues that have something in them, and the choice of who gets what."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._by_key: OrderedDict[Key, StageQueue] = OrderedDict()
        self._waiting: Counter[Client] = Counter()
        self._given: dict[Client, int] = {}  # cost, since the client began to wait; what it began with counts too
        self._begin = 0
        self.ripe_at = float("inf")
        """When what is held back for company, as of the last `assign`, is to be assigned at the latest."""

    def put(self, lease: Lease, now: float) -> None:
        """Queue for its current stage."""
        self._enter(lease, now)
        self._queue(lease).put(lease)

    def _enter(self, lease: Lease, now: float) -> None:
        self._waiting[lease.client] += 1
        self._given.setdefault(lease.client, self._begin)
        lease.since = now
        lease.ripe = now + min(self._limits.wait_s, (lease.deadline - now) / 10)

    def put_back(self, leases: Sequence[Lease], now: float) -> None:
        """Queue in front of all others, in the order given."""
        for lease in reversed(leases):
            self._enter(lease, now)
            self._queue(lease).put_back(lease)

    def remove(self, lease: Lease) -> None:
        """Take out a queued lease."""
        key = _key(lease)
        self._by_key[key].remove(lease)
        self._leave(lease)
        if not self._by_key[key]:
            del self._by_key[key]

    def assign(self, workers_of: Callable[[str], Sequence[Worker]], now: float) -> Iterator[tuple[Worker, list[Lease]]]:
        """Give out what can be given, batch by batch; the caller notes each with `Worker.take` before the next."""
        held: set[Worker] = set()
        self.ripe_at = float("inf")
        turns = [(self._rank(queue), n, key) for n, (key, queue) in enumerate(self._by_key.items())]
        heapq.heapify(turns)
        while turns:
            rank, n, key = heapq.heappop(turns)
            queue = self._by_key[key]
            if (now_rank := self._rank(queue)) > rank:  # its client got something elsewhere meanwhile
                heapq.heappush(turns, (now_rank, n, key))
                continue
            workers = workers_of(key[0])
            worker, batch = self._choose(queue, workers, held, now) if workers else (None, [])
            if worker is None:  # nor later: what is given out leaves less room
                continue
            self._begin = max(self._begin, rank)
            for lease in batch:
                self._given[lease.client] += lease.cost
                self._leave(lease)
            if queue:
                self._by_key.move_to_end(key)
                heapq.heappush(turns, (self._rank(queue), n + len(turns) + 1, key))
            else:
                del self._by_key[key]
            yield worker, batch

    def _rank(self, queue: StageQueue) -> int:
        """What the least served of its clients was given; a suspect waits for nobody."""
        if queue.suspects:
            return 0
        return 0 if len(self._by_key) == 1 else min(self._given[client] for client in queue.clients)

    def _leave(self, lease: Lease) -> None:
        """Nothing is remembered of a client that waits for nothing."""
        self._waiting[lease.client] -= 1
        if not self._waiting[lease.client]:
            del self._waiting[lease.client], self._given[lease.client]

    def counts(self) -> Iterator[tuple[Key, int, int]]:
        """Each key, how many wait under it and what they weigh."""
        return ((key, len(queue), queue.n_bytes) for key, queue in self._by_key.items())

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def _queue(self, lease: Lease) -> StageQueue:
        key = _key(lease)
        queue = self._by_key.get(key)
        if queue is None:
            queue = self._by_key[key] = StageQueue()
        return queue

    def _choose(
        self, queue: StageQueue, workers: Sequence[Worker], held: set[Worker], now: float
    ) -> tuple[Worker | None, list[Lease]]:
        """A worker and what it should get from this queue; workers to be left alone are added to `held`."""
        if queue.suspects:
            # those charged least first: where workers are killed from outside, who was unlucky twice is not first again
            suspect = min(queue.suspects.values(), key=lambda lease: len(lease.lost_with))
            able = [w for w in workers if w.name not in suspect.lost_with] or workers
            least = min(able, key=_load)
            if not least.leases:
                queue.remove(suspect)
                least.alone = True
                return least, [suspect]
            held.add(least)
        head = queue.head()
        ready = [w for w in workers if w.free_items > 0 and not w.alone and w not in held]
        if head is None or not ready:
            return None, []
        fitting = [w for w in ready if w.fits(head.size)]
        if not fitting:
            held.add(min(ready, key=_load))
            return None, []
        limits = self._limits
        if limits.wait_s and (ripe_at := queue.ripe_at(limits.n_items, limits.cost)) > now:
            fitting = [w for w in fitting if not w.leases]
            if not fitting:
                self.ripe_at = min(self.ripe_at, ripe_at)
                return None, []
        worker = max(fitting, key=lambda w: (w.free_items, -w.n_tasks))
        # a short queue is shared out: one batch for one worker would leave the others idle
        n_alike = sum(w.free_items == worker.free_items for w in fitting)
        share = -(-len(queue) // n_alike)
        n_items = min(limits.n_items, worker.free_items, share)
        return worker, queue.take(n_items, worker.credit_bytes - worker.n_bytes, limits.cost)


def _key(lease: Lease) -> Key:
    options = lease.options
    return lease.stage, lease.route.bank, repr(sorted(options.items())) if options else ""  # repr: 1 is not True


def _load(worker: Worker) -> tuple[int, int]:
    return len(worker.leases), worker.n_tasks
