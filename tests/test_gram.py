"""Gram matrices: Gaussian values, and GURLS' widths."""

from __future__ import annotations

import numpy as np

from streamfeat.learn.gram import gaussian, sigma_grid, squared_distances, values
from tests import naive_learn as naive


def test_gaussian_values_are_the_formula() -> None:
    """exp(-|x - z|^2 / (2 sigma^2)), one pair at a time."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((6, 4)), rng.standard_normal((9, 4))
    # |x|^2 + |z|^2 - 2 x'z loses a few ulps
    np.testing.assert_allclose(values("rbf", X, Z, 0.7), naive.gaussian_gram(X, Z, 0.7), rtol=1e-12)
    np.testing.assert_allclose(gaussian(squared_distances(X), 0.7), naive.gaussian_gram(X, X, 0.7), rtol=1e-12)
    np.testing.assert_array_equal(np.diag(squared_distances(X)), 0.0)


def test_widths_are_gurls() -> None:
    """25 in a geometric row from the first hundredth of the distances to the largest: the kernels GURLS would try."""
    X = np.random.default_rng(1).standard_normal((30, 5))
    grid = sigma_grid(squared_distances(X))
    expected = naive.gurls_sigmas(X)
    # GURLS' kernel is exp(-d^2 / sigma^2)
    np.testing.assert_allclose(grid, np.array(expected) / np.sqrt(2), rtol=1e-10)


def test_copies_have_no_width_of_zero() -> None:
    """Many copies, or copies only: widths stay over zero."""
    X = np.repeat(np.eye(3), 10, axis=0)
    assert sigma_grid(squared_distances(X)).min() > 0.5
    np.testing.assert_array_equal(sigma_grid(np.zeros((4, 4))), [1.0])
    np.testing.assert_array_equal(sigma_grid(np.zeros((1, 1))), [1.0])
