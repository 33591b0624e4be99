"""What an operator's orders change in the broker."""

from __future__ import annotations

import pytest

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.wire.messages import Message
from streamfeat.wire.operate import operate
from tests.fleet import Fleet, signal


def order(act: str, worker: str | None = None) -> Message:
    """An ADMIN message."""
    return Message("ADMIN", {"act": act} if worker is None else {"act": act, "worker": worker})


def state(fleet: Fleet, name: str) -> str:
    """Of a worker, as the report has it."""
    [row] = [row for row in fleet.broker.report(fleet.now)["workers"] if row["name"] == name]
    return str(row["state"])


def test_a_drained_worker_finishes_and_gets_nothing_new_until_it_is_resumed() -> None:
    """Also if it says HELLO again; the others go on."""
    fleet = Fleet()
    client, one = fleet.client(), fleet.worker("w1")
    fleet.request(client, [signal(1)])
    [task] = fleet.tasks(one)
    assert [worker.name for worker in operate(fleet.broker, order("drain", "w1"))] == ["w1"]
    assert state(fleet, "w1") == "resting"
    fleet.finish(one, task)
    assert fleet.count("answered") == 1
    fleet.request(client, [signal(2)])
    fleet.worker("w1")
    assert fleet.tasks(one) == []
    two = fleet.worker("w2")
    assert fleet.finish_all(two) == 1
    operate(fleet.broker, order("drain", "w2"))
    fleet.request(client, [signal(3)])
    operate(fleet.broker, order("resume", "w1"))
    fleet.tick()
    assert state(fleet, "w1") == "ready"
    assert fleet.finish_all(one) == 1


def test_a_worker_that_leaves_is_not_resumed() -> None:
    """Its own DRAIN stands."""
    fleet = Fleet()
    client, one = fleet.client(), fleet.worker("w1")
    fleet.send("back", one, Message("DRAIN"))
    operate(fleet.broker, order("resume", "w1"))
    fleet.request(client, [signal(1)])
    assert fleet.tasks(one) == []


def test_orders_are_about_workers_that_are_there() -> None:
    """reload is about all unless one is named; drain and resume want a name; nobody is told who is there."""
    fleet = Fleet()
    with pytest.raises(NotFound, match="there are: none"):
        operate(fleet.broker, order("reload"))
    fleet.worker("w1")
    fleet.worker("w2")
    assert len(operate(fleet.broker, order("reload"))) == 2
    assert state(fleet, "w1") == "ready"
    for act in ("drain", "resume"):
        with pytest.raises(InvalidArgument, match="name it"):
            operate(fleet.broker, order(act))
        with pytest.raises(NotFound, match=r"w9.*w1, w2"):
            operate(fleet.broker, order(act, "w9"))
