"""The broker's rules for messages that go as they should, on a clock that the test turns."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.wire.codec import encode
from streamfeat.wire.messages import FROM_BROKER, Array, Item, Message
from tests.fleet import BANK, FEATURE, OTHER_BANK, Fleet, error_of, good_result, run_of, signal, wave

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


def test_single_items_of_many_clients_are_computed_together() -> None:
    """Requests of one item each that came while the worker was busy: one TASK, so that a bank is read once for all."""
    fleet = Fleet()
    worker = fleet.worker(credit={"items": 16, "bytes": 1 << 20})
    clients = [fleet.client(b"client-%d" % n, n) for n in range(5)]
    fleet.request(clients[0], [signal(n) for n in range(16)])
    [busy] = fleet.tasks(worker)
    for client in clients[1:]:
        fleet.request(client, [signal(100)])
    assert fleet.tasks(worker) == []
    fleet.finish(worker, busy)
    [task] = fleet.tasks(worker)
    assert [item.fields["stream"] for item in task.items] == [run_of(client, n) for n, client in enumerate(clients)][1:]


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


# --- what travels ---


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
