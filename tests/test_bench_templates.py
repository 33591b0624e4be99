"""`streamfeat bench templates`: the same items for both sources, and a table of the differences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.bench.templates import Digits, Plan, compare_templates
from streamfeat.cli import run
from streamfeat.errors import ConfigError

TINY = Plan(n_seeds=2, m=64, elements=(1, 2), labels_per_class=(2, 6), n_test=30)


def bars(n: int, seed: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.uint8]], ...]:
    """n pictures of 8 x 8: noise and a bright row, whose number is the class."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 3).astype(np.uint8)
    pictures = rng.integers(0, 60, (n, 8, 8)).astype(np.uint8)
    pictures[np.arange(n), 2 * labels + 1] += 150
    return pictures, labels


def test_both_sources_tell_bars_apart(tmp_path: Path) -> None:
    """From an .npz file to accuracies near 1, and their difference in points with its error over seeds."""
    (x, y), (z, w) = bars(60, 0), bars(40, 1)
    np.savez(tmp_path / "bars.npz", x_train=x, y_train=y, x_test=z, y_test=w)
    report = compare_templates(Digits.open(tmp_path / "bars.npz"), TINY, lambda _what: None)
    assert [row["labels_per_class"] for row in report["rows"]] == [2, 6]
    for row in report["rows"]:
        assert min(row["gaussian"], row["hadamard"]) > 0.8
        assert row["points"] == pytest.approx(100 * (row["hadamard"] - row["gaussian"]), abs=2e-3)  # rounded
        assert row["standard_error"] >= 0


def test_too_few_items_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the command, in one line: how many of a class are drawn, and which class has fewer."""
    (x, y), (z, w) = bars(60, 0), bars(40, 1)
    np.savez(tmp_path / "bars.npz", x_train=x, y_train=y, x_test=z, y_test=w)
    assert run(["bench", "templates", str(tmp_path / "bars.npz"), "--json"]) == 78
    out, err = capsys.readouterr()
    assert out == ""
    assert "100 training items a class are drawn; class 0 has 20" in err


def test_other_files_are_refused(tmp_path: Path) -> None:
    """Which arrays were needed, and which came."""
    np.savez(tmp_path / "x.npz", images=np.zeros((1, 8, 8)))
    with pytest.raises(ConfigError, match=r"x_train.*has \['images'\]"):
        Digits.open(tmp_path / "x.npz")
