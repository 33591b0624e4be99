"""What a worker says leaves whole, in order and in time."""

from __future__ import annotations

import numpy as np
from streamfeat.workers.outbox import FLUSH_AFTER_S, FLUSH_BYTES, FLUSH_ITEMS, Outbox

from streamfeat.wire.codec import decode
from streamfeat.wire.messages import Array, Frame, Item, Message

BANK = "ec" * 32
STAGE = f"features:{BANK}"


def result(number: int, n_bytes: int = 4, **fields: object) -> Item:
    """A feature of so many bytes."""
    array = Array.of(np.zeros(n_bytes // 4, "<f4"))
    return Item({"id": number, "ok": True, "kind": "features", "bank": BANK, "compute_ms": 1.0, **fields}, (array,))


def said(outbox: Outbox, most: int = 100) -> list[Message]:
    """What leaves, the socket taking no more than that."""
    taken: list[list[Frame]] = []

    def take(frames: list[Frame]) -> bool:
        if len(taken) == most:
            return False
        taken.append(frames)
        return True

    outbox.send(take)
    return [decode(frames) for frames in taken]


def test_results_wait_for_company_within_bounds() -> None:
    """For so many, so heavy, or so long; what is to come later than that is not waited for."""
    outbox = Outbox("features")
    assert not outbox.ripe(1e9)  # nothing there
    outbox.put(STAGE, result(1), 10.0)
    assert not outbox.ripe(10.0)
    assert outbox.ripe(10.0 + FLUSH_AFTER_S)
    outbox.put(STAGE, result(2, FLUSH_BYTES), 10.0)
    assert outbox.ripe(10.0)
    outbox.flush()
    for number in range(FLUSH_ITEMS):
        assert not outbox.ripe(20.0)
        outbox.put(STAGE, result(number), 20.0)
    assert outbox.ripe(20.0)


def test_each_stage_has_its_message_and_order_is_kept() -> None:
    """Results of two stages and a message after them."""
    outbox = Outbox("learner")
    for number, stage in enumerate(("learn:a", "learn:b", "learn:a")):
        outbox.put(stage, result(number), 0.0)
    assert outbox.n_results == 3
    outbox.flush()
    outbox.post(Message("RETURN", {"ids": [7]}))
    told = [(m.verb, m.fields.get("stage"), [item.fields["id"] for item in m.items]) for m in said(outbox)]
    assert told == [("RESULT", "learn:a", [0, 2]), ("RESULT", "learn:b", [1]), ("RETURN", None, [])]
    assert (outbox.n_results, outbox.waiting) == (0, False)


def test_what_the_socket_does_not_take_waits() -> None:
    """And is not said twice."""
    outbox = Outbox("features")
    for number in range(3):
        outbox.post(Message("RETURN", {"ids": [number]}))
    assert [m.fields["ids"] for m in said(outbox, most=2)] == [[0], [1]]
    assert outbox.waiting
    assert [m.fields["ids"] for m in said(outbox)] == [[2]]
    outbox.post(Message("RETURN", {"ids": [3]}))
    outbox.put(STAGE, result(4), 0.0)
    outbox.clear()
    assert (outbox.n_results, outbox.waiting, said(outbox)) == (0, False, [])


def test_a_result_that_cannot_travel_is_an_error_and_its_neighbours_are_not() -> None:
    """A set is no value of the wire."""
    outbox = Outbox("features")
    outbox.put(STAGE, result(1), 0.0)
    outbox.put(STAGE, result(2, surprise={1, 2}), 0.0)
    outbox.flush()
    good, bad = [message.items[0].fields for message in said(outbox)]
    assert (good["id"], good["ok"]) == (1, True)
    assert (bad["id"], bad["ok"], bad["error"]["code"]) == (2, False, "INTERNAL")
