"""RLS of wide features: in blocks and in place, it is the RLS of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument
from streamfeat.learn.lambdas import MANY_ROWS_GRID
from streamfeat.reproduce import wide
from streamfeat.reproduce.wide import WideRLS, answers, summit
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
    """Of the lambdas that can be solved, one whose answers are right most often."""
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
    assert accuracy == max(found.values())
    # the size is a sum of float32 squares here
    (part,) = [part for part in found if lam == pytest.approx(part * size, rel=1e-5)]
    assert found[part] == accuracy


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30, unique=True), st.data())
def test_a_summit_is_found_by_few_questions(values: list[float], data: st.DataObject) -> None:
    """Wherever it is: values that rise and then fall, in any steps."""
    values = sorted(values)
    top = data.draw(st.integers(0, len(values) - 1))
    row = [*values[:top], values[-1], *reversed(values[top:-1])]
    asked: list[int] = []

    def value(k: int) -> float:
        asked.append(k)
        return row[k]

    assert summit(value, len(row)) == (top, values[-1])
    # every fourth, two at half that distance, two beside
    assert len(asked) == len(set(asked)) <= -(-len(row) // 4) + 4


def test_of_equal_summits_the_later_is_taken() -> None:
    """The larger lambda, which is the safer one."""
    assert summit([0.1, 0.5, 0.5, 0.2].__getitem__, 4) == (2, 0.5)


@pytest.mark.parametrize("tile", [1, 2, 1024])
def test_what_cannot_be_solved_is_left_out(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    """A penalty that rounding swallows gives no weights, in whichever tile, and choosing passes over it."""
    monkeypatch.setattr(wide, "TILE", tile)
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
