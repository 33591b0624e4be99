"""RLS of wide features: in blocks and in place, it is the RLS of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.lambdas import MANY_ROWS_GRID
from streamfeat.reproduce import wide
from streamfeat.reproduce.wide import WideRLS, answers
from tests.test_rls import one_against_all, problem


@pytest.mark.parametrize("tile", [4, 7, 1024])
def test_blocks_in_place_are_one_solution(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    """Any tiles and blocks, one lambda after the other, and rows that come later: ridge on what was taken so far."""
    monkeypatch.setattr(wide, "TILE", tile)
    X, codes = problem(60, 19)
    Z = X.astype(np.float32)
    rls = WideRLS(19, int(codes.max()) + 1)
    taken = 0
    for end in (7, 40, 60):
        rls.take(Z[taken:end], codes[taken:end])
        taken = end
        for lam in (0.5, 1e-3, 0.5):
            some = Z[:end].astype(np.float64)
            expected = np.linalg.solve(some.T @ some + end * lam * np.eye(19), some.T @ one_against_all(codes)[:end])
            # condition number below 1e4
            W = rls.weights(lam)
            assert W is not None
            np.testing.assert_allclose(W, expected, atol=1e-9)


def test_lambda_is_chosen_by_rows_that_were_not_taken() -> None:
    """Of the lambdas that can be solved, the one whose answers are right most often, the largest of those."""
    X, codes = problem(90, 12)
    Z = X.astype(np.float32)
    rls = WideRLS(12, int(codes.max()) + 1)
    rls.take(Z[:60], codes[:60])
    lam, accuracy = rls.choose(Z[60:], codes[60:])
    size = float(np.square(Z[:60]).sum()) / 60
    found = {}
    for part in MANY_ROWS_GRID:
        W = rls.weights(part * size)
        assert W is not None
        found[part] = float(np.mean(answers(Z[60:], W) == codes[60:]))
    best = max(part for part, share in found.items() if share == max(found.values()))
    # the size is a sum of float32 squares here
    assert lam == pytest.approx(best * size, rel=1e-5)
    assert accuracy == max(found.values())


def test_what_cannot_be_solved_is_left_out() -> None:
    """A penalty that rounding swallows gives no weights, and choosing passes over it."""
    Z = np.ones((8, 5), np.float32)
    codes = np.arange(8) % 2
    rls = WideRLS(5, 2)
    with pytest.raises(InvalidArgument, match="take some"):
        rls.choose(Z, codes)
    rls.take(Z, codes)
    assert rls.weights(1e-30) is None
    lam, accuracy = rls.choose(Z, codes)
    assert rls.weights(lam) is not None
    assert accuracy == 0.5
