"""Parts computed in threads."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from streamfeat.threads import cpu_quota, in_threads, n_cores


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


@pytest.mark.parametrize(
    ("files", "own", "cores"),
    [
        ({"a/b/cpu.max": "150000 100000\n", "a/cpu.max": "max 100000\n"}, "0::/a/b\n", 1.5),
        ({"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"}, "0::/a/b\n", 2.0),
        ({"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, "3:cpu:/a\n0::/\n", 0.5),
        ({"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, "3:cpu,cpuacct:/a\n", float("inf")),
        ({}, "0::/a/b\n1:name=systemd:/x\n", float("inf")),
    ],
)
def test_the_quota_is_the_tightest_of_the_groups_above(
    tmp_path: Path, files: dict[str, str], own: str, cores: float
) -> None:
    """cgroups of version 2 and 1; none is no limit."""
    for name, text in files.items():
        file = tmp_path / "mounted" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "own").write_text(own)
    assert cpu_quota(tmp_path / "own", tmp_path / "mounted") == cores
