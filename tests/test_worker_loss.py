"""Workers that die, fall silent, come back, hand back or lie."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.wire.messages import Item, Message
from tests.fleet import BANK, FEATURE, Fleet, error_of, run_of, signal


def test_a_killed_workers_items_go_to_another_worker() -> None:
    """The items of a dead worker are answered by another, one attempt later, in front of what waited, each alone."""
    fleet = Fleet()
    client, first = fleet.client(), fleet.worker("w1", credit={"items": 2, "bytes": 1000})
    fleet.request(client, [signal(n) for n in range(3)])
    second = fleet.worker("w2")
    [task] = fleet.tasks(second)
    assert [i.fields["seq"] for i in task.items] == [2]
    fleet.finish(second, task)
    fleet.request(client, [signal(9)])
    [task] = fleet.tasks(second)
    fleet.lose("back", first)
    assert fleet.tasks(second) == []  # it is not idle yet
    fleet.finish(second, task)
    seen = []
    while tasks := fleet.tasks(second):
        [task] = tasks
        seen.append([i.fields["seq"] for i in task.items])
        fleet.finish(second, task)
    assert seen == [[0], [1]]
    replies = fleet.replies(client)
    assert {n: replies[n][0].fields["attempt"] for n in replies} == {0: 2, 1: 2, 2: 1, 9: 1}
    assert fleet.count("redelivered") == 2


def test_a_silent_worker_is_gone_after_three_heartbeats_and_not_before() -> None:
    """SIGSTOP looks like this; what the worker says after SIGCONT is late, and it is asked to say HELLO."""
    fleet = Fleet()
    client, first = fleet.client(), fleet.worker("w1")
    fleet.request(client, [signal(1)])
    [task] = fleet.tasks(first)
    second = fleet.worker("w2")
    fleet.pass_time(2.75, alive=[second])
    assert fleet.tasks(second) == []
    fleet.pass_time(0.75, alive=[second])
    fleet.finish_all(second)
    assert fleet.outcome(client) == {1: "features"}
    fleet.finish(first, task)
    assert fleet.messages("back", first)[-1].fields["code"] == "HELLO_FIRST"
    assert fleet.count("late") == 1
    assert fleet.outcome(client) == {1: "features"}


def test_a_worker_over_a_new_connection_gets_its_items_again() -> None:
    """HELLO afresh: nothing of before is in hand, no attempt is charged; an answer of before is late."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w1")
    fleet.request(client, [signal(n) for n in range(3)])
    [before] = fleet.tasks(worker)
    assert fleet.worker("w1", afresh=True) == worker
    fleet.finish(worker, before)
    assert fleet.outcome(client) == {}
    fleet.finish_all(worker)
    assert fleet.outcome(client) == {0: "features", 1: "features", 2: "features"}
    assert {reply.fields["attempt"] for replies in fleet.replies(client).values() for reply in replies} == {1}
    assert (fleet.count("handed_back"), fleet.count("late"), fleet.count("redelivered")) == (3, 3, 0)


def test_a_worker_that_says_hello_again_keeps_its_items() -> None:
    """With newer banks, say, over the connection that it had."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w1")
    fleet.request(client, [signal(1)])
    fleet.worker("w1")
    fleet.finish_all(worker)
    assert fleet.outcome(client) == {1: "features"}
    assert fleet.count("handed_back") == 0


def test_a_busy_worker_may_announce_its_silence() -> None:
    """PING busy_ms extends liveness by that much, once."""
    fleet = Fleet()
    worker = fleet.worker()
    fleet.send("back", worker, Message("PING", {"busy_ms": 10_000}))
    fleet.pass_time(9.5)
    assert fleet.count("n_workers") == 1
    fleet.send("back", worker, Message("PING"))
    fleet.pass_time(3.75)
    assert fleet.count("n_workers") == 0


def test_a_broker_that_slept_does_not_blame_its_workers() -> None:
    """After SIGSTOP of the broker itself the pings wait in its sockets: nobody is declared dead for that."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)], ttl_ms=1_000_000)
    fleet.now += 500
    fleet.tick()
    assert (fleet.count("n_workers"), fleet.count("n_clients")) == (1, 1)
    fleet.finish_all(worker)
    assert fleet.outcome(client) == {1: "features"}


