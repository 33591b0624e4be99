"""Leave-one-group-out evaluation: how well speakers are understood that were not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_labels, group_numbers, row_mask
from streamfeat.learn.classes import code, decode, need_classes, one_against_all
from streamfeat.learn.folds import has_example_elsewhere, need_groups
from streamfeat.learn.lambdas import RELATIVE_DEFAULT, LambdaChoice
from streamfeat.learn.rls import RLS
from streamfeat.learn.scaling import Scaling, check_standardise
from streamfeat.learn.spectrum import Spectrum

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GroupScores:
    """How each held-out group was answered by a model that had never met it.

    Attributes
    ----------
    accuracy, lam, n_test : dict
        By group, for the groups that have test rows.
    predicted : list of labels (n,)
        None where a row was not tested.
    """

    accuracy: dict[Label, float]
    lam: dict[Label, float]
    n_test: dict[Label, int]
    predicted: list[Label | None]

    @property
    def mean_accuracy(self) -> float:
        """Mean over groups, each weighing the same."""
        return float(np.mean(list(self.accuracy.values())))


def leave_one_group_out(
    X: ArrayLike,
    y: Sequence[object] | NDArray[Any],
    groups: Sequence[object] | NDArray[Any],
    *,
    standardise: str = "centre",
    unit_norm: bool = False,
    train_mask: ArrayLike | None = None,
    test_mask: ArrayLike | None = None,
    grid: str | ArrayLike = "relative",
) -> GroupScores:
    """Refit RLS without each group in turn and test on that group; lambda by leave-one-group-out among the others.

    Nested and honest: nothing of the held-out group reaches its model. The training rows are decomposed once; for every
    candidate penalty p = n lam (n: all training rows) there is one residual matrix R (`spectrum`), and rows leave it by
    blocks:

        without group o:            r = R Y - R_:o R_oo^-1 (R Y)_o,        alpha = r / p
        then also without group b:  e_b = (R_bb - R_bo R_oo^-1 R_ob)^-1 r_b

    Column means cancel in this, but scales and unit norms would be the held-out group's too: with "z-score" or
    `unit_norm` each group is fitted anew (`RLS(lam="logo")`).

    Parameters
    ----------
    X : array_like (n, D); y : n labels; groups : n names, three or more different ones among training rows
    standardise, unit_norm
        As for `RLS`.
    train_mask, test_mask : array_like of bool (n,), optional
        Rows that may be trained on or tested (few takes a speaker); default all.
    grid : "relative", "gurls" or array_like (L,)
        Candidates for lambda, as for `RLS`.

    Returns
    -------
    GroupScores
    """
    trial = _Trial.of(check_features(X), y, groups, train_mask, test_mask)
    choice = LambdaChoice.of("logo", grid, "accuracy", False)
    if check_standardise(standardise) == "z-score" or unit_norm:
        chosen = trial.refit_each(RLS("logo", standardise=standardise, unit_norm=unit_norm, grid=grid))
    else:
        chosen = trial.downdate_each(choice, intercept=standardise != "none")
    return trial.scores(chosen)


@dataclass(frozen=True)
class _Trial:
    """The rows, who may be trained on and tested, and what was answered so far."""

    rows: NDArray[Any]
    labels: list[Label]
    groups: NDArray[np.intp]
    names: list[Label]
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    predicted: list[Label | None]

    @classmethod
    def of(
        cls,
        rows: NDArray[Any],
        y: Sequence[object] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any],
        train_mask: ArrayLike | None,
        test_mask: ArrayLike | None,
    ) -> _Trial:
        n = len(rows)
        numbers, names = group_numbers(groups, n)
        train, test = row_mask(train_mask, n, "train_mask"), row_mask(test_mask, n, "test_mask")
        if not train.any() or not test.any():
            raise InvalidArgument("the masks leave no row to train on, or none to test")
        need_groups(np.unique(numbers[train], return_inverse=True)[1], at_least=3)
        return cls(rows, check_labels(y, n), numbers, names, train, test, [None] * n)

    def tested(self) -> list[int]:
        """Groups with rows to test."""
        return [int(group) for group in np.unique(self.groups[self.test])]

    def refit_each(self, rls: RLS) -> dict[int, float]:
        """Predict each group after a fit on the others; the lambda of each group."""
        chosen = {}
        for group in self.tested():
            kept = np.flatnonzero(self.train & (self.groups != group))
            rls.fit(self.rows[kept], [self.labels[i] for i in kept], self.groups[kept])
            held = np.flatnonzero(self.test & (self.groups == group))
            self.answer(held, rls.predict(self.rows[held]))
            chosen[group] = float(rls.lam_)
        return chosen

    def downdate_each(self, choice: LambdaChoice, intercept: bool) -> dict[int, float]:
        """Predict each group from one inverse a penalty; the lambda of each group."""
        trained = [self.labels[i] for i in np.flatnonzero(self.train)]
        classes = need_classes(trained)
        codes = code(trained, classes)
        Z = Scaling.of_rows(self.rows[self.train], "centre" if intercept else "none").apply(self.rows)
        downdates = _Downdates(Z[self.train], codes, self.groups[self.train], intercept)
        cross = Z[self.test] @ Z[self.train].T
        best: dict[int, tuple[tuple[float, float], float, list[Label]]] = {}
        for lam in choice.candidates(downdates.spectrum)[::-1]:
            downdates.solve(len(trained) * lam)
            for group in self.tested():
                worth, alpha, shift = downdates.without(group)
                if group not in best or worth > best[group][0]:
                    scores = cross[self.groups[self.test] == group] @ alpha + shift
                    best[group] = worth, float(lam), decode(scores, classes)
        for group, (_, _, answers) in best.items():
            self.answer(np.flatnonzero(self.test & (self.groups == group)), answers)
        return {group: lam for group, (_, lam, _) in best.items()}

    def answer(self, held: NDArray[np.intp], labels: list[Label]) -> None:
        for row, label in zip(held, labels, strict=True):
            self.predicted[row] = label

    def scores(self, chosen: dict[int, float]) -> GroupScores:
        accuracy: dict[Label, float] = {}
        n_test: dict[Label, int] = {}
        for group in chosen:
            held = np.flatnonzero(self.test & (self.groups == group))
            n_test[self.names[group]] = len(held)
            accuracy[self.names[group]] = float(np.mean([self.predicted[i] == self.labels[i] for i in held]))
        lam = {self.names[group]: value for group, value in chosen.items()}
        return GroupScores(accuracy, lam, n_test, self.predicted)


class _Downdates:
    """One decomposition, one residual matrix a penalty, and groups leaving it by blocks."""

    def __init__(self, Z: Floats, codes: NDArray[np.intp], groups: NDArray[np.intp], intercept: bool) -> None:
        self.codes, self.groups = codes, groups
        self.Y = one_against_all(codes, int(codes.max()) + 1)
        self.target_mean = self.Y.mean(axis=0) if intercept else np.zeros(self.Y.shape[1])
        self.spectrum = Spectrum.of(Z, self.Y - self.target_mean, intercept)

    def solve(self, penalty: float) -> None:
        """R and R Y for one penalty; `without` answers for it."""
        self.penalty = penalty
        self.R = self.spectrum.residual_matrix(penalty)
        self.RY = self.R @ self.spectrum.Y

    def without(self, out: int) -> tuple[tuple[float, float], Floats, Floats]:
        """The model without group `out`: its worth on the other groups, its alpha (n, C) and intercept (C,)."""
        R, n = self.R, len(self.R)
        o = np.flatnonzero(self.groups == out)
        left = np.flatnonzero(self.groups != out)
        solved = np.linalg.solve(R[np.ix_(o, o)], np.hstack([R[o], self.RY[o]]))
        from_R, from_RY = solved[:, :n], solved[:, n:]
        residual = self.RY - R[:, o] @ from_RY
        residual[o] = 0.0
        errors = np.zeros_like(residual)
        for other in np.unique(self.groups[left]):
            b = np.flatnonzero(self.groups == other)
            block = R[np.ix_(b, b)] - R[np.ix_(b, o)] @ from_R[:, b]
            errors[b] = np.linalg.solve(block, residual[b])
        intercept = self.target_mean - (from_RY.sum(axis=0) / n if self.spectrum.intercept else 0.0)
        return self._worth(errors, left), residual / self.penalty, intercept

    def _worth(self, errors: Floats, left: NDArray[np.intp]) -> tuple[float, float]:
        """Accuracy, then less squared error; where no row can judge, nearness to the default lambda."""
        judged = left[has_example_elsewhere(self.codes[left], self.groups[left])]
        if not len(judged):
            relative = self.penalty / (len(self.R) * self.spectrum.mean_square)
            return 0.0, -abs(float(np.log(relative / RELATIVE_DEFAULT)))
        hits = (self.Y - errors)[judged].argmax(axis=1) == self.codes[judged]
        return float(hits.mean()), -float(np.square(errors[judged]).mean())
