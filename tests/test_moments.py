"""Moments, through RLS.partial_fit and merge: any pieces in any order are one fit on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument
from streamfeat.learn.moments import Moments
from streamfeat.learn.rls import RLS
from tests.test_rls import problem


@settings(deadline=None, max_examples=25)
@given(
    cuts=st.lists(st.integers(0, 40), max_size=6),
    seed=st.integers(0, 5),
    standardise=st.sampled_from(["none", "centre", "z-score"]),
)
def test_stream_is_batch(cuts: list[int], seed: int, standardise: str) -> None:
    """Any cutting into batches, some empty, in any order, gives the weights of one fit on all rows."""
    X, codes = problem(40, 6, seed=seed)
    order = np.random.default_rng(seed).permutation(40)
    stream = RLS(0.05, standardise=standardise)
    for part in np.split(order, sorted(cuts)):
        stream.partial_fit(X[part], codes[part])
    batch = RLS(0.05, standardise=standardise).fit(X, codes)
    # float64, condition number below 1e4
    np.testing.assert_allclose(stream.decision_function(X), batch.decision_function(X), atol=1e-9)
    assert stream.classes_ == batch.classes_


def test_merging_two_streams_is_one_stream() -> None:
    """Two halves learned apart and merged are the whole, also when each has a class of its own."""
    X, codes = problem(40, 6)
    first, second = (codes != 2) & (np.arange(40) < 30), (codes == 2) | (np.arange(40) >= 30)
    merged = (
        RLS("default").partial_fit(X[first], codes[first]).merge(RLS("default").partial_fit(X[second], codes[second]))
    )
    # condition number below 1e4
    np.testing.assert_allclose(
        merged.decision_function(X), RLS("default").fit(X, codes).decision_function(X), atol=1e-9
    )


def test_far_from_zero_the_stream_loses_nothing() -> None:
    """Columns a million standard deviations from zero: sums of squares would lose all digits, scatters do not."""
    X, codes = problem(60, 5)
    X += 1e6
    stream = RLS(0.05)
    for row, code in zip(X, codes, strict=True):
        stream.partial_fit(row[None, :], [code])
    # rows are known to eps x 1e6 = 2e-10
    np.testing.assert_allclose(stream.decision_function(X), RLS(0.05).fit(X, codes).decision_function(X), atol=1e-6)


def test_late_class_is_as_if_always_there() -> None:
    """A class that comes with the last row has the weights it would have had from the start."""
    X, _ = problem(21, 4)
    labels = ["x", "y"] * 10 + ["z"]
    stream = RLS(0.1, standardise="none").partial_fit(X[:20], labels[:20])
    stream.partial_fit(X[20:], labels[20:])
    # the row of the late class among 21, condition number about 1e2
    np.testing.assert_allclose(
        stream.decision_function(X), RLS(0.1, standardise="none").fit(X, labels).decision_function(X), atol=1e-10
    )
    assert stream.classes_ == ["x", "y", "z"]


def test_many_silent_rows_first() -> None:
    """Hundreds of thousands of zero rows leave everything finite, and learning goes on."""
    X, codes = problem(30, 4)
    stream = RLS(1e-6)
    for _ in range(8):
        stream.partial_fit(np.zeros((50_000, 4), dtype=np.uint16), np.arange(50_000) % 3)
    stream.partial_fit(X, codes)
    assert np.isfinite(stream.decision_function(X)).all()


@pytest.mark.parametrize(
    ("row", "label", "match"),
    [
        ([1.0, 2.0, 3.0], 0, "4 columns.*got 3"),
        ([1.0, float("nan"), 0.0, 0.0], 0, "row 0, column 1"),
        ([1.0, 0.0, 0.0, 0.0], "0", "all ints or all texts"),
        ([1.0, 0.0, 0.0, 0.0], None, "got None"),
    ],
)
def test_refused_rows_leave_the_stream_as_it_was(row: list[float], label: Any, match: str) -> None:
    """A row of another width, a NaN, a label of another type: refused by name, sums and weights bit-equal to before."""
    X, codes = problem(12, 4)
    stream = RLS(0.1).partial_fit(X, codes)
    before = stream.decision_function(X)
    with pytest.raises(InvalidArgument, match=match):
        stream.partial_fit([row], [label])
    np.testing.assert_array_equal(stream.decision_function(X), before)
    np.testing.assert_array_equal(stream.partial_fit(X[:0], []).decision_function(X), before)


def test_stream_cannot_choose_lambda() -> None:
    """partial_fit says why it needs a number."""
    with pytest.raises(InvalidArgument, match="keeps no rows to hold out"):
        RLS("loo").partial_fit([[1.0]], [0])
    with pytest.raises(InvalidArgument, match="fitted at once"):
        RLS(0.1).fit([[1.0], [2.0]], [0, 1]).partial_fit([[1.0]], [0])


@pytest.mark.parametrize("centred", [True, False])
def test_rows_that_leave_take_their_sums_along(centred: bool) -> None:
    """Weighted rows added in blocks and removed in others: sums, means and weight are those of the rows left."""
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((30, 4)) + 5.0, rng.standard_normal((30, 2)), rng.uniform(0.5, 2.0, 30)
    moments, left = Moments(centred), Moments(centred)
    for rows in (slice(0, 1), slice(1, 12), slice(12, 30)):
        U, V = moments.add(X[rows], Y[rows], w[rows])
        assert len(U) == len(V) <= rows.stop - rows.start + 1
    for rows in (slice(0, 9), slice(9, 10)):
        moments.remove(X[rows], Y[rows], w[rows], *moments.leaving(X[rows], Y[rows], w[rows]))
    left.add(X[10:], Y[10:], w[10:])
    assert moments.n == left.n
    assert moments.weight == pytest.approx(left.weight)
    for name in ("mean", "target_mean", "scatter", "cross"):
        # differences of sums of up to 30 x 25 x 2
        np.testing.assert_allclose(getattr(moments, name), getattr(left, name), atol=1e-11)


@pytest.mark.parametrize("standardise", ["none", "centre", "z-score"])
def test_weighted_stream_is_a_weighted_batch(standardise: str) -> None:
    """Pieces with weights, and merged streams of other classes, are one weighted fit."""
    X, codes = problem(40, 6)
    w = np.linspace(0.2, 3.0, 40)
    first, second = RLS(0.05, standardise=standardise), RLS(0.05, standardise=standardise)
    first.partial_fit(X[:3], codes[:3], sample_weight=w[:3]).partial_fit(X[3:20], codes[3:20], sample_weight=w[3:20])
    second.partial_fit(X[20:], codes[20:], sample_weight=w[20:])
    batch = RLS(0.05, standardise=standardise).fit(X, codes, sample_weight=w)
    merged = first.merge(second)
    # condition number below 1e4
    np.testing.assert_allclose(merged.decision_function(X), batch.decision_function(X), atol=1e-9)
    assert merged.n_items_ == 40


def test_streams_that_do_not_fit_are_not_merged() -> None:
    """Another width, another kind of label, another intercept: refused, and the first goes on as it was."""
    X, codes = problem(12, 4)
    stream = RLS(0.1).partial_fit(X, codes)
    before = stream.decision_function(X)
    others = [
        RLS(0.1).partial_fit(X[:, :3], codes + 5),
        RLS(0.1).partial_fit(X, [f"c{code}" for code in codes]),
        RLS(0.1, standardise="none").partial_fit(X, codes + 5),
    ]
    for other in others:
        with pytest.raises(InvalidArgument, match=r"cannot merge|all ints or all texts"):
            stream.merge(other)
    np.testing.assert_array_equal(stream.decision_function(X), before)
    assert stream.partial_fit(X, codes).classes_ == [0, 1, 2]
    with pytest.raises(InvalidArgument, match="sample_weight"):
        RLS(0.1, balance=True).partial_fit(X, codes)
