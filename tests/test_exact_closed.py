"""Group-invariant Gaussian kernels in closed form, against sums and integrals over the group."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

from streamfeat.errors import InvalidArgument
from streamfeat.exact.closed import (
    cyclic_kernel,
    cyclic_projections,
    permanent,
    permutation_kernel,
    rotation_kernel,
    translation_kernel,
    von_mises_kernel,
)
from streamfeat.exact.orbits import Floats, base_mean, cyclic_orbit, gaussian, orbit_kernel
from tests import naive

SIGMA = 0.6
# sums of a few hundred exponentials, in float64
CLOSE = 1e-12


def points(n: int, d: int, seed: int = 2) -> Floats:
    """n points of norm about 1."""
    return np.random.default_rng(seed).standard_normal((n, d)) / math.sqrt(d)


def turned(X: Floats, n: int) -> Floats:
    """Orbits of points of the plane under n even turns, (len(X), n, 2)."""
    angle = 2 * np.pi * np.arange(n) / n
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.asarray(np.einsum("ijn,pj->pni", turn, X))


def test_rotations_of_the_plane() -> None:
    """SO(2): the mean over 64 even turns is the integral to rounding, as of any smooth periodic function."""
    X, Z = points(3, 2), points(4, 2, 3)
    np.testing.assert_allclose(rotation_kernel(X, Z, SIGMA), orbit_kernel(X[:, None], turned(Z, 64), SIGMA), rtol=CLOSE)


@pytest.mark.parametrize("d", [3, 7])
def test_rotations_of_space(d: int) -> None:
    """SO(d): 200,000 directions at random, within 5 standard errors."""
    x, z = points(1, d), points(1, d, 3)
    u = np.random.default_rng(4).standard_normal((200_000, d))
    orbit = u / np.linalg.norm(u, axis=1, keepdims=True) * np.linalg.norm(z)
    k = np.exp(-np.square(x - orbit).sum(axis=1) / (2 * SIGMA**2))
    error = k.std(ddof=1) / math.sqrt(len(k))
    assert abs(rotation_kernel(x, z, SIGMA)[0, 0] - k.mean()) < 5 * error


def test_rotation_kernels_at_the_ends() -> None:
    """The origin is every rotation's fixed point, and far points neither overflow nor vanish."""
    for d in (2, 3, 784):
        far, origin = 0.3 * np.eye(1, d), np.zeros((1, d))
        np.testing.assert_allclose(rotation_kernel(origin, far, SIGMA), math.exp(-0.09 / (2 * SIGMA**2)), rtol=CLOSE)
    # I_0(a) e^-a is near 1 / sqrt(2 pi a); the next term is 1 / (8 a) of it
    narrow = rotation_kernel([[1e3, 0.0]], [[0.0, 1e3]], 1.0)[0, 0]
    assert narrow == pytest.approx(1 / math.sqrt(2 * math.pi * 1e6), rel=1e-6)


@pytest.mark.parametrize("d", [299, 784, 20_000])
def test_rotations_of_many_numbers(d: int) -> None:
    """Pictures and waveforms: I of that order is below the smallest float, the kernel is not.

    <x, Rz> of unit vectors is u on (-1, 1) with density (1 - u^2)^((d - 3) / 2): the mean of exp(a u) by a sum over u.
    """
    x = points(1, d)
    x /= np.linalg.norm(x)
    u = np.linspace(-1, 1, 400_001)[1:-1]
    density = (d - 3) / 2 * np.log1p(-u * u)
    for a in (1e-3, 1.0, 30.0, 0.3 * min(d, 2000)):
        # the prefactor of unit vectors is e^-a
        expected = logsumexp(density + a * u) - logsumexp(density) - a
        found = math.log(rotation_kernel(x, x, a**-0.5)[0, 0])
        # a log of -a keeps 15 digits of it
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kappa", [0.2, 9.0])
def test_local_rotations(kappa: float) -> None:
    """von Mises on both sides and on one, against the double and the single sum over 256 weighted turns."""
    X, Z = points(3, 2), points(4, 2, 3)
    weight = np.exp(kappa * np.cos(2 * np.pi * np.arange(256) / 256))
    q = weight / weight.sum()
    both = orbit_kernel(turned(X, 256), turned(Z, 256), SIGMA, q=q)
    np.testing.assert_allclose(von_mises_kernel(X, Z, SIGMA, kappa), both, rtol=CLOSE)
    one = orbit_kernel(turned(X, 256), Z[:, None], SIGMA, q=q, q_z=[1.0])
    np.testing.assert_allclose(von_mises_kernel(X, Z, SIGMA, kappa, sides=1), one, rtol=CLOSE)


