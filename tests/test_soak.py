"""The soak: what counts as flat, and a short one on real processes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from streamfeat.trials.usage import SETTLING_BYTES, Sample, sample_of, trend

ROOT = Path(__file__).resolve().parent.parent
MILLION = 1_000_000


def samples(*, bytes_per_item: float = 0.0, files: tuple[int, int] = (9, 9), threads: int = 4) -> list[Sample]:
    """Forty samples of a hundred million items: a start that grows, and then a line."""
    start = [Sample(n * MILLION, n * 10 * MILLION, 3 + n, 1) for n in range(50)]
    later = [
        Sample((50 + n) * MILLION, 500 * MILLION + int(n * MILLION * bytes_per_item), files[n % 2], threads)
        for n in range(50)
    ]
    return [*start, *later]


def test_what_is_flat_is_told_from_what_grows() -> None:
    """A kilobyte a thousand items is the bound; the start does not count; files and threads may hardly move."""
    assert trend(samples())["flat"]
    steady = trend(samples(bytes_per_item=0.9))
    assert steady["flat"]
    assert steady["bytes_per_item"] == pytest.approx(0.9, abs=0.01)
    assert not trend(samples(bytes_per_item=1.1))["flat"]
    assert trend(samples(files=(9, 11)))["flat"]
    assert not trend(samples(files=(9, 12)))["flat"]
    assert trend([Sample(0, 0, 1, 1), Sample(10, SETTLING_BYTES, 1, 1)])["flat"]


def test_a_sample_is_what_the_kernel_says() -> None:
    """Of this very process: a file more is a file more."""
    before = sample_of(os.getpid(), 3)
    with Path(__file__).open():
        after = sample_of(os.getpid(), 3)
    assert after.files == before.files + 1
    assert (before.n_items, before.threads) == (3, sum(1 for _ in Path("/proc/self/task").iterdir()))
    assert before.rss > 1 << 20


def test_a_fleet_stays_flat_for_a_while(tmp_path: Path) -> None:
    """Eight seconds of full load from another directory: the report, the table, exit status 0."""
    file = tmp_path / "soak.json"
    command = [str(ROOT / "scripts" / "soak"), "--seconds", "8", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert set(report["processes"]) == {"broker", "features-1", "features-2", "index", "learner"}
    assert report["answered"] > 0
    assert "passed" in done.stdout
