"""RLS and 1-NN of one kind of features on every trial of a plan: points of a learning curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.protocols.classify import BLOCK, fit_trial, fits
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import Method
from streamfeat.protocols.plan import Plan, Progress, Trial
from streamfeat.protocols.table import Table, featurise
from streamfeat.reproduce.experiment import Run, claim, closeness, row
from streamfeat.threads import n_cores

RLS_METRIC, NN_METRIC = "RLS accuracy", "1-NN accuracy"

DISTANCES = 2**25
"""Held at a time, in float64: 256 MB."""

Points = list[dict[str, Any]]
"""{"column", "seed", "rls", "nn"} of each trial and column; "nn" is None where training rows are moved copies."""


def measure_trials(
    plan: Plan, method: Method, spec: BankSpec, progress: Progress
) -> Iterator[tuple[Points, str | None]]:
    """Accuracies of each trial in turn, and the hash of the bank if there is one.

    Features are computed once for all trials, or anew for each where the method is fitted to its training items. 1-NN
    is by Euclidean distance between features, as the kernel's is.
    """
    for trials, fitted in fits(plan, method, Task(spec, plan.templates, plan.moves)):
        rows = np.unique(np.concatenate([trial.rows for trial in trials]))
        with progress("features", len(rows)) as advance:
            table = featurise(fitted, plan.read, rows, advance, n_cores())
        with progress("fits", len(trials)) as advance:
            for trial in trials:
                yield _points(plan, method, trial, table, fitted), fitted.bank
                advance(1)


def measure_parts(run: Run, part: str, plan: Plan, method: Method, spec: BankSpec) -> tuple[Points, str | None]:
    """The same of all trials, each a part of the run: one that was stopped goes on with features computed again."""
    names = {f"{part}: {', '.join(trial.tests)}, draw {trial.seed}": trial for trial in plan.trials}
    lacking = {name: trial for name, trial in names.items() if run.kept(name) is None}
    if lacking:

        def progress(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
            return run.progress(f"{run.name}: {part}, {what}", total)

        measured = measure_trials(replace(plan, trials=tuple(lacking.values())), method, spec, progress)
        for name, (points, bank) in zip(lacking, measured, strict=True):
            run.keep(name, {"points": points, "bank": bank})
    kept = [run.kept(name) for name in names]
    return [point for some in kept for point in some["points"]], kept[-1]["bank"]


def _points(plan: Plan, method: Method, trial: Trial, table: Table, fitted: Fitted) -> Points:
    X = table.take(trial.train)
    rls = fit_trial(plan, method, trial, X, fitted)
    taught = np.array([plan.labels[item] for item in trial.train])
    points = []
    for column, asked in trial.tests.items():
        truth = np.array([plan.labels[item] for item in asked])
        Z = table.take(asked)
        by_rls = [label for first in range(0, len(Z), BLOCK) for label in rls.predict(Z[first : first + BLOCK])]
        nn = None if fitted.copies is not None else float((taught[nearest_rows(Z, X)] == truth).mean())
        share = float((np.array(by_rls) == truth).mean())
        points.append({"column": column, "seed": trial.seed, "rls": share, "nn": nn, "n_items": len(truth)})
    return points


def curve_rows(method: str, points: Points, **setting: Any) -> list[dict[str, Any]]:
    """Rows of both learners, one a column: the setting "n" where its name is a number, "split" where it is a word.

    Means are over the trials of a seed, then over seeds; `setting` goes with every row.
    """
    rows = []
    for metric, key in ((RLS_METRIC, "rls"), (NN_METRIC, "nn")):
        for column in dict.fromkeys(point["column"] for point in points):
            some = [point for point in points if point["column"] == column and point[key] is not None]
            if some:
                by_seed: dict[int, list[float]] = {}
                for point in some:
                    by_seed.setdefault(point["seed"], []).append(point[key])
                values = [float(np.mean(shares)) for shares in by_seed.values()]
                where = {"n": int(column)} if column.isdecimal() else {"split": column}
                n_items = sum(point["n_items"] for point in some if point["seed"] == some[0]["seed"])
                rows.append(row(method, metric, values, n_items=n_items, **where, **setting))
    return rows


def ranking_claim(rows: Sequence[Mapping[str, Any]], ours: str) -> dict[str, Any]:
    """Whether no row is above that of `ours` at any point of a curve, or in any split, told point by point."""
    setting, where = ("n", "at any n") if "n" in rows[0] else ("split", "in any split")
    held, shown = True, []
    for value in dict.fromkeys(some[setting] for some in rows):
        here = {some["method"]: some for some in rows if some[setting] == value}
        own = here.pop(ours)
        best = max(here.values(), key=lambda other: float(other["mean"]))
        ahead = own["mean"] - best["mean"]
        held = held and ahead >= 0
        said = "ABOVE IT" if ahead < 0 else "then" if ahead else "level"
        shown.append(f"{value}: {own['mean']:.3f}, {said} {best['method']} {best['mean']:.3f}{closeness(own, best)}")
    of = f", {rows[0]['corpus']}" if "corpus" in rows[0] else ""
    return claim(
        f"(Ours, not the paper's:) no other row is above orbits of patches {where}.",
        held,
        f"{rows[0]['metric']}{of}, {ours} and the best of the others by {setting}: {'; '.join(shown)}",
    )


def nearest_rows(Z: NDArray[Any], X: NDArray[Any]) -> NDArray[np.intp]:
    """The row of X nearest to each of Z, the first of those equally near.

    Both are taken from X's mean and by its largest number, so that float32 products of counts keep their digits.
    """
    X = X.astype(np.float32)
    mean = X.mean(axis=0)
    X -= mean
    X *= (scale := np.float32(1.0 / max(float(X.max()), -float(X.min()), 1e-30)))
    squares = np.concatenate(
        [np.square(X[first : first + BLOCK], dtype=np.float64).sum(axis=1) for first in range(0, len(X), BLOCK)]
    )
    nearest = np.empty(len(Z), np.intp)
    step = max(1, DISTANCES // len(X))
    for first in range(0, len(Z), step):
        some = (Z[first : first + step].astype(np.float32) - mean) * scale
        nearest[first : first + step] = np.argmin(squares - 2.0 * (some @ X.T), axis=1)
    return nearest
