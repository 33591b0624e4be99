"""RLS: its weights, its held-out closed forms, its choice of lambda, its stream, its labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.rls import RLS, IllConditioned
from streamfeat.learn.spectrum import Spectrum
from tests import naive_learn as naive

SHAPES = [(12, 5), (5, 12), (8, 8)]  # primal, dual, the border (dual)


def problem(n: int, d: int, n_classes: int = 3, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Rows with a class each; every class is there."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    return rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[codes] + 3.0, codes


def one_against_all(codes: NDArray[np.intp]) -> NDArray[np.float64]:
    Y = np.full((len(codes), int(codes.max()) + 1), -1.0)
    Y[np.arange(len(codes)), codes] = 1.0
    return Y


def repeated_columns() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """30 rows whose last two columns repeat the first two, and one-of-three targets."""
    first = [
        2.040919121,
        0.418098847,
        -0.452649292,
        -2.019986129,
        -0.865213076,
        0.225786613,
        -0.281287418,
        -1.055150551,
        0.481945389,
        0.957758703,
        0.024259565,
        0.545105523,
        -0.182838975,
        1.935088034,
        -0.243558679,
        -0.886459943,
        0.882538967,
        0.091516703,
        -2.828162307,
        -0.95964476,
        0.27644576,
        -0.444767456,
        0.026124834,
        1.405598166,
        0.193815646,
        -0.20552305,
        0.584058311,
        -0.214828911,
        0.229153905,
        0.69012477,
    ]
    second = [
        -2.555665031,
        -0.567769606,
        -0.215597163,
        -0.231932378,
        3.322999517,
        -0.352630794,
        -0.668046346,
        -0.390800977,
        -0.238553607,
        -0.199802129,
        1.545820851,
        -0.505228736,
        0.540525132,
        -0.269620327,
        1.002313601,
        -0.291720232,
        0.580350016,
        0.670104355,
        1.021306818,
        -1.668619843,
        0.700544885,
        -1.07640584,
        -0.052747308,
        0.747407987,
        1.111633205,
        -0.925899574,
        0.582538419,
        -0.782808578,
        -2.493894278,
        0.491368261,
    ]
    column = [int(digit) for digit in "020201221002102221211212122011"]
    return np.array([first, second, first, second]).T, np.eye(3)[column]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("standardise", ["none", "centre"])
def test_weights_are_ridge(n: int, d: int, standardise: str) -> None:
    """W and b minimise (1/n)|Y - XW - b|^2 + lam |W|^2, in the primal and the dual, with and without an intercept."""
    X, codes = problem(n, d)
    rls = RLS(lam=0.3, standardise=standardise).fit(X, codes)
    W, b = naive.ridge(X, one_against_all(codes), n * 0.3, standardise == "centre")
    # float64, condition number below 1e4: the same sums in another order
    np.testing.assert_allclose(rls.coef_, W, atol=1e-10)
    centred = X - rls.scaling_.mean
    np.testing.assert_allclose(rls.decision_function(X), X @ W + b, atol=1e-9)
    np.testing.assert_allclose(centred @ rls.coef_ + rls.intercept_, X @ W + b, atol=1e-9)


def test_primal_and_dual_predict_the_same() -> None:
    """A row more or less than columns changes the route, not the answer: padding with zero columns keeps all scores."""
    X, codes = problem(12, 5)
    padded = np.hstack([X, np.zeros((12, 20))])
    # same system, other order of sums
    np.testing.assert_allclose(
        RLS(0.1).fit(X, codes).decision_function(X), RLS(0.1).fit(padded, codes).decision_function(padded), atol=1e-10
    )


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 100.0])
def test_leaving_out_is_fitting_without(n: int, d: int, intercept: bool, penalty: float) -> None:
    """The closed forms of leave-one-out and leave-one-group-out are what fits without those rows answer."""
    X, codes = problem(n, d)
    Y = one_against_all(codes)
    Z, T = (X - X.mean(axis=0), Y - Y.mean(axis=0)) if intercept else (X, Y)
    spectrum = Spectrum.of(Z, T, intercept)
    groups = np.arange(n) % 4
    # condition number up to 1e5 at the smallest penalty, and twice a difference of sums
    for of_row, numbers in ((np.arange(n), None), (groups, groups)):
        held_out = Y - spectrum.held_out_errors(penalty, numbers)
        np.testing.assert_allclose(held_out, naive.held_out_scores(X, Y, penalty, intercept, list(of_row)), atol=1e-8)


def test_lambda_is_the_best_of_the_table() -> None:
    """The chosen lambda has the highest held-out accuracy, and among those the least squared error."""
    X, codes = problem(60, 20, seed=3)
    rls = RLS("loo").fit(X, codes)
    table = rls.held_out_
    best = np.flatnonzero(table.accuracies == table.accuracies.max())
    assert rls.lam_ == table.lams[best[table.mse.mean(axis=1)[best].argmin()]]
    assert table.accuracy == table.accuracies.max()
    assert table.criterion == "loo"


def test_groups_ask_for_a_larger_lambda_than_rows() -> None:
    """Where rows of a speaker are near copies, leave-one-out takes them for evidence; leave-one-group-out does not."""
    rng = np.random.default_rng(0)
    speaker, codes = np.repeat(np.arange(6), 30), np.tile(np.arange(3), 60)
    own = rng.standard_normal((6, 3, 60))[speaker, codes]  # how this speaker says this word
    X = 0.4 * rng.standard_normal((3, 60))[codes] + own + 0.02 * rng.standard_normal((180, 60))
    by_row, by_group = RLS("loo").fit(X, codes), RLS("logo").fit(X, codes, speaker)
    assert by_row.held_out_.accuracy == 1.0
    assert by_group.held_out_.accuracy < 1.0
    assert by_group.lam_ > by_row.lam_


def test_one_example_a_class_takes_the_default() -> None:
    """With one row a class nothing can be held out: lam is 0.1 x mean squared row norm, and says so."""
    X, _ = problem(4, 6)
    rls = RLS("loo").fit(X, [0, 1, 2, 3])
    centred = X - X.mean(axis=0)
    assert rls.lam_ == pytest.approx(0.1 * np.mean(np.sum(centred**2, axis=1)), rel=1e-12)  # sums reordered
    assert rls.held_out_.criterion == "default"
    assert np.isnan(rls.held_out_.accuracy)
    assert rls.predict(X) == [0, 1, 2, 3]


def test_rows_that_nobody_could_answer_do_not_count() -> None:
    """A class that only one speaker says cannot be held out; it neither helps nor harms a lambda."""
    X, codes = problem(30, 8, n_classes=3, seed=5)
    speaker = np.where(codes == 2, 0, np.arange(30) % 5)
    rls = RLS("logo").fit(X, codes, speaker)
    n_counted = int(np.sum(codes != 2))
    np.testing.assert_allclose((rls.held_out_.accuracies * n_counted) % 1, 0, atol=1e-9)  # parts of n_counted
    assert rls.held_out_.accuracy > 0.5


def test_per_class_lambdas() -> None:
    """Each class may have its own lambda, that of its least held-out squared error, and its own weights by it."""
    X, codes = problem(60, 30, seed=7)
    X[:, 0] += 30.0 * (codes == 0)
    rls = RLS("loo", per_class=True).fit(X, codes)
    assert isinstance(rls.lam_, np.ndarray)
    np.testing.assert_array_equal(rls.lam_, rls.held_out_.lams[rls.held_out_.mse.argmin(axis=0)])
    assert len(set(rls.lam_)) > 1
    for column, lam in enumerate(rls.lam_):
        alone = RLS(float(lam)).fit(X, codes)
        np.testing.assert_allclose(rls.coef_[:, column], alone.coef_[:, column], rtol=1e-9)  # same solve, one column


def test_z_score_leaves_constant_columns_out() -> None:
    """A constant column, also one whose mean rounds, has no part in scores, even when it moves later."""
    X, codes = problem(20, 4)
    padded = np.hstack([X, np.full((20, 1), 0.1), np.zeros((20, 1))])
    rls = RLS(0.1, standardise="z-score", unit_norm=True).fit(padded, codes)
    moved = padded.copy()
    moved[:, 4:] = 1e6
    np.testing.assert_array_equal(rls.decision_function(moved), rls.decision_function(padded))
    assert rls.score(padded, codes) == RLS(0.1, standardise="z-score", unit_norm=True).fit(X, codes).score(X, codes)


def test_scores_do_not_depend_on_the_batch() -> None:
    """A row alone has bit for bit the scores it has among others, with every scaling."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 400, (37, 501)).astype(np.uint16)
    rls = RLS(standardise="z-score", unit_norm=True).fit(X, np.arange(37) % 4)
    together = rls.decision_function(X)
    alone = np.vstack([rls.decision_function(X[i : i + 1]) for i in range(37)])
    np.testing.assert_array_equal(alone, together)


