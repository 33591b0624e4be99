"""A client's open items, at chosen moments: each ends once."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamfeat.errors import Cancelled, DeadlineExceeded, InternalError, Overloaded, TooLarge, Unavailable
from streamfeat.wire.messages import Array, Item, Message
from streamfeat.wire.outstanding import GRACE_S, Errand, Outcome, Outstanding

TERMS: dict[str, Any] = {
    "credit": {"items": 4, "bytes": 100},
    "limits": {"item_bytes": 50, "message_items": 3, "message_bytes": 90},
}
FEATURES = Errand(("features",))


def item(n_bytes: int = 10) -> Item:
    return Item({}, (Array("|u1", (n_bytes,), bytes(n_bytes)),))


def outstanding(**changes: Any) -> Outstanding:
    open_items = Outstanding(random.Random(0))
    open_items.grant({**TERMS, **changes})
    return open_items


def submit(open_items: Outstanding, n: int, now: float = 0.0, timeout_s: float = 10.0, n_bytes: int = 10) -> list[int]:
    return [open_items.submit(FEATURES, item(n_bytes), now=now, timeout_s=timeout_s, ticket=f"t{i}") for i in range(n)]


def ids_of(message: Message | None) -> list[int]:
    return [] if message is None else [i.fields["id"] for i in message.items]


def reply(*ids: int) -> Message:
    return Message("REPLY", {}, tuple(Item({"id": i, "ok": True, "kind": "features"}) for i in ids))


def refusal(item_id: int, code: str, **more: Any) -> Message:
    return Message("REPLY", {}, (Item({"id": item_id, "ok": False, "error": {"code": code, "reason": "r", **more}}),))


def test_requests_keep_to_credit_and_limits() -> None:
    """Three items a message, four under way: the fifth waits for a reply."""
    open_items = outstanding()
    submit(open_items, 6)
    assert ids_of(open_items.next_request(0.0)) == [0, 1, 2]
    assert ids_of(open_items.next_request(0.0)) == [3]
    assert open_items.next_request(0.0) is None
    (outcome,) = open_items.hear(reply(1), 1.0)
    assert (outcome.ticket, outcome.error, outcome.latency_s) == ("t1", None, 1.0)
    assert ids_of(open_items.next_request(1.0)) == [4]


def test_bytes_are_credit_too() -> None:
    """Credit of 100 bytes: two items of 45, not three; the message limit of 90 holds as well."""
    open_items = outstanding()
    submit(open_items, 3, n_bytes=45)
    assert ids_of(open_items.next_request(0.0)) == [0, 1]
    assert open_items.next_request(0.0) is None


def test_an_item_over_the_limit_is_refused_at_once() -> None:
    """The message names both numbers; nothing was submitted."""
    open_items = outstanding()
    with pytest.raises(TooLarge, match=r"50 bytes.*51"):
        submit(open_items, 1, n_bytes=51)
    assert len(open_items) == 0


def test_errands_do_not_mix() -> None:
    """Items of another route travel in another message."""
    open_items = outstanding()
    submit(open_items, 1)
    open_items.submit(Errand(("fit:digits",)), Item({}), now=0.0, timeout_s=600.0, ticket="fit")
    first, second = open_items.next_request(0.0), open_items.next_request(0.0)
    assert first is not None
    assert second is not None
    assert (first.fields["route"], first.fields["ttl_ms"]) == (["features"], 10_000)
    assert (second.fields["route"], second.fields["ttl_ms"]) == (["fit:digits"], 600_000)


def test_everything_unanswered_is_asked_again_under_the_same_ids() -> None:
    """After a new welcome: sent items again, in order, before the ones that never left; credit is not counted twice."""
    open_items = outstanding()
    submit(open_items, 5)
    open_items.next_request(0.0)
    open_items.next_request(0.0)
    open_items.hear(reply(1), 0.1)
    open_items.send_again()
    assert ids_of(open_items.next_request(1.0)) == [0, 2, 3]
    assert ids_of(open_items.next_request(1.0)) == [4]


def test_put_back_keeps_order() -> None:
    """What the socket did not take goes first next time."""
    open_items = outstanding()
    submit(open_items, 4)
    request = open_items.next_request(0.0)
    assert request is not None
    open_items.put_back(request)
    assert ids_of(open_items.next_request(0.0)) == [0, 1, 2]


def test_deadline_ends_an_item_though_the_broker_is_gone() -> None:
    """Sent or not, at the deadline and a grace it is over; CANCEL names those that were sent; late replies count."""
    open_items = outstanding()
    submit(open_items, 5, timeout_s=2.0)
    open_items.next_request(0.0)
    open_items.next_request(0.0)
    assert open_items.wait_s(1.0) == pytest.approx(1.0 + GRACE_S)  # the sum of two floats
    assert open_items.expire(2.0 + GRACE_S - 0.01, "gone") == ([], None)
    outcomes, cancel = open_items.expire(2.0 + GRACE_S, "gone")
    assert [o.ticket for o in outcomes] == ["t0", "t1", "t2", "t3", "t4"]
    assert all(isinstance(o.error, DeadlineExceeded) and "within 2 s" in str(o.error) for o in outcomes)
    assert "not answered; gone" in str(outcomes[0].error)
    assert "not sent yet" in str(outcomes[4].error)
    assert cancel == Message("CANCEL", {"ids": [0, 1, 2, 3]})
    assert open_items.hear(reply(0), 3.0) == []
    assert (open_items.n_late, open_items.n_duplicate, len(open_items)) == (1, 0, 0)
    assert open_items.wait_s(3.0) == float("inf")


def test_second_reply_is_dropped_and_counted() -> None:
    """Each item ends once."""
    open_items = outstanding()
    submit(open_items, 1)
    open_items.next_request(0.0)
    assert len(open_items.hear(reply(0), 0.1)) == 1
    assert open_items.hear(reply(0), 0.2) == []
    assert (open_items.n_late, open_items.n_duplicate) == (0, 1)


def test_no_room_is_offered_again_within_the_deadline() -> None:
    """OVERLOADED: again after about retry_after_ms, twice as long each time; its credit is free meanwhile."""
    open_items = outstanding(credit={"items": 1, "bytes": 100})
    submit(open_items, 2, timeout_s=1.0)
    assert ids_of(open_items.next_request(0.0)) == [0]
    assert open_items.hear(refusal(0, "OVERLOADED", retry_after_ms=100), 0.0) == []
    assert ids_of(open_items.next_request(0.01)) == [1]
    open_items.hear(reply(1), 0.02)
    assert open_items.next_request(0.07) is None
    assert 0.0 < open_items.wait_s(0.07) <= 0.055
    assert ids_of(open_items.next_request(0.126)) == [0]
    assert open_items.hear(refusal(0, "OVERLOADED", retry_after_ms=100), 0.2) == []
    assert open_items.next_request(0.34) is None
    assert ids_of(open_items.next_request(0.46)) == [0]
    (outcome,) = open_items.hear(refusal(0, "OVERLOADED", retry_after_ms=1000), 0.5)
    assert isinstance(outcome.error, Overloaded)


def test_unavailable_is_not_believed_at_once() -> None:
    """Nobody serves it: asked again for five seconds, in which restarted workers come back; then that is the answer."""
    open_items = outstanding()
    submit(open_items, 1, timeout_s=60.0)
    now, n_asked = 0.0, 0
    outcomes: list[Outcome] = []
    while not outcomes:
        assert ids_of(open_items.next_request(now)) == [0]
        n_asked += 1
        outcomes = open_items.hear(refusal(0, "UNAVAILABLE"), now)
        now += open_items.wait_s(now) if not outcomes else 0.0
    assert isinstance(outcomes[0].error, Unavailable)
    assert 2.5 < now < 5.0  # pauses double up to two seconds
    assert 5 < n_asked < 15


@pytest.mark.parametrize("served", ["answered", "taken by a broker that is gone"])
def test_unavailable_is_not_believed_of_a_route_that_was_served(served: str) -> None:
    """A new broker has not heard of workers that are away: the item is offered again until its own deadline."""
    open_items = outstanding()
    submit(open_items, 1, timeout_s=60.0)
    open_items.next_request(0.0)
    if served == "answered":
        open_items.hear(reply(0), 0.0)
        submit(open_items, 1, timeout_s=60.0)
    else:
        open_items.send_again()
    now = 0.0
    outcomes: list[Outcome] = []
    while not outcomes:
        (asked,) = ids_of(open_items.next_request(now))
        outcomes = open_items.hear(refusal(asked, "UNAVAILABLE"), now)
        now += open_items.wait_s(now) if not outcomes else 0.0
    assert 55 < now < 60


def test_an_ended_pause_is_nothing_to_wake_for() -> None:
    """The broker refused an item and went away: once the pause is over, only the deadline is left to wait for."""
    open_items = outstanding()
    submit(open_items, 1, timeout_s=10.0)
    assert ids_of(open_items.next_request(0.0)) == [0]
    assert open_items.hear(refusal(0, "UNAVAILABLE"), 0.0) == []
    assert 0 < open_items.wait_s(0.0) < 0.1
    assert open_items.wait_s(1.0) == pytest.approx(9.0 + GRACE_S)  # 0: the client would turn without sleeping
    assert ids_of(open_items.next_request(1.0)) == [0]


def test_error_about_a_whole_message() -> None:
    """With ids it ends those; without, everything that was sent: better loud than hanging."""
    open_items = outstanding()
    submit(open_items, 3)
    open_items.next_request(0.0)
    about = {"code": "INVALID_ARGUMENT", "reason": "bad", "verb": "REQUEST"}
    assert [o.ticket for o in open_items.hear(Message("ERROR", {**about, "ids": [1, 99]}), 0.1)] == ["t1"]
    assert [o.ticket for o in open_items.hear(Message("ERROR", about), 0.1)] == ["t0", "t2"]
    assert open_items.hear(Message("ERROR", {**about, "verb": "STATUS"}), 0.1) == []


def test_cancel_ends_at_once_and_tells_the_broker_of_what_was_sent() -> None:
    """Replies that come afterwards are late, not errors."""
    open_items = outstanding()
    submit(open_items, 5)
    open_items.next_request(0.0)
    outcomes, cancel = open_items.cancel([0, 4, 77], 0.5)
    assert [(o.ticket, type(o.error)) for o in outcomes] == [("t0", Cancelled), ("t4", Cancelled)]
    assert cancel == Message("CANCEL", {"ids": [0]})
    assert open_items.hear(reply(0), 0.6) == []
    assert open_items.n_late == 1


def test_an_item_that_cannot_be_sent_ends() -> None:
    """The wire refuses it: its neighbours stay."""
    open_items = outstanding()
    submit(open_items, 2)
    open_items.next_request(0.0)
    (outcome,) = open_items.fail(0, InternalError("bad"), 0.1)
    assert isinstance(outcome.error, InternalError)
    assert open_items.fail(0, InternalError("bad"), 0.1) == []
    assert len(open_items) == 1


class EveryItemEndsOnce(RuleBasedStateMachine):
    """Replies, repeats, refusals, cuts, cancels and time in any order: each item ends exactly once, credit holds."""

    def __init__(self) -> None:
        super().__init__()
        self.open_items = outstanding()
        self.now = 0.0
        self.with_broker: list[int] = []
        self.ended: list[Any] = []
        self.n = 0

    def end(self, outcomes: list[Outcome]) -> None:
        self.ended += [o.ticket for o in outcomes]

    @rule(timeout_s=st.floats(0.1, 5), n_bytes=st.integers(1, 50))
    def submit(self, timeout_s: float, n_bytes: int) -> None:
        self.open_items.submit(FEATURES, item(n_bytes), now=self.now, timeout_s=timeout_s, ticket=self.n)
        self.n += 1

    @rule()
    def send(self) -> None:
        while (request := self.open_items.next_request(self.now)) is not None:
            assert len(request.items) <= 3
            self.with_broker += ids_of(request)

    @rule(data=st.data(), verdict=st.sampled_from(["ok", "OVERLOADED", "ITEM_FAILED"]), again=st.booleans())
    def answer(self, data: st.DataObject, verdict: str, again: bool) -> None:
        if self.with_broker:
            chosen = data.draw(st.sampled_from(self.with_broker))
            if not again:
                self.with_broker.remove(chosen)
            message = reply(chosen) if verdict == "ok" else refusal(chosen, verdict, retry_after_ms=20)
            self.end(self.open_items.hear(message, self.now))

    @rule()
    def reconnect(self) -> None:
        self.with_broker.clear()
        self.open_items.send_again()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.n:
            self.end(self.open_items.cancel([data.draw(st.integers(0, self.n - 1))], self.now)[0])

    @rule(dt=st.floats(0, 3))
    def pass_time(self, dt: float) -> None:
        self.now += dt
        self.end(self.open_items.expire(self.now, "test")[0])

    @invariant()
    def ends_once(self) -> None:
        assert len(set(self.ended)) == len(self.ended)
        assert len(self.open_items) + len(self.ended) == self.n

    def teardown(self) -> None:
        self.pass_time(6.0)
        assert sorted(self.ended) == list(range(self.n))
        assert len(self.open_items) == 0


EveryItemEndsOnce.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
TestEveryItemEndsOnce = EveryItemEndsOnce.TestCase
