"""Labelled pictures that a protocol draws its training items from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamfeat.protocols.data import given_pictures
from streamfeat.protocols.plan import Plan, Rows, Source, Trial
from streamfeat.signals import Signal

N_TEMPLATES = 4000
"""Training pictures that banks see, labels left aside."""


@dataclass(frozen=True)
class Drawn:
    """Pictures by number, training ones first: labels, how one is read, how many train, which were given."""

    labels: list[str]
    read: Callable[[int], Signal]
    n_train: int
    given: Rows | None

    def per_class(self, n: int, seed: int) -> Rows | None:
        """n training items of each class, drawn anew for each seed; None where a class has not so many."""
        labels = np.array(self.labels[: self.n_train])
        rng = np.random.default_rng(seed)
        members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        if min(map(len, members)) < n:
            return None
        return np.concatenate([rng.choice(some, n, replace=False) for some in members])

    def tests(self, parts: Mapping[str, Rows]) -> dict[str, Rows]:
        """The columns' rows, empty ones left out; where items were given, these alone."""
        return {"given items": self.given} if self.given is not None else {k: v for k, v in parts.items() if len(v)}

    def templates(self) -> list[Signal]:
        """Training pictures, labels left aside."""
        rng = np.random.default_rng(0)
        chosen = rng.choice(self.n_train, min(N_TEMPLATES, self.n_train), replace=False)
        return [self.read(int(row)) for row in np.sort(chosen)]

    def few(self, tests: Mapping[str, Rows], n_seeds: int, per_class: Sequence[int]) -> Plan:
        """A trial for each seed and number of labels a class; the columns are `tests` of each number."""
        trials, left_out = [], []
        for seed in range(n_seeds):
            for n in per_class:
                train = self.per_class(n, seed)
                if train is None:
                    left_out.append(f"{n} labels a class: left out, a class has fewer items")
                    continue
                labels = f"{n} label{'s' if n > 1 else ''}"
                trials.append(Trial(seed, train, {f"{labels}, {column}": rows for column, rows in tests.items()}))
        return self.plan(tuple(trials), tuple(dict.fromkeys(left_out)))

    def plan(self, trials: tuple[Trial, ...], notes: tuple[str, ...] = ()) -> Plan:
        """The plan of these trials; a figure for few labels goes with what is seen without any."""
        seen = f"templates and widths from {min(N_TEMPLATES, self.n_train)} training pictures without their labels"
        return Plan(self.labels, self.read, self.templates, trials, notes=(*notes, seen))


def with_given(source: Source, drawn: Drawn) -> Drawn:
    """The same, and after it the pictures that were given."""
    if source.given is None:
        return drawn
    given = given_pictures(source.given, drawn.labels[: drawn.n_train])
    first, own = len(drawn.labels), drawn.read

    def read(row: int) -> Signal:
        return own(row) if row < first else given[row - first][1].read()

    labels = [*drawn.labels, *(label for label, _ in given)]
    return replace(drawn, labels=labels, read=read, given=first + np.arange(len(given)))
