"""verify: every pair once, ties together, rates as their definition reads."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument
from streamfeat.learn import pairs, verification
from streamfeat.learn.verification import verify, verify_listed
from tests import naive_verification as naive

scores = st.lists(st.integers(0, 6), min_size=1, max_size=12)


@settings(deadline=None)
@given(genuine=scores, impostor=scores, per_mille=st.integers(0, 1000))
def test_rates_are_those_of_every_threshold(genuine: list[int], impostor: list[int], per_mille: int) -> None:
    """Any scores with any ties: the best rate among all thresholds within the FAR, and the diagonal's crossing."""
    same, other = (np.sort(np.array(side, dtype=np.float64)) for side in (genuine, impostor))
    expected = naive.verification_rate(genuine, impostor, Fraction(per_mille, 1000))
    assert verification.verification_rate(same, other, per_mille / 1000) == pytest.approx(float(expected), abs=1e-12)
    eer = float(naive.equal_error_rate(genuine, impostor))
    assert verification.equal_error_rate(same, other) == pytest.approx(eer, abs=1e-12)


@pytest.mark.parametrize("n", [7, 40])
def test_all_pairs_are_scored_once(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and rates of brute force over pairs, whatever the size of a block."""
    rng = np.random.default_rng(n)
    labels = [f"s{i}" for i in rng.integers(0, 4, n)]
    X = rng.standard_normal((n, 5)) + np.array([place_of(label) for label in labels])
    genuine, impostor = naive.all_pairs(X.tolist(), labels)
    fars = [0.0, 0.01, 0.1, 0.5, 1.0]
    for block in (4, 7, 1024):
        monkeypatch.setattr(verification, "BLOCK", block)
        monkeypatch.setattr(pairs, "BLOCK", block)
        found = verify(X, labels, fars)
        assert (found.pairs, found.genuine, found.impostor) == (n * (n - 1) // 2, len(genuine), len(impostor))
        for far in fars:
            expected = float(naive.verification_rate(genuine, impostor, Fraction(str(far))))
            assert found.vr[far] == pytest.approx(expected, abs=1e-12)
        assert found.eer == pytest.approx(float(naive.equal_error_rate(genuine, impostor)), abs=1e-12)


def place_of(label: str) -> np.ndarray[Any, Any]:
    """The place of a label's rows."""
    return 1.5 * np.random.default_rng(int(label[1:])).standard_normal(5)


def test_a_rate_of_a_round_number_of_impostors_is_that_number() -> None:
    """0.29 x 100 is 28.999999999999996 in binary; 29 impostors are accepted, not 28."""
    impostor = np.arange(100.0)
    assert verification.verification_rate(np.array([70.5]), impostor, 0.29) == 1.0
    assert verification.verification_rate(np.array([70.0]), impostor, 0.29) == 0.0


def test_perfect_and_reversed_descriptors() -> None:
    """Rows of one label alike and apart from the others: no error; rows like those of others: nothing but errors."""
    X = np.repeat(np.eye(3, dtype=np.float32), 4, axis=0)
    perfect = verify(X, np.repeat([1, 2, 3], 4), [0.0])
    assert (perfect.vr[0.0], perfect.eer) == (1.0, 0.0)
    assert (perfect.pairs, perfect.genuine, perfect.impostor) == (66, 18, 48)
    # two rows of a label lie across from each other, and beside those of the other label
    reverse = verify([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.1], [-1.0, 0.1]], [1, 1, 2, 2], [0.0])
    assert reverse.vr[0.0] == 0.0
    assert reverse.eer >= 0.5


def test_a_row_of_zeros_is_like_no_other() -> None:
    """Its cosine is 0, not NaN."""
    found = verify(np.array([[0, 0], [1, 0], [0, 1]], dtype=np.uint16), ["a", "a", "b"], [1.0])
    assert found.vr[1.0] == 1.0
    assert np.isfinite(found.eer)


@pytest.mark.parametrize(
    ("labels", "fars", "message"),
    [
        (["a", "b", "c"], [0.1], "two rows of one label"),
        (["a", "a", "a"], [0.1], "two labels"),
        (["a", "a"], [0.1], "groups"),
        (["a", "a", "b"], [1.5], "from 0 to 1"),
        (["a", "a", "b"], [np.nan], "from 0 to 1"),
        (["a", "a", "b"], ["0.1"], "from 0 to 1"),
    ],
)
def test_what_cannot_be_verified_is_refused(labels: list[str], fars: list[Any], message: str) -> None:
    """No genuine or no impostor pair, a label missing, a rate that is none."""
    with pytest.raises(InvalidArgument, match=message):
        verify(np.eye(3), labels, fars)
    with pytest.raises(InvalidArgument, match="got 0 labels"):
        verify(np.zeros((0, 3)), [])


