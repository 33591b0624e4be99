"""Points of learning curves: rows of them, and the nearest of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.bankspec import BankSpec
from streamfeat.protocols.classify import classify
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import Method
from streamfeat.protocols.plan import Plan, Trial
from streamfeat.protocols.scores import scores_of
from streamfeat.reproduce.curve import (
    NN_METRIC,
    RLS_METRIC,
    Points,
    curve_rows,
    measure_parts,
    measure_trials,
    nearest_rows,
    ranking_claim,
)
from streamfeat.reproduce.experiment import Run
from streamfeat.signals import Signal
from tests.test_experiment import silent


def test_the_nearest_row_is_the_nearest() -> None:
    """Against all distances in float64; counts up to 65,535 keep their digits, of equal rows the first is taken."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((70, 7)), rng.integers(60_000, 65_535, (70, 7)).astype(np.uint16)
    for some in drawn:
        some[20] = some[3]
        X, Z = some[:40], some[40:]
        apart = np.square(Z[:, None].astype(np.float64) - X.astype(np.float64)).sum(axis=2)
        np.testing.assert_array_equal(nearest_rows(Z, X), apart.argmin(axis=1))


def test_rows_are_means_over_trials_then_seeds() -> None:
    """A number is the setting n, a word is a split; where nothing was asked of 1-NN there is no row."""
    points = [
        {"column": "5", "seed": seed, "rls": share, "nn": None, "n_items": 10}
        for seed, share in ((0, 0.2), (0, 0.4), (1, 0.5))
    ]
    (few,) = curve_rows("a", points, m=3)
    assert (few["n"], few["m"], few["metric"], few["mean"], few["seeds"]) == (5, 3, RLS_METRIC, 0.4, 2)
    rows = curve_rows("a", [{"column": "girl", "seed": 0, "rls": 0.5, "nn": 0.25, "n_items": 25}])
    assert [(r["split"], r["metric"], r["mean"], r["sd"]) for r in rows] == [
        ("girl", RLS_METRIC, 0.5, 0.1),
        ("girl", NN_METRIC, 0.25, 0.0866),
    ]


LEARNED = np.random.default_rng(0).standard_normal((40, 6)) + np.repeat(np.eye(6)[:2] * 2, 20, axis=0)


def small_plan() -> Plan:
    """Two classes of 20 items, two draws of 5 and one of 8 a class, ten of each asked."""
    asked = np.r_[10:20, 30:40]
    trials = []
    for n, seeds in ((5, 2), (8, 1)):
        for seed in range(seeds):
            chosen = np.random.default_rng([n, seed]).permutation(10)[:n]
            trials.append(Trial(seed, np.concatenate([chosen, 20 + chosen]), {str(n): asked}))
    signals = [Signal("array", item.astype(np.float32), None, f"item {i}") for i, item in enumerate(LEARNED)]
    return Plan(["a"] * 20 + ["b"] * 20, signals.__getitem__, lambda: signals[:4], tuple(trials))


def fitted_to(seen: list[int], per_fit: bool) -> Method:
    """Numbers as they are, scaled by what it was fitted to; notes how many items that were."""

    def fit(task: Task) -> Fitted:
        items = np.stack([signal.samples for signal in task.signals()])
        seen.append(len(items))
        scale = np.float32(1.0 + np.abs(items).max())

        def transform(signals: Sequence[Signal]) -> Any:
            return np.stack([signal.samples for signal in signals]) / scale

        return Fitted(transform, bank="sha")

    return Method(fit, per_fit=per_fit)


SPEC = BankSpec.preset("global-image")


@pytest.mark.parametrize("per_fit", [False, True])
def test_trials_are_measured_as_protocols_measure_them(per_fit: bool) -> None:
    """Fitted once to templates, or to each trial's training items; the accuracy is that of `classify`."""
    seen: list[int] = []
    plan = small_plan()
    measured = list(measure_trials(plan, fitted_to(seen, per_fit), SPEC, silent))
    assert seen == ([10, 10, 16] if per_fit else [4])
    assert [points[0]["column"] for points, _ in measured] == ["5", "5", "8"]
    hits = classify(plan, fitted_to([], per_fit), SPEC, None, progress=silent, n_threads=1)
    for (row,) in (curve_rows("a", [point for some, _ in measured for point in some])[i : i + 1] for i in range(2)):
        assert row["mean"] == pytest.approx(scores_of(hits, plan)["accuracy"][str(row["n"])], abs=1e-4)


def test_a_trial_that_was_kept_is_not_measured_again(tmp_path: Path) -> None:
    """A run stopped after two trials fits one more; the points are those of one run."""
    plan = small_plan()

    def run() -> Run:
        return Run("curve", fast=True, folder=tmp_path, progress=silent).begin({})

    seen: list[int] = []
    stopped = run()
    measure_parts(stopped, "some", replace(plan, trials=plan.trials[:2]), fitted_to(seen, True), SPEC)
    stopped.close()
    points, bank = measure_parts(run(), "some", plan, fitted_to(seen, True), SPEC)
    assert (seen, bank) == ([10, 10, 16], "sha")
    whole: Points = [point for some, _ in measure_trials(plan, fitted_to([], True), SPEC, silent) for point in some]
    assert points == whole


def test_a_ranking_tells_every_point() -> None:
    """It holds where nothing is above ours, and says where something is, and what the deviation covers."""

    def rows(*means: tuple[float, float]) -> list[dict[str, Any]]:
        return [
            {"method": name, "n": 2**i, "metric": RLS_METRIC, "mean": mean, "sd": 0.01}
            for i, pair in enumerate(means)
            for name, mean in zip(("ours", "peer"), pair, strict=True)
        ]

    good = ranking_claim(rows((0.9, 0.8), (0.95, 0.945)), "ours")
    assert good["holds"]
    assert "1: 0.900, then peer 0.800; 2: 0.950, then peer 0.945, within the deviation" in good["why"]
    bad = ranking_claim(rows((0.9, 0.8), (0.95, 0.951), (0.9, 0.99)), "ours")
    assert not bad["holds"]
    assert "2: 0.950, ABOVE IT peer 0.951, within the deviation; 4: 0.900, ABOVE IT peer 0.990" in bad["why"]
