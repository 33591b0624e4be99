"""What moves a stream's templates: the elements of each factor and their arrays, and the orbits they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import StreamSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends import FrontEnd
from streamfeat.groups import (
    Elements,
    InputMoves,
    OperatorStack,
    WaveformMoves,
    apply_group,
    inputs_first,
    make_factor,
    n_elements,
    unitarity_defect,
)
from streamfeat.groups.axes import Axes
from streamfeat.kernels import LANES, Floats, blocks_of, padded
from streamfeat.signals.signal import Signal
from streamfeat.streams import MATRICES, Stream
from streamfeat.structured import STRUCTURED, lane_arrays
from streamfeat.templates import Drawn

CHUNK_BYTES = 64 << 20
"""Orbits are computed for as many templates at a time as fit here."""

USER = "user"
"""A factor whose operators the caller hands over; its spec says no more."""

USER_ORBITS = "user_orbits"
"""The factor of a group that is known by its orbits alone: gt for each t and g, from the caller."""

Progress = Callable[[int, int], None]
Orbits = NDArray[Any] | Sequence[Sequence[Signal]]


@dataclass(frozen=True, eq=False)
class UserOrbits:
    """The one factor of a bank whose orbits are given: transform 0 is the template itself.

    Attributes
    ----------
    vectors : (m, G, d) float32
    """

    names: ClassVar[tuple[str, ...]] = ("index",)
    spec: ClassVar[Mapping[str, Any]] = {"factor": USER_ORBITS}
    vectors: Floats

    @property
    def n(self) -> int:
        """|G|."""
        return int(self.vectors.shape[1])

    @property
    def parameters(self) -> NDArray[np.float64]:
        """Each transform's number in its orbit, (G, 1)."""
        return np.arange(self.n, dtype=np.float64)[:, None]


Factor = Elements | WaveformMoves | UserOrbits


def takes_orbits(spec: StreamSpec) -> bool:
    """Whether a bank is built from orbits that the caller gives.

    Raises
    ------
    ConfigError
        Other factors beside them, another form than dense, templates from elsewhere.
    """
    if not any(factor["factor"] == USER_ORBITS for factor in spec.group):
        return False
    if list(spec.group) != [{"factor": USER_ORBITS}] or spec.form != "dense" or spec.templates.source != USER:
        raise ConfigError(
            "bank spec: given orbits are the whole group, stored as they are; they need group = "
            f"[{{factor = '{USER_ORBITS}'}}] alone, form = 'dense' and templates.source = 'user', got "
            f"{[dict(factor) for factor in spec.group]}, {spec.form!r} and {spec.templates.source!r}"
        )
    return True


def user_orbits(given: Orbits, spec: StreamSpec, front_end: FrontEnd) -> UserOrbits:
    """Given orbits, checked: m of them, G transforms each, every gt at the norm of t if the spec says so.

    Parameters
    ----------
    given : (m, G, d) array, or m sequences of G signals
        Signals pass the front end; an array is taken as what a front end gave. The first transform of each orbit is
        the template itself; the others keep their order, the same transform at the same place in each orbit or not:
        pooling does not look at it.
    """
    m, d = spec.templates.m, front_end.d
    if isinstance(given, np.ndarray):
        vectors = given.astype(np.float32)
    else:
        sizes = [len(orbit) for orbit in given]
        odd = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
        if odd is not None:
            raise InvalidArgument(
                f"every orbit must have as many transforms; orbit 0 has {sizes[0]}, orbit {odd} has {sizes[odd]}"
            )
        vectors = np.array([[front_end(signal) for signal in orbit] for orbit in given], np.float32)
    if vectors.ndim != 3 or vectors.shape[0] != m or vectors.shape[2] != d or vectors.shape[1] == 0:
        raise ConfigError(
            f"orbits must have the shape (m, |G|, d) = ({m}, |G|, {d}), got {vectors.shape}; set templates.m to the "
            "number of orbits"
        )
    if not np.isfinite(vectors).all():
        orbit = int(np.argmin(np.isfinite(vectors).all(axis=(1, 2))))
        raise InvalidArgument(f"orbits must be finite, orbit {orbit} is not")
    if spec.renormalise:
        norms = np.linalg.norm(vectors.astype(np.float64), axis=2, keepdims=True)
        vectors *= np.divide(norms[:, :1], norms, out=np.zeros_like(norms), where=norms > 0).astype(np.float32)
    return UserOrbits(vectors)


def factors_of(
    spec: StreamSpec, axes: Axes, operators: Sequence[OperatorStack], rng: np.random.Generator
) -> list[Elements]:
    """The elements of every factor that acts on vectors; those called "user" are taken from `operators`, in order."""
    wanted = sum(factor["factor"] == USER for factor in spec.group)
    if wanted != len(operators) or any(stack.d != axes.d for stack in operators):
        raise ConfigError(
            f"the spec has {wanted} group factors called 'user' and needs as many operator stacks of "
            f"d = {axes.d}, got {len(operators)} of d = {[stack.d for stack in operators]}"
        )
    pitched = any(
        "pitch" in (table["factor"], *(part.get("factor") for part in table.get("of", ()))) for table in spec.group
    )
    if pitched and not spec.window.whole and not axes.band_hz:
        raise ConfigError(
            "pitch moves patches alike at every position where bands are at equal steps of log f only; use scale = "
            "'log' in the stage 'spectrogram', or a window of kind 'whole'"
        )
    given = iter(operators)
    factors = [next(given) if factor["factor"] == USER else make_factor(factor, axes, rng) for factor in spec.group]
    inputs_first(factors)
    if spec.form == "dense":
        need_orbits(factors)
    return factors


