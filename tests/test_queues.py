"""Lines, turns and fronts of one queue."""

from __future__ import annotations

from typing import Any

from streamfeat.wire.peers import Client
from streamfeat.wire.queues import Queues, StageQueue
from streamfeat.wire.services import Route
from tests.test_leases import lease_of

A = Client(b"a", "a" * 8, 0.0, 0.0)
B = Client(b"b", "b" * 8, 0.0, 0.0)


def orders(queue: StageQueue, n_items: int = 100, n_bytes: int = 10**6) -> list[int]:
    """The orders of what is taken."""
    return [lease.order for lease in queue.take(n_items, n_bytes)]


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
    queues = Queues()
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
    queues = Queues()
    leases = [lease_of(n, client=A) for n in range(3)]
    suspect = lease_of(9, client=A, lost_with=["w1"])
    for lease in leases:
        queues.put(lease, 0.0)
    queues.put_back([suspect], 0.0)
    for lease in (leases[1], suspect, leases[0]):
        queues.remove(lease)
    assert [n for _, n in queues.counts()] == [1]
    queues.remove(leases[2])
    assert not queues


def test_items_of_unlike_options_do_not_share_a_queue() -> None:
    """1, True and 1.0 are three options, and no option is a fourth."""
    queues = Queues()
    many: list[dict[str, Any]] = [{"k": 1}, {"k": True}, {"k": 1.0}, {}, {"k": 1}]
    for n, options in enumerate(many):
        lease = lease_of(n, client=A)
        lease.route = Route(lease.route.stages, lease.route.bank, options)
        queues.put(lease, 0.0)
    assert sorted(n for _, n in queues.counts()) == [1, 1, 1, 2]
