"""Building banks: front end, templates, group, thresholds -> a `Bank`. Saving and opening: `bankstore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank, find_bank, list_banks, open_bank
from streamfeat.errors import ConfigError
from streamfeat.frontends import FrontEnd, make_front_end
from streamfeat.groups import (
    OperatorStack,
    WaveformMoves,
    acts_on_waveforms,
    apply_group,
    make_stack,
    make_waveform_group,
    n_elements,
    unitarity_defect,
)
from streamfeat.kernels import LANES, Floats, blocks_of, padded
from streamfeat.kernels.fourier import MAX_PROJECTION
from streamfeat.layer2 import Layer2
from streamfeat.layers import phi, pooled, size_of
from streamfeat.pooling import Fourier, Material
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from streamfeat.templates import Drawn, Request, choose_rows

__all__ = ["Bank", "build_bank", "find_bank", "list_banks", "materialise", "open_bank", "orbits", "template_vectors"]

MAX_GROUP = 65535
"""Counts are uint16."""

CHUNK_BYTES = 64 << 20
"""Orbits are computed for as many templates at a time as fit here."""

USER = "user"
Progress = Callable[[int, int], None]


def build_bank(
    spec: BankSpec,
    signals: Iterable[Signal] | None = None,
    *,
    templates: ArrayLike | None = None,
    operators: Sequence[OperatorStack] = (),
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
    progress : callable, optional
        Called with (templates done, m) while orbits are computed.

    Raises
    ------
    ConfigError
        What the spec needs is missing, what it does not is there, or |G| > 65535 with CDF counts.
    InvalidArgument
        A signal is of the wrong kind; the message has its name.
    """
    _check_given(spec, signals, templates)
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
        each = (_moved_recording(front_end, moves, recordings[i]) for i in chosen)
        arrays = {"orbits": _stored_orbits(each, manifest["n_group"], spec.templates.m, front_end.d, progress)}
        arrays |= _parameter_arrays(moves)
    else:
        stacks = _stacks_of(spec, front_end, operators)
        manifest = _manifest(spec, front_end, stacks, "operators")
        drawn = _draw_templates(spec, front_end.d, vectors, templates)
        arrays = _operator_arrays(spec, stacks, drawn.T, progress) | _parameter_arrays(stacks) | drawn.kept
    arrays |= spec.pooling.build(_material(Bank(manifest, arrays), vectors))
    if spec.layer2 is not None:
        arrays |= _layer2_arrays(spec.layer2, Bank(manifest, arrays), vectors)
    bank = Bank.of(manifest, arrays)
    return materialise(bank, progress) if spec.form == "dense" else bank


