"""One stream of a bank on its way: from its spec, and what it is built from, to its arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import StreamSpec
from streamfeat.errors import ConfigError
from streamfeat.frontends import FrontEnd
from streamfeat.groups import Axes, OperatorStack, acts_on_waveforms, make_waveform_group
from streamfeat.kernels import Floats
from streamfeat.kernels.fourier import MAX_PROJECTION
from streamfeat.layers import size_of
from streamfeat.orbits import (
    USER,
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
    template_vectors,
    user_orbits,
)
from streamfeat.outer import MAX_COUNT
from streamfeat.pooling import Fourier, Material
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from streamfeat.streams import Stream, template_axes
from streamfeat.templates import Drawn, Request, choose_rows
from streamfeat.templates.request import check_size
from streamfeat.windows import MAX_POSITIONS

USES = ("templates", "group", "pooling", "layer2", "patches", "outer")
"""What chance is used for, each under its own number.

To NumPy [seed, 0] is the seed alone, so that `default_rng(seed)` gives the templates' numbers: what is compared with a
bank takes `other_chance`.
"""

PATCHES = 8192
"""Patches that templates are taken from, drawn from all signals alike; as many as templates, if those are more."""


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


def build_stream(task: Task, given: Given) -> Stream:
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


def dense_stream(stream: Stream, progress: Progress | None) -> Stream:
    """The stream with every gt stored."""
    if stream.form == "dense":
        return stream
    need_orbits(stream.factors)
    check_size(stream.m, stream.d, stream.n_group)
    kept = {name: array for name, array in stream.arrays.items() if not is_operator_array(name)}
    stored = stored_orbits(every_orbit(stream), stream.n_group, stream.m, stream.d, progress)
    return Stream(replace(stream.spec, form="dense"), stream.entry, {"orbits": stored, **kept})
