"""Groups: products of factors, their stacks of adjoints, their order."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.groups import (
    FACTORS,
    INPUT_FACTORS,
    OperatorStack,
    apply_forward,
    apply_group,
    element_parameters,
    make_factor,
    make_group,
    make_stack,
    n_elements,
    rotation,
    scaling,
    translation,
    unitarity_defect,
)
from streamfeat.groups.axes import Axes

PLANE = Axes(("row", "column"), (9, 9))
TURNS = {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 5}
SHIFTS = {"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 3}


def group(*specs: dict[str, Any], axes: Axes = PLANE) -> tuple[OperatorStack, ...]:
    """The group of these factors, matrices all of them."""
    factors = make_group(specs, axes, np.random.default_rng(0))
    stacks = tuple(factor for factor in factors if isinstance(factor, OperatorStack))
    assert len(stacks) == len(factors)
    return stacks


def test_stack_layout() -> None:
    """n CSR matrices (d, d) in one set of arrays, absolute row ends, rows' entries in ascending order."""
    (turns,) = group(TURNS)
    assert (turns.n, turns.d) == (5, 81)
    assert turns.indptr.shape == (5, 82)
    assert [a.dtype.str for a in (turns.indptr, turns.indices, turns.data)] == ["<i4", "<i4", "<f4"]
    assert turns.indptr[0, 0] == 0
    assert turns.indptr[-1, -1] == turns.data.size == turns.indices.size
    np.testing.assert_array_equal(turns.indptr[1:, 0], turns.indptr[:-1, -1])
    assert (np.diff(turns.indptr, axis=1) >= 0).all()
    for start, end in zip(turns.indptr[:, :-1].ravel(), turns.indptr[:, 1:].ravel(), strict=True):
        assert (np.diff(turns.indices[start:end]) > 0).all()
    assert turns.names == ("angle_deg",)
    assert turns.parameters.ravel().tolist() == [0, -20, -10, 10, 20]


def test_elements_that_only_copy_are_known() -> None:
    """Whole shifts copy, also those that drop numbers; turns interpolate, shifts by half a step too."""
    shifts, turns, halves = group(SHIFTS, TURNS, {**SHIFTS, "n": 5})
    assert turns.places is None
    assert halves.places is None
    assert shifts.places is not None
    x = np.random.default_rng(1).standard_normal((1, 81)).astype(np.float32)
    copied = np.append(x, 0)[shifts.places]
    np.testing.assert_array_equal(copied, [shifts.adjoint(i) @ x[0] for i in range(shifts.n)])
    assert (shifts.places == 81).any()


def test_stack_holds_the_adjoints() -> None:
    """Adjoint i on x is the operator's own adjoint; forward i on t is the operator."""
    (turns,) = group(TURNS)
    x = np.random.default_rng(1).standard_normal(81)
    forward = apply_forward(turns, x[None].astype(np.float32))
    for i, angle_deg in enumerate(turns.parameters.ravel()):
        operator = rotation(PLANE, np.radians(angle_deg))
        np.testing.assert_allclose(turns.adjoint(i) @ x, operator.adjoint(x), atol=1e-12)  # same sum reordered
        np.testing.assert_allclose(forward[0, i], operator.forward(x), atol=1e-6)  # float32 sums of four


def test_product_order() -> None:
    """g = f1 f2: f2 moves the template first, f1* the input first, the last factor changes fastest."""
    factors = group(TURNS, SHIFTS)
    turns, shifts = factors
    assert n_elements(factors) == 45
    T = np.random.default_rng(2).standard_normal((2, 81)).astype(np.float32)
    x = np.random.default_rng(3).standard_normal(81)
    orbit = apply_group(factors, T)
    assert orbit.shape == (2, 45, 81)
    parameters = element_parameters(factors)
    assert parameters.shape == (45, 3)
    for g in (0, 7, 13, 44):
        i, j = divmod(g, shifts.n)
        np.testing.assert_array_equal(parameters[g], [*turns.parameters[i], *shifts.parameters[j]])
        moved = rotation(PLANE, np.radians(parameters[g, 0])).forward(
            translation(PLANE, *parameters[g, 1:]).forward(T[1])
        )
        np.testing.assert_allclose(orbit[1, g], moved, atol=1e-5)  # two float32 interpolations
        projected = (shifts.adjoint(j) @ (turns.adjoint(i) @ x)) @ T[1]
        assert projected == pytest.approx(x @ orbit[1, g], abs=1e-4)  # 81 float32 products


