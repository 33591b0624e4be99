"""The broker as Prometheus and a load balancer see it: over HTTP, from a real process."""

from __future__ import annotations

import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamfeat.admin import ask
from streamfeat.client import Client, Job
from streamfeat.signals import Signal
from streamfeat.wire.messages import Message
from tests.cluster import Cluster, cluster
from tests.test_security import free_port

SYSTEMD = Path(__file__).resolve().parent.parent / "systemd"


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Watched:
    """A broker with an echo worker, and its HTTP port."""

    def __init__(self, fleet: Cluster) -> None:
        self.fleet = fleet
        self.port = free_port()
        fleet.start_broker("--metrics", f"127.0.0.1:{self.port}", "--admin", f"ipc://{fleet.run_dir}/admin.sock")

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def wait(self, path: str, status: int) -> None:
        """Until it is answered like that."""
        deadline = time.monotonic() + 20
        while self.get(path)[0] != status:
            assert time.monotonic() < deadline, self.get(path)
            time.sleep(0.05)

    def wait_sample(self, name: str, labels: tuple[tuple[str, str], ...], value: float) -> Samples:
        """All samples, once this one has its value; the report is shown five times a second."""
        deadline = time.monotonic() + 20
        while (samples := self.samples()).get((name, labels)) != value:
            assert time.monotonic() < deadline, (name, labels, samples.get((name, labels)))
            time.sleep(0.05)
        return samples

    def samples(self) -> Samples:
        """Every sample of /metrics, by its name and labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    """One for all tests here, the last of which stops it."""
    with cluster() as fleet:
        broker = Watched(fleet)
        fleet.wait_ready()
        yield broker


def test_ready_means_that_somebody_works(watched: Watched) -> None:
    """Alive as soon as it turns, ready once a worker is there."""
    assert watched.get("/livez") == (200, "ok\n")
    status, why = watched.get("/readyz")
    assert (status, why) == (503, "no worker is ready\n")
    watched.fleet.start_echo("echo", "--stale")
    watched.wait("/readyz", 200)
    assert watched.get("/")[0] == 404


def test_what_was_answered_is_counted(watched: Watched) -> None:
    """Items by stage, bank and code; where their time went; no client and no request in a label."""
    jobs = [Job(Signal("image", np.zeros((2, 3), np.uint8)), name=f"n{n}") for n in range(20)]
    with Client(watched.fleet.front) as client:
        assert all(result.ok for result in client.stream(jobs))
    answered = (("bank", "echo"), ("code", "OK"), ("op", "features"))
    watched.wait_sample("streamfeat_items_total", answered, 20)
    samples = watched.wait_sample("streamfeat_inflight_items", (), 0)
    assert samples["streamfeat_request_duration_seconds_count", (("bank", "echo"), ("op", "features"))] == 20
    assert samples["streamfeat_batch_items_sum", (("op", "features"),)] == 20
    assert samples["streamfeat_batch_cost_sum", (("op", "features"),)] == 120
    n_batches = samples["streamfeat_batch_items_count", (("op", "features"),)]
    assert samples["streamfeat_batch_wait_seconds_count", (("op", "features"),)] == n_batches
    assert samples["streamfeat_queue_bytes", (("op", "features"),)] == 0
    assert samples["streamfeat_bank_bytes", (("bank", "echo"),)] == 1024
    assert samples["streamfeat_deadletter_items", ()] == 0
    assert samples["streamfeat_payload_bytes_sum", (("direction", "in"),)] == 120
    assert samples["streamfeat_workers", (("state", "ready"),)] == 1
    assert {name for _, labels in samples for name, _ in labels} <= {
        *("bank", "code", "op", "le", "side", "state", "reason", "endpoint", "event", "worker", "direction"),
        *("sha", "result", "version", "libzmq", "numpy", "numba"),
    }


def test_a_reload_that_failed_and_a_restart_are_seen(watched: Watched) -> None:
    """The worker goes on, and an operator need not look into its journal to know."""
    admin = f"ipc://{watched.fleet.run_dir}/admin.sock"
    ask(admin, Message("ADMIN", {"act": "reload"}))
    samples = watched.wait_sample("streamfeat_bank_reloads_total", (("result", "failed"),), 1)
    assert samples["streamfeat_bank_reloads_total", (("result", "done"),)] == 0
    report = ask(admin, Message("STATUS"))
    assert report["reload_errors"] == {"echo": "the newer bank is not whole"}
    assert any("could not reload: the newer bank is not whole" in note["what"] for note in report["recent"])
    watched.fleet.signal("echo", signal.SIGTERM)
    assert watched.fleet.wait("echo") == 0
    watched.fleet.start_echo("echo")
    watched.wait_sample("streamfeat_worker_restarts_total", (("worker", "echo"),), 1)


def test_names_are_as_prometheus_wants_them(watched: Watched) -> None:
    """Base units, counters in _total, one prefix, and a text for each."""
    for family in text_string_to_metric_families(watched.get("/metrics")[1]):
        assert family.name.startswith("streamfeat_")
        assert family.documentation
        assert not re.search(r"_(ms|us|millis|kb|mb)(_|$)", family.name)
        if family.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in family.samples)


@pytest.mark.parametrize("file", ["grafana.json", "alerts.yml"])
def test_dashboard_and_alerts_name_what_is_there(watched: Watched, file: str) -> None:
    """Every metric that they use is one that the broker shows."""
    shown = {name for name, _ in watched.samples()}
    used = set(re.findall(r"streamfeat_[a-z_]+", (SYSTEMD / file).read_text()))
    assert used
    assert used <= shown, used - shown


def test_a_stopped_loop_is_not_alive(watched: Watched) -> None:
    """While the process is stopped nobody answers at all; /livez says so for a loop that hangs."""
    from streamfeat.workers.metrics import STUCK_S, Metrics

    metrics = Metrics("127.0.0.1:0")
    try:
        metrics.turn(100.0)
        assert metrics.page("/livez", 100.0 + STUCK_S)[0] == 200
        assert metrics.page("/livez", 101.0 + STUCK_S)[0] == 503
    finally:
        metrics.close()
    watched.fleet.signal("broker", signal.SIGTERM)
    assert watched.fleet.wait("broker") == 0
