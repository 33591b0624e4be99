"""Round shifts, flips, quarter turns, permutations: numbers put elsewhere, none changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups import OperatorStack, apply_forward, make_stack, unitarity_defect
from streamfeat.groups.axes import Axes
from tests import naive

VECTOR = Axes(("entry",), (7,))
MATRIX = Axes(("row", "column"), (3, 5))
SQUARE = Axes(("row", "column"), (4, 4))
COLOUR = Axes(("row", "column", "channel"), (3, 3, 3))
BANDS = Axes(("band", "frame"), (4, 6), (100.0, 200.0, 300.0, 400.0))


def stack_of(axes: Axes, name: str, seed: int = 0, **spec: Any) -> OperatorStack:
    """One factor, all its elements unless told otherwise."""
    return make_stack({"factor": name, "law": "all", **spec}, axes, np.random.default_rng(seed))


def noise(*shape: int) -> NDArray[np.float32]:
    """The same noise at each call."""
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def moved(factor: OperatorStack, t: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every element on one array, in its own shape."""
    out: NDArray[np.float32] = apply_forward(factor, t.reshape(1, -1))[0].reshape(factor.n, *t.shape)
    return out


def test_cyclic_shifts_are_roll() -> None:
    """Down, right, both or along a vector; every step once, exactly."""
    v = noise(7)
    np.testing.assert_array_equal(moved(stack_of(VECTOR, "cyclic_shift", on="entries"), v), naive.cyclic_shifts(v))
    x = noise(3, 5)
    for on, axis, n in (("rows", 0, 3), ("columns", 1, 5)):
        got = moved(stack_of(MATRIX, "cyclic_shift", on=on), x)
        np.testing.assert_array_equal(got, [np.roll(x, k, axis) for k in range(n)])
    both = stack_of(MATRIX, "cyclic_shift", on="both")
    assert both.names == ("down", "right")
    assert both.n == 15
    np.testing.assert_array_equal(moved(both, x)[7], np.roll(x, (1, 2), (0, 1)))


def test_chosen_shifts() -> None:
    """Some steps only, either way, from any law of whole numbers; fractions are refused."""
    v = noise(7)
    some = stack_of(VECTOR, "cyclic_shift", on="entries", law="grid", low=-2, high=2, n=3)
    assert some.parameters.ravel().tolist() == [0, -2, 2]
    np.testing.assert_array_equal(moved(some, v), [v, np.roll(v, -2), np.roll(v, 2)])
    with pytest.raises(ConfigError, match=r"whole number of steps, got 0\.5"):
        stack_of(VECTOR, "cyclic_shift", on="entries", law="grid", low=0, high=1, n=3)


def test_frames_of_a_spectrogram_are_columns() -> None:
    """The second axis, whatever its name."""
    x = noise(4, 6)
    got = moved(stack_of(BANDS, "cyclic_shift", on="columns"), x)
    np.testing.assert_array_equal(got[1], np.roll(x, 1, axis=1))


def test_flips() -> None:
    """Upside down, mirrored, both; a vector backwards."""
    x = noise(3, 5)
    got = moved(stack_of(MATRIX, "flip", on="both"), x)
    np.testing.assert_array_equal(got, [x, np.fliplr(x), np.flipud(x), x[::-1, ::-1]])
    np.testing.assert_array_equal(moved(stack_of(MATRIX, "flip", on="rows"), x)[1], np.flipud(x))
    np.testing.assert_array_equal(moved(stack_of(VECTOR, "flip", on="entries"), noise(7))[1], noise(7)[::-1])


def test_quarter_turns_are_rot90() -> None:
    """Counter-clockwise, colours too."""
    for axes in (SQUARE, COLOUR):
        x = noise(*axes.shape)
        got = moved(stack_of(axes, "quarter_turn"), x)
        np.testing.assert_array_equal(got, [np.rot90(x, k) for k in range(4)])


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), on=st.sampled_from(["rows", "columns", "rows_and_columns", "entries"]))
def test_permutations_are_their_slow_twin(seed: int, on: Any) -> None:
    """Place i takes what was at p_i; rows and columns together are P C P'."""
    C = noise(4, 4)
    factor = stack_of(SQUARE, "permutation", seed, on=on, law="sampled", n=3)
    for places, got in zip(factor.parameters.astype(int), moved(factor, C), strict=True):
        np.testing.assert_array_equal(got, naive.permutation(C, places.tolist(), on))


