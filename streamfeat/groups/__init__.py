"""How a template moves: groups as products of factors, each a stack of sparse operators or of waveform moves.

A factor spec is one table: {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 5, "identity": true},
that is a name, the factor's own options, a law with its parameters, and whether the identity is put first. A group is a
list of them, g = f_1 f_2 ... f_k: the adjoints act on the input in the order f_1*, f_2*, ..., so that what is dear (an
interpolated rotation) comes first and is done once, and what is cheap (a shift by copying) follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.audio import Pitch, Tempo, TimeShift, pitch, tempo, time_shift
from streamfeat.groups.axes import Axes
from streamfeat.groups.image import Rotation, Scale, Translation, rotation, scaling, translation
from streamfeat.groups.laws import LAWS, identity_first, make_law
from streamfeat.groups.operators import (
    Operator,
    OperatorStack,
    apply_forward,
    apply_group,
    stack,
    unitarity_defect,
)
from streamfeat.groups.waveform import WaveformMoves, WaveformPitch, WaveformTempo, waveform_pitch, waveform_tempo
from streamfeat.spec import as_table, pick, read_table, refuse_unknown

__all__ = [
    "FACTORS",
    "LAWS",
    "WAVEFORM_FACTORS",
    "Axes",
    "Operator",
    "OperatorStack",
    "WaveformMoves",
    "acts_on_waveforms",
    "apply_forward",
    "apply_group",
    "element_parameters",
    "make_group",
    "make_law",
    "make_stack",
    "make_waveform_group",
    "n_elements",
    "pitch",
    "rotation",
    "scaling",
    "tempo",
    "time_shift",
    "translation",
    "unitarity_defect",
    "waveform_pitch",
    "waveform_tempo",
]

Factor = Rotation | Translation | Scale | Pitch | Tempo | TimeShift
WaveformFactor = WaveformPitch | WaveformTempo
F = TypeVar("F", bound=Factor | WaveformFactor)

FACTORS: dict[str, type[Factor]] = {
    "rotation": Rotation,
    "translation": Translation,
    "scale": Scale,
    "pitch": Pitch,
    "tempo": Tempo,
    "time_shift": TimeShift,
}
"""Name in a spec -> linear factor; the fields are its options."""

WAVEFORM_FACTORS: dict[str, type[WaveformFactor]] = {
    "waveform_pitch": WaveformPitch,
    "waveform_tempo": WaveformTempo,
}
"""Factors that act on waveforms before the front end: dense banks only."""


def make_group(specs: Sequence[Mapping[str, Any]], axes: Axes, rng: np.random.Generator) -> tuple[OperatorStack, ...]:
    """One stack of adjoints for each factor; no factor at all is the group of the identity alone.

    Raises
    ------
    ConfigError
        An unknown factor, law or parameter; a factor that needs other axes than the front end's.
    """
    return tuple(make_stack(spec, axes, rng) for spec in specs)


def make_stack(spec: Mapping[str, Any], axes: Axes, rng: np.random.Generator) -> OperatorStack:
    """The adjoints of one factor's elements, with its canonical spec.

    Parameters
    ----------
    spec : mapping
        "factor", a name of `FACTORS`; its options; "law" and the law's parameters; "identity" (true).
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
    >>> spec = {"factor": "rotation", "law": "circle", "n": 4}
    >>> turns = make_stack(spec, Axes(("row", "column"), (28, 28)), np.random.default_rng(0))
    >>> turns.parameters.ravel()
    array([  0.,  90., 180., 270.])
    """
    if spec.get("factor") in WAVEFORM_FACTORS:
        raise ConfigError(
            f"factor {spec['factor']!r} acts on waveforms, not on what a front end gives: "
            "build the bank in form 'dense', from data templates, with waveform factors only"
        )
    factor, parameters, canonical = _elements(spec, pick(FACTORS, spec.get("factor"), "factor"), rng)
    try:
        operators = [factor.operator(axes, *element) for element in parameters.tolist()]
    except InvalidArgument as error:
        raise ConfigError(f"{_where(canonical)}: {error}; change the law's parameters") from None
    return stack(operators, parameters, factor.names, canonical)


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
    factor, parameters, canonical = _elements(spec, pick(WAVEFORM_FACTORS, spec.get("factor"), "waveform factor"), rng)
    try:
        for element in parameters.tolist():
            factor.check(*element)
    except InvalidArgument as error:
        raise ConfigError(f"{_where(canonical)}: {error}; change the law's parameters") from None
    return WaveformMoves(factor, parameters, factor.names, canonical)


def n_elements(factors: Sequence[OperatorStack | WaveformMoves]) -> int:
    """|G| of the product; 1 for no factor."""
    return math.prod(factor.n for factor in factors)


def element_parameters(factors: Sequence[OperatorStack | WaveformMoves]) -> NDArray[np.float64]:
    """Parameters of every element of the product, (|G|, sum of p), the last factor changing fastest."""
    if not factors:
        return np.zeros((1, 0))
    index = np.indices([factor.n for factor in factors]).reshape(len(factors), -1)
    return np.hstack([factor.parameters[i] for factor, i in zip(factors, index, strict=True)])


def _elements(
    spec: Mapping[str, Any], cls: type[F], rng: np.random.Generator
) -> tuple[F, NDArray[np.float64], dict[str, Any]]:
    """A factor spec taken apart: the factor with its options, the parameters of its elements, the canonical spec."""
    where = f"factor {spec['factor']!r}"
    identity = spec.get("identity", True)
    if not isinstance(identity, bool):
        raise ConfigError(f"{where}: identity must be true or false, got {identity!r}")
    options = [f.name for f in fields(cls)]
    factor = read_table(cls, {name: spec[name] for name in options if name in spec}, where)
    try:
        law_names = ["law", *(f.name for f in fields(pick(LAWS, spec.get("law"), "law")))]
        refuse_unknown(spec, ["factor", *options, *law_names, "identity"], f"law {spec['law']!r} on it")
        law = make_law({name: spec[name] for name in law_names if name in spec})
        parameters = law.draw(factor.identity, rng)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if law.turns and factor.names != Rotation.names:
        raise ConfigError(f"{where}: law {spec['law']!r} gives angles and is for rotation; use 'gaussian' or 'grid'")
    if identity:
        parameters = identity_first(parameters, factor.identity)
    canonical = {
        "factor": spec["factor"],
        **as_table(factor),
        "law": spec["law"],
        **as_table(law),
        "identity": identity,
    }
    return factor, parameters, canonical


def _where(canonical: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in canonical.items())
