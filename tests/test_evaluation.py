"""leave_one_group_out: what refits without the group would answer, and nothing of the group in its model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.evaluation import leave_one_group_out
from streamfeat.learn.lambdas import gurls_grid
from tests import naive_learn as naive
from tests.test_rls import problem


@pytest.mark.parametrize("standardise", ["none", "centre"])
@pytest.mark.parametrize("d", [10, 50])
@pytest.mark.parametrize("named", [True, False])
def test_nested_leave_one_group_out_is_refitting(standardise: str, d: int, named: bool) -> None:
    """Answers and lambdas by downdates are those of refits on the other groups, lambda chosen among them."""
    X, codes = problem(36, d, seed=2)
    groups = np.arange(36) // 9
    relative = np.logspace(-4, 0, 5)
    grid = "gurls" if named else relative
    scores = leave_one_group_out(X, codes, groups, standardise=standardise, grid=grid)
    Z = X - X.mean(axis=0) if standardise == "centre" else X
    penalties = 36 * np.mean(np.sum(Z**2, axis=1)) * relative[::-1]
    if named:
        penalties = 36 * gurls_grid(np.linalg.svd(Z, compute_uv=False).astype(np.float64) ** 2, 36)[::-1]
    chosen, answers = naive.nested_leave_one_group_out(X, codes, list(groups), list(penalties), standardise == "centre")
    assert scores.predicted == list(answers)
    assert scores.lam == pytest.approx(
        {group: penalty / 36 for group, penalty in chosen.items()}, rel=1e-9
    )  # eigenvalues by another route
    assert scores.mean_accuracy == pytest.approx(np.mean(answers == codes))  # groups are of one size


def test_held_out_rows_have_no_say() -> None:
    """What the held-out group's training rows look like changes nothing about its own answers' model."""
    X, codes = problem(40, 12, seed=4)
    groups, test = np.arange(40) // 10, np.arange(40) % 10 >= 5
    spoiled = X.copy()
    spoiled[(groups == 0) & ~test] = 1e3 * np.random.default_rng(0).standard_normal((5, 12))
    for settings_ in ({"standardise": "centre"}, {"standardise": "z-score", "unit_norm": True}):
        fixed: dict[str, Any] = {**settings_, "train_mask": ~test, "test_mask": test, "grid": [1e-2]}
        if settings_["standardise"] == "centre":
            fixed["grid"] = [1e-9]  # relative to all rows' norm, which the spoiled ones raise
        clean, dirty = (leave_one_group_out(rows, codes, groups, **fixed) for rows in (X, spoiled))
        assert [clean.predicted[i] for i in range(10)] == [dirty.predicted[i] for i in range(10)]


def test_masks_keep_takes_apart() -> None:
    """Only rows of test_mask are answered, and only rows of train_mask are trained on."""
    X, codes = problem(60, 10, seed=6)
    groups, take = np.arange(60) // 15, np.arange(60) % 15 // 3
    scores = leave_one_group_out(X, codes, groups, train_mask=take < 2, test_mask=take >= 3)
    assert [label is not None for label in scores.predicted] == list(take >= 3)
    assert scores.n_test == dict.fromkeys(range(4), 6)
    broken = X.copy()
    broken[take == 2] = 1e9
    again = leave_one_group_out(broken, codes, groups, train_mask=take < 2, test_mask=take >= 3)
    assert again.predicted == scores.predicted


def test_leave_one_group_out_needs_three_groups() -> None:
    """One to test and two to choose lambda with."""
    with pytest.raises(InvalidArgument, match="needs 3 groups"):
        leave_one_group_out(np.eye(4), [0, 1, 0, 1], [0, 0, 1, 1])
    with pytest.raises(InvalidArgument, match=r"group must be .* got None"):
        leave_one_group_out(np.eye(4), [0, 1, 0, 1], [0, 1, 2, None])
    with pytest.raises(InvalidArgument, match="train_mask must be 4 booleans"):
        leave_one_group_out(np.eye(4), [0, 1, 0, 1], [0, 1, 2, 3], train_mask=[1, 1, 1, 1])
