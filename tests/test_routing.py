"""The broker's rules, one by one, on a clock that the test turns."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.wire.codec import encode
from streamfeat.wire.messages import FROM_BROKER, Array, Item, Message
from streamfeat.wire.settings import BrokerSettings
from tests.fleet import BANK, FEATURE, OTHER_BANK, Fleet, good_result, run_of, signal, wave


def error_of(messages: list[Message]) -> tuple[str, str]:
    """Code and reason of the single ERROR."""
    [message] = messages
    assert message.verb == "ERROR"
    return message.fields["code"], message.fields["reason"]


# --- hello ---


def test_hello_is_answered_with_credit_limits_and_banks() -> None:
    """WELCOME tells a client all it needs to stay within the rules."""
    fleet = Fleet(credit_items=7, heartbeat_ms=500)
    fleet.worker()
    [welcome] = fleet.messages("front", fleet.client())
    assert welcome.verb == "WELCOME"
    assert welcome.fields["protocol"] == 1
    assert welcome.fields["heartbeat_ms"] == 500
    assert welcome.fields["credit"]["items"] == 7
    assert welcome.fields["limits"]["message_items"] == 256
    assert welcome.fields["banks"] == {"digits": BANK}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol": [2, 3]}, "VERSION_MISMATCH"),
        ({"role": "worker", "name": "w", "kind": "index", "stages": ["search:i"], "banks": {}}, "INVALID_ARGUMENT"),
    ],
)
def test_a_hello_that_cannot_be_welcomed_says_why(fields: dict[str, Any], code: str) -> None:
    """Another protocol, or a worker at the clients' socket, gets an ERROR and is not let in."""
    fleet = Fleet()
    hello = {"protocol": [1, 1], "role": "client", "peer": run_of(b"c"), "credit": {"items": 1, "bytes": 1}, **fields}
    assert error_of(fleet.send("front", b"c", Message("HELLO", hello)))[0] == code
    assert error_of(fleet.send("front", b"c", Message("PING")))[0] == "HELLO_FIRST"


def test_a_stranger_is_told_to_say_hello_and_which_items_it_was_about() -> None:
    """After a restart of the broker nobody waits in vain: HELLO_FIRST, with verb and ids."""
    fleet = Fleet()
    [error] = fleet.request(b"stranger", [signal(4), signal(5)])
    assert error.fields["code"] == "HELLO_FIRST"
    assert (error.fields["verb"], error.fields["ids"]) == ("REQUEST", [4, 5])
    assert error_of(fleet.send("back", b"stranger", Message("PING")))[0] == "HELLO_FIRST"
    assert fleet.send("front", b"stranger", Message("BYE")) == []


@pytest.mark.parametrize("side", ["front", "back"])
@pytest.mark.parametrize("verb", sorted(FROM_BROKER - {"PING", "PONG", "BYE"}))
def test_what_only_a_broker_says_is_refused_from_peers(side: Any, verb: str) -> None:
    """A verb in the wrong direction is an error and a count, never an act."""
    fleet = Fleet()
    message = Message(verb, {"ids": []})  # fields of a verb that is not acted on do not matter
    [out] = fleet.broker.receive(side, b"x", message, fleet.now)
    assert out.message.fields["code"] == "INVALID_ARGUMENT"
    assert fleet.count("malformed") == 1


def test_verbs_of_the_other_side_are_refused() -> None:
    """A client cannot answer for a worker, nor a worker ask as a client, even under an address known at the back."""
    fleet = Fleet()
    fleet.worker(peer=b"same")
    fleet.client(b"same")
    assert error_of(fleet.send("front", b"same", Message("RETURN", {"ids": [1]})))[0] == "INVALID_ARGUMENT"
    assert error_of(fleet.send("back", b"same", Message("CANCEL", {"ids": [1]})))[0] == "INVALID_ARGUMENT"
    fleet.request(b"same", [signal(1)])
    assert fleet.finish_all(b"same") == 1
    assert fleet.outcome(b"same") == {1: "features"}