def need_orbits(factors: Sequence[Elements]) -> None:
    """Raise `ConfigError` unless templates have an orbit under every factor."""
    without = [str(factor.spec["factor"]) for factor in factors if not factor.linear]
    if without:
        raise ConfigError(
            f"there is no dense form: {', '.join(without)} depends on the input, no gt can be stored; "
            "use form = 'operators'"
        )


def operator_arrays(
    spec: StreamSpec, factors: Sequence[Elements], drawn: Drawn, progress: Progress | None
) -> dict[str, NDArray[Any]]:
    """Templates and what moves them, as the operators form stores it."""
    T, d = drawn.T, drawn.T.shape[1]
    arrays: dict[str, NDArray[Any]] = {"templates": blocks_of(T, padded(d, 4)), **drawn.kept}
    scale = _scale(factors, T, progress) if spec.renormalise and factors else None
    if scale is not None:
        arrays["scale"] = blocks_of(scale)
    if "signs" in arrays and spec.window.whole:
        arrays |= lane_arrays(factors, arrays["signs"], d, scale)
    for j, factor in enumerate(factors):
        if isinstance(factor, OperatorStack):
            arrays |= {f"factor{j}_{part}": getattr(factor, part) for part in MATRICES}
    return arrays


def parameter_arrays(factors: Sequence[Factor]) -> dict[str, NDArray[np.float64]]:
    """What makes each element: for people, and for factors that act by a rule."""
    return {f"factor{j}_parameters": np.asarray(f.parameters, np.float64) for j, f in enumerate(factors)}


def factor_entries(factors: Sequence[Factor], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """What the manifest says of factors, under the names that the spec gives them."""
    entries = []
    for name, factor in zip(names or [str(factor.spec["factor"]) for factor in factors], factors, strict=True):
        entry: dict[str, Any] = {"factor": name, "n": factor.n, "parameters": list(factor.names)}
        if isinstance(factor, OperatorStack | InputMoves):
            entry["unitarity_defect"] = [float(v) for v in unitarity_defect(factor)]
        entries.append(entry)
    return entries


def is_operator_array(name: str) -> bool:
    """What the dense form replaces by the orbits themselves."""
    moves = name.startswith("factor") and not name.endswith("_parameters")
    return moves or name in ("templates", "scale", *STRUCTURED)


def template_vectors(stream: Stream) -> Floats:
    """The templates, (m, d). Of the dense form: the first of each orbit, the identity unless the spec left it out."""
    blocks = stream.arrays["orbits"][:, 0] if stream.form == "dense" else stream.arrays["templates"]
    d = stream.template_d
    return np.ascontiguousarray(blocks[:, :d].transpose(0, 2, 1).reshape(-1, d)[: stream.m])


def orbits(stream: Stream, chosen: Sequence[int]) -> Floats:
    """gt for the chosen templates and every g, renormalised, (len(chosen), G, d); the last factor fastest.

    A factor that depends on the input (`noisy_norm`) moves no template: its elements give copies. Nor do the positions
    of patches: G is the number of elements that move templates.
    """
    if stream.form == "dense":
        stored = stream.arrays["orbits"]
        return np.stack([stored[t // LANES, :, : stream.d, t % LANES] for t in chosen])
    moved = apply_group(stream.factors, template_vectors(stream)[list(chosen)])
    scale = stream.arrays.get("scale")
    if scale is not None:
        moved *= np.stack([scale[t // LANES, :, t % LANES] for t in chosen])[:, :, None]
    return moved


def every_orbit(stream: Stream) -> Iterator[Floats]:
    """The orbit of each template, (G, d), some templates at a time."""
    step = max(1, CHUNK_BYTES // (4 * stream.n_group * stream.d))
    for first in range(0, stream.m, step):
        yield from orbits(stream, range(first, min(first + step, stream.m)))


def moved_recording(front_end: FrontEnd, moves: Sequence[WaveformMoves], signal: Signal) -> Floats:
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


def stored_orbits(each: Iterable[Floats], G: int, m: int, d: int, progress: Progress | None) -> Floats:
    """Orbits (G, d), one a template, laid out for `project_orbits`: (n_blocks, G, d, LANES)."""
    stored = np.zeros((padded(m, LANES) // LANES, G, padded(d, 4), LANES), np.float32)
    for t, orbit in enumerate(each):
        stored[t // LANES, :, :d, t % LANES] = orbit
        if progress:
            progress(t + 1, m)
    return stored


def _scale(factors: Sequence[Elements], T: Floats, progress: Progress | None) -> Floats:
    """|t| / |gt|, (m, G); 0 where gt is 0."""
    G, (m, d) = n_elements(factors), T.shape
    scale = np.zeros((m, G), np.float32)
    step = max(1, CHUNK_BYTES // (4 * G * d))
    for first in range(0, m, step):
        chunk = T[first : first + step]
        norms = np.linalg.norm(apply_group(factors, chunk).astype(np.float64), axis=2)
        wanted = np.linalg.norm(chunk.astype(np.float64), axis=1)[:, None]
        np.divide(wanted, norms, out=scale[first : first + step], where=norms > 0)
        if progress:
            progress(min(first + step, m), m)
    return scale
