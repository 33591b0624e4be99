"""What may go wrong, row by row, on real processes: who holds each row, and here those that no other file holds."""

from __future__ import annotations

import ast
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from streamfeat.admin import ask
from streamfeat.client import Client, Job
from streamfeat.errors import InternalError, StreamfeatError
from streamfeat.signals import Signal
from streamfeat.trials.usage import sample_of
from streamfeat.wire.codec import encode
from streamfeat.wire.messages import Message
from tests.cluster import Cluster, cluster
from tests.fuzz_frames import GOLDEN
from tests.test_fleet import check_echo, echo_cluster, number, stream_with
from tests.test_security import free_port

HERE = Path(__file__).resolve().parent

MATRIX: dict[str, list[str]] = {
    "worker killed": ["failures::test_a_worker_that_ends", "fleet::test_a_killed_worker_costs_no_item"],
    "segfault": [
        "failures::test_a_worker_that_ends",
        "failures::test_a_segfault_leaves_its_stack",
        "chaos::test_nothing_is_lost_under_chaos",
    ],
    "out of memory": ["failures::test_what_does_not_fit_fails_alone", "fleet::test_poison_is_quarantined_and"],
    "frozen": [
        "fleet::test_a_frozen_worker_is_replaced",
        "client::test_a_broker_that_stops_answering",
        "failures::test_a_frozen_client_harms_nobody",
    ],
    "endless loop": [
        "runtime::test_a_stuck_handler_starves_the_watchdog",
        "systemd::test_a_real_systemd_runs",
        "failures::test_a_loop_without_end",
    ],
    "one bad item": ["runtime::test_a_bad_item_fails_alone", "fleet::test_a_bad_item_fails_alone"],
    "not a number": ["features::test_a_broken_kernel_is_found", "learner::test_one_bad_item", "featurelog::test_nan"],
    "results of wrong number": ["runtime::test_a_bad_item_fails_alone"],
    "stop of a worker": [
        "runtime::test_sigterm_before_there_is_work",
        "runtime::test_sigterm_finishes",
        "runtime::test_second_signal",
        "runtime::test_a_drain_has_its_bound",
        "fleet::test_a_worker_told_to_stop_under_load",
    ],
    "stop of a broker": ["fleet::test_a_broker_that_is_told_to_stop", "failures::test_two_stops_of_a_broker"],
    "stop of learner and index": ["failures::test_who_keeps_a_log_stops_under_load"],
    "broker killed": ["fleet::test_a_restarted_broker_is_asked_again", "client::test_a_broker_that_is_gone_for_good"],
    "client gone": ["failures::test_a_thousand_clients_that_vanish", "admission::test_a_client_that_left"],
    "fork, threads, cancel": [
        "client::test_a_forked_child",
        "client::test_another_thread",
        "client::test_cancel_ends",
    ],
    "garbage": [
        "fleet::test_garbage_at_a_socket",
        "fuzz_frames::test_a_broker_answers_mutants",
        "runtime::test_garbage_from_the_broker",
        "failures::test_garbage_at_the_admin_socket",
        "failures::test_garbage_from_a_broker",
    ],
    "impossible arrays": [
        "messages_live::test_each_fault",
        "messages_live::test_good_values",
        "messages::test_what_does_not_travel",
        "client::test_jobs_that_cannot_travel",
    ],
    "header bombs": ["codec::test_a_very_deep_value", "fleet::test_garbage_at_a_socket"],
    "bad links": ["security::test_each_silence", "links::test_a_bad_link"],
    "repeats and strays": [
        "admission::test_a_repeated_id",
        "outstanding::test_second_reply_is_dropped",
        "worker_loss::test_a_result_is_taken_once",
    ],
    "load": ["flow::test_stalled_workers", "client::test_a_slow_consumer", "failures::test_idle_connections"],
    "keys": [
        "security::test_who_does_not_fit",
        "security::test_a_key_that_is_revoked",
        "security::test_a_right_that_the_key",
        "links::test_a_password_is_no_key",
    ],
    "banks": [
        "features::test_a_bank_that_is_not_whole",
        "features::test_a_reload_that_fails",
        "features::test_a_running_worker_is_reloaded",
        "bankstore::test_a_harmed_bank",
        "directory::test_a_full_disk",
    ],
    "wall clock": ["failures::test_a_clock_that_jumps"],
    "compiled kernels": ["kernels::test_a_kernel_compiles_without_a_cache", "doctor::test_where_numba_keeps"],
    "streams of items": ["featurelog::test_a_retry_is_harmless", "featurelog::test_it_is_a_dict"],
    "few files": ["failures::test_too_few_open_files", "logs::test_a_worker_may_open_many_files"],
    "places": [
        "broker::test_tcp_on_the_loopback",
        "broker::test_stale_sockets",
        "endpoints::test_a_missing_directory",
        "endpoints::test_another_users_directory",
    ],
    "for long": ["soak::test_a_fleet_stays_flat", "chaos::test_nothing_is_lost_under_chaos"],
    "versions": [
        "broker::test_a_version_from_the_future",
        "codec::test_another_version",
        "codec::test_unknown_keys",
    ],
}