def test_too_many_clients_are_told_so() -> None:
    """The broker stays below its file handles."""
    fleet = Fleet(max_clients=1)
    fleet.client(b"a")
    fleet.client(b"b")
    assert error_of(fleet.messages("front", b"b"))[0] == "OVERLOADED"
    fleet.send("front", b"a", Message("BYE"))
    fleet.client(b"b")
    assert fleet.messages("front", b"b")[-1].verb == "WELCOME"


# --- the plain way ---


def test_a_feature_goes_there_and_back() -> None:
    """An item reaches a worker with all it needs, and its feature comes back with all that is known of it."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(7, label=3, group="ae", name="a.wav")], bank="digits")
    [task] = fleet.tasks(worker)
    assert task.fields == {"stage": f"features:{BANK}"}
    [item] = task.items
    assert item.fields == {
        "id": 1,
        "ttl_ms": 30_000,
        "stream": run_of(client),
        "seq": 7,
        "label": 3,
        "group": "ae",
        "name": "a.wav",
        "bank": BANK,
        "signal": {"kind": "audio", "rate_hz": 8000},
    }
    assert item.arrays == (wave(),)
    fleet.now += 0.25
    fleet.finish(worker, task)
    [[reply]] = fleet.replies(client).values()
    assert reply.fields == {
        "id": 7,
        "ok": True,
        "kind": "features",
        "bank": BANK,
        "worker": "w1",
        "attempt": 1,
        "queue_ms": 0.0,
        "compute_ms": 1.5,
    }
    assert reply.arrays == (FEATURE,)
    assert fleet.broker.idle


def test_an_item_moves_along_its_route() -> None:
    """features > learn: the learner gets the feature, label and identity, not the signal's payload."""
    fleet = Fleet()
    client, worker, learner = fleet.client(), fleet.worker(), fleet.learner()
    fleet.request(client, [signal(1, n=500, label="nine", stream="mic", seq=4)], ["features", "learn:digits"])
    assert fleet.broker.ledger.retained_bytes == 1000
    assert fleet.tasks(learner) == []
    fleet.finish_all(worker)
    assert fleet.broker.ledger.retained_bytes == FEATURE.n_bytes
    [task] = fleet.tasks(learner)
    assert task.fields["stage"] == "learn:digits"
    told = task.items[0].fields
    assert (told["stream"], told["seq"], told["label"], told["bank"]) == ("mic", 4, "nine", BANK)
    assert "signal" not in told
    assert task.items[0].arrays == (FEATURE,)
    fleet.finish(learner, task)
    [[reply]] = fleet.replies(client).values()
    assert reply.fields["kind"] == "committed"
    assert (reply.fields["worker"], reply.fields["compute_ms"]) == ("learner", 3.0)
    assert fleet.broker.ledger.retained_bytes == 0


def test_options_reach_the_last_stage_only() -> None:
    """{"k": 5} is for the index; features of requests with different options travel together."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 10**6})
    index = fleet.worker("index", kind="index", stages=["search:*"], banks={})
    fleet.request(client, [signal(0)])
    for n, k in enumerate([5, 5, 7, True, 1], start=1):
        fleet.request(client, [signal(n)], ["features", "search:near"], options={"k": k})
    while tasks := fleet.tasks(worker):
        assert all("options" not in task.fields for task in tasks)
        for task in tasks:
            fleet.finish(worker, task)
    assert [task.fields["options"] for task in fleet.tasks(index)] == [{"k": k} for k in (5, 5, 7, True, 1)]


def test_fit_needs_no_payload() -> None:
    """A route of fit alone carries no array and comes back as a fit."""
    fleet = Fleet()
    client, learner = fleet.client(), fleet.learner()
    fleet.request(client, [Item({"id": 1})], ["fit:digits"])
    fleet.finish_all(learner)
    assert fleet.outcome(client) == {1: "fit"}


def test_one_bad_item_fails_alone() -> None:
    """The worker's error of one item is that item's; its neighbours have their features."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(n) for n in range(8)])
    [task] = fleet.tasks(worker)
    items = [Item({"id": i.fields["id"], "ok": True, "kind": "features", "bank": BANK}, (FEATURE,)) for i in task.items]
    items[3] = Item({"id": task.items[3].fields["id"], "ok": False, "error": {"code": "ITEM_FAILED", "reason": "cut"}})
    fleet.send("back", worker, Message("RESULT", task.fields, tuple(items)))
    outcome = fleet.outcome(client)
    assert outcome.pop(3) == "ITEM_FAILED"
    assert set(outcome.values()) == {"features"}
    assert len(outcome) == 7


