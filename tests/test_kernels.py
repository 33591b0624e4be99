"""Kernels against their slow twins, and the promises that features are built on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import float32, types
from numpy.typing import NDArray

from streamfeat.kernels import LANES, ROWS, kernel, padded
from streamfeat.kernels.cdf import count_below
from streamfeat.kernels.fourier import MAX_PROJECTION, cell_cos_sin, mean_cos_sin
from streamfeat.kernels.project import project, project_orbits, rescale
from streamfeat.kernels.statistics import cell_largest, combine, largest, order_statistics, power_means
from streamfeat.kernels.values import LOWEST, polynomial, rbf
from streamfeat.kernels.warp import apply_operators, copy_places
from streamfeat.pooling import Cells, Size
from tests import naive

Floats = NDArray[np.float32]


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def projected(X: Floats, block: Floats) -> Floats:
    out = np.full((len(X), LANES), np.nan, np.float32)
    project(X, block, out)
    return out


@pytest.mark.parametrize(("rows", "d"), [(4, 4), (8, 12), (12, 100)])
def test_project_is_the_matrix_product(rows: int, d: int) -> None:
    """Inner products are those of the definition, to float32 sums."""
    X, block = normal(0, rows, d), normal(1, d, LANES)
    # d products rounded and added one by one: d eps |x| |t|
    tolerance = d * np.finfo(np.float32).eps * np.outer(np.linalg.norm(X, axis=1), np.linalg.norm(block, axis=0))
    assert (np.abs(projected(X, block) - naive.project(X, block)) <= tolerance).all()


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    """The same row gives the same bits in any place and company: what row independence of features rests on."""
    X, block = normal(2, 64, 252), normal(3, 252, LANES)
    whole = projected(X, block)
    order = np.random.default_rng(4).permutation(len(X))
    np.testing.assert_array_equal(projected(np.ascontiguousarray(X[order]), block), whole[order])
    for r in range(0, len(X), 9):
        alone = np.zeros((ROWS, 252), np.float32)
        alone[r % ROWS] = X[r]
        np.testing.assert_array_equal(projected(alone, block)[r % ROWS], whole[r])


def test_zeros_behind_a_row_change_nothing() -> None:
    """Columns filled up to a multiple of four leave every bit as it is."""
    X, block = normal(5, 8, 32), normal(6, 32, LANES)
    wide_X, wide_block = np.pad(X, ((0, 0), (0, 8))), np.pad(block, ((0, 8), (0, 0)))
    np.testing.assert_array_equal(projected(wide_X, wide_block), projected(X, block))


@pytest.mark.parametrize("n", range(1, 10))
def test_project_orbits_gives_the_bits_of_project(n: int) -> None:
    """Any number of items against stored orbits takes the same sums as moved items against templates."""
    X, orbits = normal(7, 12, 60), normal(8, 5, 60, LANES)
    out = np.empty((n, 5, LANES), np.float32)
    project_orbits(X[:n], orbits, out)
    for g in range(5):
        np.testing.assert_array_equal(out[:, g], projected(X, orbits[g])[:n])


def test_rescale_multiplies_item_by_item() -> None:
    """Each projection is multiplied by the scale of its g and template, once."""
    P, scale = normal(9, 3, 5, LANES), normal(10, 5, LANES)
    out = P.copy()
    rescale(scale, out)
    np.testing.assert_array_equal(out, P * scale)


def test_not_a_number_reaches_the_product() -> None:
    """No compiler flag makes NaN or infinity vanish."""
    X, block = normal(11, 4, 8), normal(12, 8, LANES)
    X[1, 3], X[2, 0] = np.nan, np.inf
    out = projected(X, block)
    assert np.isnan(out[1]).all()
    assert np.isinf(out[2]).all()
    assert np.isfinite(out[[0, 3]]).all()


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_counts_are_exact(G: int, n_thresholds: int, seed: int) -> None:
    """Counts equal the definition for any |G|, with ties, unordered thresholds, infinities and NaN."""
    rng = np.random.default_rng(seed)
    values = np.array([-np.inf, -1, -0.5, -0.0, 0.0, 1e-45, 0.1, 0.5, 1, np.inf, np.nan], np.float32)
    P = rng.choice(values, (G, LANES))
    thresholds = rng.choice(values[1:-2], (n_thresholds, LANES))
    out = np.full((LANES, n_thresholds), 9, np.uint16)
    count_below(P, thresholds, out)
    np.testing.assert_array_equal(out, naive.count_below(P, thresholds))


def test_counts_of_the_largest_group_fit() -> None:
    """|G| = 65535 is counted without wrapping, and a short last block writes its own templates only."""
    P = np.zeros((65535, LANES), np.float32)
    out = np.zeros((3, 1), np.uint16)
    count_below(P, np.zeros((1, LANES), np.float32), out)
    np.testing.assert_array_equal(out, 65535)


@pytest.mark.parametrize("largest", [1.0, 100.0, MAX_PROJECTION])
def test_cos_and_sin_are_right(largest: float) -> None:
    """Means of cos and sin are right to 1e-6 up to the stated size, also of one projection and at the odd places."""
    P = np.random.default_rng(13).uniform(-largest, largest, (500, LANES)).astype(np.float32)
    P[:, 0] = np.linspace(-2 * np.pi, 2 * np.pi, 500)
    P[:3, 1] = 0, np.pi, np.pi / 2
    cos, sin = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    for g in range(0, 500, 7):
        mean_cos_sin(P[g : g + 1], 1.0, 1.0, cos, sin)
        # measured 6e-7 (docstring of MAX_PROJECTION)
        np.testing.assert_allclose((cos, sin), naive.mean_cos_sin(P[g : g + 1], 1.0), rtol=0, atol=1e-6)
    mean_cos_sin(P, 1.0, 0.25, cos, sin)
    np.testing.assert_allclose((cos, sin), naive.mean_cos_sin(P, 0.25), rtol=0, atol=2.5e-7)


def test_cos_of_nothing_is_one() -> None:
    """A blank item has cos exactly 1 and sin exactly 0."""
    cos, sin = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    mean_cos_sin(np.zeros((3, LANES), np.float32), 1.0, 1.0, cos, sin)
    np.testing.assert_array_equal(cos, 1)
    np.testing.assert_array_equal(sin, 0)


def test_a_gain_multiplies_projections() -> None:
    """cos(gain P), as when P came multiplied."""
    P = np.random.default_rng(14).uniform(-3, 3, (9, LANES)).astype(np.float32)
    found, expected = np.empty((2, 2, LANES), np.float32)
    mean_cos_sin(P, 1.7, 1.0, found[0], found[1])
    mean_cos_sin(np.float32(1.7) * P, 1.0, 1.0, expected[0], expected[1])
    np.testing.assert_allclose(found, expected, atol=1e-6)  # one rounding of angles up to 5


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(1, LANES),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=30)
def test_cells_are_weighted_sums_and_largest_values(
    n: tuple[int, int], more: tuple[int, int], overlap: float, lanes: int, seed: int
) -> None:
    """Any grid, soft and hard cells, a block that is not full: cos, sin and max of each cell."""
    grid = n[0] + more[0], n[1] + more[1]
    P = np.random.default_rng(seed).uniform(-4, 4, (grid[0] * grid[1], LANES)).astype(np.float32)
    weights = naive.cell_weights(*n, grid, overlap).reshape(n[0] * n[1], -1)
    cells = Cells(*n, overlap).build(Size(1, 1, grid[0] * grid[1], 0.5, grid))
    pair = cells["cell_rows"], cells["cell_columns"]
    waves = np.empty((2, n[0] * n[1], lanes), np.float32)
    cell_cos_sin(P, 1.5, 0.5, pair, waves)
    wide = 1.5 * P[:, :lanes].astype(np.float64)
    # float32: angles of 6 to 3e-7, sums of at most 10 numbers of size 1, weights
    np.testing.assert_allclose(waves, 0.5 * np.array([weights @ np.cos(wide), weights @ np.sin(wide)]), atol=1e-6)
    tops = np.empty((n[0] * n[1], lanes), np.float32)
    cell_largest(P, pair, tops)
    expected = [(P[w > 1e-30, :lanes] * w[w > 1e-30, None]).max(axis=0) for w in weights]
    np.testing.assert_allclose(tops, expected, rtol=1e-6, atol=1e-12)  # two float32 weights


@given(st.integers(1, 4), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_operators_act_row_by_row(n: int, d: int, R: int, seed: int) -> None:
    """Row r n + i is operator i on row r; padding beyond stays as it was."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 4, (n, d))
    ends = lengths.cumsum().reshape(n, d)
    indptr = np.concatenate([(ends[:, :1] - lengths[:, :1]), ends], axis=1).astype(np.int32)
    indices = rng.integers(0, d, lengths.sum()).astype(np.int32)
    data = rng.standard_normal(lengths.sum()).astype(np.float32)
    X = rng.standard_normal((R, padded(d, 4))).astype(np.float32)
    out = np.full((R * n + 1, padded(d, 4)), 7, np.float32)
    apply_operators(indptr, indices, data, X, out)
    # at most three products a number
    np.testing.assert_allclose(out[: R * n, :d], naive.apply_operators(indptr, indices, data, X), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(out[R * n], 7)
    np.testing.assert_array_equal(out[:, d:], 7)


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_copies_are_operators_of_ones(n: int, d: int, R: int, seed: int) -> None:
    """Numbers copied by their places are, bit for bit, what matrices of ones give; d is a place that holds zero."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, d + 1, (n, d)).astype(np.uint32)
    kept = places < d
    starts = np.insert(kept.ravel().cumsum(), 0, 0).astype(np.int32)
    indptr = np.stack([starts[i * d : (i + 1) * d + 1] for i in range(n)])
    X = rng.standard_normal((R, padded(d, 4))).astype(np.float32)
    out, expected = np.full((2, R * n + 1, padded(d, 4)), 7, np.float32)
    copy_places(places, X, out)
    apply_operators(indptr, places[kept].astype(np.int32), np.ones(kept.sum(), np.float32), X, expected)
    np.testing.assert_array_equal(out, expected)


def test_kernels_take_read_only_arrays() -> None:
    """Mapped banks go straight into kernels, without a copy; results do not."""
    X, block = normal(14, 4, 8), normal(15, 8, LANES)
    block.flags.writeable = False
    out = projected(X, block)
    out.flags.writeable = False
    with pytest.raises(TypeError):
        project(X, block, out)


def test_a_kernel_compiles_without_a_cache(caplog: pytest.LogCaptureFixture) -> None:
    """Where numba finds no place for its cache, the kernel works all the same, and the log says what it costs."""
    namespace: dict[str, Any] = {}
    exec("def set_one(out):\n    out[0] = 1", namespace)  # noqa: S102  a function without a file has no cache
    out = np.zeros(1, np.float32)
    kernel(types.void(float32[::1]))(namespace["set_one"])(out)
    assert out[0] == 1
    assert "NUMBA_CACHE_DIR" in caplog.text


# ------------------------------------------------------------------------------------------ kernel values, statistics


@pytest.mark.parametrize("sigma", [0.05, 0.5, 3.0])
def test_rbf_is_the_exponential_of_the_distance(sigma: float) -> None:
    """Values are the definition's; what is not above exp(-87) becomes that."""
    x, T = normal(20, 6) / 2, normal(21, 5, LANES, 6) / 2
    T[0, 0] = x
    P = (T @ x).astype(np.float32)
    squares = np.square(T).sum(axis=2)
    rbf(squares, float(np.square(x).sum()), 1 / (2 * sigma**2), P)
    expected = np.array([[naive.kernel_value({"kind": "rbf", "sigma": sigma}, x, t) for t in row] for row in T])
    # the distance is right to a few eps of the squares it is put together from, and exp to 2 eps
    error = 4 * np.finfo(np.float32).eps * (1 + (squares + np.square(x).sum()) / (2 * sigma**2))
    assert (np.abs(P - expected) <= error * expected + 2 * np.exp(LOWEST)).all()
    assert (P <= 1).all()


def test_exp_is_right_over_its_whole_range() -> None:
    """exp to 2e-7 from -87 to 0, where squares and x are zero."""
    y = np.linspace(LOWEST, 0, 100 * LANES).reshape(100, LANES).astype(np.float32)
    P = (y / 2).astype(np.float32)
    rbf(np.zeros_like(y), 0.0, 1.0, P)
    # rounding of the reduced argument and of seven products: 2 eps
    np.testing.assert_allclose(P, np.exp(y.astype(np.float64)), rtol=2.4e-7)


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_polynomial_is_the_power(degree: int) -> None:
    """(p + offset)^degree."""
    P = normal(22, 5, LANES)
    expected = (P.astype(np.float64) + 0.5) ** degree
    polynomial(0.5, degree, P)
    # the sum and each product are rounded once
    np.testing.assert_allclose(P, expected, rtol=degree * 2.4e-7, atol=degree * 1e-6)


def test_power_means_are_means_of_powers() -> None:
    """In float64, for a part of the lanes as for all."""
    V = normal(23, 7, LANES)
    out = np.empty((LANES, 4))
    power_means(V, out)
    np.testing.assert_allclose(out, naive.power_means(V, 4), rtol=1e-12, atol=1e-14)
    few = np.empty((3, 4))
    power_means(V, few)
    np.testing.assert_array_equal(few, out[:3])


def test_largest_is_the_largest() -> None:
    """Of each lane, also where all are negative, in any order of g."""
    V = -np.abs(normal(24, 7, LANES))
    out = np.empty(5, np.float32)
    largest(V, out)
    np.testing.assert_array_equal(out, V.max(axis=0)[:5])


@given(st.integers(1, 70), st.integers(1, 6), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_order_statistics_sort_any_number_of_rows(G: int, n: int, seed: int) -> None:
    """Quantiles are the naive ones, and the rows end up sorted: with ties, for every G."""
    V = np.round(normal(seed, G, LANES), 1)
    places = (np.linspace(0, 1, n) if n > 1 else np.array([0.5])) * (G - 1)
    ranks = np.floor(places).astype(np.int64)
    out = np.empty((LANES, n), np.float32)
    given_values = V.copy()
    order_statistics(ranks, (places - ranks).astype(np.float32), V, out)
    np.testing.assert_array_equal(V, np.sort(given_values, axis=0))
    np.testing.assert_allclose(out, naive.quantiles(given_values, n), atol=1e-5)  # float32 shares of values below 10


@pytest.mark.parametrize("m", [1, 3, 4, 70])
def test_combine_is_the_matrix_product(m: int) -> None:
    """W' v with float64 sums."""
    v, W = normal(25, m).astype(np.float64), normal(26, m, m)
    out = np.empty(m, np.float32)
    combine(v, W, out)
    np.testing.assert_allclose(out, W.T.astype(np.float64) @ v, rtol=1e-6, atol=1e-12)
