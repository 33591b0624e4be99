"""What CDF features estimate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument
from streamfeat.exact.cdf import (
    acceptance,
    column_product,
    discretisation_bound,
    energy_distance,
    sampled_kernel,
    template_integral,
    truncated_kernel,
)
from streamfeat.exact.orbits import Floats, base_mean, distance, orbit_distance
from streamfeat.templates import gaussian_templates
from tests import naive

D, EPSILON, S = 4, 0.4, 1.4
ORDERS = np.array(list(itertools.permutations(range(D))))
M = 40_000


def unit_points(n: int, d: int = D) -> Floats:
    """n points of norm 1."""
    X = np.random.default_rng(7).standard_normal((n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def templates(m: int = M) -> Floats:
    """Gaussian templates as banks draw them."""
    return gaussian_templates(m, D, EPSILON, np.random.default_rng(3)).astype(np.float64)


def assert_mean(values: Floats, expected: float) -> None:
    """The mean of iid values is within 5 standard errors, by their own deviation: one in two million is not."""
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - expected) < 5 * error, f"{values.mean()} +- {error}, expected {expected}"


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=6),
    st.lists(st.floats(-2, 2), min_size=1, max_size=6),
    st.floats(0.1, 2),
)
@settings(deadline=None, max_examples=200)
def test_template_integral_is_the_area_under_the_product(a: list[float], b: list[float], s: float) -> None:
    """Step by step over every place where one of the two distribution functions rises."""
    assert template_integral(a, b, s) == pytest.approx(naive.integral_of_products(a, b, s), abs=1e-12)


@pytest.mark.parametrize("n", [1, 7, 25])
def test_discretisation_adds_at_most_a_bin(n: int) -> None:
    """0 < sum - integral <= s / n for every template, and near s / (2n) in the mean (uniform within a bin)."""
    x, z = unit_points(2)
    T = templates(2000)
    a, b = T @ x[ORDERS].T, T @ z[ORDERS].T
    tau = S * np.arange(-n, n + 1) / n
    F_a, F_b = ((v[:, :, None] <= tau).mean(axis=1) for v in (a, b))
    excess = S / n * (F_a * F_b).sum(axis=1) - template_integral(a, b, S)
    assert excess.min() > 0
    assert excess.max() <= discretisation_bound(S, n) + 1e-12  # rounding of sums
    if n > 1:
        assert excess.mean() == pytest.approx(S / (2 * n), rel=0.1)  # a bin is not quite uniform


def test_acceptance_is_what_rejection_does() -> None:
    """p templates in a hundred are kept, and the kept ones are shorter by c: 5 sigma on 200,000 draws."""
    p, c = acceptance(D, EPSILON)
    n = np.random.default_rng(5).standard_normal((200_000, D)) / math.sqrt(D)
    length = np.linalg.norm(n, axis=1)
    kept = length**2 < 1 + EPSILON
    assert_mean(kept.astype(float), p)
    # E ||n|| = sqrt(2/d) Gamma((d+1)/2) / Gamma(d/2)
    free = math.sqrt(2 / D) * math.gamma((D + 1) / 2) / math.gamma(D / 2)
    assert_mean(length[kept], c * free)


def test_truncated_kernel_is_the_expectation_of_the_features() -> None:
    """E_t of the exact integral over all 24 permutations, templates drawn again until short enough; d = 4.

    The formula without c is 0.03 away, 50 standard errors: what large d forgives, this does not.
    """
    x, z = unit_points(2)
    K = truncated_kernel(orbit_distance(x[ORDERS][None], z[ORDERS][None]), D, EPSILON)[0, 0]
    T = templates()
    integrals = template_integral(T @ x[ORDERS].T, T @ z[ORDERS].T, S)
    assert_mean(integrals, K)
    without = truncated_kernel(orbit_distance(x[ORDERS][None], z[ORDERS][None]), D, EPSILON, "none")[0, 0]
    assert abs(integrals.mean() - without) > 0.02


def test_truncated_kernel_where_refused_templates_count_as_nothing() -> None:
    """The other reading of the paper: a refused template adds a zero to the mean."""
    x, z = unit_points(2)
    T = np.random.default_rng(11).standard_normal((M, D)) / math.sqrt(D)
    kept = np.einsum("md,md->m", T, T) < 1 + EPSILON
    integrals = np.where(kept, template_integral(T @ x[ORDERS].T, T @ z[ORDERS].T, S), 0.0)
    K = truncated_kernel(orbit_distance(x[ORDERS][None], z[ORDERS][None]), D, EPSILON, "zero")[0, 0]
    assert_mean(integrals, K)


def test_theorem_1_holds_in_its_exact_form() -> None:
    """epsilon <= K_s - (1 - d_G) <= epsilon + (1 - c) d_G, and the gap closes as d grows."""
    D_xz = np.linspace(0, 2, 9)
    for d in (2, 10, 100, 1000):
        gap = truncated_kernel(D_xz, d, 0.5) - (1 - D_xz / math.sqrt(2 * math.pi * d))
        _, c = acceptance(d, 0.5)
        assert (gap >= 0.5 - 1e-12).all()
        assert (gap <= 0.5 + (1 - c) * D_xz / math.sqrt(2 * math.pi * d) + 1e-12).all()
    assert acceptance(1000, 0.5)[1] == pytest.approx(1, abs=1e-12)


def test_sampled_elements_leave_a_part_of_the_plain_kernel() -> None:
    """r = 3 permutations shared by x and z: the mean over 4,000 draws of templates and elements."""
    x, z = unit_points(2)
    rng = np.random.default_rng(17)
    T = templates(4000)
    drawn = ORDERS[rng.integers(len(ORDERS), size=(len(T), 3))]
    a, b = (np.einsum("trd,td->tr", v[drawn], T) for v in (x, z))
    both = orbit_distance(x[ORDERS][None], z[ORDERS][None])
    expected = sampled_kernel(both, base_mean(x[None], z[None], distance), 3, D, EPSILON)[0, 0]
    assert_mean(template_integral(a, b, S), expected)


def test_distance_of_features_is_the_energy_distance_of_orbits() -> None:
    """E ||Phi(x) - Phi(z)||^2, zero for two points of one orbit."""
    x, z = unit_points(2)
    T = templates()
    a, b = T @ x[ORDERS].T, T @ z[ORDERS].T
    squares = template_integral(a, a, S) - 2 * template_integral(a, b, S) + template_integral(b, b, S)
    X = np.stack([x, z])[:, ORDERS]
    pairs = orbit_distance(X, X)
    assert_mean(squares, energy_distance(pairs[0, 1], pairs[0, 0], pairs[1, 1], D, EPSILON).item())
    moved = x[ORDERS[13]][ORDERS]
    same = orbit_distance(np.stack([x[ORDERS], moved]), np.stack([x[ORDERS], moved]))
    assert energy_distance(same[0, 1], same[0, 0], same[1, 1], D, EPSILON) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("tau", [-0.4, 0.0, 0.3])
def test_column_products_by_owens_function(tau: float) -> None:
    """P(both below tau) for Gaussian templates without rejection; at 0 the arcsine law."""
    x, z = unit_points(2)
    rho = float(x @ z)
    T = np.random.default_rng(23).standard_normal((200_000, D)) / math.sqrt(D)
    assert_mean(((T @ x <= tau) & (T @ z <= tau)).astype(float), column_product(rho, tau, D).item())
    assert column_product(rho, 0.0, D) == pytest.approx(0.5 - math.acos(rho) / (2 * math.pi), abs=1e-15)


def test_column_products_at_the_ends() -> None:
    """Equal points: Phi(h). Opposite ones: max(2 Phi(h) - 1, 0). A correlation of 1 and a rounding is 1."""
    below = 0.5 * (1 + math.erf(0.6 / math.sqrt(2)))
    ends = column_product([1.0, 1.0 + 1e-15, -1.0], 0.3, D)
    np.testing.assert_allclose(ends, [below, below, 2 * below - 1], atol=1e-15)


def test_what_means_nothing_is_refused() -> None:
    """No numbers, a bound that refuses all, a convention that is none."""
    with pytest.raises(InvalidArgument, match="d >= 1"):
        acceptance(0, 0.5)
    with pytest.raises(InvalidArgument, match="redraw"):
        truncated_kernel(1.0, 4, 0.5, "keep")  # type: ignore[arg-type]
