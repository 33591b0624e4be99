"""Links to the broker that delay, break, fall silent or change bits; and a door that wants keys."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
import zmq

from streamfeat.admin import ask
from streamfeat.client import Client
from streamfeat.errors import BrokerSilent, Unavailable
from streamfeat.keys import Credentials, open_holder, open_key, save_key
from streamfeat.wire.messages import Message
from tests.cluster import Cluster, cluster
from tests.proxy import Link, link
from tests.test_fleet import check_echo, number
from tests.test_security import free_port


def delayed(between: Link, _n: int) -> None:
    between.delay_s = 0.1


def reset(between: Link, n: int) -> None:
    if n % 40 == 20:
        between.cut()


def half_open(between: Link, n: int) -> None:
    if n == 60:
        between.holed = True
        threading.Timer(1.5, mend, (between,)).start()


def mend(between: Link) -> None:
    between.cut()
    between.holed = False


@pytest.mark.parametrize("harm", [delayed, reset, half_open])
def test_a_bad_link(harm: Callable[[Link, int], None]) -> None:
    """Between client and broker, slow, cut again and again, or dead for a while: each item is answered once."""
    with cluster() as running:
        port = free_port()
        running.front = f"tcp://127.0.0.1:{port}"
        running.start_broker("--heartbeat-ms", "200", "--insecure")
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        with link(port) as between, Client(f"tcp://127.0.0.1:{between.port}", timeout_s=20) as client:
            results = []
            for result in client.stream((number(n) for n in range(200)), ordered=False, window=20):
                results.append(result)
                harm(between, len(results))
            check_echo(results, 200)


def test_a_bad_link_of_a_worker() -> None:
    """Between broker and worker, cut again and again: what was under way is given again, and answered once."""
    with cluster() as running:
        port = free_port()
        running.back = f"tcp://127.0.0.1:{port}"
        running.start_broker("--heartbeat-ms", "200", "--insecure")
        with link(port) as between:
            running.back = f"tcp://127.0.0.1:{between.port}"
            running.start_echo("echo-1")
            running.wait_ready("echo-1")
            with Client(running.front, timeout_s=20) as client:
                results = []
                for result in client.stream((number(n) for n in range(200)), ordered=False, window=20):
                    results.append(result)
                    reset(between, len(results))
                check_echo(results, 200)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, int, Credentials]]:
    """A broker with keys, its port, and the keys of a client."""
    keys = tmp_path_factory.mktemp("keys")
    (keys / "in").mkdir()
    save_key(keys, "server", [])
    save_key(keys, "me", ["encode"])
    (keys / "in" / "me.pub").write_bytes((keys / "me.pub").read_bytes())
    with cluster() as running:
        port = free_port()
        running.front = f"tcp://127.0.0.1:{port}"
        running.start_broker(
            *("--heartbeat-ms", "200", "--key", str(keys / "server.key"), "--authorised", str(keys / "in")),
            *("--admin", f"ipc://{running.run_dir}/admin.sock"),
        )
        running.start_echo("echo-1")
        wait_for_worker(f"ipc://{running.run_dir}/admin.sock")
        yield running, port, Credentials(open_key(keys / "me.key"), open_holder(keys / "server.pub").public)


def wait_for_worker(admin: str) -> None:
    """Ask the operator's socket until a worker is there; a door with keys is open by then."""
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(Unavailable):  # it starts
            if ask(admin, Message("STATUS"))["n_workers"] == 1:
                return
        assert time.monotonic() < deadline
        time.sleep(0.02)  # asks again


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_flipped_bit(locked: tuple[Cluster, int, Credentials], way: Literal["there", "back"]) -> None:
    """Under keys no changed bit gets through: the connection is given up, and the items are asked for again.

    Neither side's process ends by it, as it would if libzmq's event of it were watched.
    """
    running, port, credentials = locked
    n_flips = 0
    with (
        link(port) as between,
        Client(f"tcp://127.0.0.1:{between.port}", credentials=credentials, timeout_s=20) as client,
    ):
        results = []
        for result in client.stream((number(n) for n in range(200)), ordered=False, window=20):
            results.append(result)
            if len(results) % 50 == 25:
                between.flip, n_flips = way, n_flips + 1
        check_echo(results, 200)
    assert n_flips == 4
    assert running.processes["broker"].poll() is None


def test_a_link_to_nobody_is_no_wrong_key(locked: tuple[Cluster, int, Credentials]) -> None:
    """Something in between takes connections and ends them, its broker not being there: that is said, and no more."""
    _, _, credentials = locked
    with (
        link(free_port()) as between,
        pytest.raises(BrokerSilent),
        Client(f"tcp://127.0.0.1:{between.port}", credentials=credentials, connect_timeout_s=3),
    ):
        pass


def test_a_password_is_no_key(locked: tuple[Cluster, int, Credentials]) -> None:
    """PLAIN to a door with keys: never connected, and counted."""
    running, _, _ = locked
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context, context.socket(zmq.DEALER) as dealer:
        dealer.linger, dealer.immediate = 0, True
        dealer.plain_username, dealer.plain_password = b"me", b"secret"
        dealer.connect(running.front)
        with pytest.raises(zmq.Again):
            dealer.send(b"", zmq.DONTWAIT)
        assert not dealer.poll(500, zmq.POLLOUT)
    report = ask(f"ipc://{running.run_dir}/admin.sock", Message("STATUS"))
    assert report["events"]["front"]["handshake_unfinished"] > 0
