"""Structured projections and pooling along lanes, against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.kernels import VECTORS
from streamfeat.kernels.cdf import count_between, count_steps, cumulate
from streamfeat.kernels.fourier import MAX_PROJECTION, add_cos_sin, copies_cos_sin
from streamfeat.kernels.hadamard import fill_lanes, scale_lanes, transform_lanes, turn
from streamfeat.kernels.statistics import add_lanes, largest_lane
from tests import naive_lanes as naive

Floats = NDArray[np.float32]
PIECES = [(0, 16), (16, 100), (116, 1), (117, 11)]
"""First lane and number: what several blocks, or several items of a block, are."""


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def signs(seed: int, n: int, p: int) -> Floats:
    return np.random.default_rng(seed).choice(np.array([-1, 1], np.float32), (n, p))


@pytest.mark.parametrize("p", [64, 128, 256, 512, 1024])
def test_transforms_are_the_matrix_products(p: int) -> None:
    """H D3 H D2 H D1 at every way radix-8 and radix-2 steps can fall."""
    D, Y = signs(0, 3, p), normal(1, p, 16)
    expected = naive.transformed(D, Y)
    transform_lanes(D, Y)
    # each sum of a step is off by eps / 2, so its numbers together by eps / 2 of their length; later steps keep that
    most = 3 * np.log2(p) * np.finfo(np.float32).eps / 2
    assert (np.linalg.norm(Y - expected, axis=0) <= most * np.linalg.norm(expected, axis=0)).all()


def test_a_vector_does_not_depend_on_those_beside_it() -> None:
    """The same bits in any lane, among any number of lanes: what row independence of features rests on."""
    D, X = signs(2, 3, 128), normal(3, 128, 48)
    whole = X.copy()
    transform_lanes(D, whole)
    for lanes in (1, 7, 16, 33):
        some = np.zeros((128, lanes), np.float32)
        some[:, -1] = X[:, 5]
        transform_lanes(D, some)
        np.testing.assert_array_equal(some[:, -1], whole[:, 5])


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_lanes_are_filled_with_copies(d: int, A: int, S: int, seed: int) -> None:
    """Copy s of column a, the columns fastest, from any first lane; d is the row of zeros; other lanes stay."""
    rng = np.random.default_rng(seed)
    X, p = rng.standard_normal((A + 1, d + 2)).astype(np.float32), d + 3
    R = np.full((d + 1, A), np.nan, np.float32)
    turn(X, R)
    np.testing.assert_array_equal(R, np.vstack([X[:A, :d].T, np.zeros((1, A))]))
    places = rng.integers(0, d + 1, (p, S)).astype(np.uint32)
    s0, a0 = int(rng.integers(S)), int(rng.integers(A))
    chosen = (s0, int(rng.integers(s0, S)) + 1), (a0, int(rng.integers(a0, A)) + 1)
    expected = naive.filled(R, places, *chosen)
    n = expected.shape[1]
    Y = np.full((p, n + 5), 7, np.float32)
    fill_lanes(R, places, chosen, 3, Y)
    np.testing.assert_array_equal(Y[:, 3 : 3 + n], expected)
    np.testing.assert_array_equal(Y[:, [0, 1, 2, -2, -1]], 7)


def test_lanes_are_scaled() -> None:
    """Each projection by the scale of its template and g; lanes and templates without a scale stay."""
    scale, Y = normal(4, 5, 30), normal(5, 8, 20)
    expected = Y.copy()
    expected[:5, 3:] *= scale[:, 2:19]
    scale_lanes(scale, 2, 3, Y)
    np.testing.assert_array_equal(Y, expected)
    expected[:5, :4] *= scale[:, 26:]
    scale_lanes(scale, 26, 0, Y)
    np.testing.assert_array_equal(Y, expected)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_counts_between_thresholds_are_exact(n_thresholds: int, seed: int) -> None:
    """Compared in float32 with each row's thresholds, in any order, with ties, infinities and NaN; pieces add up."""
    rng = np.random.default_rng(seed)
    values = np.array([-np.inf, -1, -0.5, -0.0, 0.0, 1e-45, 0.1, 0.5, 1, np.inf, np.nan], np.float32)
    Y, thresholds = rng.choice(values, (5, VECTORS)), rng.choice(values[1:-2], (4, n_thresholds))
    bins = np.zeros((4, n_thresholds + 1), np.uint16)
    for piece in PIECES:
        count_between(Y, piece, np.full(4, 0.5, np.float32), thresholds, bins)
    np.testing.assert_array_equal(bins, naive.bins(np.float32(0.5) * Y[:4], thresholds))
    out = np.empty((3, n_thresholds), np.uint16)
    cumulate(bins, out)
    np.testing.assert_array_equal(out, np.cumsum(bins[:3, :-1], axis=1))