@pytest.mark.parametrize(
    "result",
    [
        Item({"ok": True, "kind": "features", "bank": OTHER_BANK}, (FEATURE,)),
        Item({"ok": True, "kind": "features", "bank": BANK}),
        Item({"ok": True, "kind": "label", "label": 1, "score": 0.5, "bank": BANK}, (FEATURE,)),
    ],
)
def test_a_worker_that_gives_no_feature_does_not_feed_the_learner(result: Item) -> None:
    """Another bank, no array or another kind in the middle of a route ends as INTERNAL, not as learned nonsense."""
    fleet = Fleet()
    client, worker, learner = fleet.client(), fleet.worker(), fleet.learner()
    fleet.request(client, [signal(1, label=1)], ["features", "learn:digits"])
    [task] = fleet.tasks(worker)
    bad = Item({**result.fields, "id": task.items[0].fields["id"]}, result.arrays)
    fleet.send("back", worker, Message("RESULT", task.fields, (bad,)))
    assert fleet.outcome(client) == {1: "INTERNAL"}
    assert fleet.tasks(learner) == []
    assert fleet.broker.ledger.retained_bytes == 0


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
    """Many clients within their credits cannot fill the broker's memory."""
    fleet = Fleet(max_retained_bytes=2000, message_bytes=1000, item_bytes=1000)
    fleet.worker(credit={"items": 1, "bytes": 1000})
    clients = [fleet.client(b"c%d" % n) for n in range(5)]
    for client in clients:
        fleet.request(client, [signal(1, n=250)])
    assert fleet.broker.ledger.retained_bytes == 2000
    assert fleet.outcome(clients[4]) == {1: "OVERLOADED"}
    assert "2000 bytes" in fleet.replies(clients[4])[1][0].fields["error"]["reason"]


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


# --- workers that go away ---


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
    answer_one_at_a_time(fleet, client, others, rounds=30)
    assert len(suspects) == 4
    assert suspects <= set(fleet.outcome(client))


def answer_one_at_a_time(fleet: Fleet, client: bytes, workers: list[bytes], rounds: int) -> None:
    """Each worker answers its oldest TASK and has another in hand; the client sends as much as it hears."""
    in_hand: dict[bytes, list[Message]] = {worker: [] for worker in workers}
    for n in range(rounds):
        fleet.request(client, [signal(1000 + 4 * n + m) for m in range(4)], options={"of": "many"})
        for worker in workers:
            in_hand[worker] += fleet.tasks(worker)
            if in_hand[worker]:
                fleet.finish(worker, in_hand[worker].pop(0))


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


# --- workers with state ---


def test_a_model_has_one_owner() -> None:
    """A second learner of the same models is refused under another name, and replaces the first under the same."""
    fleet = Fleet()
    fleet.learner("learner")
    other = fleet.learner("other", stages=["classify:digits"])
    code, reason = error_of(fleet.messages("back", other))
    assert code == "CONFIG"
    assert reason == "classify:digits is served by worker 'learner' and has one owner; stop one of the two"
    assert fleet.count("n_workers") == 1
    fleet.learner("learner", run=1)
    assert fleet.count("n_workers") == 1
    index = fleet.worker("index", kind="index", stages=["insert:*", "search:*"], banks={})
    assert fleet.messages("back", index)[-1].verb == "WELCOME"
    wide = fleet.worker("wide", kind="index", stages=["search:near"], banks={})
    assert error_of(fleet.messages("back", wide))[0] == "CONFIG"


def test_features_may_have_many_workers() -> None:
    """The same bank is served by as many workers as join, and work is spread over them."""
    fleet = Fleet()
    client = fleet.client()
    workers = [fleet.worker(f"w{n}") for n in range(4)]
    fleet.request(client, [signal(n) for n in range(64)])
    assert [sum(len(t.items) for t in fleet.tasks(w)) for w in workers] == [16] * 4


