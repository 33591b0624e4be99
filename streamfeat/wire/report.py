"""The broker's state for people and dashboards."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfeat.wire.routing import Broker

_ROWS = 48
"""Rows a table, the fullest first: a report must fit into a header of 64 KiB whatever the fleet."""

_STAGES = 4  # stages, and banks, a row
_NAME = 40  # characters of a bank's name
_SHOWN = 100  # letters of an error
_ERRORS = 8


def report(broker: Broker, now: float, *, to: bytes | None = None) -> dict[str, Any]:
    """Counters, workers, clients and queues as plain values.

    To a peer, of the clients its own row alone, a run being what answers are sent and remembered by, and no errors of
    workers, which may name files. Tables are cut to their fullest rows; n_workers, n_clients, n_queues are never cut.
    Entry n of `took` counts the items that were answered within 2^n / 2 ms and not within half of it; the last counts
    all that took longer, too.
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
        "bank_bytes": dict(list(_bank_bytes(broker).items())[:_ROWS]),
        "n_workers": len(broker.workers),
        "workers": _workers(broker, now),
        **({"reload_errors": _reload_errors(broker)} if to is None else {}),
        "n_clients": len(broker.clients),
        "clients": _clients(broker, now, to),
        "n_queues": len(queues),
        "queues": [
            {"stage": stage, "options": options[:_ROWS], "queued": n_queued, "queued_bytes": n_bytes}
            for (stage, _bank, options), n_queued, n_bytes in queues[:_ROWS]
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
    "reloads",
    "reloads_failed",
)
"""The counters that a report always has, at zero too."""


def _bank_bytes(broker: Broker) -> dict[str, int]:
    """By name, what the arrays of a served bank weigh; workers of one machine share them."""
    bytes_of = {digest: n for w in broker.workers.values() for digest, n in w.about.get("bank_bytes", {}).items()}
    return {name: bytes_of[digest] for name, digest in broker.services.banks.items() if digest in bytes_of}


def _reload_errors(broker: Broker) -> dict[str, str]:
    """By worker, why its last reload failed."""
    told = ((w.name, w.about.get("reloads", {}).get("error", "")) for w in broker.workers.values())
    return dict(islice(((name, error[:_SHOWN]) for name, error in told if error), _ERRORS))


def _workers(broker: Broker, now: float) -> list[dict[str, Any]]:
    workers = sorted(broker.workers.values(), key=lambda w: (-len(w.leases), w.name))
    return [
        {
            "name": w.name,
            "kind": w.kind,
            "stages": list(w.announced[:_STAGES]),
            "banks": [name[:_NAME] for name in islice(w.banks, _STAGES)],
            "state": "draining" if w.draining else "resting" if w.resting else "ready",
            "leased": len(w.leases),
            "leased_bytes": w.n_bytes,
            "tasks": w.n_tasks,
            "silent_ms": round((now - w.heard) * 1000),
            "pid": w.pid,
            "host": w.host,
            "restarts": broker.presence.restarts[w.name],
            "warm_ms": w.about.get("warm_ms"),
            "compiled": w.about.get("compiled"),
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
