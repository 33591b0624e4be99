"""A pile of recordings or pictures sent through a fleet, and the account of what became of each."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from streamfeat.client import WINDOW, Client, Job, Result
from streamfeat.directory import naming
from streamfeat.errors import DeadlineExceeded, StreamfeatError, Unavailable
from streamfeat.signals import Signal

OnError = Literal["skip", "stop"]
"""What a failure means for the items after it."""


class Readable(Protocol):
    """One recording or picture that may turn out to be unreadable."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def label(self) -> str | int | None:
        """What it shows or says."""

    def read(self) -> Signal:
        """The signal, or `InvalidArgument` with the reason."""


@dataclass(frozen=True)
class Failure:
    """One item that got no answer, and why."""

    file: str
    code: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return {"file": self.file, "code": self.code, "reason": self.reason}


@dataclass
class Delivery:
    """What became of every item: `sent == answered + len(failed)`; `unsent` are those after a stop.

    Results keep no samples. `positions[i]` is the place, among the items given, of the i-th result;
    `n_unheard` is how many items waited in vain since the last that did not.
    """

    sent: int = 0
    results: list[Result] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    n_unheard: int = 0
    unsent: int = 0

    @property
    def answered(self) -> int:
        """Items with a result."""
        return len(self.results)

    def features(self) -> NDArray[Any]:
        """Features of the answered items, (answered, D), in the bank's dtype; (0, 0) when there are none."""
        if not self.results:
            return np.zeros((0, 0), np.float32)
        return np.stack([result.feature for result in self.results])

    def save(self, file: Path, items: Sequence[Readable]) -> None:
        """Write features, labels, names and the bank's hash to an .npz, whole by rename or not there.

        Raises
        ------
        OSError
            With the file's name and a reason: the disk is full, say.
        """
        kept = [items[place] for place in self.positions]
        part = file.with_name(f".{file.name}.part.npz")
        try:
            with naming(file):
                np.savez(
                    part,
                    features=self.features(),
                    labels=np.array(["" if item.label is None else str(item.label) for item in kept]),
                    names=np.array([item.name for item in kept]),
                    bank=np.array(self.results[0].fields["bank"] if self.results else ""),
                )
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def merge(self, other: Delivery) -> None:
        """Add another delivery's counts and times; its results are not taken over."""
        self.sent += other.sent
        self.failed += other.failed
        self.latencies_ms += other.latencies_ms
        self.wall_s += other.wall_s
        self.unsent += other.unsent

    def report(self) -> dict[str, Any]:
        """Counts, rate and latency, for JSON and for the last line on the terminal."""
        return {
            "sent": self.sent,
            "answered": self.sent - len(self.failed),
            "unsent": self.unsent,
            "failed": [failure.as_dict() for failure in self.failed],
            **rate_report(self.latencies_ms, self.wall_s),
        }


def rate_report(latencies_ms: Sequence[float], wall_s: float) -> dict[str, Any]:
    """Items a second and the latency's median and 99th percentile, in ms; None where nothing was answered."""
    if not latencies_ms:
        return {"items_per_s": None, "p50_ms": None, "p99_ms": None, "wall_s": round(wall_s, 3)}
    p50, p99 = np.percentile(np.asarray(latencies_ms), [50, 99])
    return {
        "items_per_s": round(len(latencies_ms) / wall_s, 1) if wall_s > 0 else None,
        "p50_ms": round(float(p50), 2),
        "p99_ms": round(float(p99), 2),
        "wall_s": round(wall_s, 3),
    }


def deliver(
    client: Client,
    items: Sequence[Readable],
    *,
    route: str = "features",
    bank: str | None = None,
    options: Mapping[str, Any] | None = None,
    groups: Sequence[str | None] | None = None,
    stream: str | None = None,
    on_error: OnError = "skip",
    progress: Callable[[int], None] | None = None,
) -> Delivery:
    """Send every item along a route and take the answers in order.

    An item that cannot be read, or that the fleet refuses, becomes a `Failure`; the others go on, unless `on_error` is
    "stop": then what is under way is finished and nothing more is sent. When a whole window
    in a row waited in vain, nobody is there to answer: the rest fails at once, or it would wait a window at a time.

    Parameters
    ----------
    client : Client
    items : sequence of Readable
    route, bank, options
        As in `Client.stream`.
    groups : sequence of str or None, optional
        Who is held out together with each item: its speaker, say.
    stream : str, optional
        Name of the stream in the feature log; the sequence number comes from the item's name, so that a list sent
        again under the same stream adds only the items that are new in it.
    on_error : "skip" or "stop"
        What a failure means for the items after it.
    progress : callable, optional
        Called with the number of items that ended since the last call.
    """
    delivery = Delivery()
    keys = _keys(items)
    started = time.monotonic()

    last_word = ""

    def failed(item: Readable, error: StreamfeatError) -> None:
        delivery.failed.append(Failure(item.name, error.code, error.reason))

    def jobs() -> Iterator[Job]:
        for place, item in enumerate(items):
            if on_error == "stop" and delivery.failed:
                delivery.unsent = len(items) - place
                return
            delivery.sent += 1
            try:
                if delivery.n_unheard >= WINDOW:
                    raise Unavailable(f"not sent: {delivery.n_unheard} before it had no answer, the last: {last_word}")
                signal = item.read()
            except StreamfeatError as error:
                failed(item, error)
                if progress is not None:
                    progress(1)
                continue
            yield Job(
                signal,
                name=item.name,
                label=item.label,
                group=groups[place] if groups is not None else None,
                stream=stream,
                seq=keys[place] if stream is not None else None,
                tag=place,
            )

    for result in client.stream(jobs(), route=route, bank=bank, options=options, ordered=True):
        place = result.job.tag
        if isinstance(result.error, Unavailable | DeadlineExceeded):
            delivery.n_unheard, last_word = delivery.n_unheard + 1, result.error.reason
        else:
            delivery.n_unheard = 0
        if result.error is not None:
            failed(items[place], result.error)
        else:
            # without the samples, which nobody asks for any more: a word has 50 kB of them, 14 kB of feature
            delivery.results.append(replace(result, job=replace(result.job, payload=None)))
            delivery.positions.append(place)
            delivery.latencies_ms.append(result.latency_ms)
        if progress is not None:
            progress(1)
    delivery.wall_s = time.monotonic() - started
    return delivery


def _keys(items: Sequence[Readable]) -> list[int]:
    """A number of 62 bits for each item, from its name and, where several have that name, from which of them it is."""
    seen: Counter[str] = Counter()
    keys = []
    for item in items:
        digest = hashlib.sha256(f"{item.name}\0{seen[item.name]}".encode()).digest()
        keys.append(int.from_bytes(digest[:8], "big") >> 2)
        seen[item.name] += 1
    return keys


def labels_of(items: Sequence[Readable], positions: Iterable[int]) -> list[str | int | None]:
    """Labels of the items at these places."""
    return [items[place].label for place in positions]