# --- batches and turns ---


def test_batches_keep_to_every_limit() -> None:
    """At most max_batch_items, the worker's free items and its free bytes; one item over the bytes goes alone."""
    fleet = Fleet(max_batch_items=4)
    client, worker = fleet.client(), fleet.worker(credit={"items": 10, "bytes": 100})
    fleet.request(client, [signal(n) for n in range(20)])
    assert [len(t.items) for t in fleet.tasks(worker)] == [4, 4, 2]
    fleet.send("back", worker, Message("BYE"))
    worker = fleet.worker(run=1, credit={"items": 10, "bytes": 25})
    assert [len(t.items) for t in fleet.tasks(worker)] == [2]
    fleet.send("back", worker, Message("BYE"))
    worker = fleet.worker(run=2, credit={"items": 10, "bytes": 3})
    assert [len(t.items) for t in fleet.tasks(worker)] == [1]


def test_a_large_item_is_not_starved_by_small_ones() -> None:
    """The worker with least to do gets nothing new until it is idle and can take the large one."""
    fleet = Fleet(max_batch_items=2)
    big, small = fleet.client(b"big"), fleet.client(b"small")
    workers = [fleet.worker(f"w{n}", credit={"items": 4, "bytes": 100}) for n in (1, 2)]
    fleet.request(small, [signal(n) for n in range(12)], options={"of": "many"})
    fleet.request(big, [signal(0, n=100)])
    answer_one_at_a_time(fleet, small, workers, rounds=30)
    assert 0 in fleet.outcome(big)


def test_clients_take_turns() -> None:
    """One client's corpus does not stand before another's single item."""
    fleet = Fleet(max_batch_items=4)
    greedy, polite = fleet.client(b"greedy"), fleet.client(b"polite")
    worker = fleet.worker(credit={"items": 4, "bytes": 1000})
    fleet.request(greedy, [signal(n) for n in range(200)])
    fleet.request(polite, [signal(n) for n in range(3)])
    [task] = fleet.tasks(worker)
    fleet.finish(worker, task)
    [task] = fleet.tasks(worker)
    whose = [i.fields["stream"] for i in task.items]
    assert whose == [run_of(b"greedy"), run_of(b"polite")] * 2


def test_stages_of_one_worker_take_turns() -> None:
    """A flood of learn does not keep classify waiting."""
    fleet = Fleet(max_batch_items=4)
    client, learner = fleet.client(), fleet.learner(credit={"items": 4, "bytes": 1000})
    fleet.request(client, [Item({"id": n, "label": 1}, (FEATURE,)) for n in range(100)], ["learn:m"])
    fleet.request(client, [Item({"id": 200}, (FEATURE,))], ["classify:m"])
    for _ in range(3):
        for task in fleet.tasks(learner):
            fleet.finish(learner, task)
    assert fleet.outcome(client)[200] == "label"
    assert len(fleet.outcome(client)) == 12


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


# --- the end ---


def test_draining_finishes_what_was_accepted_and_refuses_what_is_new() -> None:
    """UNAVAILABLE for new items, results for the old ones, then idle."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1), signal(2)])
    fleet.broker.drain()
    fleet.request(client, [signal(2), signal(3)])
    assert fleet.outcome(client) == {3: "UNAVAILABLE"}
    assert not fleet.broker.idle
    fleet.finish_all(worker)
    assert fleet.broker.idle
    assert fleet.outcome(client) == {1: "features", 2: "features", 3: "UNAVAILABLE"}


def test_stopping_answers_everything_and_says_bye() -> None:
    """No client waits for a broker that is gone."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 1, "bytes": 1000})
    fleet.request(client, [signal(1), signal(2)])
    fleet.deliver(fleet.broker.stop(fleet.now))
    assert fleet.outcome(client) == {1: "UNAVAILABLE", 2: "UNAVAILABLE"}
    assert fleet.messages("front", client)[-1].verb == "BYE"
    assert fleet.messages("back", worker)[-1].verb == "BYE"
    assert fleet.broker.idle


# --- the report ---