def test_no_factor_is_the_identity() -> None:
    """An empty group has one element that moves nothing."""
    T = np.random.default_rng(4).standard_normal((3, 81)).astype(np.float32)
    assert group() == ()
    assert n_elements(()) == 1
    assert element_parameters(()).shape == (1, 0)
    np.testing.assert_array_equal(apply_group((), T), T[:, None])


def test_identity_is_first_and_exact() -> None:
    """Element 0 is the identity unless the spec says otherwise."""
    T = np.random.default_rng(4).standard_normal((3, 81)).astype(np.float32)
    np.testing.assert_array_equal(apply_group(group(TURNS, SHIFTS), T)[:, 0], T)
    (without,) = group({**TURNS, "low": 5, "identity": False})
    assert without.parameters.ravel()[0] == 5
    assert without.n == 5


def test_canonical_spec_gives_the_same_stack() -> None:
    """Defaults filled in, plain types; made again from its own spec the stack is equal."""
    (shifts,) = group(SHIFTS)
    assert shifts.spec == {
        "factor": "translation",
        "border": "zero",
        "law": "grid",
        "low": -1.0,
        "high": 1.0,
        "n": 3,
        "identity": True,
    }
    again = make_stack(shifts.spec, PLANE, np.random.default_rng(9))
    assert again.spec == shifts.spec
    np.testing.assert_array_equal(again.data, shifts.data)
    np.testing.assert_array_equal(again.indices, shifts.indices)


