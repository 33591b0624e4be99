"""A peer's conversation with the broker, at chosen moments."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import ConfigError
from streamfeat.wire.messages import Message
from streamfeat.wire.session import TRANSITIONS, Session, State

WELCOME = Message("WELCOME", {"broker": "b" * 16, "heartbeat_ms": 1000, "liveness": 3})
FORGOTTEN = Message("ERROR", {"code": "HELLO_FIRST", "reason": "say hello"})


def verbs(messages: list[Message]) -> list[str]:
    return [message.verb for message in messages]


def ready(now: float = 0.0) -> Session:
    session = Session({"role": "client"})
    session.due(now)
    session.hear(WELCOME, now)
    return session


def test_table_leads_to_known_states_and_closed_is_the_end() -> None:
    """Every row names two states, and nothing leaves `closed`."""
    states = set(get_args(State))
    assert {was for was, _ in TRANSITIONS} == states - {"closed"}
    assert set(TRANSITIONS.values()) <= states


def test_hello_is_said_again_with_growing_pauses() -> None:
    """Nobody there: HELLO at once, then after 0.1, 0.2, 0.4, 0.8, 1.6, 1.6 ... seconds."""
    session = Session({"role": "client"})
    said = [t / 100 for t in range(700) if verbs(session.due(t / 100)) == ["HELLO"]]
    pauses = [b - a for a, b in pairwise(said)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 1.6, 1.6], abs=0.011)  # the step of this clock
    assert session.wait_s(6.99) <= 1.6


def test_a_cut_connection_is_greeted_afresh() -> None:
    """HELLO at once, and it says so until the welcome; the next greeting does not."""
    session = ready()
    assert session.cut(0.5)
    [hello] = session.due(0.5)
    assert (session.state, hello.fields) == ("greeting", {"role": "client", "afresh": True})
    assert session.cut(0.51)  # again, before the welcome
    [hello] = session.due(0.51)
    assert hello.fields["afresh"]
    session.hear(WELCOME, 0.6)
    session.hear(FORGOTTEN, 0.7)
    [hello] = session.due(0.7)
    assert hello.fields == {"role": "client"}


def test_a_cut_connection_is_nothing_to_a_worker_that_leaves() -> None:
    """It answers what it can; the rest goes elsewhere with its BYE."""
    session = ready()
    session.drain(0.5)
    assert not session.cut(0.6)
    assert session.state == "draining"


def test_ready_pings_once_a_heartbeat_and_answers_pings() -> None:
    """PING each heartbeat after WELCOME; one PONG for however many PINGs waited in the socket."""
    session = ready()
    assert session.due(0.5) == []
    assert session.wait_s(0.5) == pytest.approx(0.5)  # the sum of two floats
    assert verbs(session.due(1.0)) == ["PING"]
    session.hear(Message("PING"), 1.1)
    session.hear(Message("PING"), 1.2)
    assert verbs(session.due(1.3)) == ["PONG"]


def test_silence_of_three_heartbeats_leads_back_to_greeting() -> None:
    """An unanswered PING counts from when it was said; any message ends the count."""
    session = ready()
    for t in (1.0, 2.0, 3.0, 3.9):
        session.due(t)
        assert session.state == "ready"
    session.hear(Message("REPLY"), 3.95)
    for t in (4.0, 5.0, 6.0, 6.9):
        session.due(t)
        assert session.state == "ready"
    assert verbs(session.due(7.1)) == ["HELLO"]
    assert session.state == "greeting"


def test_own_absence_is_not_the_brokers_silence() -> None:
    """A peer that computed for a minute asks once more before it gives the broker up."""
    session = ready()
    session.due(1.0)
    assert verbs(session.due(61.0)) == ["PING"]
    for t in (62.0, 63.0, 64.0, 64.1):
        session.due(t)
    assert session.state == "greeting"


def test_forgotten_peer_says_hello_at_once() -> None:
    """HELLO_FIRST: the broker was started anew."""
    session = ready()
    assert session.hear(FORGOTTEN, 0.3) == "forgotten"
    assert verbs(session.due(0.3)) == ["HELLO"]
    assert session.hear(WELCOME, 0.4) == "welcome"
    assert (session.state, session.n_welcomes) == ("ready", 2)


def test_refusal_closes_and_tells_why() -> None:
    """A refused HELLO is not repeated; a broker that drains is asked again."""
    session = Session({"role": "worker"})
    session.due(0.0)
    draining = Message("ERROR", {"code": "UNAVAILABLE", "reason": "draining", "verb": "HELLO"})
    assert session.hear(draining, 0.1) is None
    assert session.state == "greeting"
    assert session.complaint is not None
    taken = Message("ERROR", {"code": "CONFIG", "reason": "digits has an owner", "verb": "HELLO"})
    assert session.hear(taken, 0.2) == "refused"
    assert isinstance(session.refusal, ConfigError)
    assert (session.state, session.due(9.0), session.wait_s(9.0)) == ("closed", [], float("inf"))


def test_drain_then_finish() -> None:
    """DRAIN once, still pinging while it finishes, BYE at the end."""
    session = ready()
    assert verbs(session.drain(0.1)) == ["DRAIN"]
    assert session.drain(0.2) == []
    assert verbs(session.due(1.1)) == ["PING"]
    assert verbs(session.finish("stopped", 1.2)) == ["BYE"]
    assert session.state == "closed"


def test_draining_without_a_broker_is_over() -> None:
    """Leases end with the broker that gave them: nothing is left to finish."""
    session = ready()
    session.drain(0.1)
    session.hear(FORGOTTEN, 0.2)
    assert session.state == "closed"
    session = Session({})
    assert session.drain(0.0) == []
    assert session.state == "closed"


def test_busy_is_said_and_bounded() -> None:
    """The broker is told how long a step may take, an hour at most."""
    (message,) = ready().busy(10**9, 0.0)
    assert (message.verb, message.fields) == ("PING", {"busy_ms": 3_600_000})
    assert Session({}).busy(5000, 0.0) == []


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["WELCOME", "FORGOTTEN", "PING", "BYE", "drain", "due"]), st.floats(0, 9))))
def test_any_conversation_ends_or_has_a_next_moment(steps: list[tuple[str, float]]) -> None:
    """Whatever comes when, the peer is closed or will say something within a few seconds: it never waits for ever."""
    session, now = Session({}), 0.0
    heard = {"WELCOME": WELCOME, "FORGOTTEN": FORGOTTEN, "PING": Message("PING"), "BYE": Message("BYE")}
    for what, pause in steps:
        now += pause
        if what in heard:
            session.hear(heard[what], now)
        elif what == "drain":
            session.drain(now)
        session.due(now)
        assert session.state == "closed" or session.wait_s(now) < 1.61
