"""Signal -> vector of unit norm, in stages.

A front end is a list of stages, each a small frozen dataclass whose fields are its parameters. The first takes the
signal (`resample` a waveform, `pixels` a picture, `array` plain numbers) and so decides the kind; each following one
turns an array into an array; `norm`, if it is there, comes last and may keep the vector's size. `build` precomputes
what a stage needs (windows, filters) once and tells how it changes the axes. A new idea is one more stage in the table:
`arclength` and `pose` take one representative of an orbit (canonical time, canonical pose) where it is cheap to find.

The result depends on the signal alone: no BLAS (its sums change with the number of threads), no state, no chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends.arclength import Arclength
from streamfeat.frontends.arrays import Bands, Centre, Compress, Delta, Frames, Loud
from streamfeat.frontends.numbers import Norm, Numbers
from streamfeat.frontends.pixels import Pixels
from streamfeat.frontends.pose import Pose
from streamfeat.frontends.spectrogram import Spectrogram
from streamfeat.frontends.waveform import FixedLength, Peak, Resample, Trim
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.signals.signal import Kind, Signal
from streamfeat.spec import as_table, pick, read_table

__all__ = ["CLOSING", "ENTRIES", "STAGES", "Axes", "FrontEnd", "FrontEnds", "make_front_end", "make_front_ends"]

Entry = Resample | Pixels | Numbers
Stage = Peak | Trim | FixedLength | Spectrogram | Bands | Loud | Compress | Frames | Arclength | Delta | Pose | Centre
Array = NDArray[np.float32]
S = TypeVar("S", bound=Entry | Stage | Norm)

ENTRIES: dict[str, type[Entry]] = {"resample": Resample, "pixels": Pixels, "array": Numbers}
"""Stages that come first, and nowhere else."""

STAGES: dict[str, type[Stage]] = {
    "peak": Peak,
    "trim": Trim,
    "fixed_length": FixedLength,
    "spectrogram": Spectrogram,
    "bands": Bands,
    "loud": Loud,
    "compress": Compress,
    "frames": Frames,
    "arclength": Arclength,
    "delta": Delta,
    "pose": Pose,
    "centre": Centre,
}
"""Stages that follow, in any order that their axes allow."""

CLOSING: dict[str, type[Norm]] = {"norm": Norm}
"""The stage that comes last, if it is there."""

LOUDEST = 1e12
"""Largest magnitude a front end takes: its square times a window still fits float32."""


@dataclass(frozen=True, eq=False)
class FrontEnd:
    """Stages that turn a signal into a vector of d numbers, of unit norm unless told otherwise. See `make_front_end`.

    Attributes
    ----------
    spec : list of dict
        The canonical spec: every default filled in, plain JSON types; `make_front_end(spec)` gives the same again.
    kind : "audio", "image" or "array"
    axes : Axes
        What the d numbers are.
    """

    spec: list[dict[str, Any]]
    kind: Kind
    axes: Axes
    _enter: Callable[[Signal], Array] = field(repr=False)
    _steps: tuple[Callable[[Array], Array], ...] = field(repr=False)
    _norm: Norm = field(repr=False)
    _so_far: tuple[str, ...] = field(repr=False)
    """The entry, and each step, with all the stages before it: front ends that begin alike agree in these."""

    def __reduce__(self) -> tuple[Callable[..., FrontEnd], tuple[list[dict[str, Any]]]]:
        # to another process goes the spec; stages are built there
        return make_front_end, (self.spec,)

    @property
    def d(self) -> int:
        """Length of the vectors."""
        return self.axes.d

    def __call__(self, signal: Signal, done: dict[str, Array] | None = None) -> Array:
        """The vector of one signal.

        Parameters
        ----------
        done : dict, optional
            What stages have made of this very signal: first stages that several front ends share are computed once.

        Returns
        -------
        ndarray of float32, shape (d,)
            Unit norm (unless the stage `norm` says otherwise), C order of `axes`; all zeros for a silent or blank
            signal.

        Raises
        ------
        InvalidArgument
            The signal is of another kind or, for arrays, shape, its values are beyond `LOUDEST`, or a stage does not
            take it (`pose`).
        """
        done = {} if done is None else done
        entry, *so_far = self._so_far
        if entry not in done:
            self._check(signal)
            done[entry] = self._enter(signal)
        x = done[entry]
        try:
            for stages, step in zip(so_far, self._steps, strict=True):
                if stages not in done:
                    done[stages] = step(x)
                x = done[stages]
        except InvalidArgument as error:
            raise InvalidArgument(f"{signal.name or 'signal'}: {error}") from None
        return self._norm.finish(x)

    def _check(self, signal: Signal) -> None:
        name = signal.name or "signal"
        if signal.kind != self.kind:
            raise InvalidArgument(
                f"{name}: this front end takes {self.kind}, got {signal.kind}; use a bank for {signal.kind}"
            )
        largest = max(float(signal.samples.max()), -float(signal.samples.min()))
        if largest > LOUDEST:
            raise InvalidArgument(
                f"{name}: values up to {LOUDEST:g} are taken (full scale is 1.0), got {largest:g}; scale it"
            )


@dataclass(frozen=True, eq=False)
class FrontEnds:
    """Front ends side by side: the vectors of each one after the other. See `make_front_ends`.

    Attributes
    ----------
    parts : tuple of FrontEnd
    """

    parts: tuple[FrontEnd, ...]

    @property
    def kind(self) -> Kind:
        """What signals they take."""
        return self.parts[0].kind

    @property
    def d(self) -> int:
        """Length of the vectors."""
        return sum(part.d for part in self.parts)

    def __call__(self, signal: Signal) -> Array:
        """The vector of one signal, (d,), to the bit those of each front end; shared first stages are computed once."""
        done: dict[str, Array] = {}
        return np.concatenate([part(signal, done) for part in self.parts])


def make_front_ends(specs: Sequence[Sequence[Mapping[str, Any]]]) -> FrontEnds:
    """Build the front ends of one kind of signal from their stages; see `make_front_end`.

    Raises
    ------
    ConfigError
        They take different kinds of signals.
    """
    parts = tuple(make_front_end(spec) for spec in specs)
    if len({part.kind for part in parts}) > 1:
        raise ConfigError(
            f"the streams of a bank take one kind of signal, got {', '.join(part.kind for part in parts)}; "
            "begin each with the same entry"
        )
    return FrontEnds(parts)


def make_front_end(spec: Sequence[Mapping[str, Any]]) -> FrontEnd:
    """Build a front end from its stages.

    Parameters
    ----------
    spec : sequence of mappings
        Each has "stage", a name of `ENTRIES` (the first), of `STAGES` (the others) or of `CLOSING` (perhaps the last),
        and that stage's parameters.

    Raises
    ------
    ConfigError
        An unknown stage or parameter (with the known ones), or stages that do not fit each other.

    Examples
    --------
    >>> front_end = make_front_end([{"stage": "pixels", "height": 28, "width": 28}, {"stage": "centre"}])
    >>> front_end.axes.names, front_end.d
    (('row', 'column'), 784)
    """
    if not spec:
        raise ConfigError(f"a front end needs at least one stage, the first one of {', '.join(ENTRIES)}; got none")
    (first, *rest), norm = _open_and_closing(spec)
    entry = _read(first, ENTRIES, "first stage of a front end")
    stages = [_read(table, STAGES, "stage") for table in rest]
    names = [first["stage"], *(table["stage"] for table in rest)]
    enter, axes = entry.build()
    steps = []
    for name, stage in zip(names[1:], stages, strict=True):
        try:
            step, axes = stage.build(axes)
        except ConfigError as error:
            raise ConfigError(f"stage {name!r}: {error}") from None
        steps.append(step)
    if VARIABLE in axes.shape:
        open_axis = axes.names[axes.shape.index(VARIABLE)]
        raise ConfigError(
            f"a front end must end in a fixed size, {' > '.join(names)} leaves the {open_axis} axis open; "
            "add the stage 'frames' (spectrogram) or 'fixed_length' (waveform)"
        )
    # Unit norm is what there is without the stage: one way to write one thing, or one bank would have two hashes.
    closing = [{"stage": "norm", **as_table(norm)}] if norm != Norm() else []
    tables = [{"stage": n, **as_table(s)} for n, s in zip(names, [entry, *stages], strict=True)]
    return FrontEnd(
        spec=[*tables, *closing],
        kind=entry.kind,
        axes=axes,
        _enter=enter,
        _steps=tuple(steps),
        _norm=norm,
        _so_far=tuple(str(tables[: i + 1]) for i in range(len(tables))),
    )


def _open_and_closing(spec: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], Norm]:
    """The stages up to the closing one, which is unit norm where none is said."""
    for table, after in pairwise(spec):
        if table.get("stage") in CLOSING:
            raise ConfigError(
                f"stage {table['stage']!r} closes a front end, got {after.get('stage')!r} after it; put it last"
            )
    *before, last = spec
    if last.get("stage") not in CLOSING:
        return spec, Norm()
    if not before:
        raise ConfigError(f"stage {last['stage']!r} closes a front end and cannot be all of it; begin with an entry")
    return before, _read(last, CLOSING, "closing stage")


def _read(table: Mapping[str, Any], choices: Mapping[str, type[S]], what: str) -> S:
    parameters = dict(table)
    cls = pick(choices, parameters.pop("stage", None), what)
    return read_table(cls, parameters, f"stage {table['stage']!r}")