def test_a_restarted_worker_replaces_its_older_run() -> None:
    """Same name, new run: what the old one had is done again at once, not after its heartbeats."""
    fleet = Fleet()
    client, old = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    [task] = fleet.tasks(old)
    new = fleet.worker(run=1)
    fleet.finish_all(new)
    assert fleet.outcome(client) == {1: "features"}
    assert fleet.count("n_workers") == 1
    fleet.finish(old, task)
    assert fleet.messages("back", old)[-1].fields["code"] == "HELLO_FIRST"


def test_a_worker_that_says_hello_again_keeps_what_it_has() -> None:
    """A lost WELCOME costs nothing: the same run at the same address goes on with its leases."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    [task] = fleet.tasks(worker)
    fleet.worker(credit={"items": 5, "bytes": 500})
    assert fleet.messages("back", worker)[-1].verb == "WELCOME"
    fleet.finish(worker, task)
    assert fleet.outcome(client) == {1: "features"}
    assert fleet.replies(client)[1][0].fields["attempt"] == 1
    [w] = fleet.broker.workers.values()
    assert (w.n_bytes, w.credit_items) == (0, 5)


def test_a_poison_item_is_quarantined_and_its_neighbours_are_not() -> None:
    """The item that ends three workers is answered QUARANTINED; those that were with it have their features."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w0")
    fleet.request(client, [signal(n) for n in range(16)])
    deaths = 0
    while not fleet.broker.idle:
        tasks = fleet.tasks(worker)
        assert tasks
        for task in tasks:
            if any(i.fields["seq"] == 5 for i in task.items):
                deaths += 1
                fleet.lose("back", worker)
                worker = fleet.worker("w0", run=deaths)
                break
            fleet.finish(worker, task)
    assert deaths == 3
    outcome = fleet.outcome(client)
    assert outcome.pop(5) == "QUARANTINED"
    assert set(outcome.values()) == {"features"}
    assert "3 workers went away while they had it: w0, w0, w0" in fleet.replies(client)[5][0].fields["error"]["reason"]
    assert any("quarantined item 5" in note for note in fleet.broker.take_notes())


def test_only_what_may_have_been_begun_is_charged() -> None:
    """A worker that has at most two in hand: the two that it had for longest are tried alone, the others together."""
    fleet = Fleet()
    client, first = fleet.client(), fleet.worker("w1", in_hand=2)
    fleet.request(client, [signal(n) for n in range(8)])
    [task] = fleet.tasks(first)
    done = Message("TASK", task.fields, task.items[:3])
    fleet.finish(first, done)
    fleet.lose("back", first)
    second = fleet.worker("w2", in_hand=2)
    seen = []
    while tasks := fleet.tasks(second):
        for task in tasks:
            seen.append([i.fields["seq"] for i in task.items])
            fleet.finish(second, task)
    assert seen == [[3], [4], [5, 6, 7]]
    assert fleet.outcome(client) == dict.fromkeys(range(8), "features")
    assert {n: r[0].fields["attempt"] for n, r in fleet.replies(client).items()} == {n: 1 + (n > 2) for n in range(8)}
    assert fleet.count("redelivered") == 5


def test_who_was_unlucky_twice_is_not_first_again() -> None:
    """Suspects are tried in the order of their charges: a worker killed from outside hits another one each time."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w0")
    fleet.request(client, [signal(n) for n in range(4)])
    tried = []
    for run in (1, 2, 3):
        fleet.lose("back", worker)
        worker = fleet.worker("w0", run=run)
        tried += [item.fields["seq"] for task in fleet.tasks(worker) for item in task.items]
    assert tried == [0, 1, 2]
    assert fleet.outcome(client) == {}  # nobody is quarantined


@pytest.mark.parametrize("n_deaths", [3, 50])
def test_an_item_that_waits_behind_the_one_computed_is_never_charged(n_deaths: int) -> None:
    """However often workers die in front of it: only the oldest in hand is theirs to answer for."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w0", in_hand=1)
    fleet.request(client, [signal(n) for n in range(n_deaths + 1)])
    for n in range(n_deaths):
        fleet.lose("back", worker)
        worker = fleet.worker("w0", run=n + 1, in_hand=1)
        [task] = fleet.tasks(worker)
        assert len(task.items) == 1  # the one that was charged, alone
        fleet.finish(worker, task)
        fleet.tasks(worker)
    assert "QUARANTINED" not in fleet.outcome(client).values()
    assert list(fleet.broker.take_dead_letters()) == []


