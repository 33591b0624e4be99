"""The client: nothing it does waits for ever, and each job ends once."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.client import WINDOW, Client, Job
from streamfeat.errors import (
    Cancelled,
    ConfigError,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    NotFound,
    TooLarge,
    Unavailable,
)
from streamfeat.signals import Signal
from tests.cluster import Cluster, cluster
from tests.handlers import BANK


def sound(n: int = 0, name: str = "", n_samples: int = 4) -> Job:
    return Job(Signal("audio", np.full(n_samples, n, np.int16), 8000), name=name, tag=n)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A broker and two echo workers that no test harms."""
    with cluster() as running:
        running.start_broker()
        running.start_echo("echo-1")
        running.start_echo("echo-2")
        running.wait_ready("echo-1", "echo-2")
        yield running


@pytest.fixture
def client(fleet: Cluster) -> Iterator[Client]:
    with Client(fleet.front, timeout_s=10.0) as connected:
        yield connected


# --- nobody there -----------------------------------------------------------------------------------------------------


def refuses_in_time(client: Client, limit_s: float) -> str:
    """The message of Unavailable, raised by connect within its limit and half a second."""
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        client.connect()
    assert limit_s <= time.monotonic() - began < limit_s + 0.5
    client.close()
    return str(caught.value)


def test_no_server(tmp_path: Path) -> None:
    """No socket at the path: the error names it and says what to start; making the client did not wait."""
    client = Client(f"ipc://{tmp_path}/none.sock", connect_timeout_s=0.3)
    said = refuses_in_time(client, 0.3)
    assert f"{tmp_path}/none.sock" in said
    assert "no such socket" in said
    assert "streamfeat serve" in said


def test_nothing_listens(tmp_path: Path) -> None:
    """A stale socket, and a port where nobody listens."""
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "stale.sock"))
    said = refuses_in_time(Client(f"ipc://{tmp_path}/stale.sock", connect_timeout_s=0.3), 0.3)
    assert "nobody answers there" in said
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert "nobody answers" in refuses_in_time(Client(f"tcp://127.0.0.1:{port}", connect_timeout_s=0.3), 0.3)


