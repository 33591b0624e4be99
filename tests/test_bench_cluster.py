"""`streamfeat bench dask`: a small run has every field, and says whether the bits are the same."""

from __future__ import annotations

import json

import pytest

from streamfeat.bench.cluster import Plan, bench_dask
from streamfeat.cli.bench import show_cluster

TINY = Plan(preset="global-image", n_items=96, block=32, n_turns=2)


def test_a_small_run_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Ratios with their spread, times of both, equal features; as JSON and as text."""
    said: list[str] = []
    report = bench_dask(TINY, said.append)
    assert json.loads(json.dumps(report)) == report
    assert (report["items"], report["equal"]) == (96, True)
    for name in ("ratio", "cpu_ratio"):
        assert 0 < report[name]["min"] <= report[name]["median"] <= report[name]["max"]
    for name in ("cluster", "threads"):
        # both are rounded
        assert report[name]["items_per_s"] == pytest.approx(96 / report[name]["wall_s"], rel=0.1)
        assert report[name]["cpu_s"] >= 0
    assert report["start_s"] > 0
    show_cluster(report)
    assert "the same to the bit" in capsys.readouterr().out
    assert "starting a cluster" in said
