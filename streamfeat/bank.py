"""Building banks: front end, templates, group, thresholds -> a `Bank`. Saving and opening: `bankstore`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import BankSpec, StreamSpec, the_only
from streamfeat.bankstore import LAYER2, Bank, find_bank, list_banks, open_bank, prefixed
from streamfeat.errors import ConfigError
from streamfeat.frontends import FrontEnd, make_front_ends
from streamfeat.groups import (
    Axes,
    OperatorStack,
    acts_on_waveforms,
    make_waveform_group,
)
from streamfeat.kernels import Floats
from streamfeat.kernels.fourier import MAX_PROJECTION
from streamfeat.layer2 import median_rows
from streamfeat.layers import features_of, first_layer, phi, size_of
from streamfeat.orbits import (
    USER,
    USER_ORBITS,
    Factor,
    Orbits,
    Progress,
    every_orbit,
    factor_entries,
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
from streamfeat.outer import MAX_COUNT, with_outer
from streamfeat.pooling import Fourier, Material
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from streamfeat.streams import Stream, split, template_axes
from streamfeat.templates import Drawn, Request, choose_rows
from streamfeat.templates.request import check_size
from streamfeat.windows import MAX_POSITIONS

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
    "other_chance",
    "template_vectors",
]

USES = ("templates", "group", "pooling", "layer2", "patches", "outer")
"""What chance is used for, each under its own number.

To NumPy [seed, 0] is the seed alone, so that `default_rng(seed)` gives the templates' numbers: what is compared with a
bank takes `other_chance`.
"""

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
    given = Given(templates, tuple(operators), orbits)
    _check_given(spec, signals, given)
    front_ends = make_front_ends([stream.front_end for stream in spec.streams])
    recordings = list(signals or ()) if spec.needs_signals else []
    vectors = np.empty((len(recordings), front_ends.d), np.float32)
    for i, signal in enumerate(recordings):
        vectors[i] = front_ends(signal)

    streams = []
    for i, part in enumerate(split(vectors, [front_end.d for front_end in front_ends.parts])):
        task = Task(spec.streams[i], front_ends.parts[i], recordings, part, (spec.seed, i), progress)
        try:
            streams.append(_build_stream(task, given))
        except ConfigError as error:
            where = f"bank {spec.name!r}" + (f", stream {i}" if len(spec.streams) > 1 else "")
            raise ConfigError(f"{where}: {error}") from None
    spec, streams = with_outer(spec, streams, np.random.default_rng([spec.seed, USES.index("outer")]))
    layers = {} if spec.layer2 is None else _layer2_arrays(spec, _joined(spec, front_ends.kind, streams), vectors)
    both = zip(streams, spec.streams, strict=True)
    stored = [_dense(stream, progress) if wanted.form == "dense" else stream for stream, wanted in both]
    return Bank.of(*_joined(spec, front_ends.kind, stored, layers))


def materialise(bank: Bank, progress: Progress | None = None) -> Bank:
    """The dense form of a bank: every gt stored, for comparison and for what has no adjoint.

    Its features are those of the operators form, but for counts whose projection lies within rounding of a threshold.

    Raises
    ------
    ConfigError
        A factor depends on the input (`noisy_norm`), so that there is no gt; the bank has patches or an outer orbit.
    """
    if all(stream.form == "dense" for stream in bank.streams):
        return bank
    if bank.has_readout:
        raise ConfigError(f"bank {bank.name!r} has a readout: materialise the bank that it was made from")
    if any(not stream.spec.window.whole for stream in bank.streams):
        raise ConfigError(f"bank {bank.name!r} has patches: their templates are stored already, there is no dense form")
    if bank.spec.outer:
        raise ConfigError(f"bank {bank.name!r} has an outer orbit, which moves inputs: there is no dense form")
    stored = [_dense(stream, progress) for stream in bank.streams]
    layers = {name: array for name, array in bank.arrays.items() if name.startswith(LAYER2)}
    return Bank.of(*_joined(bank.spec, bank.manifest["kind"], stored, layers))


@dataclass(frozen=True)
class Difference:
    """How many numbers of some features were compared, how many differ at all, and by how much at the most."""

    compared: int
    differing: int
    largest_difference: float


def other_chance(seed: int) -> np.random.Generator:
    """Chance of which no bank has used any, for items that a bank is tried on."""
    return np.random.default_rng([seed, len(USES)])


def compare_features(bank: Bank, other: Bank, n_vectors: int, rng: np.random.Generator) -> Difference:
    """What two banks of the same d and D, two forms of one say, make of random unit vectors; see `other_chance`."""
    vectors = rng.standard_normal((n_vectors, bank.d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    given = vectors.astype(np.float32)
    apart = np.abs(features_of(bank, given).astype(np.float64) - features_of(other, given))
    return Difference(apart.size, int(np.count_nonzero(apart)), float(apart.max(initial=0.0)))


# ------------------------------------------------------------------------------------------------- parts of a bank


@dataclass(frozen=True, eq=False)
class Given:
    """What the caller hands over for a bank's one stream."""

    templates: ArrayLike | None
    operators: tuple[OperatorStack, ...]
    orbits: Orbits | None


