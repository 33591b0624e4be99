"""The one place where a signal, a feature or a job becomes a message item, and back.

Samples travel as they are: int16 audio stays int16, half the bytes of float32, and the worker scales it, so that the
feature is the same bit for bit on either side of the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, StreamfeatError
from streamfeat.signals import Signal
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import Array, Item, error_fields

FEATURE_DTYPES = ("<u2", "<f4", "<f8")
"""What a feature may be made of: CDF counts or floats."""

NAME_LENGTH = 200
"""Longest name on the wire; of a longer one the end travels, which tells files apart."""


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to be done: a signal or a feature, and what is known about it.

    Parameters
    ----------
    payload : Signal or ndarray of shape (D,), optional
        What goes in; None for a stage that takes no array, such as `fit:MODEL`.
    name : str
        For messages to people; the signal's own name unless given.
    label : str or int, optional
        The class, for `learn` and `insert`.
    group : str, optional
        Who must be held out together, such as the speaker.
    stream, seq : str and int, optional
        Identity in the feature log: the same pair again is stored once. The client numbers items itself unless given.
    tag : object, optional
        The caller's own; it does not travel.
    """

    payload: Signal | NDArray[Any] | None
    name: str = ""
    label: str | int | None = None
    group: str | None = None
    stream: str | None = None
    seq: int | None = None
    tag: Any = None

    def to_item(self) -> Item:
        """The item that travels.

        Raises
        ------
        InvalidArgument
            The payload is neither a Signal nor a feature of one dimension and a known dtype.
        """
        name = self.name
        known = {"label": self.label, "group": self.group, "stream": self.stream, "seq": self.seq}
        if isinstance(self.payload, Signal):
            name = name or self.payload.name
        fields = {key: value for key, value in known.items() if value is not None}
        if name:
            fields["name"] = name[-NAME_LENGTH:]
        if self.payload is None:
            return Item(fields, ())
        if isinstance(self.payload, Signal):
            return signal_to_item(self.payload, fields)
        return feature_to_item(self.payload, fields)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a job: `fields` and `arrays` of the reply when `ok`, else `error`."""

    job: Job
    ok: bool
    error: StreamfeatError | None
    fields: dict[str, Any] = field(default_factory=dict)
    arrays: tuple[NDArray[Any], ...] = field(default=(), repr=False)
    latency_ms: float = 0.0

    @property
    def feature(self) -> NDArray[Any]:
        """The feature, shape (D,), read-only; raises the job's error if it failed."""
        self._want("features")
        return self.arrays[0]

    @property
    def label(self) -> str | int:
        """The class found; raises the job's error if it failed."""
        self._want("label")
        label: str | int = self.fields["label"]
        return label

    @property
    def neighbours(self) -> list[tuple[str | int | None, int, float]]:
        """Nearest first: (label, id, distance); raises the job's error if it failed."""
        self._want("neighbours")
        ids, distances = self.arrays
        labels = self.fields["labels"]
        return [(label, int(i), float(d)) for label, i, d in zip(labels, ids, distances, strict=True)]

    def _want(self, kind: str) -> None:
        if self.error is not None:
            raise self.error
        if self.fields.get("kind") != kind:
            raise InvalidArgument(f"this result is of kind {self.fields.get('kind')!r}, not {kind!r}; see its route")


def signal_to_item(signal: Signal, fields: dict[str, Any]) -> Item:
    """An item that carries a copy of a signal, so that its owner may go on writing to it, beside the fields given."""
    about: dict[str, Any] = {"kind": signal.kind}
    if signal.rate_hz is not None:
        about["rate_hz"] = signal.rate_hz
    return Item({**fields, "signal": about}, (Array.of(signal.samples.copy()),))


def item_to_signal(item: Item) -> Signal:
    """The signal that an item carries, checked; a view of its frame where the byte order allows.

    Raises
    ------
    InvalidArgument
        No signal, more than one array, or samples that break the rules of `Signal`.
    """
    about = item.fields.get("signal")
    name = str(item.fields.get("name", ""))
    if about is None or len(item.arrays) != 1:
        arrays = f"{len(item.arrays)} array{'' if len(item.arrays) == 1 else 's'}"
        raise InvalidArgument(f"this stage takes a signal and one array, got {arrays} and signal={about!r}")
    samples = _little_endian(item.arrays[0].to_numpy())
    return Signal(about["kind"], samples, about.get("rate_hz"), name)


def feature_to_item(feature: NDArray[Any], fields: dict[str, Any]) -> Item:
    """An item that carries a copy of a feature of shape (D,), beside the fields given."""
    if not isinstance(feature, np.ndarray):
        raise InvalidArgument(f"a payload is a Signal or an array of shape (D,), got {type(feature).__name__}")
    if feature.ndim != 1 or not feature.size:
        raise InvalidArgument(f"a feature has shape (D,), got {feature.shape}; sounds, images, matrices go in a Signal")
    if feature.dtype.str not in FEATURE_DTYPES:
        raise InvalidArgument(f"a feature has a dtype of {', '.join(FEATURE_DTYPES)}, got {feature.dtype.str!r}")
    return Item(fields, (Array.of(feature.copy()),))


def item_to_feature(item: Item) -> NDArray[Any]:
    """The feature that an item carries, shape (D,), read-only.

    On its way from a feature worker it still says of which signal it is, and of which bank.

    Raises
    ------
    InvalidArgument
        A signal that no bank has seen, more or less than one array, or an array of another shape.
    """
    is_signal = "signal" in item.fields and "bank" not in item.fields
    if len(item.arrays) != 1 or is_signal:
        what = "a signal" if is_signal else f"{len(item.arrays)} arrays"
        raise InvalidArgument(f"this stage takes one feature, got {what}; put `features` first in the route")
    feature = _little_endian(item.arrays[0].to_numpy())
    if feature.ndim != 1:
        raise InvalidArgument(f"a feature has shape (D,), got {feature.shape}")
    return feature


def job_of_letter(letter: Letter) -> Job:
    """The job that a dead letter was, from the stage where it ended."""
    item, payload = letter.item, None
    if item.arrays:
        payload = item_to_signal(item) if letter.route[0] == "features" else item_to_feature(item)
    fields = item.fields
    return Job(
        payload,
        name=str(fields.get("name", "")),
        label=fields.get("label"),
        group=fields.get("group"),
        stream=fields["stream"],
        seq=fields["seq"],
    )


def feature_result(feature: NDArray[Any], bank: str) -> Item:
    """What a feature worker answers: the feature, with the hash of its bank."""
    return Item({"ok": True, "kind": "features", "bank": bank}, (Array.of(feature),))


def error_result(error: StreamfeatError) -> Item:
    """What a worker answers for an item that failed."""
    return Item({"ok": False, "error": error_fields(error)})


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    little: NDArray[Any] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return little
