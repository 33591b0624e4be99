"""Building banks: front end, templates, group, thresholds -> a `Bank`. Saving and opening: `bankstore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import BankSpec, the_only
from streamfeat.bankstore import LAYER2, Bank, find_bank, list_banks, open_bank, prefixed
from streamfeat.errors import ConfigError
from streamfeat.frontends import make_front_ends
from streamfeat.groups import OperatorStack
from streamfeat.kernels import Floats
from streamfeat.layer2 import median_rows
from streamfeat.layers import features_of, first_layer, phi
from streamfeat.orbits import USER, USER_ORBITS, Orbits, Progress, orbits, takes_orbits, template_vectors
from streamfeat.outer import with_outer
from streamfeat.signals.signal import Signal
from streamfeat.streams import Stream, split
from streamfeat.streamtask import USES, Given, Task, build_stream, dense_stream

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
            streams.append(build_stream(task, given))
        except ConfigError as error:
            where = f"bank {spec.name!r}" + (f", stream {i}" if len(spec.streams) > 1 else "")
            raise ConfigError(f"{where}: {error}") from None
    spec, streams = with_outer(spec, streams, np.random.default_rng([spec.seed, USES.index("outer")]))
    layers = {} if spec.layer2 is None else _layer2_arrays(spec, _joined(spec, front_ends.kind, streams), vectors)
    both = zip(streams, spec.streams, strict=True)
    stored = [dense_stream(stream, progress) if wanted.form == "dense" else stream for stream, wanted in both]
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
    stored = [dense_stream(stream, progress) for stream in bank.streams]
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
