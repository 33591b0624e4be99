"""Who may own a stage, and who gets what next."""

from __future__ import annotations

import pytest

from streamfeat.wire.messages import Item, Message
from tests.fleet import BANK, FEATURE, Fleet, error_of, run_of, signal

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


def test_a_short_queue_is_shared_out() -> None:
    """Eight items and four idle workers: two each, not one batch of eight and three workers idle."""
    fleet = Fleet()
    client = fleet.client()
    workers = [fleet.worker(f"w{n}") for n in range(4)]
    fleet.request(client, [signal(n) for n in range(8)])
    assert [sum(len(t.items) for t in fleet.tasks(w)) for w in workers] == [2] * 4


# --- batches and turns ---


def test_options_are_no_way_to_more_turns() -> None:
    """One client gives each item its own options, and so has many queues, another has one: they take turns.

    The worker has four items when the polite one comes; while its 20 are handled the other gets as many, and a batch.
    """
    fleet = Fleet(max_batch_items=4)
    worker = fleet.worker(credit={"items": 4, "bytes": 10_000})
    greedy, polite = fleet.client(b"greedy"), fleet.client(b"polite")
    for n in range(200):
        fleet.request(greedy, [signal(n)], options={"k": n})
    fleet.request(polite, [signal(n) for n in range(20)])
    order = []
    while tasks := fleet.tasks(worker):
        for task in tasks:
            order += [item.fields["stream"] for item in task.items]
            fleet.finish(worker, task)
    last = max(place for place, stream in enumerate(order) if stream == run_of(b"polite"))
    assert order[:last].count(run_of(b"greedy")) <= 4 + 20 + 4
    assert len(order) == 220


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
    fleet.stream_without_pause(small, workers, rounds=30)
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


def test_a_client_of_heavy_items_does_not_get_more_than_its_share() -> None:
    """Recordings ten times as long: one of them for ten short ones of another client."""
    fleet = Fleet(max_batch_items=1)
    heavy, light = fleet.client(b"heavy"), fleet.client(b"light")
    worker = fleet.worker(credit={"items": 1, "bytes": 10_000}, work={BANK: 7})
    fleet.request(heavy, [signal(n, n=100) for n in range(20)])
    fleet.request(light, [signal(n, n=10) for n in range(200)])
    whose = []
    for _ in range(66):
        [task] = fleet.tasks(worker)
        whose.append(task.items[0].fields["stream"])
        fleet.finish(worker, task)
    assert whose.count(run_of(heavy)) == pytest.approx(6, abs=1)


def test_a_batch_is_bounded_by_what_it_costs() -> None:
    """Samples times templates: a bank of many templates gets fewer items at a time."""
    fleet = Fleet(max_batch_cost=1000)
    client, worker = fleet.client(), fleet.worker(work={BANK: 50})
    fleet.request(client, [signal(n, n=5) for n in range(9)])
    assert [len(t.items) for t in fleet.tasks(worker)] == [4, 4, 1]
    fleet.request(client, [signal(100, n=500), signal(101, n=500)])
    assert [len(t.items) for t in fleet.tasks(worker)] == [1, 1]


def test_a_batch_waits_for_company_only_while_its_worker_is_busy() -> None:
    """At once to an idle worker; to a busy one when it is full or its time is up, and the broker wakes for that."""
    fleet = Fleet(batch_wait_ms=40, max_batch_items=4)
    client, worker = fleet.client(), fleet.worker()
    fleet.request(client, [signal(0)])
    assert [len(t.items) for t in fleet.tasks(worker)] == [1]
    fleet.request(client, [signal(1)])
    assert fleet.tasks(worker) == []
    assert fleet.broker.next_wake(fleet.now) == pytest.approx(0.04)
    fleet.now += 0.03
    fleet.request(client, [signal(2)])
    assert fleet.tasks(worker) == []
    fleet.now += 0.011
    fleet.tick()
    assert [len(t.items) for t in fleet.tasks(worker)] == [2]
    fleet.request(client, [signal(n) for n in range(3, 7)])
    assert [len(t.items) for t in fleet.tasks(worker)] == [4]
    fleet.request(client, [signal(7)], ttl_ms=100)
    assert fleet.broker.next_wake(fleet.now) == pytest.approx(0.01)
    fleet.now += 0.2  # its time is up before anybody came
    fleet.tick()
    assert fleet.broker.next_wake(fleet.now) > 0.1