def test_a_quarantined_item_is_handed_over_with_all_that_it_needs() -> None:
    """From the stage where it ended: the feature, not the signal; route, bank, options, whose it was and why."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker("w1")
    index: dict[str, Any] = {"kind": "index", "stages": ["search:i"], "banks": {}}
    fleet.worker("index", **index)
    fleet.request(client, [signal(7, name="seven")], ["features", "search:i"], options={"k": 3})
    fleet.finish_all(worker)
    for run in (1, 2, 3):
        fleet.worker("index", run=run, **index)
    assert fleet.outcome(client) == {7: "QUARANTINED"}
    [letter] = fleet.broker.take_dead_letters()
    assert (letter.route, letter.bank, letter.options) == (("search:i",), BANK, {"k": 3})
    assert (letter.client, letter.id, letter.attempt, letter.lost_with) == (run_of(client), 7, 3, ("index",) * 3)
    assert "3 workers went away" in letter.reason
    assert letter.item.arrays == (FEATURE,)
    assert {"name": "seven", "stream": run_of(client), "seq": 7, "bank": BANK}.items() <= letter.item.fields.items()
    assert fleet.broker.take_dead_letters() == []
    assert fleet.count("retained_bytes") == 0


def test_suspicion_ends_with_the_stage() -> None:
    """Lost twice at features and once at the learner is not three times the item's fault; attempts are all counted."""
    fleet = Fleet()
    client, learner = fleet.client(), fleet.learner()
    fleet.worker("w1")
    fleet.request(client, [signal(1, label=1)], ["features", "learn:m"])
    for run in (1, 2):
        worker = fleet.worker("w1", run=run)
    fleet.finish_all(worker)
    assert len(fleet.tasks(learner)) == 1
    learner = fleet.learner(run=1)
    fleet.finish_all(learner)
    assert fleet.outcome(client) == {1: "committed"}
    assert fleet.replies(client)[1][0].fields["attempt"] == 4


def test_a_suspect_avoids_the_worker_it_was_lost_with_while_there_is_another() -> None:
    """The restarted w1 is idle, but the item waits for w2; when only w1 is left it gets the item."""
    fleet = Fleet()
    client, first = fleet.client(), fleet.worker("w1", credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1)])
    second = fleet.worker("w2", credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(2)])
    [busy] = fleet.tasks(second)
    fleet.lose("back", first)
    first = fleet.worker("w1", run=1)
    assert fleet.tasks(first) == []
    fleet.request(client, [signal(3)])  # what is not suspected may go to w1
    assert [i.fields["seq"] for task in fleet.tasks(first) for i in task.items] == [3]
    fleet.finish(second, busy)
    assert [i.fields["seq"] for task in fleet.tasks(second) for i in task.items] == [1]
    fleet.lose("back", second)
    fleet.lose("back", first)
    first = fleet.worker("w1", run=2)
    assert fleet.finish_all(first) == 2
    assert fleet.outcome(client) == {1: "features", 2: "features", 3: "features"}


def test_a_steady_stream_does_not_starve_a_suspect() -> None:
    """While no worker is ever out of work, one is kept free until each suspect has had it to itself."""
    fleet = Fleet(max_batch_items=2)
    client, first = fleet.client(), fleet.worker("w1", credit={"items": 4, "bytes": 1000})
    others = [fleet.worker(f"w{n}", credit={"items": 4, "bytes": 1000}) for n in (2, 3)]
    fleet.request(client, [signal(n) for n in range(12)])
    suspects = {item.fields["seq"] for task in fleet.tasks(first) for item in task.items}
    fleet.lose("back", first)
    fleet.stream_without_pause(client, others, rounds=30)
    assert len(suspects) == 4
    assert suspects <= set(fleet.outcome(client))