@pytest.mark.parametrize("row", MATRIX)
def test_each_row_is_held(row: str) -> None:
    """By tests that are there: a file, and the beginning of a name."""
    for held in MATRIX[row]:
        file, _, name = held.partition("::")
        tree = ast.parse((HERE / f"test_{file}.py").read_text("utf-8"))
        found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert any(one.startswith(name or "test_") for one in found), held


@pytest.fixture(scope="module")
def calm() -> Iterator[Cluster]:
    """A broker with an admin socket and an echo worker, which no test harms."""
    with cluster() as running:
        running.start_broker("--heartbeat-ms", "200", "--admin", f"ipc://{running.run_dir}/admin.sock")
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        yield running


# --- workers ----------------------------------------------------------------------------------------------------------

LARGE = Signal("audio", np.arange(200_000, dtype=np.int16), 8000)


@pytest.mark.parametrize("moment", ["idle", "die", "after", "amid", "segfault"])
def test_a_worker_that_ends(moment: str) -> None:
    """Before it has work, while it computes, with the result in hand, while that is sent: one answer, from the next."""
    with cluster() as running:
        echo_cluster(running, "echo-1")
        if moment == "idle":
            running.signal("echo-1", signal.SIGKILL)
        with Client(running.front, timeout_s=20) as client:
            stream = client.stream([Job(LARGE, name=moment)])
            threading.Timer(0.3, running.start_echo, ("echo-2", "--immortal")).start()
            [result] = stream
            np.testing.assert_array_equal(result.feature, LARGE.samples.astype(np.float32))
            assert client.status()["open"] == 0
        if moment != "idle":  # it may be handed an item before its end is noticed
            assert result.fields["attempt"] == (1 if result.fields["worker"] == "echo-1" else 2)
        assert running.wait("echo-1") in (-signal.SIGKILL, -signal.SIGSEGV)


def test_a_segfault_leaves_its_stack() -> None:
    """In the log of the worker: which signal, and where it was."""
    with cluster() as running:
        echo_cluster(running, "echo-1")
        with Client(running.front, timeout_s=0.5) as client:
            [_] = client.stream([number(1, "segfault")])
        assert running.wait("echo-1") == -signal.SIGSEGV
        assert "Segmentation fault" in running.log("echo-1")
        assert "in handle" in running.log("echo-1")


def test_a_loop_without_end() -> None:
    """The worker never lets go of its interpreter: given up after three heartbeats, and answered by another."""
    with cluster() as running:
        echo_cluster(running, "echo-1")
        with Client(running.front, timeout_s=20) as client:
            stream = client.stream([number(7, "spin")])
            threading.Timer(0.3, running.start_echo, ("echo-2", "--immortal")).start()
            answers = [(result.ok, result.fields["worker"], result.fields["attempt"]) for result in stream]
        assert answers == [(True, "echo-2", 2)]
        assert running.processes["echo-1"].poll() is None  # its supervisor's watchdog is who ends it


