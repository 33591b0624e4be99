"""Where templates come from."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.templates import data_templates, fourier_templates, gaussian_templates, user_templates


def test_gaussian_templates_are_short_enough() -> None:
    """||t||^2 < 1 + epsilon, also where most draws are refused, and the same seed gives the same."""
    T = gaussian_templates(300, 5, 0.01, np.random.default_rng(0))
    assert (np.square(T.astype(np.float64)).sum(axis=1) < 1.01).all()
    np.testing.assert_array_equal(T, gaussian_templates(300, 5, 0.01, np.random.default_rng(0)))


def test_gaussian_templates_have_the_variance_of_the_paper() -> None:
    """E ||n||^2 = 1 for n ~ N(0, I/d): checked where hardly a draw is refused."""
    T = gaussian_templates(2000, 400, 0.5, np.random.default_rng(1))
    # sd of ||n||^2 is sqrt(2 / d); 5 sigma of the mean
    assert abs(np.square(T).sum(axis=1).mean() - 1) < 5 * np.sqrt(2 / 400 / 2000)


def test_an_impossible_epsilon_is_refused() -> None:
    """A bound that no draw meets ends in an error, not in a loop."""
    with pytest.raises(ConfigError, match="larger epsilon"):
        gaussian_templates(2, 1000, -0.9, np.random.default_rng(2))


def test_data_templates_are_distinct_unit_rows_that_are_not_blank() -> None:
    """Each chosen vector is there once, scaled to norm 1; blank ones never."""
    X = np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32)
    X[::2] = 0
    T = data_templates(X, 10, np.random.default_rng(4))
    np.testing.assert_allclose(np.linalg.norm(T, axis=1), 1, atol=1e-6)  # float32
    units = X[1::2] / np.linalg.norm(X[1::2], axis=1, keepdims=True)
    assert sorted(np.argmax(T @ units.T, axis=1)) == list(range(10))


def test_too_few_signals_for_data_templates() -> None:
    """The message says how many were needed and how many were not blank."""
    with pytest.raises(ConfigError, match="at least 3 signals that are not blank, got 2"):
        data_templates(np.array([[1, 0], [0, 0], [0, 1]], np.float32), 3, np.random.default_rng(5))


def test_fourier_templates_have_the_kernel_s_width() -> None:
    """Frequencies are N(0, sigma^-2 I)."""
    W = fourier_templates(1000, 100, 0.5, np.random.default_rng(6))
    # sd of a variance estimate: sqrt(2 / n), 5 sigma
    assert abs(W.var() / 4 - 1) < 5 * np.sqrt(2 / W.size)


@pytest.mark.parametrize("bad", [np.zeros((3, 5)), np.zeros(4), [[0, 0, 0, np.nan], [0, 0, 0, 0]]])
def test_user_templates_are_checked(bad: object) -> None:
    """Shape and finiteness."""
    with pytest.raises(ConfigError, match="user templates must"):
        user_templates(bad, 2, 4)  # type: ignore[arg-type]
