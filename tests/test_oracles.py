"""Feature maps against what they estimate: the exact kernels of both papers, their biases and variances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import build_bank, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.exact.bounds import rff_variance, sampled_mean
from streamfeat.exact.cdf import column_product, energy_distance, sampled_kernel, truncated_kernel
from streamfeat.exact.orbits import base_mean, gaussian, orbit_distance, orbit_kernel
from streamfeat.featuremap import FeatureMap
from tests.test_bankspec import small
from tests.test_featuremap import cyclic, permutations, unit_vectors
from tests.test_streamtask import user_stack

Doubles = NDArray[np.float64]


def map_of(
    matrices: Doubles | None, d: int, templates: dict[str, Any], pooling: dict[str, Any], **changes: Any
) -> FeatureMap:
    """A feature map of vectors of d numbers under these matrices; None: without a group."""
    group = [] if matrices is None else [{"factor": "user"}]
    spec = small(
        front_end=[{"stage": "pixels", "height": 1, "width": d}],
        templates=templates,
        group=group,
        pooling=pooling,
        renormalise=False,
        **{k: v for k, v in changes.items() if k != "given"},
    )
    stacks = [] if matrices is None else [user_stack(matrices)]
    return FeatureMap(build_bank(BankSpec.from_dict(spec), operators=stacks, templates=changes.get("given")))


def gaussian_map(
    matrices: Doubles | None, d: int, m: int, pooling: dict[str, Any], *, epsilon: float, seed: int
) -> FeatureMap:
    return map_of(matrices, d, {"source": "gaussian", "m": m, "epsilon": epsilon}, pooling, seed=seed)


def fourier_map(
    matrices: Doubles | None, d: int, m: int, sigma: float, *, seed: int, source: str = "fourier"
) -> FeatureMap:
    return map_of(matrices, d, {"source": source, "m": m}, {"kind": "fourier", "sigma": sigma}, seed=seed)


def orbit(matrices: Doubles, x: NDArray[Any]) -> Doubles:
    """Every g x, (1, G, d)."""
    return np.asarray(np.einsum("gij,j->gi", matrices, x.astype(np.float64))[None])


def phi_of(fmap: FeatureMap, *vectors: NDArray[np.float32]) -> Doubles:
    return np.asarray(fmap.dense(fmap.of_vectors(np.array(vectors))), np.float64)


def within(values: Doubles, expected: float, also: float = 0.0) -> None:
    """The mean is as expected, within 5 sigma of a mean and what else is told."""
    sigma = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - expected) < 5 * sigma + also, (values.mean(), expected, sigma)


# --------------------------------------------------------------------------------------------------- expectations


def test_the_distance_of_cdf_features_is_the_energy_distance_of_orbits() -> None:
    """E ||Phi(x) - Phi(z)||^2 -> c (2 D(x, z) - D(x, x) - D(z, z)) / sqrt(2 pi d), over all permutations."""
    d, epsilon, m, n_bins = 4, 0.4, 20_000, 60
    matrices = permutations(d)
    fmap = gaussian_map(
        matrices, d, m, {"kind": "cdf", "thresholds": "paper", "n_bins": n_bins}, epsilon=epsilon, seed=1
    )
    x, z = unit_vectors(2, d, 5)
    a, b = (orbit(matrices, v) for v in (x, z))
    expected = float(
        energy_distance(orbit_distance(a, b), orbit_distance(a, a), orbit_distance(b, b), d, epsilon)[0, 0]
    )
    phi = phi_of(fmap, x, z).reshape(2, m, -1)
    # The mean excess of the sum over thresholds cancels; what is left is of second order, (s / n)^2.
    within(m * np.square(phi[0] - phi[1]).sum(axis=1), expected, (1.4 / n_bins) ** 2)


def test_shared_elements_bias_cdf_features_towards_the_plain_kernel() -> None:
    """r elements drawn once for x and z: s - c / sqrt(2 pi d) [(1 - 1/r) D + ||x - z|| / r]."""
    d, epsilon, r, n_bins, every = 4, 0.4, 3, 40, permutations(4)
    x, z = unit_vectors(2, d, 5)
    estimates = []
    for seed in range(150):
        some = every[np.random.default_rng(seed).integers(0, len(every), r)]
        fmap = gaussian_map(
            some, d, 100, {"kind": "cdf", "thresholds": "paper", "n_bins": n_bins}, epsilon=epsilon, seed=seed
        )
        phi = phi_of(fmap, x, z)
        estimates.append(phi[0] @ phi[1] - (1 + epsilon) / (2 * n_bins))  # the sum's mean excess
    D = orbit_distance(orbit(every, x), orbit(every, z))[0, 0]
    base = float(np.linalg.norm(x.astype(float) - z.astype(float)))
    expected = float(sampled_kernel(D, base, r, d, epsilon))
    assert abs(expected - float(truncated_kernel(D, d, epsilon))) > 0.01  # so the line below says something
    within(np.array(estimates), expected, 0.1 * (1 + epsilon) / n_bins)  # the excess' own curvature


def test_shared_elements_bias_orbit_kernels_towards_the_plain_kernel() -> None:
    """E k_hat = (1 - 1/r) k_G + k / r for Fourier features of r elements drawn once for x and z."""
    d, sigma, r, every = 4, 0.6, 3, permutations(4)
    x, z = unit_vectors(2, d, 8)
    estimates = []
    for seed in range(300):
        some = every[np.random.default_rng(seed).integers(0, len(every), r)]
        phi = phi_of(fourier_map(some, d, 60, sigma, seed=seed), x, z)
        estimates.append(phi[0] @ phi[1])
    kernel = orbit_kernel(orbit(every, x), orbit(every, z), sigma)[0, 0]
    base = base_mean(x[None], z[None], gaussian(sigma))[0, 0]
    assert abs(kernel - base) > 0.05  # so the line below says something
    within(np.array(estimates), float(sampled_mean(kernel, base, r)))


@pytest.mark.parametrize("bin_", [0, 1, 2])
def test_products_of_cdf_columns_have_owens_value(bin_: int) -> None:
    """E of one pair of columns is P(both <= tau) averaged over g, g', by Owen's T; without rejection."""
    d, m, reach = 5, 20_000, 0.8
    matrices = cyclic(d)
    pooling = {"kind": "cdf", "thresholds": "sigma", "n_bins": 3, "reach": reach}
    fmap = gaussian_map(matrices, d, m, pooling, epsilon=100.0, seed=3)
    x, z = unit_vectors(2, d, 6)
    rho = orbit(matrices, x)[0] @ orbit(matrices, z)[0].T
    tau = (bin_ - 1) * reach / math.sqrt(d)
    columns = fmap.of_vectors(np.array([x, z])).astype(float).reshape(2, m, 3)[:, :, bin_] / d
    within(columns[0] * columns[1], float(column_product(rho, tau, d).mean()))


def test_fourier_pairs_have_half_the_variance_of_cosines_with_offsets() -> None:
    """(1 + k2 - 2 k^2) / D against (1 + k2 / 2 - k^2) / D, k2 = k^4, of features of D = 64 numbers."""
    d, sigma, u, draws = 5, 1.0, 0.9, 3000
    x, z = np.zeros(d, np.float32), np.zeros(d, np.float32)
    x[:2], z[:2] = (u / 2, math.sqrt(1 - u * u / 4)), (-u / 2, math.sqrt(1 - u * u / 4))
    fmap = fourier_map(None, d, 32 * draws, sigma, seed=4)
    psi = fmap.of_vectors(np.array([x, z])).astype(float).reshape(2, 2, draws, 32) * math.sqrt(draws)
    pairs = (psi[0] * psi[1]).sum(axis=(0, 2))
    W = template_vectors(fmap.bank.only).astype(float)
    W = np.concatenate([W, template_vectors(fourier_map(None, d, 32 * draws, sigma, seed=5).bank.only).astype(float)])
    offsets = np.random.default_rng(6).uniform(0, 2 * math.pi, len(W))
    cosines = 2 * np.cos(W @ x + offsets) * np.cos(W @ z + offsets)
    singles = cosines.reshape(draws, 64).mean(axis=1)
    k = math.exp(-u * u / 2)
    for estimates, of_pairs in ((pairs, True), (singles, False)):
        expected = float(rff_variance(k, 64, of_pairs))
        within(estimates, k)
        # the variance of 3000 nearly normal numbers is known to sqrt(2 / 3000), 5 sigma
        assert abs(estimates.var(ddof=1) / expected - 1) < 5 * math.sqrt(2 / draws)
    assert singles.var() > 1.8 * pairs.var()


def test_laplacian_frequencies_estimate_the_laplacian_orbit_kernel() -> None:
    """<psi(x), psi(z)> averages exp(-|gx - g'z|_1 / sigma) over cyclic shifts, which keep |.|_1."""
    d, m, sigma = 6, 20_000, 3.0
    templates = {"source": "fourier", "m": m, "kernel": "laplacian"}
    fmap = map_of(cyclic(d), d, templates, {"kind": "fourier", "sigma": sigma}, seed=7)
    x, z = unit_vectors(2, d, 9)
    exact = np.mean([math.exp(-np.abs(x - np.roll(z, k)).sum(dtype=float) / sigma) for k in range(d)])
    psi = fmap.of_vectors(np.array([x, z])).astype(float).reshape(2, 2, m)
    # rows refused as too long move it by less than 2e-4
    within(m * (psi[0] * psi[1]).sum(axis=0), float(exact), 4e-4)


def test_means_of_linear_kernels_see_the_average_of_an_orbit() -> None:
    """E <Phi(x), Phi(z)> = <mean gx, mean gz> / d for Gaussian templates; for cyclic shifts only the sum is left."""
    d, m = 6, 20_000
    fmap = gaussian_map(cyclic(d), d, m, {"kind": "mean", "kernel": {"kind": "linear"}}, epsilon=100.0, seed=8)
    x, z = np.abs(unit_vectors(2, d, 10))
    phi = phi_of(fmap, x, z)
    expected = float(x.sum(dtype=float) * z.sum(dtype=float)) / d / d
    within(m * phi[0] * phi[1], expected)
    np.testing.assert_allclose(
        fmap.of_vectors(x[None])[0], x.mean() * template_vectors(fmap.bank.only).sum(axis=1), atol=1e-5
    )


# ------------------------------------------------------------------------------------------------ structured templates


def test_structured_templates_estimate_both_kernels_at_large_d() -> None:
    """At d = 256 within 5 sigma over seeds and the bias that is left, 6 / d of the kernel's range."""
    d, m, n_bins, epsilon = 256, 256, 400, 0.5
    matrices = cyclic(d)[::64]
    x, z = unit_vectors(2, d, 11)
    z = np.asarray((x + 0.7 * z) / np.linalg.norm(x + 0.7 * z), np.float32)
    a, b = (orbit(matrices.transpose(0, 2, 1), v) for v in (x, z))
    cdf, fourier = [], []
    for seed in range(12):
        pooling = {"kind": "cdf", "thresholds": "paper", "n_bins": n_bins}
        phi = phi_of(map_of(matrices, d, {"source": "hadamard", "m": m}, pooling, seed=seed), x, z)
        cdf.append(phi[0] @ phi[1] - (1 + epsilon) / (2 * n_bins))
        phi = phi_of(fourier_map(matrices, d, m, 1.0, seed=seed, source="hadamard"), x, z)
        fourier.append(phi[0] @ phi[1])
    expected = float(truncated_kernel(orbit_distance(a, b)[0, 0], d, epsilon))
    within(np.array(cdf), expected, 6 / d / math.sqrt(2 * math.pi * d) + 0.1 * (1 + epsilon) / n_bins)
    within(np.array(fourier), float(orbit_kernel(a, b, 1.0)[0, 0]), 6 / d)


def test_a_structured_bank_keeps_its_signs() -> None:
    """Beside the rows, for fast transforms."""
    bank = map_of(None, 12, {"source": "hadamard", "m": 40}, {"kind": "fourier", "sigma": 0.5}).bank
    assert bank.arrays["signs"].shape == (3, 3, 16)
    assert bank.arrays["signs"].dtype.str == "|i1"
    norms = np.linalg.norm(template_vectors(bank.only).astype(float), axis=1)
    np.testing.assert_allclose(norms, math.sqrt(12) / 0.5, rtol=1e-6)  # float32


# ------------------------------------------------------------------------------------------------------- sanity

GROUPS: dict[str, Doubles] = {
    "permutations": permutations(4),
    "cyclic shifts": cyclic(9),
    "quarter turns": np.stack([np.eye(9)[np.rot90(np.arange(9).reshape(3, 3), k).ravel()] for k in range(4)]),
    "flips": np.stack([np.eye(9), np.eye(9)[np.arange(9).reshape(3, 3)[:, ::-1].ravel()]]),
}
RBF = {"kind": "rbf", "sigma": 0.6}
POOLED: dict[str, dict[str, Any]] = {
    "cdf": {"kind": "cdf", "thresholds": "sigma", "n_bins": 9},
    "mean": {"kind": "mean", "kernel": RBF},
    "max": {"kind": "max", "kernel": RBF},
    "moments": {"kind": "moments", "kernel": RBF, "n": 3},
    "quantiles": {"kind": "quantiles", "kernel": RBF, "n": 5},
    "nystrom": {"kind": "nystrom", "kernel": RBF, "gram": "orbit"},
    "fourier": {"kind": "fourier", "sigma": 0.6},
}
WEIGHTS = {
    "cdf": math.sqrt(2 * 3 / 3 / 8 / 40) / 9,  # steps of 2 reach / sqrt(d) over n_bins - 1
    "mean": 1 / math.sqrt(40),
    "max": 1 / math.sqrt(40),
    "moments": 1 / math.sqrt(40),
    "quantiles": 1 / math.sqrt(40 * 5),
    "nystrom": 1.0,
    "fourier": 1.0,
}


def sanity_map(matrices: Doubles | None, d: int, kind: str) -> FeatureMap:
    templates = {"source": "fourier" if kind == "fourier" else "gaussian", "m": 40}
    return map_of(matrices, d, templates, POOLED[kind], seed=12)


@pytest.mark.parametrize("kind", list(POOLED))
@pytest.mark.parametrize("group", list(GROUPS))
def test_whole_groups_leave_features_as_they_are(group: str, kind: str) -> None:
    """Features of x and of every gx: counts equal, means within 1e-6; the order of g changes nothing."""
    matrices = GROUPS[group]
    d = matrices.shape[1]
    fmap = sanity_map(matrices, d, kind)
    x = unit_vectors(1, d, 13)[0]
    moved = np.asarray(np.einsum("gij,j->gi", matrices, x), np.float32)
    features = fmap.of_vectors(moved).astype(float)
    atol = 0.0 if kind == "cdf" else 1e-6
    np.testing.assert_allclose(features, np.broadcast_to(features[0], features.shape), atol=atol)
    order = np.random.default_rng(14).permutation(len(matrices))
    reordered = sanity_map(matrices[order], d, kind).of_vectors(x[None]).astype(float)
    # of Nystrom features the Gram matrix is put together in another order, and its square root follows
    np.testing.assert_allclose(reordered[0], features[0], atol=1e-5 if kind == "nystrom" else atol)


@pytest.mark.parametrize("kind", list(POOLED))
def test_gram_matrices_are_positive_and_as_large_as_features_say(kind: str) -> None:
    """Phi is the feature times the pooling's weight; Gram matrices are positive semidefinite."""
    fmap = sanity_map(cyclic(9), 9, kind)
    X = unit_vectors(15, 9, 15)
    features = fmap.of_vectors(X)
    phi = phi_of(fmap, *X)
    np.testing.assert_allclose(phi, features * WEIGHTS[kind], rtol=1e-6)  # float32
    assert np.linalg.eigvalsh(phi @ phi.T).min() > -1e-6


def test_all_weight_on_the_identity_gives_the_plain_kernel() -> None:
    """q = delta at e: Fourier features estimate k, and a group of e alone gives the features of no group."""
    d, m, sigma = 6, 20_000, 0.7
    plain = fourier_map(None, d, m, sigma, seed=16)
    x, z = unit_vectors(2, d, 17)
    psi = plain.of_vectors(np.array([x, z])).astype(float).reshape(2, 2, m)
    within(m * (psi[0] * psi[1]).sum(axis=0), float(base_mean(x[None], z[None], gaussian(sigma))[0, 0]))
    alone = fourier_map(np.eye(d)[None], d, m, sigma, seed=16)
    np.testing.assert_array_equal(alone.of_vectors(x[None]), plain.of_vectors(x[None]))


@pytest.mark.parametrize("kind", list(POOLED))
def test_one_element_gives_the_plain_features_of_a_moved_input(kind: str) -> None:
    """r = 1: features of x under g alone are those without a group of g* x, to the bit."""
    g = np.eye(9)[np.random.default_rng(18).permutation(9)]
    x = unit_vectors(1, 9, 19)[0]
    moved = np.asarray(g.T @ x, np.float32)
    alone, plain = (sanity_map(matrices, 9, kind).of_vectors(v[None]) for matrices, v in ((g[None], x), (None, moved)))
    # K_ZZ of moved landmarks is summed in another order
    np.testing.assert_allclose(alone.astype(float), plain.astype(float), atol=1e-5 if kind == "nystrom" else 0.0)


# ------------------------------------------------------------------------------------------------------- ties


def test_projections_on_thresholds_are_counted() -> None:
    """<x, gt> <= tau in float32 against the stored thresholds, ties included: searchsorted from the left."""
    d, n_bins = 8, 5
    pooling = {"kind": "cdf", "thresholds": "paper", "n_bins": n_bins}
    templates = {"source": "user", "m": 3, "epsilon": 0.4}
    tau = (1.4 * np.arange(-n_bins, n_bins + 1) / n_bins).astype(np.float32)
    T = np.zeros((3, d), np.float32)
    T[0] = tau[:d]
    T[1] = np.nextafter(tau[:d], np.float32(9))
    T[2] = np.nextafter(tau[:d], np.float32(-9))
    fmap = map_of(cyclic(d), d, templates, pooling, given=T)
    np.testing.assert_array_equal(fmap.bank.arrays["thresholds"][0, :, 0], tau)
    x = np.eye(1, d, dtype=np.float32)
    counts = fmap.of_vectors(x).reshape(3, -1).astype(int)
    for t, row in enumerate(T):
        # <e_1, g t> runs through the numbers of t; each is counted from its own threshold on
        first = np.searchsorted(tau, row, side="left")
        np.testing.assert_array_equal(counts[t], [(first <= k).sum() for k in range(len(tau))])
    assert (np.diff(counts, axis=1) >= 0).all()
    assert (counts[:, -1] == d).all()
    assert (counts[0] - counts[1]).sum() == d  # the smallest step above a threshold moves each number by one column