def test_what_does_not_fit_fails_alone(calm: Cluster) -> None:
    """A MemoryError is one item's, and the worker goes on."""
    with Client(calm.front) as client:
        results = list(client.stream(number(n, "swell" if n == 3 else "") for n in range(8)))
    assert isinstance(results[3].error, InternalError)
    assert "MemoryError" in str(results[3].error)
    assert [r.ok for r in results].count(True) == 7


@pytest.mark.parametrize("role", ["learner", "index"])
def test_who_keeps_a_log_stops_under_load(role: str) -> None:
    """SIGTERM, twice: exit status 0; the next one has it all, and every item was answered once."""
    stage = {"learner": "learn:m", "index": "insert:m"}[role]
    with cluster() as running:
        echo_cluster(running, "echo-1")

        def start() -> None:
            place = ("--connect", running.back, "--name", role, "--state", str(running.run_dir / "state"))
            running.spawn(role, f"streamfeat.workers.{role}", *place)

        start()
        running.wait_ready(role)
        jobs = [Job(number(n).payload, label=f"c{n % 2}", stream="s", seq=n) for n in range(90)]
        with Client(running.front, timeout_s=30) as client:
            for n, result in enumerate(client.stream(jobs, route=f"features > {stage}", window=16)):
                assert result.ok, result.error
                if n == 30:
                    running.signal(role, signal.SIGTERM)
                    running.signal(role, signal.SIGTERM)
                    assert running.wait(role) == 0
                    start()
            again = list(client.stream(jobs, route=f"features > {stage}"))
        assert [r.fields["duplicate"] for r in again] == [True] * 90


# --- broker -----------------------------------------------------------------------------------------------------------


def test_two_stops_of_a_broker() -> None:
    """The second ends it at once, though a worker is at work; who waits is told, and exit status is 0."""
    with cluster() as running:
        echo_cluster(running, "echo-1")
        with Client(running.front, timeout_s=1.0) as client:
            stream = client.stream([number(1, "sleep:5")])
            threading.Timer(0.2, running.signal, ("broker", signal.SIGTERM)).start()
            threading.Timer(0.4, running.signal, ("broker", signal.SIGTERM)).start()
            [result] = stream
            assert not result.ok
        assert running.wait("broker", 3.0) == 0


def test_too_few_open_files() -> None:
    """libzmq would end the process at a connection too many: the start is refused, in one line."""
    with cluster() as running:
        told = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        told += "from streamfeat.workers.broker import main; sys.exit(main())"
        command = [sys.executable, "-c", told, "--front", running.front, "--back", running.back]
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert done.returncode == 78
    assert b"at least 256 open files, the limit is 64; raise it" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_garbage_at_the_admin_socket(calm: Cluster) -> None:
    """Each is answered by an error, and the next order is obeyed."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    admin = f"ipc://{calm.run_dir}/admin.sock"
    with context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.connect(admin)
        for frames in ([b""], [b"SF1"], [b"SF1", b"ADMIN", b"\xc1"], [b"GET /"], [b"SF1", b"ADMIN", b"\x81" * 5000]):
            dealer.send_multipart(frames)
            assert dealer.poll(5000)
            assert dealer.recv_multipart()[1] == b"ERROR"
    assert ask(admin, Message("STATUS"))["n_workers"] == 1


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker and worker see the wall clock leap by an hour, to and fro, at each look: nothing depends on it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import itertools, time\n"
        "real, leap = time.time, itertools.cycle([3600.0, -3600.0])\n"
        "time.time = lambda: real() + next(leap)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with cluster() as running:
        echo_cluster(running, "echo-1", "echo-2")
        results = stream_with(running, 200, lambda _: None)
        check_echo(results, 200)
        assert {r.fields["attempt"] for r in results} == {1}
        assert max(r.fields["queue_ms"] for r in results) < 20_000


# --- clients ----------------------------------------------------------------------------------------------------------


def test_a_frozen_client_harms_nobody(calm: Cluster) -> None:
    """SIGSTOP for ten heartbeats: others are served meanwhile, and afterwards it has each of its results once."""
    told = (
        "import sys, numpy as np; from streamfeat.client import Client, Job; from streamfeat.signals import Signal\n"
        "jobs = (Job(Signal('audio', np.full(4, n, np.int16), 8000), name='sleep:0.005', tag=n) for n in range(150))\n"
        "with Client(sys.argv[1], timeout_s=30) as client:\n"
        "    for result in client.stream(jobs):\n"
        "        print(int(result.feature[0]), flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", told, calm.front], stdout=subprocess.PIPE, text=True) as frozen:
        assert frozen.stdout is not None
        got = [int(frozen.stdout.readline()) for _ in range(10)]
        frozen.send_signal(signal.SIGSTOP)
        try:
            with Client(calm.front) as client:
                check_echo(list(client.stream(number(n) for n in range(50))), 50)
            time.sleep(2.0)  # ten heartbeats: the promise is about them
        finally:
            frozen.send_signal(signal.SIGCONT)
        got += map(int, frozen.stdout)
    assert got == list(range(150))


def test_a_thousand_clients_that_vanish(calm: Cluster) -> None:
    """Each says hello, asks and is gone without a word: no item stays open, and no file."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    request = next(frames for frames in GOLDEN if b"echo" in frames[2])
    broker = calm.processes["broker"].pid
    before = sample_of(broker, 0).files
    with context, Client(calm.front) as client:
        for n in range(1000):
            hello = Message("HELLO", {"protocol": [1, 1], "role": "client", "peer": f"{n:016x}"})
            with context.socket(zmq.DEALER) as dealer:
                dealer.linger = 200
                dealer.connect(calm.front)
                dealer.send_multipart(encode(hello))
                dealer.send_multipart(request)
            if n % 200 == 199:
                settle(client, lambda report: report["open"] == report["retained_bytes"] == 0)
        until_files(broker, before + 2)