def test_number_types_agree() -> None:
    """uint16 counts give exactly the model of the same numbers as float32 or float64."""
    X = np.random.default_rng(0).integers(0, 400, (20, 7))
    codes = np.arange(20) % 2
    expected = RLS(0.1).fit(X.astype(np.float64), codes).coef_
    for dtype in (np.uint16, np.float32):
        np.testing.assert_array_equal(RLS(0.1).fit(X.astype(dtype), codes).coef_, expected)


def test_lambda_counts_per_row() -> None:
    """The same rows five times over at the same lam give the same weights; at lam / 5, those of the penalty in all."""
    X, Y = repeated_columns()
    codes = Y.argmax(axis=1)
    once = RLS(0.1, standardise="none").fit(X, codes)
    five = np.tile(X, (5, 1)), np.tile(codes, 5)
    np.testing.assert_allclose(RLS(0.1, standardise="none").fit(*five).coef_, once.coef_, atol=1e-12)  # sums x 5
    in_all = RLS(0.1 / 5, standardise="none").fit(*five).coef_
    expected, _ = naive.ridge(five[0], one_against_all(five[1]), 0.1 * 30, intercept=False)
    np.testing.assert_allclose(in_all, expected, atol=1e-12)


RIDGE_OF_30_ROWS = [[0.0625179, 0.0149227, -0.0744881], [0.0214188, -0.0138975, -0.0219152]]
RIDGE_OF_150_ROWS = [[0.0626108, 0.0149403, -0.0745979], [0.0214564, -0.0139087, -0.0219563]]


