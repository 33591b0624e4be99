"""Folds: who is held out, and who can be judged."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.folds import Folds
from streamfeat.learn.rls import RLS
from tests import naive_learn as naive
from tests.test_rls import one_against_all, problem


@pytest.mark.parametrize("d", [5, 40])
def test_holding_out_is_fitting_without(d: int) -> None:
    """The hold-out's table is that of fits on the other rows, the penalty n lam held fixed."""
    X, codes = problem(24, d)
    held = np.arange(24) % 4 == 0
    rls = RLS("holdout", grid=[1e-2, 1.0]).fit(X, codes, holdout=held)
    for lam, accuracy, mse in zip(rls.held_out_.lams, rls.held_out_.accuracies, rls.held_out_.mse, strict=True):
        W, b = naive.ridge(X[~held], one_against_all(codes[~held]), 24 * lam, intercept=True)
        scores = X[held] @ W + b
        assert accuracy == np.mean(scores.argmax(axis=1) == codes[held])
        # condition number below 1e4
        np.testing.assert_allclose(mse, np.mean((one_against_all(codes)[held] - scores) ** 2, axis=0), rtol=1e-8)
    assert rls.held_out_.criterion == "holdout"


def test_without_a_mask_every_fifth_row_of_a_class_or_fifth_group_is_held_out() -> None:
    """A class of fewer than five rows stays in; groups are held out whole."""
    codes = np.array([0] * 11 + [1] * 4)
    rows = Folds.of("holdout", 15, codes, None, None)
    assert rows.of_row is not None
    assert list(np.flatnonzero(rows.of_row == 0)) == [4, 9]
    assert list(np.flatnonzero(rows.judged(15, codes))) == [4, 9]
    groups = Folds.of("holdout", 15, codes, np.arange(15) // 2, None)
    assert groups.of_row is not None
    assert list(np.flatnonzero(groups.of_row == 0)) == [8, 9]
    few = Folds.of("holdout", 15, codes, np.arange(15) // 5, None)
    assert few.of_row is not None
    assert list(np.flatnonzero(few.of_row == 0)) == [4, 9]


def test_a_class_held_out_whole_is_not_judged() -> None:
    """Rows of a class that nobody else has cannot choose a lambda; where there are no others, the default is used."""
    X, codes = problem(12, 4)
    held = codes == 2
    assert not Folds.of("holdout", 12, codes, None, held).judged(12, codes).any()
    assert RLS("holdout").fit(X, codes, holdout=held).held_out_.criterion == "default"
    assert RLS("holdout").fit(X[:6], codes[:6]).held_out_.criterion == "default"


def test_what_cannot_be_held_out_is_said() -> None:
    """A mask for another lambda, of another length, of all rows or of none."""
    X, codes = problem(6, 4)
    with pytest.raises(InvalidArgument, match='for lam="holdout"'):
        RLS("loo").fit(X, codes, holdout=codes == 0)
    for mask in (np.ones(6, bool), np.zeros(6, bool), np.ones(5, bool), np.ones(6)):
        with pytest.raises(InvalidArgument, match="holdout must"):
            RLS("holdout").fit(X, codes, holdout=mask)