@dataclass(frozen=True, eq=False)
class Task:
    """One stream to be built.

    Attributes
    ----------
    spec : StreamSpec
    front_end : FrontEnd
    recordings : sequence of Signal
        The bank's, as far as it takes some; `vectors` (N, d) is what the front end gives for them.
    seed : (int, int)
        The bank's, and the stream's number.
    """

    spec: StreamSpec
    front_end: FrontEnd
    recordings: Sequence[Signal]
    vectors: Floats
    seed: tuple[int, int]
    progress: Progress | None

    def rng(self, use: str) -> np.random.Generator:
        """Its own stream for each use, so that |G| = 1 keeps the templates of the full group."""
        seed, stream = self.seed
        number = USES.index(use)
        return np.random.default_rng([seed, number, stream] if stream else [seed, number])


def _check_given(spec: BankSpec, signals: Iterable[Signal] | None, given: Given) -> None:
    if spec.needs_signals and signals is None:
        kinds = "; ".join(
            f"templates.source = {stream.templates.source!r}, pooling.kind = {stream.pooling.kind!r}"
            for stream in spec.streams
        )
        raise ConfigError(
            f"bank {spec.name!r} takes its templates, thresholds or widths from signals; give some ({kinds})"
        )
    orbits = any(takes_orbits(stream) for stream in spec.streams)
    if (given.orbits is not None) != orbits:
        factors = [factor["factor"] for stream in spec.streams for factor in stream.group]
        raise ConfigError(
            f"bank {spec.name!r}: orbits go with the group factor {USER_ORBITS!r} and only with it, got "
            f"{factors} {'without' if given.orbits is None else 'with'} orbits; give them as orbits=, or a folder of "
            "them with --from"
        )
    sources = [stream.templates.source for stream in spec.streams]
    if (given.templates is None) != (USER not in sources or orbits):
        raise ConfigError(
            f"bank {spec.name!r}: an array of templates goes with templates.source = 'user' and only with it, "
            f"got source = {', '.join(map(repr, sources))} {'without' if given.templates is None else 'with'} an array"
        )
    if given.templates is not None or given.operators or given.orbits is not None:
        the_only(spec.streams, spec.name)


def _build_stream(task: Task, given: Given) -> Stream:
    """One stream, in form "operators" unless nothing but its orbits is known."""
    spec, front_end = task.spec, task.front_end
    if acts_on_waveforms(spec.group):
        moves = make_waveform_group(spec.group, task.rng("group"))
        chosen = choose_rows(task.vectors, spec.templates.m, task.rng("templates")).tolist()
        return _stored(task, moves, (moved_recording(front_end, moves, task.recordings[i]) for i in chosen))
    if given.orbits is not None:
        known = user_orbits(given.orbits, spec, front_end)
        _check_frequencies(spec, known.vectors.reshape(-1, front_end.d))
        return _stored(task, [known], known.vectors)
    factors = factors_of(spec, template_axes(spec, front_end.axes), given.operators, task.rng("group"))
    entry = _entry(spec, front_end.axes, factors)
    drawn = _draw_templates(task, given.templates)
    return _finished(task, factors, entry, operator_arrays(spec, factors, drawn, task.progress))


def _stored(task: Task, factors: Sequence[Factor], each: Iterable[Floats]) -> Stream:
    """A stream of orbits (G, d), one a template."""
    m, d = task.spec.templates.m, task.front_end.d
    entry = _entry(task.spec, task.front_end.axes, factors)
    check_size(m, d, entry["n_group"])
    return _finished(task, factors, entry, {"orbits": stored_orbits(each, entry["n_group"], m, d, task.progress)})


def _finished(
    task: Task, factors: Sequence[Factor], entry: Mapping[str, Any], arrays: dict[str, NDArray[Any]]
) -> Stream:
    """The stream with the arrays of its pooling."""
    arrays |= parameter_arrays(factors)
    canonical = replace(
        task.spec,
        front_end=tuple(task.front_end.spec),
        group=_tables(task.spec, factors),
        form="dense" if "orbits" in arrays else "operators",
    )
    stream = Stream(canonical, entry, arrays)
    arrays |= task.spec.pooling.build(_material(stream, task.vectors, task.rng("pooling")))
    return stream


def _draw_templates(task: Task, given: ArrayLike | None) -> Drawn:
    spec, axes, vectors = task.spec, task.front_end.axes, task.vectors
    window, sigma = spec.window, spec.pooling.sigma if isinstance(spec.pooling, Fourier) else None
    d = math.prod(window.template_shape(axes.shape))
    check_size(spec.templates.m, d)
    if spec.templates.needs_signals:
        vectors = window.sample(vectors, axes.shape, max(PATCHES, spec.templates.m), task.rng("patches"))
    drawn = spec.templates.draw(Request(d, task.rng("templates"), vectors, sigma, given))
    _check_frequencies(spec, drawn.T)
    return drawn


