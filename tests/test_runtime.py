"""The loop of a worker, as the broker and the supervisor see it: a real process, a real socket, real signals."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from streamfeat.workers.notify import Notifier

from streamfeat.payloads import signal_to_item
from streamfeat.signals import Signal
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Item, Message
from tests.handlers import BANK

STAGE = f"features:{BANK}"
WELCOME = {
    "protocol": 1,
    "broker": "b0" * 8,
    "heartbeat_ms": 200,
    "liveness": 3,
    "credit": {"items": 32, "bytes": 1 << 20},
    "limits": {"item_bytes": 1 << 20, "message_items": 32, "message_bytes": 1 << 20},
    "banks": {},
}


@dataclass
class Desk:
    """The broker's side of one worker, told line by line."""

    socket: zmq.Socket[bytes]
    process: subprocess.Popen[bytes]
    peer: bytes = b""
    seen: list[Message] = field(default_factory=list)

    def expect(self, verb: str, *, within_s: float = 20.0, answer_pings: bool = True) -> Message:
        """The next message of that verb; PINGs on the way are answered."""
        deadline = time.monotonic() + within_s
        while self.socket.poll(max(0.0, deadline - time.monotonic()) * 1000):  # type: ignore[arg-type]
            self.peer, *frames = self.socket.recv_multipart()
            message = decode(frames)
            self.seen.append(message)
            if message.verb == "PING" and answer_pings:
                self.say("PONG", {})
            if message.verb == verb:
                return message
        raise AssertionError(f"no {verb} within {within_s} s, but {[m.verb for m in self.seen[-10:]]}")

    def say(self, verb: str, fields: dict[str, Any], items: tuple[Item, ...] = ()) -> None:
        """Send to the worker."""
        self.socket.send_multipart([self.peer, *encode(Message(verb, fields, items))])

    def welcome(self) -> Message:
        """Hear HELLO and answer it."""
        hello = self.expect("HELLO")
        self.say("WELCOME", WELCOME)
        return hello

    def task(self, *names: str, ttl_ms: int = 10_000, first: int = 0) -> None:
        """One TASK with an item for each name; lease numbers count from `first`, samples are the lease number."""
        items = []
        for lease, name in enumerate(names, first):
            item = signal_to_item(Signal("audio", np.full(3, lease, np.int16), 8000), {})
            fields = {"id": lease, "ttl_ms": ttl_ms, "stream": "s", "seq": lease, "name": name, **item.fields}
            items.append(Item(fields, item.arrays))
        self.say("TASK", {"stage": STAGE}, tuple(items))

    def results(self, n: int) -> dict[int, Item]:
        """The next n results, by lease."""
        got: dict[int, Item] = {}
        while len(got) < n:
            for item in self.expect("RESULT").items:
                assert item.fields["id"] not in got
                got[item.fields["id"]] = item
        return got


@contextmanager
def worker(tmp_path: Path, *arguments: str, **environ: str) -> Iterator[Desk]:
    """A worker process and the desk it is connected to; it is ended by its pid."""
    endpoint = f"ipc://{tmp_path}/back.sock"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.linger, router.router_handover = 0, True
    router.bind(endpoint)
    command = [sys.executable, "-m", "tests.handlers", "--connect", endpoint, "--name", "echo-1", *arguments]
    process = subprocess.Popen(command, env={**os.environ, **environ}, stderr=subprocess.PIPE)
    try:
        yield Desk(router, process)
    finally:
        process.kill()
        process.communicate()
        router.close()
        context.term()


def test_hello_says_who_and_what(tmp_path: Path) -> None:
    """Name, kind, stages, banks, credit, pid: what the broker routes by."""
    with worker(tmp_path) as desk:
        hello = desk.welcome().fields
        assert (hello["role"], hello["name"], hello["kind"]) == ("worker", "echo-1", "features")
        assert (hello["stages"], hello["banks"], hello["pid"]) == ([STAGE], {"echo": BANK}, desk.process.pid)
        assert hello["credit"] == {"items": 32, "bytes": 1 << 20}
        assert hello["in_hand"] == 8  # seven results that wait for company, and the one computed


