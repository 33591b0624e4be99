"""The last minutes of a fleet as numbers: one sample a report, in a ring."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

N_SAMPLES = 600
"""Ten minutes at one a second."""

RATES = ("accepted", "answered")
WORKER_FIELDS = ("name", "kind", "stages", "banks", "state", "leased", "leased_bytes", "tasks", "silent_ms")
CLIENT_FIELDS = ("software", "open", "open_bytes", "silent_ms")
SHOWN = (
    "uptime_s",
    "draining",
    "accepted",
    "answered",
    "open",
    "oldest_s",
    "retained_bytes",
    "n_workers",
    "n_clients",
    "banks",
    "queues",
    "failed",
    "refused",
    "redelivered",
    "workers_lost",
    "turned_away",
    "recent",
)


class History:
    """Samples of a fleet, oldest first, and what it said last. Any thread may add, any may look."""

    def __init__(self, n_samples: int = N_SAMPLES) -> None:
        self._lock = threading.Lock()
        self._samples: deque[dict[str, Any]] = deque(maxlen=n_samples)
        self._number = 0
        self._before: tuple[float, Mapping[str, Any]] | None = None
        self._standing: dict[str, Any] = {}

    def add(self, now: float, report: Mapping[str, Any]) -> None:
        """A report that came at `now`, in Unix time."""
        with self._lock:
            before, self._before = self._before, (now, report)
            same = before is not None and before[1]["broker"] == report["broker"] and before[0] < now
            since = before if same else None
            self._put({"at": round(now, 3), **_amounts(report), **_changes(now, report, since)})
            self._standing = _shown(report)

    def miss(self, now: float, code: str) -> None:
        """No report came, for the reason that the error code says."""
        with self._lock:
            self._before = None
            self._put({"at": round(now, 3), "error": code})

    def since(self, number: int) -> dict[str, Any]:
        """What came after the sample of that number (0: all that is kept), and what the fleet said last."""
        with self._lock:
            # a number that was never given: this process is another one than the browser knew
            n_new = self._number - number if 0 < number <= self._number else self._number
            samples = list(self._samples)[max(0, len(self._samples) - n_new) :]
            return {"number": self._number, "samples": samples, "standing": self._standing}

    def _put(self, sample: dict[str, Any]) -> None:
        self._number += 1
        self._samples.append(sample)


def percentile_ms(counts: Sequence[int], part: float) -> float | None:
    """The time within which a part of the answers came, from the bins of a report's `took`; None without answers.

    Linear inside a bin, which is up to twice as wide as where it begins.
    """
    left = part * sum(counts)
    if not left:
        return None
    for n, count in enumerate(counts):
        if count and left <= count:
            low, high = (0.0 if n == 0 else 2.0 ** (n - 2)), 2.0 ** (n - 1)
            return round(low + (high - low) * left / count, 3)
        left -= count
    return 2.0 ** (len(counts) - 2)


def _amounts(report: Mapping[str, Any]) -> dict[str, float]:
    """What there is at one moment."""
    return {
        "open": report["open"],
        "queued": sum(queue["queued"] for queue in report["queues"]),
        "oldest_s": report["oldest_s"],
        "retained_bytes": report["retained_bytes"],
        "credit_bytes": sum(client["open_bytes"] for client in report["clients"]),
        "leased": sum(worker["leased"] for worker in report["workers"]),
    }


def _changes(now: float, report: Mapping[str, Any], since: tuple[float, Mapping[str, Any]] | None) -> dict[str, Any]:
    """What came and went since the report before; all None after the first of a broker."""
    if since is None:
        return dict.fromkeys((*(f"{name}_rate" for name in RATES), "failed_rate", "p50_ms", "p95_ms"))
    then, before = since
    rates = {f"{name}_rate": round((report[name] - before[name]) / (now - then), 2) for name in RATES}
    failed = (sum(report["failed"].values()) - sum(before["failed"].values())) / (now - then)
    took = [b - a for a, b in zip(before["took"], report["took"], strict=True)]
    latency = {"p50_ms": percentile_ms(took, 0.5), "p95_ms": percentile_ms(took, 0.95)}
    return {**rates, "failed_rate": round(failed, 2), **latency}


def _shown(report: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a report that a browser may see: no endpoint, no process, no run that answers are kept under."""
    return {
        **{name: report[name] for name in SHOWN if name in report},
        "workers": [{name: row[name] for name in WORKER_FIELDS} for row in report["workers"]],
        "clients": [{name: row[name] for name in CLIENT_FIELDS} for row in report["clients"]],
    }