def test_the_report_tells_who_is_there_and_what_they_have() -> None:
    """STATUS needs no HELLO and shows workers, clients, queues, counters and sizes."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 2, "bytes": 1000}, pid=4711, host="here")
    fleet.request(client, [signal(n) for n in range(5)])
    fleet.now += 1
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    report = message.fields["report"]
    assert report["workers"] == [
        {
            "name": "w1",
            "kind": "features",
            "stages": ["features"],
            "state": "ready",
            "leased": 2,
            "leased_bytes": 20,
            "tasks": 1,
            "silent_ms": 1000,
            "pid": 4711,
            "host": "here",
        }
    ]
    assert report["queues"] == [{"stage": f"features:{BANK}", "options": "", "queued": 3}]
    assert (report["open"], report["retained_bytes"], report["oldest_s"]) == (5, 50, 1.0)
    assert report["clients"][0]["open"] == 5
    assert report["banks"] == {"digits": BANK}
    fleet.finish_all(worker)
    assert fleet.count("answered") == 5


def test_the_report_fits_into_a_header_whatever_the_fleet() -> None:
    """Two hundred workers with long names, a thousand clients and a thousand queues are still one REPORT."""
    fleet = Fleet()
    for n in range(200):
        name = f"{n:03d}".ljust(64, "x")
        stages = [f"learn:{name[:60]}.{s}" for s in range(8)]
        more: dict[str, Any] = {"banks": {name: f"{n:064x}"}, "host": "h" * 200, "pid": 2**63 - 1}
        fleet.worker(name, stages=stages, **more)
    for n in range(1000):
        client = fleet.client(b"%06d" % n)
        if n < 100:
            options = {f"k{m}": "v" * 200 for m in range(8)} | {"n": n}
            item = Item({"id": 1, "label": 1}, (FEATURE,))
            fleet.request(client, [item], [f"learn:{'000'.ljust(60, 'x')}.0"], options=options)
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    assert message.fields["report"]["n_workers"] == 200
    assert message.fields["report"]["n_clients"] == 1000


# --- settings ---


def test_settings_that_cannot_be_are_refused() -> None:
    """A limit of zero or a limit over the one that contains it is a ConfigError."""
    with pytest.raises(ConfigError, match="credit_items must be more than 0, got 0"):
        BrokerSettings(credit_items=0)
    with pytest.raises(ConfigError, match="item_bytes <= message_bytes <= max_retained_bytes"):
        BrokerSettings(item_bytes=10**9)


def test_the_longest_item_still_fits_into_what_is_made_of_it() -> None:
    """A request and a result at the limit of their headers become a TASK and a REPLY within theirs."""
    fleet = Fleet()
    name, text = "x" * 64, "\U0001f600" * 200
    client = fleet.client()
    index = fleet.worker(name, kind="index", stages=["search:*"], banks={})
    options = {f"k{n}".ljust(64, "x"): text for n in range(16)}
    item = Item(
        {"id": 2**63 - 1, "stream": text, "seq": 2**63 - 1, "label": text, "group": text, "name": text}, (FEATURE,)
    )
    fleet.request(client, [item], [f"search:{name}"], ttl_ms=86_400_000, options=options, bank=BANK)
    [task] = fleet.tasks(index)
    labels = [text] * 76
    fleet.finish(index, task, labels=labels)
    assert fleet.replies(client)[2**63 - 1][0].fields["labels"] == labels
    assert (
        len(encode(Message("RESULT", {"stage": "search:i"}, (good_result(item, "search:i", labels=labels),)))[2])
        > 61_000
    )


def test_arrays_pass_through_the_broker_untouched() -> None:
    """The frame that a client sent is the frame that the worker gets: the same object, not a copy."""
    fleet = Fleet()
    client, _ = fleet.client(), fleet.worker()
    array = Array("<i2", (2,), b"abcd")
    item = Item({"id": 1, "signal": {"kind": "audio", "rate_hz": 8000}}, (array,))
    out = fleet.broker.receive(
        "front", client, Message("REQUEST", {"route": ["features"], "ttl_ms": 9}, (item,)), fleet.now
    )
    assert out[0].message.items[0].arrays[0].data is array.data