@pytest.mark.parametrize("together", ["1", "8"])
def test_a_bad_item_fails_alone(tmp_path: Path, together: str) -> None:
    """Raised errors, ours and others, too few results and wild fields: one failed result each, neighbours are whole."""
    with worker(tmp_path, "--together", together) as desk:
        desk.welcome()
        desk.task("a", "boom", "b", "refuse", "few", "wild", "c")
        results = desk.results(7)
        for lease in (0, 2, 6):
            assert results[lease].fields["ok"]
            np.testing.assert_array_equal(results[lease].arrays[0].to_numpy(), lease)
        errors = {lease: results[lease].fields["error"] for lease in (1, 3, 4, 5)}
        assert errors[1]["code"] == "INTERNAL"
        assert "error id" in errors[1]["reason"]
        assert "secret" not in errors[1]["reason"]
        assert errors[3] == {"code": "ITEM_FAILED", "reason": "refused at features"}
        assert "0 results for 1 items" in errors[4]["reason"]
        assert "surprise" in errors[5]["reason"]


def test_expired_items_are_not_computed(tmp_path: Path) -> None:
    """What ran out of time behind a slow item is answered DEADLINE_EXCEEDED without being touched."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.task("sleep:0.3", "boom", ttl_ms=150)
        results = desk.results(2)
        assert results[0].fields["ok"]
        assert results[0].fields["compute_ms"] >= 300
        assert results[1].fields["error"]["code"] == "DEADLINE_EXCEEDED"


def test_results_leave_as_they_are_done(tmp_path: Path) -> None:
    """The first of two slow items is not held back for the second: a kill loses little."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.task("sleep:0.05", "sleep:0.4")
        assert [i.fields["id"] for i in desk.expect("RESULT").items] == [0]
        assert [i.fields["id"] for i in desk.expect("RESULT").items] == [1]


def test_pings_go_on_between_items_and_ask_for_patience(tmp_path: Path) -> None:
    """A worker that computes for many heartbeats is heard of; it announces what it knows to be slow."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.task(*["sleep:0.15"] * 5)
        desk.results(5)
        pings = [m for m in desk.seen if m.verb == "PING"]
        assert len(pings) >= 2
        assert max(m.fields.get("busy_ms", 0) for m in pings) >= 600


def test_sigterm_finishes_what_is_leased(tmp_path: Path) -> None:
    """DRAIN, every leased result, BYE, exit status 0; a TASK that was under way is not lost either."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.task(*["sleep:0.02"] * 8)
        desk.expect("RESULT")
        desk.process.send_signal(signal.SIGTERM)
        desk.expect("DRAIN")
        desk.task("late", first=100)
        done = {i.fields["id"] for m in desk.seen if m.verb == "RESULT" for i in m.items}
        while 100 not in done or len(done) < 9:
            done |= {i.fields["id"] for i in desk.expect("RESULT").items}
        desk.expect("BYE")
        assert desk.process.wait(5) == 0
        assert done == {*range(8), 100}


def test_second_signal_hands_back(tmp_path: Path) -> None:
    """What was not started returns unharmed, at once."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.task(*["sleep:0.3"] * 6)
        desk.expect("RESULT")
        desk.process.send_signal(signal.SIGTERM)
        desk.expect("DRAIN")
        desk.process.send_signal(signal.SIGTERM)
        handed_back = desk.expect("RETURN").fields["ids"]
        desk.expect("BYE")
        assert desk.process.wait(5) == 0
        done = [i.fields["id"] for m in desk.seen if m.verb == "RESULT" for i in m.items]
        assert sorted([*done, *handed_back]) == list(range(6))
        assert len(handed_back) >= 2


def test_a_drain_has_its_bound(tmp_path: Path) -> None:
    """After --graceful-timeout-s the rest is handed back."""
    with worker(tmp_path, "--graceful-timeout-s", "0.3") as desk:
        desk.welcome()
        desk.task(*["sleep:0.2"] * 10)
        desk.expect("RESULT")
        desk.process.send_signal(signal.SIGTERM)
        assert len(desk.expect("RETURN").fields["ids"]) >= 5
        assert desk.process.wait(5) == 0


def test_nobody_is_waited_for_where_no_broker_is(tmp_path: Path) -> None:
    """The broker is gone and nothing is in hand: SIGTERM ends at once, not after --graceful-timeout-s (20 s)."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.expect("PING")
        desk.socket.close()
        desk.process.send_signal(signal.SIGTERM)
        assert desk.process.wait(5) == 0