@pytest.mark.parametrize("n", [1, 2, 25, 51])
def test_counts_at_even_steps(n: int) -> None:
    """As compared with the thresholds, but within rounding of one; zero, infinities and NaN are where they belong."""
    width = 0.3
    tau = width * (np.arange(n) - (n - 1) / 2)
    Y = normal(6, 6, VECTORS)
    Y[0, :4] = 0.0, np.inf, -np.inf, np.nan
    Y[1] = 0
    gains = np.linspace(0.3, 2, 6).astype(np.float32)
    bins = np.zeros((6, n + 1), np.uint16)
    for piece in PIECES:
        count_steps(Y, piece, gains / np.float32(width), (n - 1) / 2, bins)
    projected = gains[:, None] * Y
    assert bins.sum() == Y.size
    np.testing.assert_array_equal(bins[1], naive.bins(projected[1:2], tau[None])[0])
    # the docstring's bound, in projections
    near = (np.abs(projected[..., None] - tau) < 2.0**-23 * (n + 1) * width).any(axis=2) & (projected != 0)
    projected[near] = Y[near] = 0
    bins[:] = 0
    count_steps(Y, (0, VECTORS), gains / np.float32(width), (n - 1) / 2, bins)
    np.testing.assert_array_equal(bins, naive.bins(projected, np.broadcast_to(tau, (6, n))))


def test_the_largest_group_is_counted() -> None:
    """65,535 of one template do not wrap."""
    bins = np.zeros((1, 2), np.uint16)
    Y = np.zeros((1, VECTORS), np.float32)
    for first in range(0, 65535, VECTORS):
        count_steps(Y, (0, min(VECTORS, 65535 - first)), np.ones(1, np.float32), 0.0, bins)
    np.testing.assert_array_equal(bins, [[65535, 0]])


@pytest.mark.parametrize("largest", [1.0, 100.0, MAX_PROJECTION])
def test_sums_of_cos_and_sin(largest: float) -> None:
    """Right to 1e-6 a number up to the stated size, whatever the number of lanes; the sum of a piece to its bits."""
    Y = np.random.default_rng(7).uniform(-largest, largest, (3, VECTORS)).astype(np.float32)
    gains = np.array([1, 0.5, 0.25], np.float32)
    projected = gains[:, None] * Y
    for first, n in PIECES:
        sums = np.zeros((2, 3))
        add_cos_sin(Y, (first, n), gains, sums)
        expected = naive.cos_sin_sums(projected[:, first : first + n])
        np.testing.assert_allclose(sums, expected, rtol=0, atol=1e-6 * n)
        elsewhere = np.zeros((2, 3))
        add_cos_sin(np.ascontiguousarray(Y[:, first : first + n]), (0, n), gains, elsewhere)
        np.testing.assert_array_equal(elsewhere, sums)
        add_cos_sin(Y, (first, n), gains, sums)
        np.testing.assert_array_equal(sums, 2 * elsewhere)


@pytest.mark.parametrize(("N", "n_copies", "m"), [(1, 1, 1), (5, 3, 16), (7, 2, 33)])
def test_means_of_copies(N: int, n_copies: int, m: int) -> None:
    """Of each item's copies, in any lane: right to 1e-6, the same bits in other company."""
    Y, gains = normal(9, m + 2, 32), np.linspace(0.5, 3, m).astype(np.float32)
    out = np.full((N, 2, m + 1), np.nan, np.float32)
    copies_cos_sin(Y, gains, n_copies, 0.5, out[:, :, :m])
    assert np.isnan(out[:, :, m]).all()
    projected = gains[:, None] * Y[:m]
    for i in range(N):
        copies = slice(i * n_copies, (i + 1) * n_copies)
        expected = 0.5 / n_copies * naive.cos_sin_sums(projected[:, copies])
        np.testing.assert_allclose(out[i, :, :m], expected, rtol=0, atol=1e-6)
        alone = np.empty((1, 2, m), np.float32)
        copies_cos_sin(np.ascontiguousarray(Y[:, copies]), gains, n_copies, 0.5, alone)
        np.testing.assert_array_equal(alone[0], out[i, :, :m])


def test_sums_and_largest_of_lanes() -> None:
    """In float64, and as the definition; pieces add up."""
    Y = normal(8, 4, VECTORS)
    sums, found = np.zeros(3), np.full(3, -np.inf, np.float32)
    for piece in PIECES:
        add_lanes(Y, piece, sums)
        largest_lane(Y, piece, found)
    np.testing.assert_allclose(sums, Y[:3].astype(np.float64).sum(axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found, Y[:3].max(axis=1))