def until_files(process: int, most: int) -> None:
    """Look until the process has no more files open than that."""
    deadline = time.monotonic() + 10
    while sample_of(process, 0).files > most:
        assert time.monotonic() < deadline
        time.sleep(0.05)  # looks again


def settle(client: Client, over: Callable[[dict[str, object]], bool], timeout_s: float = 10.0) -> None:
    """Ask for the report until it is as it should be."""
    deadline = time.monotonic() + timeout_s
    while not over(report := client.status()):
        assert time.monotonic() < deadline, json.dumps(report)
        time.sleep(0.05)  # asks again


def test_idle_connections(calm: Cluster) -> None:
    """Seven hundred that never say a word: a client is served beside them, and their files are given back."""
    broker = calm.processes["broker"].pid
    before = sample_of(broker, 0).files
    with contextlib.ExitStack() as stack, Client(calm.front) as client:
        for _ in range(700):
            raw = stack.enter_context(socket.socket(socket.AF_UNIX))
            raw.connect(calm.front.removeprefix("ipc://"))  # waits while the backlog is full
        check_echo(list(client.stream(number(n) for n in range(100))), 100)
        assert sample_of(broker, 0).files > before + 600
    until_files(broker, before + 2)


def test_garbage_from_a_broker() -> None:
    """Whoever answers with nonsense is no broker: an error of ours within the time to connect."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    port, over = free_port(), threading.Event()

    def babble() -> None:
        with context.socket(zmq.ROUTER) as router:
            router.linger = 0
            router.bind(f"tcp://127.0.0.1:{port}")
            while not over.is_set():
                if router.poll(20):
                    peer, *_ = router.recv_multipart()
                    for frames in ([b""], [b"HTTP/1.1 400"], [b"SF1", b"WELCOME", b"\xc1"], [b"SF1", b"TASK", b"\x80"]):
                        router.send_multipart([peer, *frames])

    thread = threading.Thread(target=babble)
    thread.start()
    try:
        began = time.monotonic()
        with pytest.raises(StreamfeatError), Client(f"tcp://127.0.0.1:{port}", connect_timeout_s=1.0):
            pass
        assert time.monotonic() - began < 2.0
    finally:
        over.set()
        thread.join(5)
        context.term()
