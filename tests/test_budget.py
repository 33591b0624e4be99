"""Shares of the bytes that are held for all clients together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.wire.budget import Budget
from streamfeat.wire.peers import Client

LIMIT = 4000
N_CLIENTS = 10
RESERVE = 100
POOL = 3000


def clients_of(n: int) -> list[Client]:
    """As many clients."""
    return [Client(b"%d" % k, f"{k}" * 8, 0.0, 0.0) for k in range(n)]


def test_a_quarter_is_reserved() -> None:
    """Each client has its part of it for itself, and nobody can take it."""
    budget = Budget(LIMIT, N_CLIENTS)
    assert (budget.reserve, budget.pool) == (RESERVE, POOL)
    first, second = clients_of(2)
    assert budget.room(first) == RESERVE + POOL
    budget.move(first, RESERVE + POOL)
    assert budget.room(first) == -POOL
    assert budget.room(second) == RESERVE
    budget.move(first, -RESERVE - POOL)
    assert (budget.n_bytes, first.held) == (0, 0)
    assert budget.room(second) == RESERVE + POOL


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, N_CLIENTS - 1), st.booleans(), st.integers(1, 600)), max_size=200))
def test_the_limit_holds_and_so_does_every_reserve(steps: list[tuple[int, bool, int]]) -> None:
    """Whoever takes and gives back in whatever order, each within its room."""
    budget, clients = Budget(LIMIT, N_CLIENTS), clients_of(N_CLIENTS)
    for who, taking, n_bytes in steps:
        client = clients[who]
        if not taking:
            budget.move(client, -min(n_bytes, client.held))
        elif n_bytes <= budget.room(client):
            budget.move(client, n_bytes)
        assert budget.n_bytes == sum(c.held for c in clients) <= LIMIT
        free = POOL - sum(max(0, c.held - RESERVE) for c in clients)
        for other in clients:
            assert budget.room(other) == RESERVE + free - other.held >= RESERVE - other.held


def test_what_grew_is_held_beyond_the_limit_and_closes_the_pool() -> None:
    """A feature may be larger than its signal; the reserves of others are theirs all the same."""
    budget = Budget(LIMIT, N_CLIENTS)
    first, second = clients_of(2)
    budget.move(first, 1000)
    budget.move(first, 4000)
    assert budget.n_bytes == 5000
    assert (budget.room(first), budget.room(second)) == (RESERVE - 5000, RESERVE)
    budget.move(first, -5000)
    assert budget.room(second) == RESERVE + POOL


@pytest.mark.parametrize("n_greedy", [1, 5, 9])
def test_greedy_clients_come_to_equal_shares_and_leave_one_for_the_next(n_greedy: int) -> None:
    """One was there first and has half of the pool; once the others' answers have come round, all have the same.

    With n that always want more, each share beyond the reserve and what is free are pool / (n + 1), to within an item.
    """
    budget, clients = Budget(LIMIT, N_CLIENTS), clients_of(n_greedy + 1)
    *greedy, newcomer = clients
    item = 10
    for client in greedy:  # one after the other: the later ones find less
        while budget.room(client) >= item:
            budget.move(client, item)
    for _ in range(LIMIT // item):  # each is answered an item in turn, and all ask for more
        for client in greedy:
            budget.move(client, -item)
            for other in greedy:
                if budget.room(other) >= item:
                    budget.move(other, item)
    share = POOL / (n_greedy + 1)
    slack = item * (n_greedy + 1)
    for client in greedy:
        assert client.held - RESERVE == pytest.approx(share, abs=slack)
    assert budget.room(newcomer) == pytest.approx(RESERVE + share, abs=slack)