@pytest.mark.parametrize("d", [3, 64])
@pytest.mark.parametrize(("sample", "deviations"), [(4096, 8.0), (60, 8.0), (60, 0.0)])
def test_counts_in_bins_give_the_rates_of_every_score(
    monkeypatch: pytest.MonkeyPatch, d: int, sample: int, deviations: float
) -> None:
    """Many pairs, some of them equal, whether the guess is good or not: rates to the pair, the EER to its bin."""
    rng = np.random.default_rng(d)
    labels = rng.integers(0, 40, 700)
    X = (np.random.default_rng(1).standard_normal((40, d))[labels] + rng.standard_normal((700, d))).astype(np.float32)
    X[600:] = X[500:600]
    fars = [0.0, 1e-5, 0.001, 0.013, 0.2, 0.999, 1.0]
    exact = verify(X, labels, fars)
    monkeypatch.setattr(verification, "EXACT_PAIRS", 0)
    monkeypatch.setattr(pairs, "BLOCK", 128)
    monkeypatch.setattr(pairs, "SAMPLE", sample)
    monkeypatch.setattr(pairs, "SAMPLE_DEVIATIONS", deviations)
    found = verify(X, labels, fars)
    assert (found.pairs, found.genuine, found.impostor) == (exact.pairs, exact.genuine, exact.impostor)
    assert found.vr == pytest.approx(exact.vr, abs=1e-12)
    # a bin of 3e-5 has some ten of 244,650 pairs
    assert found.eer == pytest.approx(exact.eer, abs=1e-3)


def test_pairs_near_a_limit_are_told_apart_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cosines 1e-9 apart are one to float32; the rate is still that of their true order."""
    monkeypatch.setattr(verification, "EXACT_PAIRS", 0)
    for shift, expected in ((1e-9, 1.0), (-1e-9, 0.0)):
        angles = np.array([0.0, 1.0, 1.0 + shift, 3.0])
        X = np.column_stack([np.cos(angles), np.sin(angles)])
        # genuine: cos 1; the best impostor: cos(1 + shift); its own angle with the second row is left out by label
        labels = ["a", "a", "b", "c"]
        X = np.hstack([X, np.zeros((4, 2))])
        X[1, 2], X[2, 3] = 2.0, 2.0
        assert verify(X, labels, [0.0]).vr[0.0] == expected


def test_listed_pairs_are_judged_as_all_pairs() -> None:
    """The list of all pairs gives what all pairs give; half of it other numbers."""
    rng = np.random.default_rng(7)
    labels = np.arange(30) % 5
    X = rng.standard_normal((30, 4)) + 2.0 * rng.standard_normal((5, 4))[labels]
    pairs = np.array([(i, j) for i in range(30) for j in range(i)])
    same = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    found, expected = verify_listed(X, pairs, same, [0.1]), verify(X, labels, [0.1])
    assert (found, found.roc.tolist()) == (expected, expected.roc.tolist())
    half = verify_listed(X, pairs[::2], same[::2], [0.1])
    assert (half.pairs, half.genuine) == (len(pairs[::2]), same[::2].sum())


@pytest.mark.parametrize(
    ("pairs", "same", "message"),
    [
        ([[0, 1], [0, 2]], [True, True], "of both kinds"),
        ([[0, 1], [0, 2]], [True], "2 pairs need as many answers"),
        ([[0, 1], [0, 3]], [True, False], "places of 3 rows, got 0 to 3"),
        ([[0, 1], [-1, 2]], [True, False], "places of 3 rows, got -1 to 2"),
        ([[0.0, 1.0], [0.0, 2.0]], [True, False], "ints"),
        ([[0, 1, 2]], [True], "ints"),
        ([[0, 1], [0, 2]], [1, 0], "booleans"),
    ],
)
def test_lists_that_are_none_are_refused(pairs: Any, same: Any, message: str) -> None:
    """Places, answers and their number."""
    with pytest.raises(InvalidArgument, match=message):
        verify_listed(np.eye(3), pairs, same)
