"""What the broker refuses at the door, what it computes once, and what it lets go of when time is up."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.wire.messages import Item, Message
from tests.fleet import BANK, FEATURE, OTHER_BANK, Fleet, run_of, signal, wave

# --- at the door ---


@pytest.mark.parametrize(
    ("item", "route", "says"),
    [
        (Item({"id": 1}, (wave(),)), ["features"], "signal: features are of a signal"),
        (Item({"id": 1, "signal": {"kind": "image"}}), ["features"], "arrays: features takes 1 array an item, got 0"),
        (Item({"id": 1}, (wave(),)), ["fit:m"], "arrays: fit takes 0 array an item, got 1"),
        (signal(1), ["features", "learn:m"], "label: learn:m needs the label"),
        (signal(1), ["learn:m", "features"], "a route is one stage, or features and then one of classify, learn"),
        (signal(1), ["features", "fit:m"], "a route is one stage"),
        (signal(1), ["features", "features"], "a route is one stage"),
        (signal(1), ["features", "learn:m", "classify:m"], "got features > learn:m > classify:m"),
    ],
)
def test_an_item_that_cannot_go_its_route_is_refused(item: Item, route: list[str], says: str) -> None:
    """What is missing is named, before any worker sees the item."""
    fleet = Fleet()
    client, _, _ = fleet.client(), fleet.worker(), fleet.learner()
    [reply] = fleet.request(client, [item], route)
    error = reply.items[0].fields["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    assert says in error["reason"]
    assert fleet.broker.idle


def test_banks_and_stages_that_nobody_served_are_refused_at_once() -> None:
    """A wrong name fails in a millisecond and tells the right ones; it does not wait for its deadline."""
    fleet = Fleet()
    client = fleet.client()

    def refusal(route: list[str], **fields: Any) -> tuple[str, str]:
        [reply] = fleet.request(client, [signal(1, label=1)], route, **fields)
        error = reply.items[0].fields["error"]
        return error["code"], error["reason"]

    assert refusal(["features"]) == (
        "UNAVAILABLE",
        "no features worker has joined yet; start one, or try again when it is ready",
    )
    fleet.worker()
    assert refusal(["features"], bank="letters") == (
        "NOT_FOUND",
        f"no worker has served bank 'letters'; served are digits ({BANK[:12]})",
    )
    assert refusal(["features"], bank=OTHER_BANK)[0] == "NOT_FOUND"
    code, reason = refusal(["features", "learn:m"])
    assert code == "UNAVAILABLE"
    assert reason == "no worker has served learn:m; served are: none; start one that does"
    fleet.worker("w2", banks={"letters": OTHER_BANK})
    code, reason = refusal(["features"])
    assert code == "INVALID_ARGUMENT"
    assert "name one: digits (0123456789ab), letters (fedcba987654)" in reason


def test_a_stage_whose_worker_is_away_waits_for_it() -> None:
    """While systemd restarts the only worker, requests queue; nobody is told NOT_FOUND."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.send("back", worker, Message("BYE"))
    assert fleet.request(client, [signal(1)], bank="digits") == []
    again = fleet.worker(run=1)
    fleet.finish_all(again)
    assert fleet.outcome(client) == {1: "features"}


def test_credit_in_items_and_bytes_is_held_item_by_item() -> None:
    """Over the grant an item is OVERLOADED, with a time to come back; the ones within are computed."""
    fleet = Fleet(credit_items=3, credit_bytes=100, message_bytes=1000, item_bytes=1000)
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(n) for n in range(5)])
    outcome = fleet.outcome(client)
    assert outcome == {3: "OVERLOADED", 4: "OVERLOADED"}
    assert fleet.replies(client)[3][0].fields["error"]["retry_after_ms"] == 200
    assert fleet.finish_all(worker) == 3
    fleet.request(client, [signal(10, n=40), signal(11, n=40)])
    assert fleet.outcome(client)[11] == "OVERLOADED"
    fleet.finish_all(worker)
    fleet.request(client, [signal(12, n=400)])  # more than the credit, but alone
    assert fleet.finish_all(worker) == 1
    fleet.request(client, [signal(3)])  # an id refused is an id unused
    assert fleet.finish_all(worker) == 1


