"""Load on a fleet: as much as it takes (closed loop), or at moments that do not wait for it (open loop)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.client import Client
from streamfeat.connection import Connection
from streamfeat.errors import Unavailable
from streamfeat.payloads import Job
from streamfeat.wire.outstanding import Errand, Outcome

Floats = NDArray[np.float64]

LAST_ANSWER_S = 60.0
"""How long the last items of an open loop may take; every item has its answer or its error by then."""


@dataclass
class Heard:
    """What became of items: milliseconds each took, how many of these it was queued and computed, and all in all."""

    latency_ms: list[float] = field(default_factory=list)
    queue_ms: list[float] = field(default_factory=list)
    compute_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0

    def add(self, latency_ms: float, fields: dict[str, Any]) -> None:
        """One answer."""
        self.latency_ms.append(latency_ms)
        self.queue_ms.append(fields["queue_ms"])
        self.compute_ms.append(fields["compute_ms"])

    @property
    def added_ms(self) -> float:
        """Median of what is not computing."""
        return float(np.median(np.array(self.latency_ms) - np.array(self.compute_ms)))

    def figures(self) -> dict[str, float]:
        """Items a second, percentiles of latency, medians of queue and computing time."""
        p50, p99, p999 = np.percentile(self.latency_ms, [50, 99, 99.9])
        return {
            "items_per_s": round(len(self.latency_ms) / self.wall_s, 1),
            "p50_ms": round(float(p50), 3),
            "p99_ms": round(float(p99), 3),
            "p999_ms": round(float(p999), 3),
            "queue_ms": round(float(np.median(self.queue_ms)), 3),
            "compute_ms": round(float(np.median(self.compute_ms)), 3),
        }


def closed_loop(client: Client, jobs: Sequence[Job], window: int | None = None) -> Heard:
    """Each answer makes room for the next item; `window` are under way.

    Raises
    ------
    StreamfeatError
        The first item that failed.
    """
    heard = Heard()
    begun = time.perf_counter()
    for result in client.stream(jobs, ordered=False, window=window):
        if result.error is not None:
            raise result.error
        heard.add(result.latency_ms, result.fields)
    heard.wall_s = time.perf_counter() - begun
    return heard


def open_loop(connection: Connection, jobs: Sequence[Job], due_s: Floats, timeout_s: float) -> Heard:
    """Each item is sent at its moment, whatever became of those before it; latency counts from that moment.

    Parameters
    ----------
    connection : Connection
        Of this thread, connected.
    jobs : sequence of Job
    due_s : (n,)
        Seconds from now, rising: one a job.
    timeout_s : float
        Of each item.

    Raises
    ------
    StreamfeatError
        The first item that failed.
    """
    heard, errand = Heard(), Errand(("features",))
    begun = time.monotonic()
    n_sent = 0

    def end(due: float, outcome: Outcome) -> None:
        if outcome.error is not None:
            raise outcome.error
        assert outcome.reply is not None  # there is one, or an error
        heard.add(1e3 * (time.monotonic() - due), outcome.reply.fields)

    while len(heard.latency_ms) < len(jobs):
        now = time.monotonic()
        if now > begun + due_s[-1] + LAST_ANSWER_S:
            raise Unavailable(f"{len(jobs) - len(heard.latency_ms)} items without an answer {LAST_ANSWER_S:g} s later")
        while n_sent < len(jobs) and begun + due_s[n_sent] <= now:
            due = begun + float(due_s[n_sent])
            connection.submit(errand, jobs[n_sent].to_item(), timeout_s, partial(end, due))
            n_sent += 1
        wait_s = begun + due_s[n_sent] - time.monotonic() if n_sent < len(jobs) else 1.0
        connection.turn(max(0.0, float(wait_s)))
    heard.wall_s = time.monotonic() - begun
    return heard


def poisson(n: int, per_second: float, rng: np.random.Generator) -> Floats:
    """n moments of a Poisson process, in seconds."""
    moments: Floats = np.cumsum(rng.exponential(1.0 / per_second, n))
    return moments