def materialise(bank: Bank, progress: Progress | None = None) -> Bank:
    """The dense form of a bank: every gt stored, for comparison and for what has no adjoint.

    Its features are those of the operators form, but for counts whose projection lies within rounding of a threshold.
    """
    if bank.form == "dense":
        return bank
    step = max(1, CHUNK_BYTES // (4 * bank.n_group * bank.d))
    chunks = (range(t, min(t + step, bank.m)) for t in range(0, bank.m, step))
    each = (orbit for chunk in chunks for orbit in orbits(bank, chunk))
    kept = {name: a for name, a in bank.arrays.items() if not _is_operator_array(name)}
    stored = _stored_orbits(each, bank.n_group, bank.m, bank.d, progress)
    manifest = {**bank.manifest, "spec": {**bank.manifest["spec"], "form": "dense"}}
    return Bank.of(manifest, {"orbits": stored, **kept})


def template_vectors(bank: Bank) -> Floats:
    """The templates, (m, d). Of a dense bank: the first of each orbit, the identity unless the spec left it out."""
    blocks = bank.arrays["orbits"][:, 0] if bank.form == "dense" else bank.arrays["templates"]
    return np.ascontiguousarray(blocks[:, : bank.d].transpose(0, 2, 1).reshape(-1, bank.d)[: bank.m])


def orbits(bank: Bank, chosen: Sequence[int]) -> Floats:
    """gt for the chosen templates and every g, renormalised, (len(chosen), G, d); the last factor fastest."""
    if bank.form == "dense":
        stored = bank.arrays["orbits"]
        return np.stack([stored[t // LANES, :, : bank.d, t % LANES] for t in chosen])
    stacks = [_stored_stack(bank, j) for j in range(len(bank.manifest["factors"]))]
    moved = apply_group(stacks, template_vectors(bank)[list(chosen)])
    scale = bank.arrays.get("scale")
    if scale is not None:
        moved *= np.stack([scale[t // LANES, :, t % LANES] for t in chosen])[:, :, None]
    return moved


# ------------------------------------------------------------------------------------------------- parts of a bank


def _check_given(spec: BankSpec, signals: Iterable[Signal] | None, templates: ArrayLike | None) -> None:
    if spec.needs_signals and signals is None:
        raise ConfigError(
            f"bank {spec.name!r} takes its templates, thresholds or widths from signals; give some (templates.source = "
            f"{spec.templates.source!r}, pooling.kind = {spec.pooling.kind!r})"
        )
    if (templates is None) != (spec.templates.source != USER):
        raise ConfigError(
            f"bank {spec.name!r}: an array of templates goes with templates.source = 'user' and only with it, "
            f"got source = {spec.templates.source!r} {'without' if templates is None else 'with'} an array"
        )


def _rng(spec: BankSpec, use: str) -> np.random.Generator:
    """Its own stream for each use, so that |G| = 1 keeps the templates of the full group."""
    return np.random.default_rng([spec.seed, ("templates", "group", "pooling", "layer2").index(use)])


def _draw_templates(spec: BankSpec, d: int, vectors: Floats, given: ArrayLike | None) -> Drawn:
    sigma = spec.pooling.sigma if isinstance(spec.pooling, Fourier) else None
    drawn = spec.templates.draw(Request(d, _rng(spec, "templates"), vectors, sigma, given))
    longest = float(np.linalg.norm(drawn.T, axis=1).max())
    if sigma is not None and longest > MAX_PROJECTION / 2:
        raise ConfigError(
            f"frequencies of norm {longest:.3g} are beyond what cos and sin are computed to ({MAX_PROJECTION / 2:g}); "
            f"use a larger pooling.sigma, got {sigma!r}"
        )
    return drawn


def _material(bank: Bank, vectors: Floats) -> Material:
    """What the pooling is built from: a bank without its arrays, not yet entered in a manifest."""

    def project(some: Floats) -> Iterator[tuple[slice, int, Floats]]:
        step = items_at_once(bank)
        for first in range(0, len(some), step):
            items = slice(first, first + step)
            for block, P in projections(bank, some[items]):
                yield items, block, P

    return Material(size_of(bank), vectors, lambda chosen: orbits(bank, chosen), project, _rng(bank.spec, "pooling"))


def _layer2_arrays(layer2: Layer2, bank: Bank, vectors: Floats) -> dict[str, NDArray[Any]]:
    seen = vectors[vectors.any(axis=1)] if layer2.needs_signals else vectors[:0]
    first = phi(bank, pooled(bank, seen))
    return layer2.build(first.shape[1], first, _rng(bank.spec, "layer2"))


def _stacks_of(spec: BankSpec, front_end: FrontEnd, operators: Sequence[OperatorStack]) -> list[OperatorStack]:
    """The operator stack of every factor; those called "user" are taken from `operators`, in order."""
    wanted = sum(factor["factor"] == USER for factor in spec.group)
    if wanted != len(operators) or any(stack.d != front_end.d for stack in operators):
        raise ConfigError(
            f"bank {spec.name!r} has {wanted} group factors called 'user' and needs as many operator stacks of "
            f"d = {front_end.d}, got {len(operators)} of d = {[stack.d for stack in operators]}"
        )
    given, rng = iter(operators), _rng(spec, "group")
    return [
        next(given) if factor["factor"] == USER else make_stack(factor, front_end.axes, rng) for factor in spec.group
    ]


def _stored_stack(bank: Bank, j: int) -> OperatorStack:
    indptr, indices, data, parameters = (
        bank.arrays[f"factor{j}_{part}"] for part in ("indptr", "indices", "data", "parameters")
    )
    return OperatorStack(indptr, indices, data, parameters, tuple(bank.manifest["factors"][j]["parameters"]))


def _operator_arrays(
    spec: BankSpec, stacks: Sequence[OperatorStack], T: Floats, progress: Progress | None
) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {"templates": blocks_of(T, padded(T.shape[1], 4))}
    if spec.renormalise and stacks:
        arrays["scale"] = _scale(stacks, T, progress)
    for j, stack in enumerate(stacks):
        arrays |= {f"factor{j}_{part}": getattr(stack, part) for part in ("indptr", "indices", "data")}
    return arrays


def _is_operator_array(name: str) -> bool:
    """What the dense form replaces by the orbits themselves."""
    return name in ("templates", "scale", "signs") or (name.startswith("factor") and not name.endswith("_parameters"))


def _scale(stacks: Sequence[OperatorStack], T: Floats, progress: Progress | None) -> Floats:
    """|t| / |gt| in blocks, (n_blocks, G, LANES); 0 where gt is 0."""
    G, (m, d) = n_elements(stacks), T.shape
    scale = np.zeros((m, G))
    step = max(1, CHUNK_BYTES // (4 * G * d))
    for first in range(0, m, step):
        chunk = T[first : first + step]
        norms = np.linalg.norm(apply_group(stacks, chunk).astype(np.float64), axis=2)
        wanted = np.linalg.norm(chunk.astype(np.float64), axis=1)[:, None]
        np.divide(wanted, norms, out=scale[first : first + step], where=norms > 0)
        if progress:
            progress(min(first + step, m), m)
    return blocks_of(scale)


def _moved_recording(front_end: FrontEnd, moves: Sequence[WaveformMoves], signal: Signal) -> Floats:
    """front_end(g signal) for every g, (G, d); the last factor moves first and changes fastest."""
    rate_hz = signal.rate_hz
    if rate_hz is None:
        raise ConfigError(
            f"{signal.name or 'signal'}: waveform factors move audio, got {signal.kind}; use other factors"
        )
    waveforms = [signal.unit_scale()]
    for factor in reversed(moves):
        waveforms = [factor.move(i, samples, rate_hz) for i in range(factor.n) for samples in waveforms]
    return np.stack([front_end(Signal("audio", samples, rate_hz, signal.name)) for samples in waveforms])


def _stored_orbits(each: Iterable[Floats], G: int, m: int, d: int, progress: Progress | None) -> Floats:
    """Orbits (G, d), one a template, laid out for `project_orbits`: (n_blocks, G, d, LANES)."""
    stored = np.zeros((padded(m, LANES) // LANES, G, padded(d, 4), LANES), np.float32)
    for t, orbit in enumerate(each):
        stored[t // LANES, :, :d, t % LANES] = orbit
        if progress:
            progress(t + 1, m)
    return stored


def _parameter_arrays(factors: Sequence[OperatorStack | WaveformMoves]) -> dict[str, NDArray[np.float64]]:
    return {f"factor{j}_parameters": np.asarray(f.parameters, np.float64) for j, f in enumerate(factors)}


def _manifest(
    spec: BankSpec, front_end: FrontEnd, factors: Sequence[OperatorStack | WaveformMoves], form: str
) -> dict[str, Any]:
    """All but the arrays. The spec in it is canonical: defaults of stages and factors written out."""
    G, layer2 = n_elements(factors), spec.layer2
    if spec.pooling.dtype == "<u2" and G > MAX_GROUP:
        raise ConfigError(
            f"bank {spec.name!r} has |G| = {G}; CDF counts are uint16 and take at most {MAX_GROUP}: use fewer elements"
        )
    tables: list[Mapping[str, Any]] = []
    entries: list[dict[str, Any]] = []
    for given, factor in zip(spec.group, factors, strict=True):
        tables.append({"factor": USER} if given["factor"] == USER else factor.spec)
        entry = {"factor": given["factor"], "n": factor.n, "parameters": list(factor.names)}
        if isinstance(factor, OperatorStack):
            entry["unitarity_defect"] = [float(v) for v in unitarity_defect(factor)]
        entries.append(entry)
    axes = front_end.axes
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