def _check_frequencies(spec: StreamSpec, T: Floats) -> None:
    if not isinstance(spec.pooling, Fourier):
        return
    longest = float(np.linalg.norm(T, axis=1).max()) * (spec.pooling.gain or 1.0)
    if longest > MAX_PROJECTION / 2:
        raise ConfigError(
            f"frequencies of norm {longest:.3g} are beyond what cos and sin are computed to ({MAX_PROJECTION / 2:g}); "
            f"use a larger pooling.sigma or a smaller gain, got sigma = {spec.pooling.sigma!r} and "
            f"gain = {spec.pooling.gain!r}"
        )


def _material(stream: Stream, vectors: Floats, rng: np.random.Generator) -> Material:
    """What the pooling is built from: a stream whose arrays are not all there yet."""

    def project(some: Floats) -> Iterator[tuple[slice, int, Floats]]:
        step = items_at_once(stream)
        for first in range(0, len(some), step):
            items = slice(first, first + step)
            for block, P in projections(stream, some[items]):
                yield items, block, P

    return Material(
        size_of(stream),
        vectors,
        lambda: template_vectors(stream),
        lambda chosen: orbits(stream, chosen),
        stream.form == "dense" or all(factor.linear for factor in stream.factors),
        project,
        rng,
    )


def _layer2_arrays(
    spec: BankSpec, parts: tuple[dict[str, Any], dict[str, NDArray[Any]]], vectors: Floats
) -> dict[str, NDArray[Any]]:
    """Those of the second layer, from a bank that is not yet entered in a manifest."""
    bank, layer2 = Bank(*parts), spec.layer2
    assert layer2 is not None  # whoever asks has seen it
    rng = np.random.default_rng([spec.seed, USES.index("layer2")])
    seen = median_rows(vectors[vectors.any(axis=1)], rng) if layer2.needs_signals else vectors[:0]
    first = phi(bank, first_layer(bank, seen))
    return layer2.build(first.shape[1], first, rng)


def _entry(spec: StreamSpec, axes: Axes, factors: Sequence[Factor]) -> dict[str, Any]:
    """What the manifest says of a stream besides its spec."""
    spec.window.check(axes.names)
    G = math.prod(factor.n for factor in factors) * math.prod(spec.window.grid(axes.shape))
    if spec.pooling.dtype == "<u2" and G > MAX_COUNT:
        raise ConfigError(
            f"a bank of |G| = {G}; CDF counts are uint16 and take at most {MAX_COUNT}: use fewer elements"
        )
    if not spec.window.whole and G > MAX_POSITIONS:
        raise ConfigError(f"patches have at most {MAX_POSITIONS} positions times elements, got {G}; use fewer")
    return {
        "axes": {
            "names": list(axes.names),
            "shape": list(axes.shape),
            "band_hz": [float(f) for f in axes.band_hz],
            "rate_hz": float(axes.rate_hz),
        },
        "n_group": G,
        "factors": factor_entries(factors, [factor["factor"] for factor in spec.group]),
    }


def _tables(spec: StreamSpec, factors: Sequence[Factor]) -> tuple[Mapping[str, Any], ...]:
    """The canonical tables of a group: every default written out."""
    return tuple(
        {"factor": USER} if given["factor"] == USER else factor.spec
        for given, factor in zip(spec.group, factors, strict=True)
    )


def _joined(
    spec: BankSpec, kind: str, streams: Sequence[Stream], layers: Mapping[str, NDArray[Any]] | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The manifest, but for what it says of the arrays, and the arrays of a bank of these streams."""
    layer2, several = spec.layer2, len(streams) > 1
    entries = {"streams": [dict(s.entry) for s in streams]} if several else dict(streams[0].entry)
    manifest = {
        "spec": replace(spec, streams=tuple(stream.spec for stream in streams)).as_dict(),
        "kind": kind,
        "n_features": layer2.n_features if layer2 else sum(stream.n_features for stream in streams),
        "dtype": "<f4" if layer2 else streams[0].dtype,
        **entries,
    }
    arrays = dict(layers or {})
    for i, stream in enumerate(streams):
        arrays |= prefixed(stream.arrays, i) if several else stream.arrays
    return manifest, arrays


def _dense(stream: Stream, progress: Progress | None) -> Stream:
    """The stream with every gt stored."""
    if stream.form == "dense":
        return stream
    need_orbits(stream.factors)
    check_size(stream.m, stream.d, stream.n_group)
    kept = {name: array for name, array in stream.arrays.items() if not is_operator_array(name)}
    stored = stored_orbits(every_orbit(stream), stream.n_group, stream.m, stream.d, progress)
    return Stream(replace(stream.spec, form="dense"), stream.entry, {"orbits": stored, **kept})
