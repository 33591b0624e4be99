"""Kernel ridge in folds: the equations, copies of items, and what the inner folds choose."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.reproduce.ridge import PENALTIES, Floats, Gram, Ints, Ridge, Split, choose_penalty, outer_errors

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.sin(X[:, 0]) + 3.0
FOLD = np.arange(60) % 5


def rbf(sigma: float, n_copies: int = 1) -> Gram:
    """The Gaussian kernel; copy c of an item is c / 100 to its right."""

    def gram(a: Ints, b: Ints) -> Floats:
        A, B = ((X[i][:, None] + np.arange(n_copies)[:, None] / 100).reshape(-1, 2) for i in (a, b))
        return np.asarray(np.exp(-np.square(A[:, None] - B).sum(axis=2) / (2 * sigma**2)))

    return gram


@pytest.mark.parametrize("n_copies", [1, 3])
def test_ridge_solves_its_equations(n_copies: int) -> None:
    """Answers are those of an inverse on every copy, averaged over an item's copies."""
    train, test = np.arange(40), np.arange(40, 60)
    K, K_test = rbf(1.0, n_copies)(train, train), rbf(1.0, n_copies)(test, train)
    ridge = Ridge.fit(K, Y, train, 1e-2)
    assert ridge is not None
    target = np.repeat(Y[:40] - Y[:40].mean(), n_copies)
    answers = K_test @ np.linalg.inv(K + 1e-2 * np.eye(len(K))) @ target + Y[:40].mean()
    np.testing.assert_allclose(ridge.predict(K_test), answers.reshape(20, -1).mean(axis=1), rtol=1e-9)


def test_a_singular_matrix_is_no_model() -> None:
    """Of a matrix with a negative eigenvalue beyond the penalty there is none."""
    assert Ridge.fit(np.array([[1.0, 2.0], [2.0, 1.0]]), Y, np.arange(2), 1e-4) is None


def test_the_folds_after_the_held_one_choose() -> None:
    """In turn, from the last to the first; as many as are asked for."""
    fold = np.array([0, 1, 2, 3, 4, 4])
    assert Split(fold, 3, 4).inner() == [4, 0, 1, 2]
    assert Split(fold, 4, 1).inner() == [0]
    assert Split(fold, 0, 1).inner() == [1]


def test_inner_folds_choose_and_the_held_fold_is_not_seen() -> None:
    """Targets of the held fold change neither sigma nor penalty nor answers; the choice beats the worst penalty."""
    split = Split(FOLD, 2, 3)
    errors, sigma, penalty = outer_errors(lambda s, _train: rbf(s), (0.01, 1.0, 100.0), Y, split)
    assert sigma == 1.0
    assert np.abs(errors).mean() < 0.05
    changed = np.where(FOLD == 2, 1e3, Y)
    again = outer_errors(lambda s, _train: rbf(s), (0.01, 1.0, 100.0), changed, split)
    assert again[1:] == (sigma, penalty)
    np.testing.assert_allclose(again[0] + 1e3, errors + Y[FOLD == 2], rtol=1e-12)
    chosen, error = choose_penalty(rbf(1.0), Y, split)
    assert chosen in PENALTIES[:-1]
    assert error < 0.05
