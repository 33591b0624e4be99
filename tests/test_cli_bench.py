"""`streamfeat bench` as a user runs it; what it measures is in test_bench_kernels.py and test_bench_templates.py."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamfeat.bench.kernels import bench_kernels
from streamfeat.cli.bench import show_kernels
from tests.terminal import Terminal
from tests.test_bench_kernels import TINY
from tests.test_bench_templates import bars


def test_templates_as_a_table_and_as_json(cli: Terminal) -> None:
    """The table on standard output, the same figures in the file, what is being done on standard error."""
    (x, y), (z, w) = bars(300, 0), bars(40, 1)
    np.savez(cli.home / "bars.npz", x_train=x, y_train=y, x_test=z, y_test=w)
    file = cli.home / "report.json"
    ran = cli("bench", "templates", cli.home / "bars.npz", "--quick", "--json", file)
    assert ran.status == 0, ran
    report = json.loads(file.read_text())
    assert [row["labels_per_class"] for row in report["rows"]] == [10, 100]
    assert "seed 1: hadamard" in ran.err
    for row in report["rows"]:
        assert f"{row['gaussian']:.4f}    {row['hadamard']:.4f}" in ran.out
    assert "m = 256, |G| = 81, 2 seeds" in ran.out


def test_the_table_of_kernels_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Each measurement by name, each ratio with its spread, plain JSON values."""
    report = bench_kernels(TINY, lambda _what: None)
    assert json.loads(json.dumps(report)) == report
    show_kernels(report)
    out = capsys.readouterr().out
    assert all(row["what"] in out for row in report["rows"])
    for name, spread in report["ratios"].items():
        assert f"{name}: {spread['median']:.2f} ({spread['min']:.2f} to {spread['max']:.2f})" in out


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(cli: Terminal) -> None:
    """Not ten minutes later."""
    ran = cli("bench", "kernels", "--plot", cli.home / "nowhere" / "growth.png")
    assert ran.status == 64, ran
    assert "name a file in a folder that is there" in ran.err