@pytest.mark.parametrize("sides", [1, 2])
def test_local_rotations_at_the_ends(sides: int) -> None:
    """kappa = 0 is the Haar kernel; a large kappa is the kernel itself, up to 1 / kappa."""
    X = points(4, 2)
    np.testing.assert_allclose(von_mises_kernel(X, X, SIGMA, 0.0, sides), rotation_kernel(X, X, SIGMA), rtol=CLOSE)
    plain = base_mean(X, X, gaussian(SIGMA))
    np.testing.assert_allclose(von_mises_kernel(X, X, SIGMA, 1e6, sides), plain, rtol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_ryser_is_the_sum_over_permutations(n: int) -> None:
    """Also for a stack of matrices, and with signs."""
    E = np.random.default_rng(n).standard_normal((3, n, n))
    # terms of both signs cancel: some digits go
    np.testing.assert_allclose(permanent(E), [naive.permanent(e) for e in E], rtol=1e-9, atol=1e-12)


def test_permutations_of_entries_and_of_letters() -> None:
    """S_n on numbers, and on the one-hot letters of sequences: perm(E) / n! is the mean over all orders."""
    X = points(3, 5)
    orders = np.array(list(itertools.permutations(range(5))))
    np.testing.assert_allclose(
        permutation_kernel(X, X, SIGMA), orbit_kernel(X[:, None], X[:, orders], SIGMA), rtol=1e-10
    )
    letters = np.eye(8)[np.random.default_rng(0).integers(8, size=(4, 5))] / math.sqrt(5)
    flat = letters.reshape(4, 1, 40)
    moved = letters[:, orders].reshape(4, 120, 40)
    np.testing.assert_allclose(permutation_kernel(letters, letters, 0.5), orbit_kernel(flat, moved, 0.5), rtol=1e-10)


def test_permutation_kernels_do_not_overflow() -> None:
    """exp(<x, z> / sigma^2) of large vectors is never formed by itself."""
    x = np.array([[40.0, 30.0, 0.0]])
    # the identity alone keeps the two large entries: the others are exp(-hundreds)
    assert permutation_kernel(x, x, 1.0)[0, 0] == pytest.approx(1 / 6, rel=1e-12)


def test_cyclic_shifts_by_fft() -> None:
    """The kernel over all shifts, and every projection without a bank; even and odd lengths."""
    for d in (6, 7):
        X, Z = points(3, d), points(2, d, 3)
        slow = orbit_kernel(X[:, None], cyclic_orbit(Z), SIGMA)
        np.testing.assert_allclose(cyclic_kernel(X, Z, SIGMA), slow, rtol=CLOSE)
        inner = np.einsum("d,msd->ms", X[0], cyclic_orbit(Z))
        np.testing.assert_allclose(cyclic_projections(X[0], Z), inner, atol=1e-14)


def test_gaussian_translations_of_points() -> None:
    """Both points shaken: 200,000 draws, within 5 standard errors; no spread is the kernel itself."""
    x, z = points(1, 3), points(1, 3, 5)
    b = 0.4 * np.random.default_rng(6).standard_normal((2, 200_000, 3))
    k = np.exp(-np.square(x + b[0] - z - b[1]).sum(axis=1) / (2 * SIGMA**2))
    error = k.std(ddof=1) / math.sqrt(len(k))
    assert abs(translation_kernel(x, z, SIGMA, 0.4)[0, 0] - k.mean()) < 5 * error
    np.testing.assert_allclose(translation_kernel(x, z, SIGMA, 0.0), base_mean(x, z, gaussian(SIGMA)), rtol=CLOSE)


def test_what_does_not_fit_is_refused() -> None:
    """Shapes and ranges, by name."""
    with pytest.raises(InvalidArgument, match="plane"):
        von_mises_kernel([[1.0, 0, 0]], [[1.0, 0, 0]], 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="kappa"):
        von_mises_kernel([[1.0, 0]], [[1.0, 0]], 1.0, -1.0)
    with pytest.raises(InvalidArgument, match="SO"):
        rotation_kernel([[1.0]], [[1.0]], 1.0)
    with pytest.raises(InvalidArgument, match="square"):
        permanent(np.ones((2, 3)))
    with pytest.raises(InvalidArgument, match="shape"):
        cyclic_kernel([1.0, 2.0], [[1.0, 2.0]], 1.0)