def test_the_broker_holds_no_more_than_its_limit() -> None:
    """Clients within their credits cannot fill the broker's memory, and who is refused is told of whose bytes."""
    fleet = Fleet(max_retained_bytes=2000, max_clients=5, message_bytes=1000, item_bytes=1000)
    fleet.worker(credit={"items": 1, "bytes": 1000})
    clients = [fleet.client(b"c%d" % n) for n in range(5)]
    for client in clients:
        fleet.request(client, [signal(n, n=50) for n in range(10)])
    assert fleet.outcome(clients[0]) == {9: "OVERLOADED"}  # a reserve of 100, and what was left of a pool of 1500
    assert "900 of the 900 bytes that the broker holds are yours" in str(fleet.replies(clients[0])[9])
    assert [fleet.broker.clients[client].held for client in clients] == [900, 500, 300, 200, 100]
    assert fleet.broker.ledger.retained_bytes <= 2000


@settings(deadline=None)
@given(
    wanted=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 250)), min_size=40, max_size=80),
    polite=st.lists(st.integers(1, 25), max_size=8),
    turns=st.randoms(use_true_random=False),
)
def test_a_client_within_its_reserve_is_never_refused(
    wanted: list[tuple[int, int]], polite: list[int], turns: random.Random
) -> None:
    """Whatever six others ask for and in whatever order: 400 bytes are its own, and the broker keeps to its limit."""
    fleet = Fleet(max_retained_bytes=16_000, max_clients=10, credit_bytes=16_000, message_bytes=1000, item_bytes=1000)
    worker = fleet.worker(credit={"items": 1, "bytes": 1000})
    greedy = [fleet.client(b"greedy%d" % n) for n in range(6)]
    client = fleet.client(b"polite")
    asked = [(greedy[n], size) for n, size in wanted for _ in range(3)] + [(client, size) for size in polite]
    turns.shuffle(asked)
    for item_id, (peer, size) in enumerate(asked):
        fleet.request(peer, [signal(item_id, n=size)])
        assert fleet.broker.ledger.retained_bytes <= 16_000
    assert fleet.outcome(client) == {}
    fleet.finish_all(worker)
    assert list(fleet.outcome(client).values()) == ["features"] * len(polite)


def test_sizes_over_the_limits_are_named() -> None:
    """An item or a message over its limit is TOO_LARGE; the item's neighbours are computed."""
    fleet = Fleet(item_bytes=100, message_bytes=150, message_items=3)
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1), signal(2, n=51)])
    fleet.request(client, [signal(n, n=50) for n in (3, 4)])
    fleet.request(client, [signal(n) for n in (5, 6, 7, 8)])
    fleet.finish_all(worker)
    assert fleet.outcome(client) == {1: "features"} | dict.fromkeys((2, 3, 4, 5, 6, 7, 8), "TOO_LARGE")
    assert "at most 100 bytes of payload, got 102" in fleet.replies(client)[2][0].fields["error"]["reason"]


# --- ids ---


def test_a_repeated_id_is_computed_once() -> None:
    """Under way it attaches, afterwards it is answered from memory; the credit is spent once."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1), signal(1)])
    fleet.request(client, [signal(1)])
    assert fleet.broker.clients[client].n_bytes == 10
    assert fleet.finish_all(worker) == 1
    assert fleet.outcome(client) == {1: "features"}
    [again] = fleet.request(client, [signal(1)])
    assert again.items[0].fields["dup"] is True
    assert again.items[0].arrays == (FEATURE,)
    assert fleet.tasks(worker) == []
    assert (fleet.count("accepted"), fleet.count("repeated")) == (1, 3)


def test_a_client_that_moves_keeps_its_items() -> None:
    """After a reconnect under another address the same run gets its replies there, and nothing goes to the old one."""
    fleet = Fleet()
    worker = fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.client(b"old")
    fleet.request(b"old", [signal(1), signal(2)])
    hello = Message("HELLO", {"protocol": [1, 1], "role": "client", "peer": run_of(b"old")})
    fleet.send("front", b"new", hello)
    fleet.request(b"new", [signal(1), signal(2)])
    assert fleet.finish_all(worker) == 2
    assert fleet.outcome(b"new") == {1: "features", 2: "features"}
    assert fleet.replies(b"old") == {}
    assert fleet.count("n_clients") == 1


def test_another_run_under_the_same_address_is_another_client() -> None:
    """A restarted client is not given the answers that its predecessor waited for."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    fleet.client(client, n=1)
    fleet.finish_all(worker)
    assert fleet.replies(client) == {}
    assert (fleet.count("abandoned"), fleet.count("late")) == (1, 1)


# --- deadlines and cancelling ---


