"""`streamfeat bench fleet`: its loads are what they say, and a small run has every field."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamfeat.bench.fleet import QUICK, bench_fleet, cpu_s, items_of, two_cores
from streamfeat.bench.load import poisson
from streamfeat.bench.plots import draw_fleet
from streamfeat.cli.bench import show_fleet

TINY = replace(QUICK, kinds=(("image", "global-image", 64),), n_turns=2, n_single=10, n_memory=(100, 300))


def test_a_small_run_has_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios, what single items take more, latency by window and load, memory; as JSON, as a table, as a picture."""
    said: list[str] = []
    report = bench_fleet(TINY, said.append)
    assert json.loads(json.dumps(report)) == report
    image = report["image"]
    assert 0 < image["ratio"]["min"] <= image["fleet_vs_inprocess"] <= image["ratio"]["max"]
    assert image["cpu_vs_inprocess"] > 0
    assert image["p50_added_ms"] > 0
    assert [row["window"] for row in image["closed"]] == [1, 128]
    (row,) = image["open"]
    assert row["load"] == 0.5
    for row in (*image["closed"], *image["open"]):
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
        assert row["compute_ms"] > 0 <= row["queue_ms"]
    assert set(report["memory"]) == {"broker", "features-1", "features-2", "client"}
    for of in report["memory"].values():
        assert of["after_items"] == [100, 300]
        assert of["growth"] == pytest.approx(of["mib"][1] / of["mib"][0] - 1, abs=1e-4)
    show_fleet(report)
    assert f"{image['p50_added_ms']:.3f} ms beyond computing" in capsys.readouterr().out
    draw_fleet(tmp_path / "fleet.png", report)
    assert (tmp_path / "fleet.png").read_bytes().startswith(b"\x89PNG")
    assert "Poisson arrivals" in said


def test_poisson_arrivals_have_their_rate() -> None:
    """Rising moments; gaps with the mean and the deviation that a Poisson process of that rate has."""
    due = poisson(20_000, 50.0, np.random.default_rng(0))
    gaps = np.diff(due)
    assert (gaps > 0).all()
    # the mean of 20,000 gaps has a standard error of 0.7 %
    assert gaps.mean() == pytest.approx(0.02, rel=0.03)
    assert gaps.std() == pytest.approx(0.02, rel=0.05)


def test_cores_are_given_back() -> None:
    """Two at the most inside, those there were outside."""
    own = os.sched_getaffinity(0)
    with two_cores():
        assert len(os.sched_getaffinity(0)) == min(2, len(own))
    assert os.sched_getaffinity(0) == own


def test_cpu_time_of_a_process_is_counted() -> None:
    """Computing for a tenth of a second is seen, to a hundredth."""
    before = cpu_s(os.getpid())
    until = time.process_time() + 0.1
    while time.process_time() < until:
        sum(range(1000))
    assert cpu_s(os.getpid()) - before == pytest.approx(0.1, abs=0.03)


def test_pictures_are_28_by_28() -> None:
    """As many as asked for, each again when there are no more."""
    pictures = items_of("image", 2000)
    assert len(pictures) == 2000
    assert {picture.samples.shape for picture in pictures} == {(28, 28)}