@pytest.mark.parametrize(("n_times", "expected"), [(1, RIDGE_OF_30_ROWS), (5, RIDGE_OF_150_ROWS)])
def test_ridge_on_repeated_columns(n_times: int, expected: list[list[float]]) -> None:
    """At a penalty of 0.1 in all (lam = 0.1 / n), repeated columns share the weight of ridge; known numbers."""
    X, Y = (np.tile(rows, (n_times, 1)) for rows in repeated_columns())
    W = Spectrum.of(X, Y, intercept=False).weights(0.1)
    np.testing.assert_allclose(W, expected * 2, atol=1e-6)  # given to seven places
    # the same from class codes, row by row: columns of ridge on 0/1 targets sum to that on ones, so (W + ones) / 2
    stream = RLS(0.1 / len(X), standardise="none")
    for row, target in zip(X, Y, strict=True):
        stream.partial_fit(row[None, :], [int(target.argmax())])
    stream.predict(X[:1])
    ones = -stream.coef_.sum(axis=1, keepdims=True)  # of three classes: 2 ones - 3 ones
    np.testing.assert_allclose((stream.coef_ + ones) / 2, expected * 2, atol=1e-6)


def test_tiny_lambda_on_repeated_columns() -> None:
    """At 1e-8 in all the equal columns still have equal weights, and predictions are those of least squares."""
    X, Y = repeated_columns()
    W = Spectrum.of(X, Y, intercept=False).weights(1e-8)
    np.testing.assert_allclose(W[:2], W[2:], atol=1e-3)  # a column's share is known to eps / 1e-8
    least_squares = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(X @ W, least_squares, atol=1e-4)


