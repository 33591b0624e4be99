"""The broker as Prometheus sees it, and its health, over HTTP.

    /metrics   every counter and gauge of the report, and histograms of what was answered
    /livez     200 while the loop turns; 503 once it has not for `STUCK_S`
    /readyz    200 while new items are taken and a worker is there for them

The loop puts a report here now and then and hands over what it answered; the HTTP thread reads nothing else, so that a
slow scrape costs the loop nothing. Client and request ids never become labels.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

import zmq
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from streamfeat import __version__
from streamfeat.errors import ConfigError
from streamfeat.wire.leases import Dispatched, Served
from streamfeat.wire.messages import Message

STUCK_S = 5.0
SECONDS = tuple(0.0005 * 2**n for n in range(17))  # 0.5 ms to 33 s
ITEMS = tuple(float(2**n) for n in range(10))
BYTES = tuple(256.0 * 4**n for n in range(10))
COST = tuple(1024.0 * 8**n for n in range(11))  # to 10^12 samples times templates

Rows = Iterable[tuple[Mapping[str, str], float]]

_GAUGES = {
    "streamfeat_inflight_items": ("open", "accepted items without an answer"),
    "streamfeat_retained_bytes": ("retained_bytes", "payload held for all clients together"),
    "streamfeat_oldest_item_age_seconds": ("oldest_s", "of accepted items without an answer"),
}


class Metrics:
    """What is counted, and the server that shows it.

    Parameters
    ----------
    address : str
        host:port to listen at.

    Raises
    ------
    ConfigError
        No such address, or its port is taken.
    """

    def __init__(self, address: str) -> None:
        self._registry = CollectorRegistry()
        self._report: dict[str, Any] = {}
        self._turned = time.monotonic()
        self._items: Counter[tuple[str, str, str]] = Counter()
        self._requests: Counter[str] = Counter()
        named = ("op", "bank")
        self._duration = self._histogram("streamfeat_request_duration_seconds", "accepted to answered", named, SECONDS)
        self._queued = self._histogram("streamfeat_queue_duration_seconds", "waiting for a worker", named, SECONDS)
        self._computed = self._histogram("streamfeat_compute_duration_seconds", "with a worker", named, SECONDS)
        self._batch = self._histogram("streamfeat_batch_items", "items a worker gets at once", ("op",), ITEMS)
        self._cost = self._histogram("streamfeat_batch_cost", "samples times templates at once", ("op",), COST)
        self._waited = self._histogram("streamfeat_batch_wait_seconds", "of a batch's first item", ("op",), SECONDS)
        self._payload = self._histogram("streamfeat_payload_bytes", "of a message", ("direction",), BYTES)
        self._registry.register(self)
        self._server = _listen(address, self)
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened at."""
        return int(self._server.server_address[1])

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    # --- from the loop ------------------------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """The loop is alive."""
        self._turned = now

    def show(self, report: dict[str, Any]) -> None:
        """What is shown from now on."""
        self._report = report

    def sent(self, message: Message) -> None:
        """A message that leaves the broker."""
        if message.verb == "REPLY":
            self._payload.labels("out").observe(sum(item.n_bytes for item in message.items))

    def received(self, message: Message) -> None:
        """A message that came in."""
        if message.verb == "REQUEST":
            self._requests[str(message.fields["route"][-1]).partition(":")[0]] += 1
            self._payload.labels("in").observe(sum(item.n_bytes for item in message.items))

    def dispatched(self, tasks: Iterable[Dispatched]) -> None:
        """What workers were given."""
        for task in tasks:
            self._batch.labels(task.op).observe(task.n_items)
            self._cost.labels(task.op).observe(task.cost)
            self._waited.labels(task.op).observe(task.wait_s)

    def served(self, answers: Iterable[Served]) -> None:
        """Items that were answered."""
        names = {digest: name for name, digest in self._report.get("banks", {}).items()}
        for item in answers:
            bank = names.get(item.bank or "", "")  # a hash may be anything that a client says
            self._items[item.op, bank, item.code] += 1
            self._duration.labels(item.op, bank).observe(item.took_s)
            self._queued.labels(item.op, bank).observe(item.queue_s)
            self._computed.labels(item.op, bank).observe(item.compute_s)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1)

    # --- to whoever asks ----------------------------------------------------------------------------------------------

    def page(self, path: str, now: float) -> tuple[int, str, bytes]:
        """Status, type and body of an answer."""
        text = "text/plain; charset=utf-8"
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if path == "/livez":
            stuck_s = now - self._turned
            return (503, text, f"stuck for {stuck_s:.1f} s\n".encode()) if stuck_s > STUCK_S else (200, text, b"ok\n")
        if path == "/readyz":
            ready = any(worker["state"] == "ready" for worker in self._report.get("workers", ()))
            if self._report.get("draining") or not ready:
                return 503, text, b"draining\n" if self._report.get("draining") else b"no worker is ready\n"
            return 200, text, b"ok\n"
        return 404, text, b"/metrics, /livez and /readyz are here\n"

    def collect(self) -> Iterator[Metric]:
        """What the report says, in Prometheus' words."""
        r = self._report
        if not r:
            return
        for name, (key, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=r[key])
        items = [({"op": op, "bank": bank, "code": code}, n) for (op, bank, code), n in self._items.items()]
        yield _counter("streamfeat_items", "answered items", items)
        yield _counter(
            "streamfeat_requests", "messages with items", [({"op": op}, n) for op, n in self._requests.items()]
        )
        yield _counter("streamfeat_rejected", "turned away at the door", _rejected(r))
        redelivered = [({"reason": "worker_lost"}, r["redelivered"]), ({"reason": "handed_back"}, r["handed_back"])]
        yield _counter("streamfeat_redeliveries", "items that went to another worker", redelivered)
        reasons = ("repeated", "duplicates", "late", "stray")
        yield _counter(
            "streamfeat_duplicates", "dropped or answered from memory", [({"reason": x}, r[x]) for x in reasons]
        )
        quarantined = r["failed"].get("QUARANTINED", 0)
        yield _counter("streamfeat_deadletter", "quarantined items", [({"reason": "killed_workers"}, quarantined)])
        yield _gauge("streamfeat_deadletter_items", "letters in the folder", [({}, r["dead_letters"])])
        yield _counter("streamfeat_credit_exhausted", "items over a credit", [({}, r["refused"].get("OVERLOADED", 0))])
        yield _counter("streamfeat_worker_lost", "workers that went away", [({}, r["workers_lost"])])
        events = [({"endpoint": e, "event": name}, n) for e, table in r["events"].items() for name, n in table.items()]
        yield _counter("streamfeat_zmq_events", "what happened to connections", events)
        yield from self._queues(r["queues"])
        yield from _workers(r["workers"])
        reloads = [({"result": "done"}, r["reloads"]), ({"result": "failed"}, r["reloads_failed"])]
        yield _counter("streamfeat_bank_reloads", "by workers that were told to", reloads)
        used: Rows = [
            ({"side": side}, sum(peer[key] for peer in r[table]))
            for side, table, key in (("client", "clients", "open_bytes"), ("worker", "workers", "leased_bytes"))
        ]
        yield _gauge("streamfeat_credit_bytes", "in use", used)
        yield _gauge(
            "streamfeat_bank_info", "banks that are served", [({"bank": b, "sha": h}, 1) for b, h in r["banks"].items()]
        )
        yield _gauge("streamfeat_bank_bytes", "of arrays", [({"bank": b}, n) for b, n in r["bank_bytes"].items()])
        versions = {"version": __version__, "libzmq": zmq.zmq_version()}
        versions |= {name: version(name) for name in ("numpy", "numba")}
        yield _gauge("streamfeat_build_info", "versions", [(versions, 1)])

    def _queues(self, queues: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
        """What waits, by stage; a stage that was ever asked for is there at zero too."""
        for name, key in (("items", "queued"), ("bytes", "queued_bytes")):
            waiting: Counter[str] = Counter(dict.fromkeys(self._requests, 0))
            for queue in queues:
                waiting[queue["stage"].partition(":")[0]] += queue[key]
            rows = [({"op": op}, n) for op, n in waiting.items()]
            yield _gauge(f"streamfeat_queue_{name}", "waiting for a worker", rows)


def _workers(workers: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """How many do what, and of each what it said and when."""
    states = Counter(worker["state"] for worker in workers)
    rows: Rows = [({"state": state}, states[state]) for state in ("ready", "resting", "draining")]
    yield _gauge("streamfeat_workers", "by what they do", rows)

    def of_each(key: str, unit: float = 1.0) -> Rows:
        return [({"worker": w["name"]}, w[key] * unit) for w in workers if w[key] is not None]

    yield _gauge("streamfeat_worker_heartbeat_age_seconds", "since a worker was heard", of_each("silent_ms", 0.001))
    yield _counter("streamfeat_worker_restarts", "newer runs under a worker's name", of_each("restarts"))
    yield _gauge("streamfeat_jit_warmup_seconds", "banks opened, kernels ready, tried", of_each("warm_ms", 0.001))
    yield _counter("streamfeat_jit_cache_misses", "kernels that were compiled anew", of_each("compiled"))


def _rejected(report: Mapping[str, Any]) -> Rows:
    """Reasons of `streamfeat_rejected_total`."""
    refused = report["refused"]
    table = {
        "queue_full": refused.get("OVERLOADED", 0),
        "too_large": refused.get("TOO_LARGE", 0),
        "invalid": report["malformed"] + refused.get("INVALID_ARGUMENT", 0) + refused.get("NOT_FOUND", 0),
        "auth": sum(report["turned_away"].values()),
        "unavailable": refused.get("UNAVAILABLE", 0),
        "deadline": report["failed"].get("DEADLINE_EXCEEDED", 0),
    }
    return [({"reason": reason}, n) for reason, n in table.items()]


def _counter(name: str, text: str, rows: Rows) -> Metric:
    return _filled(CounterMetricFamily(name, text), f"{name}_total", rows)


def _gauge(name: str, text: str, rows: Rows) -> Metric:
    return _filled(GaugeMetricFamily(name, text), name, rows)


def _filled(family: Metric, name: str, rows: Rows) -> Metric:
    for labels, value in rows:
        family.add_sample(name, dict(labels), value)
    return family


def _listen(address: str, metrics: Metrics) -> ThreadingHTTPServer:
    host, separator, port = address.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"broker.metrics must be HOST:PORT, such as 127.0.0.1:9671, got {address!r}")

    class Page(BaseHTTPRequestHandler):
        timeout = 5.0  # of a connection that says nothing

        def do_GET(self) -> None:
            status, kind, body = metrics.page(self.path.partition("?")[0], time.monotonic())
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """A scrape every few seconds is no news."""

    try:
        return ThreadingHTTPServer((host, int(port)), Page)
    except OSError as error:
        raise ConfigError(f"broker.metrics {address}: {error.strerror}; choose another address") from error
