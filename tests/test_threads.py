"""Parts computed in threads."""

from __future__ import annotations

import threading
import time

import pytest

from streamfeat.threads import in_threads, n_cores


@pytest.mark.parametrize("n_threads", [1, 3])
def test_results_come_in_the_order_of_the_parts(n_threads: int) -> None:
    """Though the first take longest."""

    def slow_first(part: int) -> int:
        time.sleep(0.01 * (5 - part))
        return part * part

    assert list(in_threads(slow_first, range(5), n_threads)) == [0, 1, 4, 9, 16]


def test_several_parts_are_under_way_at_once() -> None:
    """Two parts that wait for each other both come through."""
    meet = threading.Barrier(2, timeout=20)
    assert sorted(in_threads(lambda _part: meet.wait(), range(2), 2)) == [0, 1]


def test_an_error_ends_it_and_drops_what_was_not_begun() -> None:
    """The error is raised; of a hundred parts nearly none is computed after it."""
    begun = []

    def fail(part: int) -> int:
        begun.append(part)
        time.sleep(0.005)
        raise ValueError(f"part {part}")

    with pytest.raises(ValueError, match="part 0"):
        list(in_threads(fail, range(100), 2))
    assert len(begun) < 20


def test_there_is_a_core() -> None:
    """At least the one that this runs on."""
    assert n_cores() >= 1
