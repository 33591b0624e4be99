"""Factors that act on the input by a rule: noisy norm sorting, and exact shifts of waveforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups import InputMoves, apply_forward, input_moves, make_factor, unitarity_defect
from streamfeat.groups.axes import Axes
from tests import naive

ATOMS = Axes(("row", "column"), (6, 6))
NOISE: dict[str, Any] = {"factor": "noisy_norm", "law": "gaussian", "sigma": 1.0, "n": 5}


def moves_of(axes: Axes, seed: int = 0, **spec: Any) -> InputMoves:
    """One factor that acts by a rule."""
    factor = make_factor(spec, axes, np.random.default_rng(seed))
    assert isinstance(factor, InputMoves)
    return factor


def acted(factor: InputMoves, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every element on one input."""
    out = np.zeros((factor.n, factor.d), np.float32)
    factor.act(x.reshape(1, -1), out)
    return out


def molecule(n: int, seed: int = 0) -> NDArray[np.float32]:
    """A Coulomb matrix of n atoms at random: C_ii = Z^2.4 / 2, C_ij = Z_i Z_j / distance."""
    rng = np.random.default_rng(seed)
    Z = rng.choice([1.0, 6.0, 7.0, 8.0], n)
    R = rng.uniform(-3, 3, (n, 3))
    distance = np.linalg.norm(R[:, None] - R, axis=2) + np.eye(n)
    return np.where(np.eye(n) > 0, 0.5 * Z**2.4, np.outer(Z, Z) / distance).astype(np.float32)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_noisy_norm_is_its_slow_twin(seed: int) -> None:
    """Rows and columns sorted by row norm plus noise, for each draw of the noise."""
    factor, C = moves_of(ATOMS, seed, **NOISE), molecule(6, seed)
    assert factor.n == 6
    for noise, got in zip(factor.parameters, acted(factor, C), strict=True):
        np.testing.assert_array_equal(got.reshape(6, 6), naive.noisy_norm(C, noise.tolist()))


def test_without_noise_it_is_the_sorted_matrix() -> None:
    """The identity is the plain sort: norms fall; it can be left out."""
    factor, C = moves_of(ATOMS, **NOISE), molecule(6)
    norms = np.linalg.norm(acted(factor, C)[0].reshape(6, 6), axis=1)
    assert (np.diff(norms) <= 0).all()
    assert not factor.parameters[0].any()
    assert moves_of(ATOMS, **NOISE, identity=False).n == 5


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_atoms_does_not_matter(seed: int) -> None:
    """C and P C P' are moved to the same matrices, to the bit, where no two rows have the same norm."""
    factor, C = moves_of(ATOMS, 1, **NOISE), molecule(6, seed)
    places = np.random.default_rng(seed).permutation(6)
    np.testing.assert_array_equal(acted(factor, C[places][:, places]), acted(factor, C))


def test_noise_reorders_as_often_as_it_should() -> None:
    """Two rows whose norms lie one apart change places with P(N(0, 2 sigma^2) > 1): within 5 sigma of it."""
    n = 4000
    factor = moves_of(Axes(("row", "column"), (2, 2)), **{**NOISE, "n": n}, identity=False)
    C = np.diag([3.0, 2.0]).astype(np.float32)
    swapped = (acted(factor, C)[:, 0] == 2).mean()
    wanted = 0.5 * math.erfc(1 / 2)
    assert swapped == pytest.approx(wanted, abs=5 * math.sqrt(wanted * (1 - wanted) / n))


def test_noise_is_the_banks_own() -> None:
    """Drawn from the generator once; made again from stored parameters the factor is the same."""
    factor, C = moves_of(ATOMS, **NOISE), molecule(6)
    again = input_moves(factor.spec, ATOMS, factor.parameters)
    np.testing.assert_array_equal(acted(again, C), acted(factor, C))
    assert again.names == factor.names == tuple(f"noise_{i}" for i in range(6))
    assert (moves_of(ATOMS, 1, **NOISE).parameters[1:] != factor.parameters[1:]).all()


def test_inputs_do_not_depend_on_their_company() -> None:
    """Row by row, whatever lies beside it; wider rows keep what is beyond d."""
    factor = moves_of(ATOMS, **NOISE)
    X = np.stack([molecule(6, seed).ravel() for seed in range(7)])
    wide = np.pad(X, ((0, 0), (0, 4)), constant_values=9)
    out = np.full((7 * factor.n, 40), -1, np.float32)
    factor.act(wide, out)
    for r, x in enumerate(X):
        np.testing.assert_array_equal(out[r * factor.n : (r + 1) * factor.n, :36], acted(factor, x))
    assert (out[:, 36:] == -1).all()