@pytest.mark.skipif(os.geteuid() != 0, reason="being another user needs root")
@pytest.mark.parametrize(("barred", "said"), [("folder", "may not enter"), ("socket", "may not connect")])
def test_a_socket_of_others(barred: str, said: str) -> None:
    """A user who may not connect is told so, and not that nobody is there."""
    folder = Path(tempfile.mkdtemp(prefix="sf-"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        server.listen()
        folder.chmod(0o700 if barred == "folder" else 0o755)
        (folder / "s").chmod(0o700)
        os.seteuid(65534)
        try:
            with pytest.raises(Unavailable, match=said), Client(f"ipc://{folder}/s", connect_timeout_s=0.2):
                pass
        finally:
            os.seteuid(0)
    shutil.rmtree(folder)


def test_something_else_listens(tmp_path: Path) -> None:
    """A server that never says a word."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen(5)
        refuses_in_time(Client(f"ipc://{tmp_path}/s", connect_timeout_s=0.3), 0.3)


def test_a_broker_that_stops_answering() -> None:
    """SIGSTOP: connecting, streaming and status each end in time; after SIGCONT the same client goes on."""
    with cluster() as running:
        running.start_broker("--heartbeat-ms", "200")
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        with Client(running.front, timeout_s=0.6) as client:
            assert client.features([sound().payload]).shape == (1, 4)  # type: ignore[list-item]
            running.signal("broker", signal.SIGSTOP)
            refuses_in_time(Client(running.front, connect_timeout_s=0.3), 0.3)
            began = time.monotonic()
            (result,) = client.stream([sound(1)])
            assert isinstance(result.error, DeadlineExceeded)
            assert 0.6 <= time.monotonic() - began < 1.1
            began = time.monotonic()
            with pytest.raises(Unavailable, match="no report within"):
                client.status()
            assert time.monotonic() - began < 1.1
            running.signal("broker", signal.SIGCONT)
            (result,) = client.stream([sound(2)], timeout_s=10.0)
            np.testing.assert_array_equal(result.feature, 2)


def test_a_broker_that_is_gone_for_good() -> None:
    """SIGKILL in the middle: what is under way ends at its deadline, in order; closing does not hang."""
    with cluster() as running:
        running.start_broker("--heartbeat-ms", "200")
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        began = time.monotonic()
        with Client(running.front, timeout_s=1.0) as client:
            stream = client.stream(sound(n, "sleep:0.01") for n in range(100))
            first = next(stream)
            running.signal("broker", signal.SIGKILL)
            rest = list(stream)
        assert first.ok
        assert len(rest) == 99
        assert isinstance(rest[-1].error, DeadlineExceeded)
        assert "does not answer" in str(rest[-1].error)
        assert time.monotonic() - began < 4.0  # two windows of a second each, and the goodbye


def test_items_end_at_their_deadline_and_say_why(client: Client) -> None:
    """The broker's word comes first: it knows who had the item."""
    began = time.monotonic()
    (result,) = client.stream([sound(0, "sleep:1")], timeout_s=0.3)
    assert isinstance(result.error, DeadlineExceeded)
    assert "echo-" in str(result.error)
    assert time.monotonic() - began < 0.8


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_jobs_are_pulled_as_there_is_room(client: Client) -> None:
    """An endless source: no more than the window is pulled ahead of what was yielded, ordered or not."""
    for ordered in (True, False):
        pulled = 0

        def endless() -> Iterator[Job]:
            nonlocal pulled
            while True:
                pulled += 1
                yield sound(pulled % 100)

        stream = client.stream(endless(), window=20, ordered=ordered)
        for n in range(1, 101):
            next(stream)
            assert pulled <= n + 20
        stream.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 5
        while client.status()["open"]:  # what workers have in hand takes its course
            assert time.monotonic() < deadline, "withdrawn items stay open"
    assert WINDOW > 20


@pytest.mark.parametrize("arguments", [{"window": 0}, {"window": -1}, {"timeout_s": 0}, {"timeout_s": float("inf")}])
def test_impossible_streams_are_refused_at_the_call(client: Client, arguments: dict[str, Any]) -> None:
    """Not when the first result is asked for."""
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        client.stream([sound()], **arguments)


def test_no_jobs_no_results(client: Client) -> None:
    """An empty source ends at once."""
    began = time.monotonic()
    assert list(client.stream([])) == []
    assert client.features([]).shape == (0, 0)
    assert time.monotonic() - began < 0.2


def test_an_error_of_the_source_is_the_callers(client: Client) -> None:
    """It comes through, and what was under way is withdrawn."""

    def broken() -> Iterator[Job]:
        yield sound(0, "sleep:0.2")
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(client.stream(broken()))
    (result,) = client.stream([sound(3)])
    np.testing.assert_array_equal(result.feature, 3)


def test_jobs_that_cannot_travel_fail_alone(client: Client) -> None:
    """No payload for features, a label too long, an item too large, a wrong type: each is its own result's error."""
    jobs = [
        sound(0),
        Job(np.ones((2, 2), np.float32)),
        Job(np.ones(3, np.float32), label="x" * 300),
        sound(3, n_samples=9 << 20),
        Job("text"),  # type: ignore[arg-type]
        Job(None),
        sound(6),
    ]
    results = list(client.stream(jobs))
    assert [r.ok for r in results] == [True, False, False, False, False, False, True]
    kinds = [type(r.error) for r in results[1:6]]
    assert kinds == [InvalidArgument, InvalidArgument, TooLarge, InvalidArgument, InvalidArgument]
    assert "label" in str(results[2].error)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"bank": "nosuch"}, NotFound, "echo"),
        ({"bank": "not a name"}, InvalidArgument, "bank"),
        ({"route": "paint"}, InvalidArgument, "route"),
        ({"route": "features > features"}, InvalidArgument, "route"),
        ({"options": {"k": [1]}}, InvalidArgument, "options"),
    ],
)
def test_a_request_that_cannot_be_gone_says_so(
    client: Client, arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Each of its jobs fails with the reason, at once."""
    began = time.monotonic()
    results = list(client.stream([sound(0), sound(1)], **arguments))
    assert [type(r.error) for r in results] == [error, error]
    assert words in str(results[0].error)
    assert time.monotonic() - began < 1.0


def test_a_stage_that_nobody_serves_is_reported(client: Client) -> None:
    """UNAVAILABLE after a few seconds of asking, or at the deadline if that is sooner."""
    with pytest.raises(Unavailable, match="fit:digits"):
        client.fit("digits", timeout_s=0.5)


def test_conveniences_raise_the_first_error(client: Client) -> None:
    """A list of features, or why not."""
    assert client.features([sound(n).payload for n in range(3)], bank=BANK).shape == (3, 4)  # type: ignore[misc]
    with pytest.raises(InternalError, match="error id"):
        client.features([Signal("audio", np.zeros(3, np.int16), 8000, "boom")])


def test_two_streams_of_one_client_do_not_mix(client: Client) -> None:
    """Taken by turns, each gives its own results in order."""
    first = client.stream(sound(n) for n in range(60))
    second = client.stream(sound(n) for n in range(1000, 1060))
    pairs = list(zip(first, second, strict=True))
    assert [(a.job.tag, b.job.tag) for a, b in pairs] == [(n, n + 1000) for n in range(60)]
    for a, b in pairs:
        np.testing.assert_array_equal(a.feature, a.job.tag)
        np.testing.assert_array_equal(b.feature, b.job.tag)


def test_cancel_ends_what_is_under_way(client: Client) -> None:
    """Each open job ends as Cancelled, and the broker forgets what is queued."""
    stream = client.stream(sound(n, "sleep:0.05") for n in range(40))
    next(stream)
    assert client.cancel() > 10
    ends = [type(r.error) for r in list(stream)[:30]]
    assert Cancelled in ends
    (result,) = client.stream([sound(5)])
    assert result.ok


def test_a_slow_consumer_loses_nothing(client: Client) -> None:
    """A pause longer than three heartbeats between two results: the broker is not given up, nor are the items."""
    stream = client.stream((sound(n) for n in range(80)), timeout_s=3.0)
    taken = [next(stream)]
    time.sleep(3.5)  # the promise is about this pause
    taken += list(stream)
    assert [r.job.tag for r in taken if r.ok] == list(range(80))


# --- who may use it ---------------------------------------------------------------------------------------------------


def test_another_thread_is_told_why_not(client: Client) -> None:
    """The error names both threads and says to make a client in each."""
    said: list[str] = []

    def use() -> None:
        with pytest.raises(InvalidArgument) as caught:
            client.status()
        said.append(str(caught.value))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(5)
    assert "one thread; make a client in each" in said[0]


def test_a_forked_child_is_told_why_not(client: Client) -> None:
    """The child gets a clear error instead of a hang, and its exit leaves the parent's socket alone."""
    client.status()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            client.status()
        except InvalidArgument as error:
            os.write(write, str(error).encode())
        client.close()
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert "does not survive a fork; make a client in each" in said
    assert client.status()["n_workers"] == 2


def test_a_closed_client_says_so(fleet: Cluster) -> None:
    """Closing twice is harmless, using it afterwards is an error."""
    client = Client(fleet.front)
    client.connect()
    client.close()
    client.close()
    with pytest.raises(InvalidArgument, match="closed"):
        client.status()
    with pytest.raises(InvalidArgument, match="closed"):
        list(client.stream([sound()]))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"endpoint": "tcp://10.0.0.1:5"}, ConfigError),
        ({"timeout_s": 0}, InvalidArgument),
        ({"timeout_s": float("inf")}, InvalidArgument),
        ({"connect_timeout_s": float("nan")}, InvalidArgument),
        ({"peer": "me"}, InvalidArgument),
    ],
)
def test_impossible_clients_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    """An endpoint off this machine, a wait without end, a peer that is no hex name."""
    with pytest.raises(error):
        Client(**{"endpoint": "ipc:///tmp/x.sock", **arguments})


def test_many_clients_leak_nothing(fleet: Cluster) -> None:
    """Fifty clients made, used and closed: no file handle and no thread stays."""
    with Client(fleet.front) as warm:
        warm.status()
    before = handles_and_threads()
    for _ in range(50):
        with Client(fleet.front) as client:
            client.features([sound().payload])  # type: ignore[list-item]
    assert handles_and_threads() == before


def handles_and_threads() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))
