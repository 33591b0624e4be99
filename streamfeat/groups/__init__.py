"""How a template moves: groups as products of factors, each a stack of sparse operators, a rule or waveform moves.

A factor spec is one table: {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 5, "identity": true},
that is a name, the factor's own options, a law with its parameters, and whether the identity is put first. A group is a
list of them, g = f_1 f_2 ... f_k: the adjoints act on the input in the order f_1*, f_2*, ..., so that what is dear (an
interpolated rotation) comes first and is done once, and what is cheap (a shift by copying) follows.

What there is, with its options; all take a law and `identity`:

    rotation  translation (border)  scale (unitary)         pictures; bilinear
    pitch  tempo  time_shift (border)                       spectrograms; linear
    cyclic_shift (on)  flip (on)  quarter_turn              finite and exact: "all" of it, or "sampled"
    permutation (on)                                        rows, columns, rows_and_columns (P C P'), entries
    joint (n, of)                                           n elements of a product, not all combinations
    noisy_norm                                              sorts each input, by a rule; first in a product
    sample_shift                                            waveforms, round their end, by Fourier transform
    waveform_pitch  waveform_tempo                          recordings before the front end; dense banks

A new factor is a small frozen dataclass whose fields are its options, entered in one of the three tables below:
`space(axes)` says what its parameters are, `operator(axes, *element)` (or `adjoints`, or `move`) what an element does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.audio import Pitch, Tempo, TimeShift, pitch, tempo, time_shift
from streamfeat.groups.axes import Axes
from streamfeat.groups.finite import FINITE_LAWS, All, Sampled
from streamfeat.groups.image import Rotation, Scale, Translation, rotation, scaling, translation
from streamfeat.groups.inputs import InputFactor, InputMoves, NoisyNorm, SampleShift
from streamfeat.groups.laws import LAWS, Parameters, identity_first, make_law
from streamfeat.groups.operators import (
    Elements,
    Operator,
    OperatorStack,
    apply_forward,
    apply_group,
    compose,
    copies,
    stack,
    unitarity_defect,
)
from streamfeat.groups.permutations import CyclicShift, Flip, Permutation, QuarterTurn
from streamfeat.groups.space import Space
from streamfeat.groups.waveform import WaveformMoves, WaveformPitch, WaveformTempo, waveform_pitch, waveform_tempo
from streamfeat.spec import as_table, pick, read_table, refuse_unknown

__all__ = [
    "FACTORS",
    "FINITE_LAWS",
    "INPUT_FACTORS",
    "LAWS",
    "WAVEFORM_FACTORS",
    "Axes",
    "Elements",
    "InputMoves",
    "Operator",
    "OperatorStack",
    "WaveformMoves",
    "acts_on_waveforms",
    "apply_forward",
    "apply_group",
    "element_parameters",
    "input_moves",
    "inputs_first",
    "make_factor",
    "make_group",
    "make_joint",
    "make_law",
    "make_stack",
    "make_waveform_group",
    "n_elements",
    "pitch",
    "rotation",
    "scaling",
    "stack",
    "tempo",
    "time_shift",
    "translation",
    "unitarity_defect",
    "waveform_pitch",
    "waveform_tempo",
]

Factor = Rotation | Translation | Scale | Pitch | Tempo | TimeShift | CyclicShift | Flip | QuarterTurn | Permutation
WaveformFactor = WaveformPitch | WaveformTempo
F = TypeVar("F", bound=Factor | InputFactor | WaveformFactor)

FACTORS: dict[str, type[Factor]] = {
    "rotation": Rotation,
    "translation": Translation,
    "scale": Scale,
    "pitch": Pitch,
    "tempo": Tempo,
    "time_shift": TimeShift,
    "cyclic_shift": CyclicShift,
    "flip": Flip,
    "quarter_turn": QuarterTurn,
    "permutation": Permutation,
}
"""Name in a spec -> linear factor, a sparse matrix an element; the fields are its options."""

JOINT = "joint"
"""The factor that draws from a product of others; see `make_joint`."""

INPUT_FACTORS: dict[str, type[InputFactor]] = {"noisy_norm": NoisyNorm, "sample_shift": SampleShift}
"""Factors that act on the input by a rule, computed anew for each."""

WAVEFORM_FACTORS: dict[str, type[WaveformFactor]] = {
    "waveform_pitch": WaveformPitch,
    "waveform_tempo": WaveformTempo,
}
"""Factors that act on waveforms before the front end: dense banks only."""


def make_group(specs: Sequence[Mapping[str, Any]], axes: Axes, rng: np.random.Generator) -> tuple[Elements, ...]:
    """The elements of each factor; no factor at all is the group of the identity alone.

    Raises
    ------
    ConfigError
        An unknown factor, law or parameter; a factor that needs other axes than the front end's; a factor without an
        orbit (`noisy_norm`) behind another: it acts on the input itself.
    """
    factors = tuple(make_factor(spec, axes, rng) for spec in specs)
    inputs_first(factors)
    return factors


def inputs_first(factors: Sequence[Elements]) -> None:
    """Raise `ConfigError` for a factor that depends on the input behind one that moves templates."""
    linear = [factor.linear for factor in factors]
    if linear != sorted(linear):
        names = ", ".join(str(factor.spec.get("factor", "user")) for factor in factors)
        raise ConfigError(f"factors that depend on the input come first, before all that move templates; got {names}")


def make_factor(spec: Mapping[str, Any], axes: Axes, rng: np.random.Generator) -> Elements:
    """One factor's elements, with its canonical spec.

    Parameters
    ----------
    spec : mapping
        "factor", a name of `FACTORS` or `INPUT_FACTORS`; its options; "law" and the law's parameters; "identity"
        (true).
    axes : Axes
        Of the front end whose vectors are moved.
    rng : Generator
        For sampled laws; grids draw nothing.

    Raises
    ------
    ConfigError
        As `make_group`.

    Examples
    --------
    >>> spec = {"factor": "permutation", "on": "rows", "law": "all"}
    >>> make_factor(spec, Axes(("row", "column"), (5, 8)), np.random.default_rng(0)).n
    120
    """
    if spec.get("factor") in WAVEFORM_FACTORS:
        raise ConfigError(
            f"factor {spec['factor']!r} acts on waveforms, not on what a front end gives: "
            "build the bank in form 'dense', from data templates, with waveform factors only"
        )
    if spec.get("factor") == JOINT:
        return make_joint(spec, axes, rng)
    if spec.get("factor") not in INPUT_FACTORS:
        return make_stack(spec, axes, rng)
    factor = _read_factor(spec, INPUT_FACTORS)
    space = factor.space(axes)
    parameters, canonical = _elements(spec, factor, space, rng)
    _check_each(factor.check, parameters, canonical)
    return InputMoves(factor, axes, parameters, space.names, canonical)


def make_stack(spec: Mapping[str, Any], axes: Axes, rng: np.random.Generator) -> OperatorStack:
    """The adjoints of a factor of `FACTORS`; see `make_factor`.

    Examples
    --------
    >>> spec = {"factor": "rotation", "law": "circle", "n": 4}
    >>> turns = make_stack(spec, Axes(("row", "column"), (28, 28)), np.random.default_rng(0))
    >>> turns.parameters.ravel()
    array([  0.,  90., 180., 270.])
    """
    factor = _read_factor(spec, {**FACTORS, **INPUT_FACTORS})
    if isinstance(factor, NoisyNorm | SampleShift):
        raise ConfigError(f"factor {spec['factor']!r} is a rule and has no matrices; use make_factor")
    space = factor.space(axes)
    parameters, canonical = _elements(spec, factor, space, rng)
    try:
        operators = [factor.operator(axes, *element) for element in parameters.tolist()]
    except InvalidArgument as error:
        raise ConfigError(f"{_where(canonical)}: {error}; change the law's parameters") from None
    return stack(operators, parameters, space.names, canonical)


def make_joint(spec: Mapping[str, Any], axes: Axes, rng: np.random.Generator) -> OperatorStack:
    """n elements of a product of factors, instead of all combinations of each one's.

    Raj et al. 2017, eq. 6, with g_i ~ q over a product such as the affine group: element i is f_1,i f_2,i ... f_k,i.
    The factors' elements are drawn independently and, but for the first's, put in an order by chance, so that evenly
    sampled laws do not run side by side.

    Parameters
    ----------
    spec : mapping
        "factor": "joint"; "n"; "of": factor specs of `FACTORS` whose laws draw n elements, without "n" and "identity";
        "identity" (true): the identity in front of the n.

    Examples
    --------
    >>> turn = {"factor": "rotation", "law": "von-mises", "kappa": 9}
    >>> grow = {"factor": "scale", "unitary": True, "law": "log-normal", "sigma": 0.3}
    >>> spec = {"factor": "joint", "n": 50, "of": [turn, grow]}
    >>> make_joint(spec, Axes(("row", "column"), (28, 28)), np.random.default_rng(0)).parameters.shape
    (51, 2)
    """
    where = f"factor {JOINT!r}"
    refuse_unknown(spec, ["factor", "n", "of", "identity"], where)
    n, of, identity = spec.get("n"), spec.get("of"), spec.get("identity", True)
    if type(n) is not int or not isinstance(of, Sequence) or not of or not isinstance(identity, bool):
        raise ConfigError(
            f"{where} needs n, an integer, and of, a list of factors, got n = {n!r}, of = {of!r}, "
            f"identity = {identity!r}"
        )
    parts: list[OperatorStack] = []
    orders: list[NDArray[np.intp]] = []
    for part in of:
        refuse_unknown(part, [name for name in part if name not in ("n", "identity")], f"a factor in {where}")
        drawn = make_stack({**part, "n": n, "identity": False}, axes, rng)
        if drawn.n != n:
            raise ConfigError(f"{where}: law {part['law']!r} of {part['factor']!r} gives {drawn.n} elements, not {n}")
        orders.append(rng.permutation(n) if parts else np.arange(n))
        parts.append(drawn)
    operators = [
        compose([part.operator(order[i]) for part, order in zip(parts, orders, strict=True)]) for i in range(n)
    ]
    parameters = np.hstack([part.parameters[order] for part, order in zip(parts, orders, strict=True)])
    names = tuple(name for part in parts for name in part.names)
    if identity:
        still = [value for part in of for value in _read_factor(part, FACTORS).space(axes).identity]
        parameters = np.vstack([still, parameters])
        operators.insert(0, copies(axes, np.arange(axes.d // axes.n_channels)))
    tables = [{k: v for k, v in part.spec.items() if k not in ("n", "identity")} for part in parts]
    return stack(operators, parameters, names, {"factor": JOINT, "n": n, "of": tables, "identity": identity})


def input_moves(spec: Mapping[str, Any], axes: Axes, parameters: Parameters) -> InputMoves:
    """A factor of `INPUT_FACTORS` with the elements that were drawn when its bank was built."""
    factor = _read_factor(spec, INPUT_FACTORS)
    return InputMoves(factor, axes, parameters, factor.space(axes).names, spec)


def acts_on_waveforms(specs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a group moves waveforms before the front end (dense), rather than vectors after it.

    Raises
    ------
    ConfigError
        Factors of both kinds.
    """
    on_waveforms = {spec.get("factor") in WAVEFORM_FACTORS for spec in specs}
    if len(on_waveforms) == 2:
        raise ConfigError(
            f"a group acts on waveforms ({', '.join(WAVEFORM_FACTORS)}) or on vectors ({', '.join(FACTORS)}), "
            f"not on both; got {', '.join(str(spec.get('factor')) for spec in specs)}"
        )
    return on_waveforms == {True}


