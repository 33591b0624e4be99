"""Building banks: front end, templates, group, thresholds -> a `Bank`. Saving and opening: `bankstore`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank, find_bank, list_banks, open_bank
from streamfeat.errors import ConfigError
from streamfeat.frontends import FrontEnd, make_front_end
from streamfeat.groups import (
    Axes,
    InputMoves,
    OperatorStack,
    acts_on_waveforms,
    make_waveform_group,
    unitarity_defect,
)
from streamfeat.kernels import Floats
from streamfeat.kernels.fourier import MAX_PROJECTION
from streamfeat.layer2 import Layer2
from streamfeat.layers import features_of, phi, pooled, size_of
from streamfeat.orbits import (
    USER,
    USER_ORBITS,
    Factor,
    Orbits,
    Progress,
    every_orbit,
    factors_of,
    is_operator_array,
    moved_recording,
    need_orbits,
    operator_arrays,
    orbits,
    parameter_arrays,
    stored_orbits,
    takes_orbits,
    template_vectors,
    user_orbits,
)
from streamfeat.pooling import Fourier, Material
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from streamfeat.templates import Drawn, Request, choose_rows

__all__ = [
    "Bank",
    "Difference",
    "build_bank",
    "compare_features",
    "find_bank",
    "list_banks",
    "materialise",
    "open_bank",
    "orbits",
    "template_vectors",
]

MAX_GROUP = 65535
"""Counts are uint16."""

PATCHES = 8192
"""Patches that templates are taken from, drawn from all signals alike; as many as templates, if those are more."""


def build_bank(
    spec: BankSpec,
    signals: Iterable[Signal] | None = None,
    *,
    templates: ArrayLike | None = None,
    operators: Sequence[OperatorStack] = (),
    orbits: Orbits | None = None,
    progress: Progress | None = None,
) -> Bank:
    """Make the bank that a spec describes. The same spec and signals give the same hash.

    Parameters
    ----------
    spec : BankSpec
    signals : iterable of Signal, optional
        For templates from data, quantile thresholds and median widths.
    templates : (m, d) array, optional
        For templates.source = "user".
    operators : sequence of OperatorStack, optional
        One for each group factor called "user", in order.
    orbits : (m, G, d) array or m sequences of G signals, optional
        For the group factor "user_orbits": gt of each template, the template itself first; see `user_orbits`.
    progress : callable, optional
        Called with (templates done, m) while orbits are computed.

    Raises
    ------
    ConfigError
        What the spec needs is missing, what it does not is there, or |G| > 65535 with CDF counts.
    InvalidArgument
        A signal is of the wrong kind; the message has its name.
    """
    _check_given(spec, signals, templates, orbits)
    front_end = make_front_end(spec.front_end)
    recordings = list(signals or ()) if spec.needs_signals else []
    vectors = np.empty((len(recordings), front_end.d), np.float32)
    for i, signal in enumerate(recordings):
        vectors[i] = front_end(signal)

    arrays: dict[str, NDArray[Any]]
    if acts_on_waveforms(spec.group):
        moves = make_waveform_group(spec.group, _rng(spec, "group"))
        manifest = _manifest(spec, front_end, moves, "dense")
        chosen = choose_rows(vectors, spec.templates.m, _rng(spec, "templates"))
        each = (moved_recording(front_end, moves, recordings[i]) for i in chosen)
        arrays = {"orbits": stored_orbits(each, manifest["n_group"], spec.templates.m, front_end.d, progress)}
        arrays |= parameter_arrays(moves)
    elif orbits is not None:
        given = user_orbits(orbits, spec, front_end)
        _check_frequencies(spec, given.vectors.reshape(-1, front_end.d))
        manifest = _manifest(spec, front_end, [given], "dense")
        arrays = {"orbits": stored_orbits(given.vectors, given.n, spec.templates.m, front_end.d, progress)}
        arrays |= parameter_arrays([given])
    else:
        factors = factors_of(spec, front_end.axes, operators, _rng(spec, "group"))
        manifest = _manifest(spec, front_end, factors, "operators")
        drawn = _draw_templates(spec, front_end.axes, vectors, templates)
        arrays = operator_arrays(spec, factors, drawn.T, progress) | parameter_arrays(factors) | drawn.kept
    arrays |= spec.pooling.build(_material(Bank(manifest, arrays), vectors))
    if spec.layer2 is not None:
        arrays |= _layer2_arrays(spec.layer2, Bank(manifest, arrays), vectors)
    bank = Bank.of(manifest, arrays)
    return materialise(bank, progress) if spec.form == "dense" else bank


def materialise(bank: Bank, progress: Progress | None = None) -> Bank:
    """The dense form of a bank: every gt stored, for comparison and for what has no adjoint.

    Its features are those of the operators form, but for counts whose projection lies within rounding of a threshold.

    Raises
    ------
    ConfigError
        A factor depends on the input (`noisy_norm`), so that there is no gt; or the bank has patches.
    """
    if bank.form == "dense":
        return bank
    if not bank.spec.window.whole:
        raise ConfigError(f"bank {bank.name!r} has patches: their templates are stored already, there is no dense form")
    need_orbits(bank.name, bank.factors)
    kept = {name: a for name, a in bank.arrays.items() if not is_operator_array(name)}
    stored = stored_orbits(every_orbit(bank), bank.n_group, bank.m, bank.d, progress)
    manifest = {**bank.manifest, "spec": {**bank.manifest["spec"], "form": "dense"}}
    return Bank.of(manifest, {"orbits": stored, **kept})


@dataclass(frozen=True)
class Difference:
    """How many numbers of some features were compared, how many differ at all, and by how much at the most."""

    compared: int
    differing: int
    largest_difference: float


def compare_features(bank: Bank, other: Bank, n_vectors: int, rng: np.random.Generator) -> Difference:
    """What two banks of the same d and D, two forms of one say, make of random unit vectors."""
    vectors = rng.standard_normal((n_vectors, bank.d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    given = vectors.astype(np.float32)
    apart = np.abs(features_of(bank, given).astype(np.float64) - features_of(other, given))
    return Difference(apart.size, int(np.count_nonzero(apart)), float(apart.max(initial=0.0)))


# ------------------------------------------------------------------------------------------------- parts of a bank


def _check_given(
    spec: BankSpec, signals: Iterable[Signal] | None, templates: ArrayLike | None, orbits: Orbits | None
) -> None:
    if spec.needs_signals and signals is None:
        raise ConfigError(
            f"bank {spec.name!r} takes its templates, thresholds or widths from signals; give some (templates.source = "
            f"{spec.templates.source!r}, pooling.kind = {spec.pooling.kind!r})"
        )
    if (orbits is not None) != takes_orbits(spec):
        raise ConfigError(
            f"bank {spec.name!r}: orbits go with the group factor {USER_ORBITS!r} and only with it, got "
            f"{[factor['factor'] for factor in spec.group]} {'without' if orbits is None else 'with'} orbits; give "
            "them as orbits=, or a folder of them with --from"
        )
    if (templates is None) != (spec.templates.source != USER or orbits is not None):
        raise ConfigError(
            f"bank {spec.name!r}: an array of templates goes with templates.source = 'user' and only with it, "
            f"got source = {spec.templates.source!r} {'without' if templates is None else 'with'} an array"
        )


def _rng(spec: BankSpec, use: str) -> np.random.Generator:
    """Its own stream for each use, so that |G| = 1 keeps the templates of the full group."""
    return np.random.default_rng([spec.seed, ("templates", "group", "pooling", "layer2", "patches").index(use)])


def _draw_templates(spec: BankSpec, axes: Axes, vectors: Floats, given: ArrayLike | None) -> Drawn:
    window, sigma = spec.window, spec.pooling.sigma if isinstance(spec.pooling, Fourier) else None
    d = math.prod(window.template_shape(axes.shape))
    if spec.templates.needs_signals:
        vectors = window.sample(vectors, axes.shape, max(PATCHES, spec.templates.m), _rng(spec, "patches"))
    drawn = spec.templates.draw(Request(d, _rng(spec, "templates"), vectors, sigma, given))
    _check_frequencies(spec, drawn.T)
    return drawn


def _check_frequencies(spec: BankSpec, T: Floats) -> None:
    if not isinstance(spec.pooling, Fourier):
        return
    longest = float(np.linalg.norm(T, axis=1).max()) * (spec.pooling.gain or 1.0)
    if longest > MAX_PROJECTION / 2:
        raise ConfigError(
            f"frequencies of norm {longest:.3g} are beyond what cos and sin are computed to ({MAX_PROJECTION / 2:g}); "
            f"use a larger pooling.sigma or a smaller gain, got sigma = {spec.pooling.sigma!r} and "
            f"gain = {spec.pooling.gain!r}"
        )


def _material(bank: Bank, vectors: Floats) -> Material:
    """What the pooling is built from: a bank without its arrays, not yet entered in a manifest."""

    def project(some: Floats) -> Iterator[tuple[slice, int, Floats]]:
        step = items_at_once(bank)
        for first in range(0, len(some), step):
            items = slice(first, first + step)
            for block, P in projections(bank, some[items]):
                yield items, block, P

    return Material(
        size_of(bank),
        vectors,
        lambda: template_vectors(bank),
        lambda chosen: orbits(bank, chosen),
        bank.form == "dense" or all(factor.linear for factor in bank.factors),
        project,
        _rng(bank.spec, "pooling"),
    )


def _layer2_arrays(layer2: Layer2, bank: Bank, vectors: Floats) -> dict[str, NDArray[Any]]:
    seen = vectors[vectors.any(axis=1)] if layer2.needs_signals else vectors[:0]
    first = phi(bank, pooled(bank, seen))
    return layer2.build(first.shape[1], first, _rng(bank.spec, "layer2"))


def _manifest(spec: BankSpec, front_end: FrontEnd, factors: Sequence[Factor], form: str) -> dict[str, Any]:
    """All but the arrays. The spec in it is canonical: defaults of stages and factors written out."""
    axes, layer2 = front_end.axes, spec.layer2
    spec.window.check(axes.names)
    G = math.prod(factor.n for factor in factors) * math.prod(spec.window.grid(axes.shape))
    if spec.pooling.dtype == "<u2" and G > MAX_GROUP:
        raise ConfigError(
            f"bank {spec.name!r} has |G| = {G}; CDF counts are uint16 and take at most {MAX_GROUP}: use fewer elements"
        )
    tables: list[Mapping[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for given, factor in zip(spec.group, factors, strict=True):
        tables.append({"factor": USER} if given["factor"] == USER else factor.spec)
        entry = {"factor": given["factor"], "n": factor.n, "parameters": list(factor.names)}
        if isinstance(factor, OperatorStack | InputMoves):
            entry["unitarity_defect"] = [float(v) for v in unitarity_defect(factor)]
        entries.append(entry)
    return {
        "spec": {**replace(spec, front_end=tuple(front_end.spec), group=tuple(tables)).as_dict(), "form": form},
        "kind": front_end.kind,
        "axes": {
            "names": list(axes.names),
            "shape": list(axes.shape),
            "band_hz": [float(f) for f in axes.band_hz],
            "rate_hz": float(axes.rate_hz),
        },
        "n_group": G,
        "n_features": layer2.n_features if layer2 else spec.pooling.n_features(spec.templates.m),
        "dtype": "<f4" if layer2 else spec.pooling.dtype,
        "factors": entries,
    }