def test_ill_conditioned_is_said() -> None:
    """A lambda below rounding is solved, with a warning that tells the condition number."""
    X, codes = problem(20, 4)
    X[:, 3] = X[:, 2]
    with pytest.warns(IllConditioned, match=r"condition number .*e\+\d+.*raise lam"):
        RLS(1e-16, standardise="none").fit(X, codes)


def test_silent_rows_are_finite() -> None:
    """Rows of zeros, even all of them, give finite scores."""
    X, codes = problem(20, 4)
    X[:10] = 0
    assert np.isfinite(RLS(unit_norm=True, standardise="z-score").fit(X, codes).decision_function(X)).all()
    zeros = RLS("loo").fit(np.zeros((6, 3)), [0, 0, 0, 0, 1, 1])
    assert zeros.predict(np.zeros((1, 3))) == [0]  # the larger class


# labels and refusals


@pytest.mark.parametrize("labels", [[3, -1, 3, 2**40], ["b", "01", "b", "1"]])
def test_labels_come_back_as_given(labels: list[Any]) -> None:
    """int stays int, text stays text, classes in order; numpy's own labels become plain ones."""
    X = np.eye(4)
    for given_as in (labels, np.array(labels)):
        rls = RLS(1e-3).fit(X, given_as)
        assert rls.predict(X) == labels
        assert {type(label) for label in rls.predict(X)} == {type(labels[0])}
        assert rls.classes_ == sorted(set(labels))


@pytest.mark.parametrize("bad", [1.0, True, None, "", b"1", 2**64, np.float32(1), ("1",)])
def test_what_is_no_label_is_refused(bad: Any) -> None:
    """A label is an int of 64 bits or a text; anything else is named."""
    with pytest.raises(InvalidArgument, match="label"):
        RLS(0.1).fit(np.eye(2), [0, bad])


def test_int_and_text_labels_do_not_mix() -> None:
    """1 and "1" are refused together, both named."""
    with pytest.raises(InvalidArgument, match="1 and '1'"):
        RLS(0.1).fit(np.eye(2), [1, "1"])


@pytest.mark.parametrize("lam", [0, -1.0, float("nan"), float("inf"), True, "gcv", None])
def test_impossible_lambda_is_refused(lam: Any) -> None:
    """lam is a number over zero or a known name."""
    with pytest.raises(InvalidArgument, match="lam must be"):
        RLS(lam)


def test_what_is_missing_is_named() -> None:
    """One class, no groups, one group, nothing fitted, another width: each says what was needed."""
    with pytest.raises(InvalidArgument, match="two classes"):
        RLS(0.1).fit(np.eye(2), [1, 1])
    for groups in (None, ["ann", "ann"]):
        with pytest.raises(InvalidArgument, match="needs 2 groups"):
            RLS("logo").fit(np.eye(2), [0, 1], groups)
    with pytest.raises(InvalidArgument, match="call fit"):
        RLS().predict(np.eye(2))
    with pytest.raises(InvalidArgument, match=r"2 columns.*got 3"):
        RLS(0.1).fit(np.eye(2), [0, 1]).predict(np.eye(3))
    with pytest.raises(InvalidArgument, match="standardise"):
        RLS(standardise="zscore")


def test_state_comes_back_bit_equal() -> None:
    """from_state(state()) predicts bit for bit the same and remembers how lambda was chosen."""
    X, codes = problem(30, 8)
    rls = RLS("loo", standardise="z-score", unit_norm=True, per_class=True).fit(X, codes)
    back = RLS.from_state(*rls.state())
    np.testing.assert_array_equal(back.decision_function(X), rls.decision_function(X))
    np.testing.assert_array_equal(back.lam_, rls.lam_)
    assert back.held_out_.accuracy == rls.held_out_.accuracy


def test_no_warnings_on_ordinary_data() -> None:
    """A usual fit warns of nothing."""
    X, codes = problem(60, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RLS("loo").fit(X, codes)
