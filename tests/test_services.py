"""What is served, by whom, now and before."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.wire.peers import Worker
from streamfeat.wire.services import Route, Services

HASHES = [f"{n:064x}" for n in range(100)]


def worker_of(*announced: str, banks: dict[str, str] | None = None, **fields: Any) -> Worker:
    """A worker with this HELLO."""
    return Worker(
        address=b"w",
        run="0" * 8,
        name="w",
        kind="features",
        announced=announced,
        banks=banks or {},
        credit_items=4,
        credit_bytes=100,
        heard=0.0,
        alive_until=3.0,
        **fields,
    )


def test_features_alone_means_every_bank_announced() -> None:
    """A worker may announce features, a bank by its hash, or a model by name or as KIND:*."""
    worker = worker_of("features", "learn:*", "search:near", banks={"a": HASHES[1], "b": HASHES[2]})
    assert all(worker.serves(s) for s in (f"features:{HASHES[1]}", f"features:{HASHES[2]}", "learn:x", "search:near"))
    assert not any(worker.serves(s) for s in (f"features:{HASHES[3]}", "search:far", "classify:x"))
    assert worker_of(f"features:{HASHES[3]}").serves(f"features:{HASHES[3]}")


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("learn:*", "learn:m", "learn:m"),
        ("learn:m", "learn:*", "learn:*"),
        ("learn:m", "learn:n", None),
        ("learn:*", "insert:*", None),
        ("features", "features", None),
    ],
)
def test_stages_with_state_have_one_owner(first: str, second: str, shared: str | None) -> None:
    """Two workers collide where either's announcement covers the other's, except for features."""
    banks = {"a": HASHES[0]}
    assert worker_of(first, banks=banks).shares_stage(worker_of(second, banks=banks).stages) == shared


def test_a_name_resolves_to_the_bank_announced_last_and_old_hashes_still_wait() -> None:
    """During a roll-out a name means the new bank; whoever pinned the old hash waits for its worker."""
    services = Services()
    services.join(worker_of("features", banks={"a": HASHES[1]}))
    services.join(worker_of("features", banks={"a": HASHES[2]}))
    assert services.resolve(["features"], "a", {}) == Route((f"features:{HASHES[2]}",), HASHES[2], {})
    assert services.resolve(["features"], None, {}).bank == HASHES[2]
    assert services.resolve(["features"], HASHES[1], {}).bank == HASHES[1]
    with pytest.raises(NotFound, match="served are a "):
        services.resolve(["features"], HASHES[3], {})


def test_workers_come_and_go() -> None:
    """Work of a stage is for those here now; leaving twice does no harm."""
    services = Services()
    one, two = worker_of("learn:m"), worker_of("learn:*")
    services.join(one)
    assert services.workers_of("learn:m") == [one]
    services.join(two)
    services.join(two)
    assert services.workers_of("learn:m") == [one, two]
    services.leave(one)
    services.leave(one)
    assert services.workers_of("learn:m") == [two]
    services.leave(two)
    assert services.workers_of("learn:m") == []
    assert services.resolve(["learn:m"], None, {}).stages == ("learn:m",)


def test_what_is_remembered_is_bounded() -> None:
    """A hundred banks later the oldest names are forgotten, and stages asked for once are too."""
    services = Services()
    for n in range(100):
        services.join(worker_of("features", banks={f"bank{n}": HASHES[n]}))
    assert len(services.banks) == 64
    assert "bank99" in services.banks
    with pytest.raises(InvalidArgument, match="several banks are served, name one"):
        services.resolve(["features"], None, {})
    for n in range(3000):
        services.workers_of(f"learn:m{n}")
    assert len(services._by_stage) <= 1000


def test_an_idle_worker_takes_an_item_of_any_size() -> None:
    """Credit in bytes is held unless that would mean never."""
    worker = worker_of("features", banks={"a": HASHES[0]})
    assert worker.fits(10**9)
    worker.n_bytes, worker.leases = 60, {1: None}  # type: ignore[dict-item]
    assert worker.fits(40)
    assert not worker.fits(41)
