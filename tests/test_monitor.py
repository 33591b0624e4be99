"""What the events of a socket tell of who is at the other end: real sockets, a broker's or something else's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zmq

from streamfeat.endpoints import open_dealer
from streamfeat.errors import BrokerSilent, WrongServerKey
from streamfeat.keys import Credentials, open_holder, open_key, save_key
from streamfeat.monitor import Monitor
from tests.cluster import cluster
from tests.proxy import link
from tests.test_security import free_port


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    """Keys of a client, and of the broker it asks for."""
    save_key(tmp_path, "server", [])
    save_key(tmp_path, "alice", ["encode"])
    return Credentials(open_key(tmp_path / "alice.key"), open_holder(tmp_path / "server.pub").public)


@contextmanager
def listener(treat: Callable[[socket.socket], None]) -> Iterator[str]:
    """The endpoint of something that takes connections and is no broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        over = threading.Event()

        def take() -> None:
            while not over.is_set():
                try:
                    taken, _ = server.accept()
                except TimeoutError:
                    continue
                with taken:
                    treat(taken)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join(5)


@contextmanager
def watched(endpoint: str, credentials: Credentials) -> Iterator[Monitor]:
    """The monitor of a client's socket that connects there."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    dealer = open_dealer(context, endpoint, "a" * 16, linger_ms=0, credentials=credentials)
    monitor = Monitor(dealer)
    try:
        dealer.connect(endpoint)
        yield monitor
    finally:
        monitor.close()
        dealer.close()
        context.term()


def n_cut(monitor: Monitor) -> int:
    """Handshakes that came to nothing."""
    return monitor.counts["disconnected"]


def drop(_taken: socket.socket) -> None:
    """Take the connection and close it."""


def hear_and_drop(taken: socket.socket) -> None:
    """Read the client's first words, and close."""
    taken.recv(64)


@pytest.mark.parametrize("treat", [drop, hear_and_drop])
def test_what_drops_connections_is_not_taken_for_a_broker_with_another_key(
    credentials: Credentials, treat: Callable[[socket.socket], None]
) -> None:
    """However often: a tunnel whose broker is not up yet is waited for, and called silent when the time is up."""
    with listener(treat) as endpoint, watched(endpoint, credentials) as monitor:
        deadline = time.monotonic() + 60
        while n_cut(monitor) < 4:
            assert monitor.refused(endpoint, "alice") is None
            assert time.monotonic() < deadline, monitor.counts
            time.sleep(0.02)
        assert isinstance(monitor.absent(endpoint, "1 s"), BrokerSilent)


@pytest.mark.parametrize("by_way_of_a_link", [False, True])
def test_a_broker_with_another_key_is_told(tmp_path: Path, credentials: Credentials, by_way_of_a_link: bool) -> None:
    """It greets, and does not understand what was meant for another."""
    save_key(tmp_path, "impostor", [])
    (tmp_path / "authorised").mkdir()
    with cluster() as running:
        port = free_port()
        running.front = f"tcp://127.0.0.1:{port}"
        own = ("--key", str(tmp_path / "impostor.key"), "--authorised", str(tmp_path / "authorised"))
        with link(port) as between:  # there before the broker: first it drops connections
            asked = between.port if by_way_of_a_link else port
            with watched(f"tcp://127.0.0.1:{asked}", credentials) as monitor:
                running.start_broker(*own)
                deadline = time.monotonic() + 60
                while (refusal := monitor.refused(f"tcp://127.0.0.1:{asked}", "alice")) is None:
                    assert time.monotonic() < deadline, monitor.counts
                    time.sleep(0.02)
    assert isinstance(refusal, WrongServerKey)


def test_what_broke_the_protocol_is_given_up_once(credentials: Credentials) -> None:
    """libzmq tries again by itself where a connection was dropped, and not where nonsense came for a greeting."""

    def babble(taken: socket.socket) -> None:
        taken.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NONSENSE".ljust(52, b"\0"))
        taken.settimeout(1)
        with suppress(OSError):
            while taken.recv(64):
                pass

    with listener(drop) as endpoint, watched(endpoint, credentials) as monitor:
        deadline = time.monotonic() + 60
        while n_cut(monitor) < 3:
            assert not monitor.given_up()
            assert time.monotonic() < deadline, monitor.counts
            time.sleep(0.02)
    with listener(babble) as endpoint, watched(endpoint, credentials) as monitor:
        deadline = time.monotonic() + 60
        while not monitor.given_up():
            assert time.monotonic() < deadline, monitor.counts
            time.sleep(0.02)
        assert n_cut(monitor) == 1
        assert not monitor.given_up()