def test_a_sort_has_no_orbit_of_templates() -> None:
    """Its forward action is copies, and as a permutation of each input its defect is 0."""
    factor = moves_of(ATOMS, **NOISE)
    assert not factor.linear
    T = molecule(6).reshape(1, 36)
    np.testing.assert_array_equal(apply_forward(factor, T)[0], np.repeat(T, factor.n, axis=0))
    np.testing.assert_array_equal(unitarity_defect(factor), np.zeros(factor.n))


def wave(d: int) -> Axes:
    """Axes of a waveform of d samples."""
    return Axes(("sample",), (d,), rate_hz=8000.0)


@settings(deadline=None, max_examples=25)
@given(d=st.integers(1, 24), samples=st.floats(-30, 30))
def test_sample_shift_is_its_slow_twin(d: int, samples: float) -> None:
    """Any fraction of a sample, odd and even lengths."""
    t = np.random.default_rng(d).standard_normal(d).astype(np.float32)
    factor = moves_of(wave(d), factor="sample_shift", law="grid", low=samples, high=samples, n=1, identity=False)
    # float32 result of float64 sums; the twin's d^2 sums
    np.testing.assert_allclose(apply_forward(factor, t[None])[0, 0], naive.sample_shift(t, samples), atol=1e-6)


def test_whole_shifts_are_copies_and_fractions_are_exact_on_sines() -> None:
    """numpy.roll for whole samples; a sine of any frequency below half the rate is the sine of later times."""
    d = 200
    t = np.random.default_rng(0).standard_normal(d).astype(np.float32)
    whole = moves_of(wave(d), factor="sample_shift", law="grid", low=-3, high=3, n=7)
    np.testing.assert_array_equal(
        apply_forward(whole, t[None])[0], [np.roll(t, int(k)) for k in whole.parameters.ravel()]
    )
    part = moves_of(wave(d), factor="sample_shift", law="uniform", low=-5, high=5, n=6)
    for k in (1, 7, 99):
        sine = np.sin(2 * np.pi * k * np.arange(d) / d + 0.3).astype(np.float32)
        for shift, got in zip(part.parameters.ravel(), apply_forward(part, sine[None])[0], strict=True):
            wanted = np.sin(2 * np.pi * k * (np.arange(d) - shift) / d + 0.3)
            np.testing.assert_allclose(got, wanted, atol=1e-6)  # float32 sine in, float32 out


@pytest.mark.parametrize("d", [63, 64])
def test_shifts_compose_and_keep_inner_products(d: int) -> None:
    """Shifting by a then b is shifting by a + b; R'R = I, but for half the rate itself where d is even."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, d)).astype(np.float32)
    x -= (x @ (-1) ** np.arange(d) / d * (-1) ** np.arange(d)).astype(np.float32)  # nothing at half the rate
    factor = moves_of(wave(d), factor="sample_shift", law="grid", low=-1.25, high=1.25, n=3, identity=False)
    there = apply_forward(factor, x)[0]
    back = acted(factor, there[0])
    np.testing.assert_allclose(back[0], x[0], atol=2e-6)  # two float32 roundings of numbers of size 3
    dense = np.stack([apply_forward(factor, e[None])[0] for e in np.eye(d, dtype=np.float32)], axis=2)
    defects = [np.linalg.norm(R.T.astype(np.float64) @ R - np.eye(d)) / math.sqrt(d) for R in dense]
    np.testing.assert_allclose(unitarity_defect(factor), defects, atol=1e-6)  # d numbers of float32
    assert unitarity_defect(factor)[1] == 0
    assert (unitarity_defect(factor)[0] > 0) == (d % 2 == 0)


@pytest.mark.parametrize(
    ("axes", "spec", "message"),
    [
        (Axes(("row", "column"), (2, 3)), NOISE, r"square matrices, the front end gives \(2, 3\)"),
        (wave(9), NOISE, "noisy_norm needs the axes row, column"),
        (ATOMS, {"factor": "sample_shift", "law": "delta"}, "sample_shift needs the axes sample"),
        (wave(9), {"factor": "sample_shift", "law": "grid", "low": 0, "high": 1e12, "n": 2}, r"within \+-1e9"),
        (ATOMS, {**NOISE, "law": "all"}, "no parameter 'sigma'|finite groups"),
    ],
)
def test_impossible_ones_are_refused(axes: Axes, spec: dict[str, Any], message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        make_factor(spec, axes, np.random.default_rng(0))