def test_out_of_time_in_the_queue_is_answered_and_never_computed() -> None:
    """Expired work is dropped before it is computed, and the reason says what it waited for."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1)])
    fleet.request(client, [signal(2)], ttl_ms=1000)
    fleet.pass_time(0.75, alive=[worker])
    assert fleet.broker.next_wake(fleet.now) == pytest.approx(0.25)
    fleet.pass_time(0.25, alive=[worker])
    assert fleet.outcome(client) == {2: "DEADLINE_EXCEEDED"}
    assert "still queued for features:" in fleet.replies(client)[2][0].fields["error"]["reason"]
    assert fleet.finish_all(worker) == 1


def test_out_of_time_at_a_worker_is_answered_and_its_result_dropped() -> None:
    """The client hears at its deadline; the worker's credit is free only when the worker answers."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1)], ttl_ms=500)
    [task] = fleet.tasks(worker)
    fleet.pass_time(0.5)
    assert fleet.outcome(client) == {1: "DEADLINE_EXCEEDED"}
    assert "worker w1 did not answer in time" in fleet.replies(client)[1][0].fields["error"]["reason"]
    assert fleet.broker.ledger.retained_bytes == 0
    fleet.request(client, [signal(2)])
    assert fleet.tasks(worker) == []
    fleet.finish(worker, task)
    assert fleet.count("late") == 1
    assert fleet.finish_all(worker) == 1
    assert fleet.outcome(client) == {1: "DEADLINE_EXCEEDED", 2: "features"}


def test_the_time_left_travels_with_the_task() -> None:
    """ttl_ms shrinks on the way, and is never zero."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1), signal(2)], ttl_ms=2000)
    [task] = fleet.tasks(worker)
    fleet.now += 1.9996
    fleet.finish(worker, task)
    assert fleet.tasks(worker)[0].items[0].fields["ttl_ms"] == 1


def test_cancel_works_before_and_only_before_the_computation() -> None:
    """A queued item is CANCELLED and not computed; one with a worker is answered as if nothing had been said."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    other = fleet.client(b"other")
    fleet.request(client, [signal(1), signal(2)])
    fleet.request(other, [signal(2)])
    fleet.send("front", client, Message("CANCEL", {"ids": [1, 2, 99]}))
    assert fleet.outcome(client) == {2: "CANCELLED"}
    assert fleet.finish_all(worker) == 2
    assert fleet.outcome(client) == {1: "features", 2: "CANCELLED"}
    assert fleet.outcome(other) == {2: "features"}


# --- clients that go away ---


@pytest.mark.parametrize("how", ["bye", "lost", "silent"])
def test_a_client_that_left_costs_nothing_more(how: str) -> None:
    """Its queued items are dropped, its leases' results counted and dropped, its bytes released; others go on."""
    fleet = Fleet()
    client, other = fleet.client(), fleet.client(b"other")
    worker = fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(n) for n in range(5)], ttl_ms=10**7)
    if how == "bye":
        fleet.send("front", client, Message("BYE"))
    elif how == "lost":
        fleet.lose("front", client)
    else:
        for _ in range(70):
            fleet.pass_time(1, alive=[worker])
            fleet.send("front", other, Message("PING"))
    assert fleet.broker.ledger.retained_bytes == 0
    assert fleet.broker.idle
    fleet.request(other, [signal(1)])
    assert fleet.finish_all(worker) == 2
    assert fleet.replies(client) == {}
    assert fleet.outcome(other) == {1: "features"}
    assert (fleet.count("abandoned"), fleet.count("late")) == (5, 1)


def test_an_answer_for_a_client_found_gone_at_the_same_moment_is_not_sent() -> None:
    """The last attempt fails and the client falls silent in one tick: nothing is sent to where nobody is."""
    fleet = Fleet(max_attempts=1, client_silence_s=3.0)
    client, _ = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    fleet.pass_time(4)
    assert fleet.broker.report(fleet.now)["failed"] == {"QUARANTINED": 1}
    assert fleet.count("n_clients") == 0
    assert fleet.replies(client) == {}


def test_a_reply_that_could_not_be_delivered_is_there_when_the_client_comes_back() -> None:
    """The client that was unreachable says HELLO, sends its id again, and gets the answer without a computation."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    fleet.finish_all(worker)
    fleet.lose("front", client)
    fleet.inbox.clear()
    fleet.client()
    [reply] = fleet.request(client, [signal(1)])
    assert reply.items[0].fields["dup"] is True
    assert fleet.tasks(worker) == []
