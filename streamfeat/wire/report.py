"""The broker's state for people and dashboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfeat.wire.routing import Broker

_ROWS = 64
"""Rows a table, the fullest first: a report must fit into a header of 64 KiB whatever the fleet."""

_STAGES = 4  # stages a row


def report(broker: Broker, now: float, *, to: bytes | None = None) -> dict[str, Any]:
    """Counters, workers, clients and queues as plain values.

    To a peer, of the clients its own row alone: a run is what answers are sent and remembered by. Tables are cut to
    their fullest rows; n_workers, n_clients and n_queues are never cut. Entry n of `took` counts the items that were
    answered within 2^n / 2 ms and not within half of it; the last counts all that took longer, too.
    """
    ledger = broker.ledger
    queues = sorted(ledger.queues.counts(), key=lambda row: -row[1])
    oldest = min((next(iter(c.leases.values())).accepted for c in broker.clients.values() if c.leases), default=now)
    return {
        "broker": broker.boot,
        "uptime_s": round(now - broker.started, 3),
        "draining": broker.draining,
        **{name: ledger.counts[name] for name in COUNTS},
        "took": list(ledger.took),
        "failed": dict(ledger.failed),
        "refused": dict(ledger.refused),
        "open": ledger.n_open,
        "oldest_s": round(now - oldest, 3),
        "retained_bytes": ledger.retained_bytes,
        "cached_replies": len(ledger.replies),
        "cached_bytes": ledger.replies.n_bytes,
        "banks": dict(list(broker.services.banks.items())[:_ROWS]),
        "n_workers": len(broker.workers),
        "workers": _workers(broker, now),
        "n_clients": len(broker.clients),
        "clients": _clients(broker, now, to),
        "n_queues": len(queues),
        "queues": [
            {"stage": stage, "options": options[:_ROWS], "queued": n_queued}
            for (stage, _bank, options), n_queued in queues[:_ROWS]
        ],
    }


COUNTS = (
    "accepted",
    "answered",
    "abandoned",
    "redelivered",
    "handed_back",
    "repeated",
    "duplicates",
    "late",
    "stray",
    "malformed",
    "workers_lost",
)
"""The counters that a report always has, at zero too."""


def _workers(broker: Broker, now: float) -> list[dict[str, Any]]:
    workers = sorted(broker.workers.values(), key=lambda w: (-len(w.leases), w.name))
    return [
        {
            "name": w.name,
            "kind": w.kind,
            "stages": list(w.announced[:_STAGES]),
            "state": "draining" if w.draining else "resting" if w.resting else "ready",
            "leased": len(w.leases),
            "leased_bytes": w.n_bytes,
            "tasks": w.n_tasks,
            "silent_ms": round((now - w.heard) * 1000),
            "pid": w.pid,
            "host": w.host,
        }
        for w in workers[:_ROWS]
    ]


def _clients(broker: Broker, now: float, to: bytes | None) -> list[dict[str, Any]]:
    shown = [c for c in broker.clients.values() if to is None or c.address == to]
    clients = sorted(shown, key=lambda c: -len(c.leases))
    return [
        {
            "run": c.run,
            "software": c.software,
            "open": len(c.leases),
            "open_bytes": c.n_bytes,
            "silent_ms": round((now - c.heard) * 1000),
        }
        for c in clients[:_ROWS]
    ]