def test_sampled_groups_come_from_the_generator() -> None:
    """The same seed gives the same elements."""
    spec = {"factor": "rotation", "law": "von-mises", "kappa": 8, "n": 6}
    one, same, other = (make_stack(spec, PLANE, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.parameters, same.parameters)
    assert (one.parameters[1:] != other.parameters[1:]).all()
    assert one.parameters[0] == 0


def test_unitarity_defect() -> None:
    """0 for circular shifts and quarter turns; sqrt(k / d) when k of d numbers are dropped; above 0 in between."""
    (wrapped,) = group({**SHIFTS, "border": "wrap"})
    np.testing.assert_array_equal(unitarity_defect(wrapped), np.zeros(9))
    (quarters,) = group({"factor": "rotation", "law": "circle", "n": 4})
    np.testing.assert_array_equal(unitarity_defect(quarters), np.zeros(4))
    (dropped,) = group(SHIFTS)
    lost = [81 - (9 - abs(dy)) * (9 - abs(dx)) for dy, dx in dropped.parameters]
    np.testing.assert_allclose(unitarity_defect(dropped), np.sqrt(np.array(lost) / 81), rtol=1e-12)
    (turns,) = group(TURNS)
    defects = unitarity_defect(turns)
    assert defects[0] == 0
    assert (defects[1:] > 0.1).all()
    dense = turns.adjoint(1).toarray().astype(np.float64)
    assert defects[1] == pytest.approx(np.linalg.norm(dense @ dense.T - np.eye(81)) / 9, rel=1e-12)


OPTIONS: dict[str, dict[str, Any]] = {
    "cyclic_shift": {"on": "both"},
    "flip": {"on": "both"},
    "permutation": {"on": "rows_and_columns"},
}
GROUNDS: dict[str, Axes] = dict.fromkeys(
    ("pitch", "tempo", "time_shift"),
    Axes(("band", "frame"), (9, 9), tuple(float(hz) for hz in np.geomspace(100, 3000, 9))),
) | {"sample_shift": Axes(("sample",), (81,))}


@pytest.mark.parametrize("name", [*FACTORS, *INPUT_FACTORS])
def test_every_factor_can_be_made(name: str) -> None:
    """Each factor under a sampled law, on axes that it fits: the identity first, a name for each parameter."""
    finite = name in ("cyclic_shift", "flip", "quarter_turn", "permutation")
    law = {"law": "sampled", "n": 3} if finite else {"law": "uniform", "low": 0.8, "high": 1.2, "n": 3}
    axes = GROUNDS.get(name, PLANE)
    factor = make_factor({"factor": name, **OPTIONS.get(name, {}), **law}, axes, np.random.default_rng(2))
    assert factor.n == 4 or finite  # the identity may have been among the three
    assert factor.parameters.shape == (factor.n, len(factor.names))
    assert unitarity_defect(factor).shape == (factor.n,)
    x = np.random.default_rng(1).standard_normal((1, 81)).astype(np.float32)
    out = np.zeros((factor.n, 81), np.float32)
    factor.act(x, out)
    if factor.linear:
        np.testing.assert_array_equal(out[0], x[0])  # the identity copies
    again = make_factor(factor.spec, axes, np.random.default_rng(2))
    np.testing.assert_array_equal(again.parameters, factor.parameters)
    assert again.spec == factor.spec


@pytest.mark.parametrize("name", [*FACTORS, *INPUT_FACTORS])
def test_every_action_is_the_adjoint_of_its_forward(name: str) -> None:
    """<x, g t> = <g* x, t> for every factor that is linear, through the arrays that a bank stores (papers.md 6.10)."""
    finite = name in ("cyclic_shift", "flip", "quarter_turn", "permutation")
    law = {"law": "sampled", "n": 5} if finite else {"law": "uniform", "low": 0.7, "high": 1.4, "n": 5}
    rng = np.random.default_rng(3)
    factor = make_factor({"factor": name, **OPTIONS.get(name, {}), **law}, GROUNDS.get(name, PLANE), rng)
    if not factor.linear:
        return
    x, t = rng.standard_normal((2, 1, 81)).astype(np.float32)
    moved = np.zeros((factor.n, 81), np.float32)
    factor.act(x, moved)
    # float32 sums of a few products of size 1, and 81 of them: 81 * 6e-8 * |x||t|/9
    np.testing.assert_allclose(factor.forward(t)[0] @ x[0], moved @ t[0], atol=2e-5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"factor": "pitch", "law": "grid", "low": -1, "high": 1, "n": 3}, "pitch needs the axes band, frame"),
        ({**TURNS, "low": 30}, r"'rotation': law 'grid': low must be at most high"),
        ({**TURNS, "lwo": 30}, "no parameter 'lwo'; known: factor, law, low, high, n, identity"),
        ({**TURNS, "border": "wrap"}, "no parameter 'border'"),
        ({**SHIFTS, "border": "mirror"}, "border must be one of zero, wrap, got 'mirror'"),
        ({**TURNS, "identity": 1}, "identity must be true or false, got 1"),
        ({"factor": "scale", "law": "grid", "low": 0, "high": 1, "n": 3}, r"low = 0\.0.*scale must be"),
        ({"factor": "scale", "law": "von-mises", "kappa": 1, "n": 3}, "gives angles and is for rotation"),
        ({"factor": "rotation", "law": "log-normal", "sigma": 1, "n": 3}, "identity is above 0"),
        ({"factor": "shear", "law": "grid"}, "unknown factor 'shear'; known: rotation.*sample_shift"),
        ({"factor": "rotation", "law": "all"}, "law 'all' is for finite groups; use one of delta"),
        ({"factor": "flip", "law": "von-mises", "on": "rows", "kappa": 1, "n": 3}, "gives angles"),
        ({"law": "grid"}, "unknown factor None"),
        ({"factor": "rotation"}, "factor 'rotation': unknown law None"),
        ({"factor": "waveform_pitch"}, "acts on waveforms.*'dense'"),
    ],
)
def test_impossible_factors_are_refused(spec: dict[str, Any], message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        group(spec)


AFFINE = [
    {"factor": "rotation", "law": "von-mises", "kappa": 9, "sampling": "stratified"},
    {"factor": "scale", "unitary": True, "law": "log-normal", "sigma": 0.3, "sampling": "stratified"},
    {"factor": "translation", "law": "gaussian", "sigma": 0.3, "sampling": "stratified"},
]


def test_joint_elements_are_products() -> None:
    """Element i is f1 f2 f3 of its own parameters, f3 first; the identity in front (Raj et al. 2017, eq. 6)."""
    (joint,) = group({"factor": "joint", "n": 6, "of": AFFINE})
    assert joint.n == 7
    assert joint.names == ("angle_deg", "scale", "dy_px", "dx_px")
    assert joint.parameters[0].tolist() == [0, 1, 0, 0]
    t = np.random.default_rng(1).standard_normal(81).astype(np.float32)
    orbit = apply_forward(joint, t[None])[0]
    np.testing.assert_array_equal(orbit[0], t)
    for (angle_deg, scale, dy, dx), got in zip(joint.parameters[1:], orbit[1:], strict=True):
        moved = scaling(PLANE, scale, unitary=True).forward(translation(PLANE, dy, dx).forward(t))
        moved = rotation(PLANE, np.radians(angle_deg)).forward(moved)
        np.testing.assert_allclose(got, moved, atol=1e-5)  # products of three float32 weights
    again = make_factor(joint.spec, PLANE, np.random.default_rng(0))
    assert again.spec == joint.spec
    np.testing.assert_array_equal(again.parameters, joint.parameters)
    assert group({**joint.spec, "identity": False})[0].n == 6


def test_joint_elements_have_independent_parameters() -> None:
    """Evenly sampled laws are not paired in their order: correlations within 5 / sqrt(n)."""
    tiny = Axes(("row", "column"), (1, 1))
    (joint,) = group({"factor": "joint", "n": 900, "of": AFFINE, "identity": False}, axes=tiny)
    correlation = np.corrcoef(joint.parameters.T) - np.eye(4)
    assert np.abs(correlation).max() < 5 / np.sqrt(900)
    assert np.abs(np.sort(joint.parameters[:, 0])[450]) < 0.2  # and each keeps its law: the median of an even sample


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"n": 3, "of": []}, "needs n, an integer, and of, a list of factors"),
        ({"n": "3", "of": AFFINE}, "got n = '3'"),
        ({"n": 3, "of": [{**AFFINE[0], "n": 3}]}, "a factor in factor 'joint' has no parameter 'n'"),
        ({"n": 3, "of": [{**SHIFTS, "n": 3}]}, "no parameter 'n'"),
        ({"n": 3, "of": [{"factor": "translation", "law": "grid", "low": 0, "high": 1}]}, "gives 9 elements, not 3"),
        ({"n": 3, "of": [{"factor": "flip", "on": "rows", "law": "all"}]}, "no parameter 'n'"),
        ({"n": 3, "of": [{"factor": "noisy_norm", "law": "gaussian", "sigma": 1}]}, "is a rule"),
        ({"n": 3, "of": AFFINE, "law": "gaussian"}, "no parameter 'law'"),
    ],
)
def test_impossible_joints_are_refused(spec: dict[str, Any], message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        group({"factor": "joint", **spec})


def test_what_depends_on_the_input_comes_first() -> None:
    """noisy_norm sorts the input itself: behind a factor that moves templates it has no meaning."""
    sort = {"factor": "noisy_norm", "law": "gaussian", "sigma": 1, "n": 3}
    factors = make_group([sort, SHIFTS], PLANE, np.random.default_rng(0))
    assert n_elements(factors) == 4 * 9
    with pytest.raises(ConfigError, match=r"come first.*got translation, noisy_norm"):
        make_group([SHIFTS, sort], PLANE, np.random.default_rng(0))


def test_import_is_light() -> None:
    """Neither librosa nor scikit-learn is imported until a bank is built; kernels bring numba, which serving needs."""
    code = (
        "import sys, streamfeat.groups, streamfeat.frontends; "
        "print(sorted(set(sys.modules) & {'librosa', 'sklearn', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