def test_what_a_worker_hands_back_costs_no_attempt() -> None:
    """DRAIN, RETURN and BYE move work elsewhere in order; nothing is held against items or worker."""
    fleet = Fleet()
    client, first = fleet.client(), fleet.worker("w1")
    fleet.request(client, [signal(n) for n in range(4)])
    [task] = fleet.tasks(first)
    fleet.send("back", first, Message("DRAIN"))
    numbers = [i.fields["id"] for i in task.items]
    fleet.send("back", first, Message("RETURN", {"ids": [*numbers[1:3], 999]}))
    assert fleet.tasks(first) == []
    second = fleet.worker("w2")
    [task] = fleet.tasks(second)
    assert [i.fields["seq"] for i in task.items] == [1, 2]
    fleet.send("back", first, Message("BYE", {"reason": "stopping"}))
    fleet.finish(second, task)
    fleet.finish_all(second)
    assert fleet.outcome(client) == dict.fromkeys(range(4), "features")
    assert {r[0].fields["attempt"] for r in fleet.replies(client).values()} == {1}
    assert (fleet.count("handed_back"), fleet.count("redelivered"), fleet.count("stray")) == (4, 0, 1)


def test_what_is_remembered_of_old_leases_is_bounded() -> None:
    """A worker that hands back for ever costs time, not memory."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(n) for n in range(16)])
    for _ in range(300):
        [task] = fleet.tasks(worker)
        fleet.send("back", worker, Message("RETURN", {"ids": [item.fields["id"] for item in task.items]}))
    assert len(fleet.broker.ledger._revoked) == 4096


def test_a_result_is_taken_once_and_only_from_its_worker() -> None:
    """Duplicate, stray and other workers' results are counted and change nothing."""
    fleet = Fleet()
    client, first, second = fleet.client(), fleet.worker("w1"), fleet.worker("w2")
    fleet.request(client, [signal(1)])
    [task] = fleet.tasks(first)
    fleet.finish(second, task)
    assert fleet.replies(client) == {}
    fleet.finish(first, task)
    fleet.finish(first, task)
    assert fleet.outcome(client) == {1: "features"}
    assert fleet.count("duplicates") == 2
    stray = Item({"id": 10**6, "ok": False, "error": {"code": "INTERNAL", "reason": "?"}})
    fleet.send("back", first, Message("RESULT", task.fields, (stray,)))
    assert fleet.count("stray") == 1


def test_a_worker_whose_message_cannot_be_read_is_asked_to_start_again() -> None:
    """Its results would be waited for in vain: the items go elsewhere, and after three times to quarantine."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(1)])
    for n in range(3):
        assert len(fleet.tasks(worker)) == 1
        error = InvalidArgument("RESULT: items[0].arrays[0].shape")
        fleet.deliver(fleet.broker.malformed("back", worker, error, fleet.now, verb="RESULT", ids=[1]))
        assert error_of(fleet.messages("back", worker)[-1:])[0] == "INVALID_ARGUMENT"
        worker = fleet.worker(run=n + 1)
    assert fleet.outcome(client) == {1: "QUARANTINED"}
    assert fleet.count("malformed") == 3


def test_a_malformed_request_is_answered_and_its_sender_stays() -> None:
    """The client hears verb, ids and reason, and goes on; a stranger's noise is answered too."""
    fleet = Fleet()
    client = fleet.client()
    error = InvalidArgument("REQUEST: items[1].id must be integer")
    fleet.deliver(fleet.broker.malformed("front", client, error, fleet.now, verb="REQUEST", ids=[3]))
    answer = fleet.messages("front", client)[-1].fields
    assert answer == {"code": "INVALID_ARGUMENT", "reason": str(error), "verb": "REQUEST", "ids": [3]}
    assert fleet.send("front", client, Message("PING"))[0].verb == "PONG"
    fleet.deliver(fleet.broker.malformed("back", b"noise", error, fleet.now))
    assert fleet.messages("back", b"noise")[-1].verb == "ERROR"
