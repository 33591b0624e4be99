"""bench verify: what is timed is every pair, and the table has the report's figures."""

from __future__ import annotations

import json

import pytest

from streamfeat.bench.pairs import Plan, bench_pairs
from streamfeat.cli.bench import show_pairs

TINY = Plan(n_rows=3100, d=8, n_labels=90, n_turns=2)


def test_figures_are_of_all_pairs_and_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts exact, times over zero, ratios between their turns, plain JSON values; each in the table."""
    said: list[str] = []
    report = bench_pairs(TINY, said.append)
    assert json.loads(json.dumps(report)) == report
    assert (report["pairs"], report["d"]) == (3100 * 3099 // 2, 8)
    assert said[0] == "turn 0 of 2: verify"
    assert len(said) == 6
    for name in ("verify", "sgemm"):
        assert report[name]["wall_s"] > 0
        assert report[name]["cpu_s"] > 0
    assert report["ratio"]["min"] <= report["ratio"]["median"] <= report["ratio"]["max"]
    show_pairs(report)
    out = capsys.readouterr().out
    assert "4,803,450 pairs of 8 numbers" in out
    assert f"{report['sgemm']['cpu_s']:.2f}" in out