@pytest.mark.parametrize("when", ["importing", "warming", "greeting"])
def test_sigterm_before_there_is_work_is_a_clean_stop(tmp_path: Path, when: str) -> None:
    """At any moment of the start: exit status 0, promptly."""
    with worker(tmp_path, STREAMFEAT_TEST_WARM_S="30" if when == "warming" else "0") as desk:
        if when == "greeting":
            desk.expect("HELLO")
        else:
            wait_for_signal_handler(desk.process.pid)
        if when == "warming":
            time.sleep(1.0)  # imports take half a second; a longer one makes this the case `importing`
        desk.process.send_signal(signal.SIGTERM)
        assert desk.process.wait(5) == 0


def wait_for_signal_handler(pid: int) -> None:
    """Return as soon as the process takes SIGTERM itself: long before its imports are done."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        caught = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.001)  # looks again
    raise AssertionError("SIGTERM is never taken")


def test_a_silent_broker_is_greeted_again(tmp_path: Path) -> None:
    """PINGs unanswered for three heartbeats: HELLO, and the old leases are dropped."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.expect("HELLO", within_s=20.0, answer_pings=False)
        desk.say("WELCOME", {**WELCOME, "broker": "b1" * 8})
        desk.task("a")
        assert desk.results(1)[0].fields["ok"]


def test_garbage_from_the_broker_does_not_end_a_worker(tmp_path: Path) -> None:
    """What cannot be read is logged, and the next task is computed."""
    with worker(tmp_path) as desk:
        desk.welcome()
        desk.socket.send_multipart([desk.peer, b"GET / HTTP/1.1\r\n\r\n"])
        desk.socket.send_multipart([desk.peer, b"SF1", b"TASK", b"\xc1"])
        desk.task("a")
        assert desk.results(1)[0].fields["ok"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--name", "x"], 64),
        (["--connect", "ipc:///tmp/x.sock", "--name", "x", "--colour"], 64),
        (["--connect", "tcp://10.0.0.1:1", "--name", "x"], 78),
    ],
)
def test_wrong_arguments_have_their_exit_status(arguments: list[str], status: int) -> None:
    """64 for a command that cannot be read, 78 for a setting that cannot be: systemd restarts neither."""
    done = subprocess.run([sys.executable, "-m", "tests.handlers", *arguments], capture_output=True, check=False)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1


def test_a_refused_worker_ends_with_78(tmp_path: Path) -> None:
    """The broker will not have it: a setting is wrong, and a restart would not help."""
    with worker(tmp_path) as desk:
        desk.expect("HELLO")
        desk.say("ERROR", {"code": "CONFIG", "reason": "echo-2 serves that already", "verb": "HELLO"})
        assert desk.process.wait(5) == 78
        assert desk.process.stderr is not None
        assert b"echo-2 serves that already" in desk.process.stderr.read()


def test_it_stops_with_its_parent(tmp_path: Path) -> None:
    """--stop-with-parent: a fleet whose starter was killed does not stay behind."""
    code = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(60)"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.ROUTER) as router:
        router.linger = 0
        router.bind(f"ipc://{tmp_path}/back.sock")
        command = [sys.executable, "-m", "tests.handlers", "--connect", f"ipc://{tmp_path}/back.sock", "--name", "e"]
        with subprocess.Popen(
            [sys.executable, "-c", code, *command, "--stop-with-parent"], stdout=subprocess.PIPE
        ) as starter:
            assert starter.stdout is not None
            pid = int(starter.stdout.readline())
            router.recv_multipart()  # it is up
            starter.kill()
        deadline = time.monotonic() + 5
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline, "still there"
            time.sleep(0.02)  # looks again