def make_waveform_group(specs: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> tuple[WaveformMoves, ...]:
    """The elements of each waveform factor; g = f_1 f_2 ... f_k, so the last factor moves a waveform first.

    Raises
    ------
    ConfigError
        As `make_group`.
    """
    return tuple(_make_moves(spec, rng) for spec in specs)


def _make_moves(spec: Mapping[str, Any], rng: np.random.Generator) -> WaveformMoves:
    factor = _read_factor(spec, WAVEFORM_FACTORS)
    space = factor.space()
    parameters, canonical = _elements(spec, factor, space, rng)
    _check_each(factor.check, parameters, canonical)
    return WaveformMoves(factor, parameters, space.names, canonical)


def n_elements(factors: Sequence[Elements | WaveformMoves]) -> int:
    """|G| of the product; 1 for no factor."""
    return math.prod(factor.n for factor in factors)


def element_parameters(factors: Sequence[Elements | WaveformMoves]) -> NDArray[np.float64]:
    """Parameters of every element of the product, (|G|, sum of p), the last factor changing fastest."""
    if not factors:
        return np.zeros((1, 0))
    index = np.indices([factor.n for factor in factors]).reshape(len(factors), -1)
    return np.hstack([factor.parameters[i] for factor, i in zip(factors, index, strict=True)])


def _read_factor(spec: Mapping[str, Any], choices: Mapping[str, type[F]]) -> F:
    cls = pick(choices, spec.get("factor"), "factor")
    options = {f.name: spec[f.name] for f in fields(cls) if f.name in spec}
    return read_table(cls, options, f"factor {spec['factor']!r}")


def _elements(
    spec: Mapping[str, Any], factor: Factor | InputFactor | WaveformFactor, space: Space, rng: np.random.Generator
) -> tuple[Parameters, dict[str, Any]]:
    """The parameters of a factor's elements, and its canonical spec."""
    where = f"factor {spec['factor']!r}"
    identity = spec.get("identity", True)
    if not isinstance(identity, bool):
        raise ConfigError(f"{where}: identity must be true or false, got {identity!r}")
    laws = {**LAWS, **FINITE_LAWS}
    try:
        law_names = ["law", *(f.name for f in fields(pick(laws, spec.get("law"), "law")))]
        known = ["factor", *(f.name for f in fields(factor)), *law_names, "identity"]
        refuse_unknown(spec, known, f"law {spec['law']!r} on it")
        law = make_law({name: spec[name] for name in law_names if name in spec})
        if isinstance(law, All | Sampled):
            if space.group is None:
                raise ConfigError(f"law {spec['law']!r} is for finite groups; use one of {', '.join(LAWS)}")
            parameters = law.choose(space.group, rng)
        else:
            if law.turns and not space.turns:
                raise ConfigError(f"law {spec['law']!r} gives angles and is for rotation; use 'gaussian' or 'grid'")
            parameters = law.draw(space.identity, rng)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if identity:
        parameters = identity_first(parameters, space.identity)
    canonical = {
        "factor": spec["factor"],
        **as_table(factor),
        "law": spec["law"],
        **as_table(law),
        "identity": identity,
    }
    return parameters, canonical


def _check_each(check: Callable[..., None], parameters: Parameters, canonical: Mapping[str, Any]) -> None:
    try:
        for element in parameters.tolist():
            check(*element)
    except InvalidArgument as error:
        raise ConfigError(f"{_where(canonical)}: {error}; change the law's parameters") from None


def _where(canonical: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in canonical.items())
