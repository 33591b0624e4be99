"""RLS and 1-NN of one kind of features on every trial of a plan: points of a learning curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.protocols.classify import BLOCK, fit_trial
from streamfeat.protocols.fitted import Task
from streamfeat.protocols.methods import Method
from streamfeat.protocols.plan import Plan
from streamfeat.protocols.table import featurise
from streamfeat.reproduce.experiment import row

RLS_METRIC, NN_METRIC = "RLS accuracy", "1-NN accuracy"

Points = list[dict[str, Any]]
"""{"column", "seed", "rls", "nn"} of each trial and column; "nn" is None where training rows are moved copies."""


def measure_curve(plan: Plan, method: Method, spec: BankSpec, n_threads: int) -> tuple[Points, str | None]:
    """Accuracies, and the hash of the bank if there is one.

    Features are computed once for all trials. 1-NN is by Euclidean distance between features, as the kernel's is.
    """
    fitted = method.fit(Task(spec, plan.templates, plan.moves))
    rows = np.concatenate([trial.rows for trial in plan.trials])
    table = featurise(fitted, plan.read, rows, lambda _n: None, n_threads)
    points = []
    for trial in plan.trials:
        X = table.take(trial.train)
        rls = fit_trial(plan, method, trial, X, fitted)
        taught = np.array([plan.labels[item] for item in trial.train])
        for column, asked in trial.tests.items():
            truth = np.array([plan.labels[item] for item in asked])
            Z = table.take(asked)
            by_rls = [label for first in range(0, len(Z), BLOCK) for label in rls.predict(Z[first : first + BLOCK])]
            nn = None if fitted.copies is not None else float((taught[nearest_rows(Z, X)] == truth).mean())
            share = float((np.array(by_rls) == truth).mean())
            points.append({"column": column, "seed": trial.seed, "rls": share, "nn": nn, "n_items": len(truth)})
    return points, fitted.bank


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


def nearest_rows(Z: NDArray[Any], X: NDArray[Any]) -> NDArray[np.intp]:
    """The row of X nearest to each of Z, the first of those equally near.

    Both are taken from X's mean and by its largest number, so that float32 products of counts keep their digits.
    """
    X = X.astype(np.float32)
    mean = X.mean(axis=0)
    X -= mean
    X *= (scale := np.float32(1.0 / max(float(np.abs(X).max()), 1e-30)))
    squares = np.square(X, dtype=np.float64).sum(axis=1)
    nearest = np.empty(len(Z), np.intp)
    for first in range(0, len(Z), BLOCK):
        some = (Z[first : first + BLOCK].astype(np.float32) - mean) * scale
        nearest[first : first + BLOCK] = np.argmin(squares - 2.0 * (some @ X.T), axis=1)
    return nearest
