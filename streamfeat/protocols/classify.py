"""A method under a protocol: features once a bank, one RLS a trial, hits of the rows that are asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.learn.rls import RLS
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import Method
from streamfeat.protocols.plan import Plan, Progress, Rows, Trial
from streamfeat.protocols.table import featurise
from streamfeat.threads import one_blas_thread

SMALL = 3000
"""Training rows up to which one thread solves fastest on cores that others use too."""

BLOCK = 4096
"""Rows predicted at a time: scaled to float64, 50,000 of 8,192 numbers would be 3 GB."""


@dataclass
class Hits:
    """Which rows were answered right, by column and seed, and what was answered, by column.

    `fitted` is the first seed's, for the clock; `answers` counts pairs of a label and what was said in its place.
    """

    fitted: Fitted | None = None
    n_features: int = 0
    of: dict[str, dict[int, list[tuple[Rows, NDArray[np.bool_]]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )

    answers: dict[str, Counter[tuple[str, str]]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, column: str, seed: int, rows: Rows, pairs: Sequence[tuple[str, str]]) -> None:
        """What came of one trial: each row's label, and the one it was given."""
        self.of[column][seed].append((rows, np.array([label == said for label, said in pairs])))
        self.answers[column].update(pairs)


def classify(
    plan: Plan, method: Method, spec: BankSpec, bank_seeds: Sequence[int] | None, *, progress: Progress, n_threads: int
) -> Hits:
    """Run every trial of a plan.

    Parameters
    ----------
    plan : Plan
    method : Method
    spec : BankSpec
    bank_seeds : sequence of int, optional
        A bank each, and every trial with each, or the first alone where chance has no part; None: one bank of the
        spec's own seed, and the trials have the seeds.
    progress : callable
    n_threads : int
        That compute features.
    """
    hits = Hits()
    seeds = (None,) if bank_seeds is None else bank_seeds if method.by_chance else bank_seeds[:1]
    for bank_seed in seeds:
        task = Task(spec if bank_seed is None else replace(spec, seed=bank_seed), plan.templates, plan.moves)
        label = "" if bank_seed is None else f" seed {bank_seed}"
        for trials, fitted in fits(plan, method, task):
            rows = np.concatenate([trial.rows for trial in trials])
            with progress(f"features{label}", len(np.unique(rows))) as advance:
                table = featurise(fitted, plan.read, rows, advance, n_threads)
            if hits.fitted is None:
                hits.fitted, hits.n_features = fitted, table.X.shape[1]
            with progress(f"fits{label}", len(trials)) as advance:
                for trial in trials:
                    rls = fit_trial(plan, method, trial, table.take(trial.train), fitted)
                    for column, asked in trial.tests.items():
                        said = _said(rls, table.take(asked))
                        pairs = [(plan.labels[row], label) for row, label in zip(asked, said, strict=True)]
                        hits.add(column, trial.seed if bank_seed is None else bank_seed, asked, pairs)
                    advance(1)
    return hits


def fits(plan: Plan, method: Method, task: Task) -> Iterator[tuple[Sequence[Trial], Fitted]]:
    """The trials that share features, and what makes these."""
    if not method.per_fit:
        yield plan.trials, method.fit(task)
        return
    for trial in plan.trials:

        def signals(rows: Rows = trial.train) -> list[Any]:
            return [plan.read(int(row)) for row in rows]

        yield [trial], method.fit(replace(task, signals=signals))


def fit_trial(plan: Plan, method: Method, trial: Trial, X: NDArray[Any], fitted: Fitted) -> RLS:
    """RLS of a trial's training rows X, lambda by leaving out rows, or speakers where there are some."""
    labels = [plan.labels[row] for row in trial.train]
    groups = None if plan.speakers is None else [plan.speakers[row] for row in trial.train]
    one_a_class = len(set(labels)) == len(labels)
    if fitted.copies is not None:
        moved = fitted.copies([plan.read(int(row)) for row in trial.train])
        n_copies = moved.shape[1]
        X = moved.reshape(len(moved) * n_copies, -1)
        # a copy must not answer for the item it was made from
        sources: Sequence[str] = [str(row) for row in trial.train] if groups is None else groups
        groups = [source for source in sources for _ in range(n_copies)]
        labels = [label for label in labels for _ in range(n_copies)]
    rls = method.learner("loo" if groups is None else "logo", one_a_class)
    with one_blas_thread() if len(labels) <= SMALL else nullcontext():
        return rls.fit(X, labels, groups)


def _said(rls: RLS, X: NDArray[Any]) -> list[str]:
    return [str(label) for first in range(0, len(X), BLOCK) for label in rls.predict(X[first : first + BLOCK])]
