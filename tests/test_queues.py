"""Lines, turns and fronts of one queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfeat.wire.peers import Client
from streamfeat.wire.queues import BatchLimits, Queues, StageQueue
from streamfeat.wire.services import Route
from tests.test_leases import lease_of

A = Client(b"a", "a" * 8, 0.0, 0.0)
B = Client(b"b", "b" * 8, 0.0, 0.0)


LIMITS = BatchLimits(4, 100, 0.0)


def orders(queue: StageQueue, n_items: int = 100, n_bytes: int = 10**6, cost: int = 10**6) -> list[int]:
    """The orders of what is taken."""
    return [lease.order for lease in queue.take(n_items, n_bytes, cost)]


def test_clients_alternate_and_each_stays_in_order() -> None:
    """Two clients, one with a long line: every other place is the short one's until it is empty."""
    queue = StageQueue()
    for n in range(4):
        queue.put(lease_of(n, client=A))
    for n in (10, 11):
        queue.put(lease_of(n, client=B))
    assert len(queue) == 6
    assert orders(queue, 3) == [0, 10, 1]
    assert orders(queue) == [11, 2, 3]
    assert not queue


def test_take_keeps_to_the_bytes_except_for_the_first() -> None:
    """A batch is as large as the bytes allow, and never empty."""
    queue = StageQueue()
    for n in range(4):
        queue.put(lease_of(n, client=A))
    assert orders(queue, n_bytes=25) == [0, 1]
    assert orders(queue, n_bytes=1) == [2]
    assert orders(queue, n_items=0) == []


def test_what_is_put_back_is_first_again() -> None:
    """Handed-back items stand before all others in their old order; suspects stand apart."""
    queues = Queues(LIMITS)
    back = [lease_of(n, client=A) for n in (0, 1, 2)]
    suspect = lease_of(3, client=A, lost_with=["w1"])
    for n in (4, 5):
        queues.put(lease_of(n, client=A), 0.0)
    queues.put(lease_of(10, client=B), 0.0)
    queues.put_back([*back, suspect], 0.0)
    [queue] = queues._by_key.values()
    assert list(queue.suspects) == [3]
    head = queue.head()
    assert head is not None
    assert head.order == 0
    assert orders(queue) == [0, 10, 1, 2, 4, 5]


def test_remove_takes_one_out_from_anywhere() -> None:
    """Cancelled items leave no gap and no empty line behind."""
    queues = Queues(LIMITS)
    leases = [lease_of(n, client=A) for n in range(3)]
    suspect = lease_of(9, client=A, lost_with=["w1"])
    for lease in leases:
        queues.put(lease, 0.0)
    queues.put_back([suspect], 0.0)
    for lease in (leases[1], suspect, leases[0]):
        queues.remove(lease)
    assert [(n, n_bytes) for _, n, n_bytes in queues.counts()] == [(1, 10)]
    queues.remove(leases[2])
    assert not queues


def test_items_of_unlike_options_do_not_share_a_queue() -> None:
    """1, True and 1.0 are three options, and no option is a fourth."""
    queues = Queues(LIMITS)
    many: list[dict[str, Any]] = [{"k": 1}, {"k": True}, {"k": 1.0}, {}, {"k": 1}]
    for n, options in enumerate(many):
        lease = lease_of(n, client=A)
        lease.route = Route(lease.route.stages, lease.route.bank, options)
        queues.put(lease, 0.0)
    assert sorted(n for _, n, _ in queues.counts()) == [1, 1, 1, 2]


def test_clients_get_the_same_cost_not_the_same_number() -> None:
    """Items of 10 and of 1: ten of the light ones for each heavy one, in whatever order they came."""
    queue = StageQueue()
    for n in range(30):
        queue.put(lease_of(n, client=A, cost=10))
    for n in range(100, 400):
        queue.put(lease_of(n, client=B, cost=1))
    served = Counter[str]()
    for _ in range(110):
        [order] = orders(queue, 1)
        served["heavy" if order < 100 else "light"] += 1
    assert served["heavy"] == pytest.approx(10, abs=1)
    assert served["light"] == pytest.approx(100, abs=1)


@given(st.lists(st.lists(st.integers(1, 50), min_size=30, max_size=30), min_size=2, max_size=5), st.integers(1, 60))
def test_no_client_is_ahead_by_more_than_one_item_of_each(costs: list[list[int]], n_taken: int) -> None:
    """While all have something waiting, what two clients have been given differs by less than their dearest items."""
    queue = StageQueue()
    clients = [Client(b"%d" % n, f"{n}" * 8, 0.0, 0.0) for n in range(len(costs))]
    for n, (client, line) in enumerate(zip(clients, costs, strict=True)):
        for m, cost in enumerate(line):
            queue.put(lease_of(100 * n + m, client=client, cost=cost))
    given_to = dict.fromkeys(clients, 0)
    left = dict.fromkeys(clients, 30)
    for _ in range(n_taken):
        [lease] = queue.take(1, 10**9, 10**9)
        given_to[lease.client] += lease.cost
        left[lease.client] -= 1
        if not left[lease.client]:
            break
        assert max(given_to.values()) - min(given_to.values()) <= 2 * 50


def test_a_batch_keeps_to_its_cost_and_is_never_empty() -> None:
    """Three of 40 in 100: two; one of 400: alone."""
    queue = StageQueue()
    for n, cost in enumerate([40, 40, 40, 400, 1]):
        queue.put(lease_of(n, client=A, cost=cost))
    assert orders(queue, cost=100) == [0, 1]
    assert orders(queue, cost=100) == [2]
    assert orders(queue, cost=100) == [3]


def test_waiting_for_company_ends_with_a_full_batch_or_in_time() -> None:
    """Counted from when the first was queued, cut by a tenth of the time that the most urgent has left."""
    queues = Queues(BatchLimits(4, 100, 0.5))
    queues.put(lease_of(0, client=A, deadline=100.0), 10.0)
    [queue] = queues._by_key.values()
    assert queue.ripe_at(4, 100) == 10.5
    queues.put(lease_of(1, client=B, deadline=12.2), 10.2)
    assert queue.ripe_at(4, 100) == pytest.approx(10.4)
    queues.put(lease_of(2, client=A, cost=98, deadline=100.0), 10.2)
    assert queue.ripe_at(4, 100) == float("-inf")
    assert queue.ripe_at(4, 1000) == pytest.approx(10.4)
    queues.put(lease_of(3, client=A, deadline=100.0), 10.2)
    assert queue.ripe_at(4, 1000) == float("-inf")