def test_coulomb_matrices_are_renamed() -> None:
    """P C P' with P the permutation matrix."""
    C = noise(4, 4)
    factor = stack_of(SQUARE, "permutation", on="rows_and_columns")
    assert factor.n == 24
    for places, got in zip(factor.parameters.astype(int), moved(factor, C), strict=True):
        P = np.eye(4, dtype=np.float32)[places]
        np.testing.assert_allclose(got, P @ C @ P.T, atol=1e-7)  # one product by 1 each


@pytest.mark.parametrize(
    ("axes", "spec"),
    [
        (VECTOR, {"factor": "cyclic_shift", "on": "entries"}),
        (MATRIX, {"factor": "cyclic_shift", "on": "both"}),
        (MATRIX, {"factor": "flip", "on": "both"}),
        (COLOUR, {"factor": "quarter_turn"}),
        (MATRIX, {"factor": "permutation", "on": "columns"}),
        (SQUARE, {"factor": "permutation", "on": "rows_and_columns"}),
        (COLOUR, {"factor": "permutation", "on": "rows"}),
    ],
)
def test_nothing_is_lost(axes: Axes, spec: dict[str, Any]) -> None:
    """R'R = I exactly (papers.md 6.10), one number a row, and the group is closed: each element's inverse is in it."""
    factor = make_stack({**spec, "law": "all"}, axes, np.random.default_rng(0))
    np.testing.assert_array_equal(unitarity_defect(factor), np.zeros(factor.n))
    np.testing.assert_array_equal(factor.data, np.ones(factor.n * axes.d))
    x = noise(axes.d)
    out = np.zeros((factor.n, axes.d), np.float32)
    factor.act(x[None], out)
    forward = apply_forward(factor, x[None])[0]
    np.testing.assert_array_equal(np.unique(out, axis=0), np.unique(forward, axis=0))


def test_identity_is_first_and_once() -> None:
    """Sampled permutations begin with the one that moves nothing, unless told otherwise."""
    sampled = stack_of(Axes(("entry",), (50,)), "permutation", on="entries", law="sampled", n=70)
    assert sampled.n == 71
    assert sampled.parameters[0].tolist() == list(range(50))
    assert (np.sort(sampled.parameters, axis=1) == np.arange(50)).all()
    without = stack_of(VECTOR, "permutation", on="entries", law="sampled", n=70, identity=False)
    assert without.n == 70


@pytest.mark.parametrize(
    ("axes", "spec", "message"),
    [
        (MATRIX, {"factor": "quarter_turn"}, "as many rows as columns"),
        (VECTOR, {"factor": "quarter_turn"}, "as many rows as columns"),
        (MATRIX, {"factor": "permutation", "on": "rows_and_columns"}, "as many rows as columns"),
        (VECTOR, {"factor": "flip", "on": "rows"}, "on 'rows' needs two axes.*use on = 'entries'"),
        (MATRIX, {"factor": "permutation", "on": "entries"}, "permutation of 15 entries has 1307674368000 elements"),
        (MATRIX, {"factor": "permutation", "on": "all"}, "one of rows, columns, rows_and_columns, entries"),
        (MATRIX, {"factor": "cyclic_shift"}, "needs 'on'"),
        (MATRIX, {"factor": "flip", "on": "rows", "law": "grid", "low": 0, "high": 2, "n": 3}, "a flip is 0 or 1"),
        (MATRIX, {"factor": "permutation", "on": "rows", "law": "grid", "low": 0, "high": 1, "n": 2}, "once, got"),
    ],
)
def test_impossible_ones_are_refused(axes: Axes, spec: dict[str, Any], message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        make_stack({"law": "all", **spec}, axes, np.random.default_rng(0))
