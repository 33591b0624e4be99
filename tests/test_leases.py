"""The life of a lease is the table, and deadlines are kept in bounded memory."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from streamfeat.errors import InternalError
from streamfeat.wire.leases import TRANSITIONS, Deadlines, Event, Lease, State
from streamfeat.wire.peers import Client
from streamfeat.wire.services import Route

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)


def lease_of(order: int, deadline: float = 10.0, *, client: Client | None = None, **fields: object) -> Lease:
    """A lease as if just accepted."""
    lease = Lease(
        client=client or Client(b"c", "c" * 8, 0.0, 0.0),
        id=order,
        fields={},
        arrays=(),
        route=Route(("features:x",), "x", {}),
        deadline=deadline,
        accepted=0.0,
        order=order,
        size=10,
        charge=10,
    )
    for name, value in fields.items():
        setattr(lease, name, value)
    return lease


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_a_lease_moves_by_the_table_and_not_otherwise(state: State, event: Event) -> None:
    """Every pair of state and event is either in the table or refused as a bug of ours."""
    lease = lease_of(1, state=state)
    if (state, event) in TRANSITIONS:
        lease.move(event)
        assert lease.state == TRANSITIONS[state, event]
    else:
        with pytest.raises(InternalError, match=f"is {state}: no transition '{event}'"):
            lease.move(event)
        assert lease.state == state


def test_the_table_leads_from_queued_to_done_and_nowhere_else() -> None:
    """Each state can be reached from queued and can still end; nothing leaves done; each event is used."""
    reached: set[State] = {"queued"}
    for _ in STATES:
        reached |= {target for (state, _), target in TRANSITIONS.items() if state in reached}
    ending: set[State] = {"done"}
    for _ in STATES:
        ending |= {state for (state, _), target in TRANSITIONS.items() if target in ending}
    assert reached == ending == set(STATES)
    assert "done" not in {state for state, _ in TRANSITIONS}
    assert {event for _, event in TRANSITIONS} == set(EVENTS)


def test_deadlines_come_due_in_order_and_only_for_the_unanswered() -> None:
    """Who was answered is not due any more."""
    deadlines = Deadlines()
    leases = [lease_of(n, deadline) for n, deadline in enumerate([3.0, 1.0, 2.0, 5.0])]
    for lease in leases:
        deadlines.add(lease)
    leases[2].state = "done"
    deadlines.drop()
    assert deadlines.next() == 1.0
    assert deadlines.due(3.0) == [leases[1], leases[0]]
    assert deadlines.next() == 5.0
    assert deadlines.due(4.0) == []


def test_answered_leases_do_not_pile_up_until_their_deadline() -> None:
    """Five thousand quick answers with a day to live leave a hundred entries, not five thousand."""
    deadlines = Deadlines()
    waiting = lease_of(0, 86_400.0)
    deadlines.add(waiting)
    for n in range(1, 5000):
        lease = lease_of(n, 86_400.0)
        deadlines.add(lease)
        lease.state = "done"
        deadlines.drop()
    assert len(deadlines._heap) < 100
    assert deadlines.due(86_400.0) == [waiting]
