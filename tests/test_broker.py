"""The broker process at its sockets: start, stop, what it refuses to do, what it survives."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from streamfeat.client import Client
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Message
from tests.cluster import Cluster, cluster

HELLO: dict[str, Any] = {"protocol": [1, 1], "role": "client", "peer": "c1" * 8}
WORKER: dict[str, Any] = {
    "protocol": [1, 1],
    "role": "worker",
    "peer": "f1" * 8,
    "name": "learner",
    "kind": "learner",
    "stages": ["learn:digits"],
    "banks": {},
    "credit": {"items": 1, "bytes": 1000},
}


class Peer:
    """A raw peer: any frames, any verb."""

    def __init__(self, endpoint: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.context.term()

    def say(self, verb: str, fields: dict[str, Any]) -> None:
        """Send a message."""
        self.socket.send_multipart(encode(Message(verb, fields)))

    def hear(self, *, but: str = "PING") -> Message:
        """The next message that is not a PING."""
        while True:
            assert self.socket.poll(3000), "the broker says nothing"
            message = decode(self.socket.recv_multipart())
            if message.verb != but:
                return message


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A broker alone, which no test harms."""
    with cluster() as running:
        running.start_broker()
        running.wait_ready()
        yield running


def test_hello_first_then_welcome_with_terms(fleet: Cluster) -> None:
    """A stranger is told to say hello; the welcome says credit, limits and heartbeat."""
    with Peer(fleet.front) as peer:
        peer.say("PING", {})
        assert peer.hear().fields["code"] == "HELLO_FIRST"
        peer.say("HELLO", HELLO)
        welcome = peer.hear()
        assert welcome.verb == "WELCOME"
        assert welcome.fields["credit"] == {"items": 512, "bytes": 64 << 20}
        assert welcome.fields["heartbeat_ms"] == 1000


def test_workers_are_pinged_often(fleet: Cluster) -> None:
    """Several times a second: that is how a dead one is found."""
    with Peer(fleet.back) as peer:
        peer.say("HELLO", WORKER)
        assert peer.hear().verb == "WELCOME"
        began = time.monotonic()
        for _ in range(5):
            assert peer.hear(but="PONG").verb == "PING"
        assert time.monotonic() - began < 1.6  # five times 0.2 s, and a busy machine
        peer.say("BYE", {})


def test_the_state_has_one_owner(fleet: Cluster) -> None:
    """A second learner of the same model under another name is refused, and a client at the back too."""
    with Peer(fleet.back) as first, Peer(fleet.back) as second:
        first.say("HELLO", WORKER)
        assert first.hear().verb == "WELCOME"
        second.say("HELLO", {**WORKER, "peer": "f2" * 8, "name": "other"})
        refused = second.hear()
        assert (refused.fields["code"], refused.fields["verb"]) == ("CONFIG", "HELLO")
        second.say("HELLO", HELLO)
        assert "worker" in second.hear().fields["reason"]
        first.say("BYE", {})


def test_a_version_from_the_future_is_refused(fleet: Cluster) -> None:
    """Ranges that do not overlap: VERSION_MISMATCH, with both."""
    with Peer(fleet.front) as peer:
        peer.say("HELLO", {**HELLO, "protocol": [7, 9]})
        refused = peer.hear().fields
        assert refused["code"] == "VERSION_MISMATCH"
        assert "7 to 9" in refused["reason"]


def test_a_frame_above_the_limit_costs_its_connection_only(fleet: Cluster) -> None:
    """More than an item may have: the connection is cut, the broker lives, the next hello is answered."""
    with Peer(fleet.front) as peer, Client(fleet.front) as client:
        peer.say("HELLO", HELLO)
        assert peer.hear().verb == "WELCOME"
        peer.socket.send_multipart([b"SF1", b"REQUEST", b"\x80", bytes(17 << 20)])
        peer.say("HELLO", HELLO)
        assert peer.hear().verb == "WELCOME"
        assert client.status()["n_workers"] == 0


