"""Plain numbers as a front end, and what becomes of their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends import make_front_end
from streamfeat.signals.signal import Signal

MATRIX: dict[str, Any] = {"stage": "array", "rows": 3, "columns": 2}
NORM: dict[str, Any] = {"stage": "norm"}
X = np.array([[3.0, 0.0], [0.0, -40.0], [0.5, 1.0]])


def test_numbers_come_as_they_are() -> None:
    """C order of the matrix, over its norm; a vector and a matrix of the same numbers give the same vector."""
    matrix = make_front_end([MATRIX])(Signal("array", X))
    np.testing.assert_array_equal(matrix, (X / np.linalg.norm(X)).ravel().astype(np.float32))
    np.testing.assert_array_equal(make_front_end([{"stage": "array", "rows": 6}])(Signal("array", X.ravel())), matrix)


def test_norm_keeps_the_size_when_told() -> None:
    """none: the numbers; fixed: over one scale for all; unit: norm 1. Zeros stay zeros."""
    none, fixed, unit = (
        make_front_end([MATRIX, {"stage": "norm", **norm}])
        for norm in ({"kind": "none"}, {"kind": "fixed", "scale": 8}, {"kind": "unit"})
    )
    np.testing.assert_array_equal(none(Signal("array", X)), X.ravel().astype(np.float32))
    np.testing.assert_array_equal(fixed(Signal("array", X)), (X.ravel() / 8).astype(np.float32))
    np.testing.assert_array_equal(unit(Signal("array", X)), make_front_end([MATRIX])(Signal("array", X)))
    for front_end in (none, fixed, unit):
        assert not front_end(Signal("array", np.zeros((3, 2)))).any()


def test_unit_norm_is_written_one_way() -> None:
    """With the stage at its default or without it: one canonical spec, so one hash; other kinds are written out."""
    assert make_front_end([MATRIX, {"stage": "norm"}]).spec == make_front_end([MATRIX]).spec
    fixed = make_front_end([MATRIX, {"stage": "norm", "kind": "fixed", "scale": 8}])
    assert fixed.spec[-1] == {"stage": "norm", "kind": "fixed", "scale": 8.0}
    assert make_front_end(fixed.spec).spec == fixed.spec


def test_norm_closes_any_front_end() -> None:
    """A picture may keep its size too."""
    front_end = make_front_end([{"stage": "pixels", "height": 2, "width": 2}, {"stage": "norm", "kind": "none"}])
    np.testing.assert_array_equal(front_end(Signal("image", np.full((2, 2), 255, np.uint8))), np.ones(4, np.float32))


def test_an_array_of_another_shape_is_refused() -> None:
    """By its name, with both shapes; the transposed matrix and the same numbers in a row are other shapes."""
    front_end = make_front_end([MATRIX])
    for wrong in (X.T, X.ravel(), X[:2]):
        with pytest.raises(InvalidArgument, match=r"CH4: .*shape \(3, 2\), got \("):
            front_end(Signal("array", wrong, name="CH4"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([{"stage": "array", "rows": 0}], "rows must be at least 1"),
        ([{"stage": "array", "rows": 2, "columns": -1}], "columns at least 0"),
        ([{"stage": "array", "rows": 10**4, "columns": 10**4}], "at most 10000000 numbers"),
        ([NORM], "cannot be all of it"),
        ([MATRIX, NORM, {"stage": "centre"}], "'norm' closes a front end, got 'centre' after it; put it last"),
        ([NORM, MATRIX], "'norm' closes a front end, got 'array' after it; put it last"),
        ([MATRIX, NORM, NORM], "'norm' closes a front end, got 'norm' after it; put it last"),
        ([MATRIX, {"stage": "norm", "kind": "l1"}], "one of unit, none, fixed, got 'l1'"),
        ([MATRIX, {"stage": "norm", "kind": "fixed", "scale": 0}], "scale must be 1e-6"),
        ([MATRIX, {"stage": "norm", "kind": "none", "scale": 2}], "takes no scale, got scale = 2"),
    ],
)
def test_impossible_stages_are_refused(spec: list[dict[str, Any]], message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        make_front_end(spec)