# --- what systemd is told ---------------------------------------------------------------------------------------------


@contextmanager
def notify_socket(tmp_path: Path) -> Iterator[socket.socket]:
    """Where systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        yield listener


def waiting(listener: socket.socket) -> list[bytes]:
    """What was said so far."""
    said = []
    listener.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            said.append(listener.recv(1000))
    listener.settimeout(5)
    return said


def test_systemd_hears_the_whole_life(tmp_path: Path) -> None:
    """Warming with more time asked for, READY after the welcome and not before, WATCHDOG, STOPPING: in that order."""
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    with notify_socket(tmp_path) as listener, worker(tmp_path, **environ) as desk:
        assert b"EXTEND_TIMEOUT_USEC" in listener.recv(1000)
        desk.expect("HELLO")
        assert not any(said.startswith(b"READY") for said in waiting(listener))  # a hello is not a welcome
        desk.say("WELCOME", {**WELCOME, "heartbeat_ms": 5000})  # nobody answers PINGs here
        said = listener.recv(1000)
        while said == b"WATCHDOG=1":
            said = listener.recv(1000)
        assert said.startswith(b"READY=1\nSTATUS=ready")
        assert [listener.recv(1000) for _ in range(4)] == [b"WATCHDOG=1"] * 4
        desk.process.send_signal(signal.SIGTERM)
        desk.expect("BYE")
        rest = [listener.recv(1000)]
        while rest[-1] == b"WATCHDOG=1":
            rest.append(listener.recv(1000))
        assert rest[-1].startswith(b"STOPPING=1")


def test_a_stuck_handler_starves_the_watchdog(tmp_path: Path) -> None:
    """The work loop itself feeds it: no datagram while an item is stuck."""
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with notify_socket(tmp_path) as listener, worker(tmp_path, **environ) as desk:
        desk.welcome()
        desk.task("sleep:1.5")
        time.sleep(0.3)  # the task has begun
        waiting(listener)
        listener.settimeout(0.8)
        with pytest.raises(TimeoutError):
            listener.recv(1000)


def test_a_long_step_stretches_the_watchdog_until_it_is_over(tmp_path: Path) -> None:
    """Announced beforehand, and taken back at the next beat; a short step is not worth a word."""
    with notify_socket(tmp_path) as listener:
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}, pid=2)
        notifier.stretch(0.5, 0.0)
        assert waiting(listener) == []
        notifier.stretch(60.0, 0.0)
        assert waiting(listener) == [b"WATCHDOG_USEC=62000000\nWATCHDOG=1"]
        notifier.beat(55.0)
        notifier.beat(55.1)
        assert waiting(listener) == [b"WATCHDOG_USEC=2000000", b"WATCHDOG=1"]
    Notifier({}, pid=2).stretch(60.0, 0.0)


def test_notifier_knows_whose_watchdog_it_is(tmp_path: Path) -> None:
    """WATCHDOG_PID of another process, or none at all: no beats; and nobody listening is no error."""
    with notify_socket(tmp_path) as listener:
        base = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "2000000"}
        Notifier({**base, "WATCHDOG_PID": "1"}, pid=2).beat(0.0)
        mine = Notifier({**base, "WATCHDOG_PID": "2"}, pid=2)
        mine.beat(10.0)
        mine.beat(10.9)
        assert mine.wait_s(10.9) == pytest.approx(0.1)  # half of two seconds, a difference of floats
        mine.beat(11.0)
        mine.status("idle")
        mine.status("idle")
        assert [listener.recv(100) for _ in range(3)] == [b"WATCHDOG=1", b"WATCHDOG=1", b"STATUS=idle"]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.recv(100)
    Notifier({}, pid=2).say("READY=1")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}, pid=2).say("READY=1")