def test_a_second_start_is_refused_and_the_first_goes_on(fleet: Cluster) -> None:
    """Exit status 78, one line that says why; the running broker keeps its sockets."""
    command = [sys.executable, "-m", "streamfeat.workers.broker", "--front", fleet.front, "--back", fleet.back]
    second = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert second.returncode == 78
    assert b"has a process listening" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    with Client(fleet.front) as client:
        client.status()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--front", "ipc:///tmp/x"], 64, b"--back"),
        (["--front", "tcp://0.0.0.0:5671", "--back", "ipc:///tmp/x"], 78, b"0.0.0.0"),
        (["--front", "ipc:///" + "x" * 120, "--back", "ipc:///tmp/x"], 78, b"107"),
        (["--front", "ipc:///tmp/x", "--back", "ipc:///tmp/y", "--batch-items", "0"], 78, b"max_batch_items"),
        (["--front", "ipc:///tmp/x", "--back", "ipc:///tmp/y", "--batch-items", "many"], 64, b"many"),
    ],
)
def test_wrong_settings_end_the_start(arguments: list[str], status: int, words: bytes) -> None:
    """64 for a command that cannot be read, 78 for a setting that cannot be; one line each."""
    command = [sys.executable, "-m", "streamfeat.workers.broker", *arguments]
    done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert done.returncode == status
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_ordinary_file_at_its_path_is_left_alone(tmp_path: Path) -> None:
    """libzmq would replace it."""
    path = tmp_path / "front.sock"
    path.write_text("precious")
    command = [sys.executable, "-m", "streamfeat.workers.broker", "--front", f"ipc://{path}", "--back", "ipc:///x"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=20)
    assert (done.returncode, path.read_text()) == (78, "precious")


def test_stale_sockets_are_replaced_and_a_clean_stop_leaves_none() -> None:
    """After SIGKILL the files stay and the next start takes them over; after SIGTERM they are gone, exit status 0."""
    with cluster() as running:
        running.start_broker()
        running.wait_ready()
        running.signal("broker", signal.SIGKILL)
        running.wait("broker")
        assert (running.run_dir / "front.sock").exists()
        running.start_broker()
        running.wait_ready()
        running.signal("broker", signal.SIGTERM)
        assert running.wait("broker") == 0
        assert not list(running.run_dir.glob("*.sock"))


@pytest.mark.parametrize("side", ["front", "back"])
def test_stopping_is_told_to_everyone(side: str) -> None:
    """BYE to clients and workers, so that nobody waits for three heartbeats."""
    with cluster() as running:
        running.start_broker()
        running.wait_ready()
        with Peer(getattr(running, side)) as peer:
            peer.say("HELLO", HELLO if side == "front" else WORKER)
            assert peer.hear().verb == "WELCOME"
            running.signal("broker", signal.SIGTERM)
            assert peer.hear().verb == "BYE"
            assert running.wait("broker") == 0


def test_tcp_on_the_loopback_works_and_a_taken_port_is_named() -> None:
    """The same fleet over tcp; a second bind to the port is a ConfigError."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with cluster() as running:
        running.front = f"tcp://127.0.0.1:{port}"
        running.start_broker("--insecure")
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        command = [sys.executable, "-m", "streamfeat.workers.broker", "--front", running.front, "--back", "ipc:///x"]
        command.append("--insecure")
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
        assert done.returncode == 78
        assert str(port).encode() in done.stderr


def test_systemd_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """READY once both sockets are bound, WATCHDOG from the loop, STOPPING at SIGTERM."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, cluster() as running:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        running.start_broker()
        assert listener.recv(1000) == b"READY=1"
        assert all((running.run_dir / name).exists() for name in ("front.sock", "back.sock"))
        said = [listener.recv(1000) for _ in range(4)]
        assert said.count(b"WATCHDOG=1") >= 2
        running.signal("broker", signal.SIGTERM)
        while said[-1] != b"STOPPING=1":
            said.append(listener.recv(1000))
        assert running.wait("broker") == 0
