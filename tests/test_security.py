"""Who gets in over TCP and who does not: real processes, real sockets, every kind of wrong key."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.admin import ask
from streamfeat.client import Client, Job
from streamfeat.errors import (
    BrokerSilent,
    InvalidArgument,
    NobodyListens,
    NoKey,
    PermissionDenied,
    ServerWithoutKeys,
    Unauthenticated,
    Unreachable,
    WrongServerKey,
)
from streamfeat.keys import Credentials, open_holder, open_key, save_key
from streamfeat.signals import Signal
from streamfeat.wire.messages import Message
from tests.cluster import Cluster, cluster

SIGNAL = Signal("image", np.arange(6, dtype=np.uint8).reshape(2, 3))


@dataclass
class Guarded:
    """A broker whose front and back are TCP with keys, and the keys of everybody."""

    fleet: Cluster
    keys: Path

    def credentials(self, name: str, server: str = "server") -> Credentials:
        """Of that key, for that broker."""
        return Credentials(open_key(self.keys / f"{name}.key"), open_holder(self.keys / f"{server}.pub").public)

    def client(self, credentials: Credentials | None) -> Client:
        """A client with these keys, not connected yet."""
        return Client(self.fleet.front, credentials=credentials, connect_timeout_s=5, timeout_s=5)

    def authorise(self, name: str) -> None:
        """Put the key into the broker's folder."""
        shutil.copy(self.keys / f"{name}.pub", self.keys / "authorised")

    def revoke(self, name: str) -> None:
        """Take it out, and give the broker the time that it takes to look."""
        (self.keys / "authorised" / f"{name}.pub").unlink()
        time.sleep(0.3)

    def report(self) -> dict[str, Any]:
        """What an operator sees."""
        return ask(f"ipc://{self.fleet.run_dir}/admin.sock", Message("STATUS"))

    def count(self, *path: str) -> int:
        """The counters of the report whose names begin as the last word; which side ends a handshake is a race."""
        *tables, name = path
        table: Any = self.report()
        for word in tables:
            table = table.get(word, {})
        return sum(value for key, value in table.items() if key.startswith(name))


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker with keys and one echo worker that came in over TCP."""
    keys = tmp_path_factory.mktemp("keys")
    (keys / "authorised").mkdir()
    for name, rights in {
        "server": [],
        "impostor": [],
        "alice": ["encode", "learn"],
        "encoder": ["encode"],
        "leaver": ["encode", "learn"],
        "worker": ["work"],
        "stranger": ["encode", "learn", "work", "admin"],
    }.items():
        save_key(keys, name, rights)
    with cluster() as fleet:
        fleet.front, fleet.back = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        made = Guarded(fleet, keys)
        for name in ("alice", "encoder", "leaver", "worker"):
            made.authorise(name)
        fleet.start_broker(
            *("--admin", f"ipc://{fleet.run_dir}/admin.sock"),
            *("--key", str(keys / "server.key"), "--authorised", str(keys / "authorised")),
        )
        own = ("--key", str(keys / "worker.key"), "--server-key", str(keys / "server.pub"))
        fleet.start_echo("echo", *own)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(NobodyListens, BrokerSilent):
                if made.report()["n_workers"]:
                    break
        else:
            raise AssertionError(fleet.log("broker") + fleet.log("echo"))
        yield made


def test_keys_that_fit_are_let_in(guarded: Guarded) -> None:
    """A client with a known key asks, and a worker that came with one answers."""
    with guarded.client(guarded.credentials("alice")) as client:
        [result] = client.stream([Job(SIGNAL)])
        assert result.ok


MATRIX: dict[str, tuple[Callable[[Guarded], Credentials | None], type[Exception], tuple[str, ...]]] = {
    "no key": (lambda _: None, NoKey, ("events", "front", "handshake_unfinished")),
    "unknown key": (lambda g: g.credentials("stranger"), Unauthenticated, ("turned_away", "unknown_key")),
    "a worker's key at the front": (lambda g: g.credentials("worker"), Unauthenticated, ("turned_away", "no_right")),
    "wrong server key": (
        lambda g: g.credentials("alice", "impostor"),
        WrongServerKey,
        ("events", "front", "handshake_unfinished"),
    ),
}


@pytest.mark.parametrize("case", MATRIX)
def test_who_does_not_fit_is_refused_named_and_counted(guarded: Guarded, case: str) -> None:
    """Each with its own exception, long before the time to connect is over; the broker counts it."""
    make, error, counter = MATRIX[case]
    before, began = guarded.count(*counter), time.monotonic()
    with pytest.raises(error) as caught, guarded.client(make(guarded)):
        pass
    assert type(caught.value) is error
    assert guarded.fleet.front in str(caught.value)
    assert time.monotonic() - began < 4
    assert guarded.count(*counter) > before


def test_a_right_that_the_key_does_not_have_is_refused(guarded: Guarded) -> None:
    """An encode-only key may encode and not learn: that item fails, the client goes on."""
    before = guarded.count("turned_away", "permission")
    with guarded.client(guarded.credentials("encoder")) as client:
        [refused] = client.stream([Job(SIGNAL, label="x")], route=["features", "learn:m"])
        assert isinstance(refused.error, PermissionDenied)
        assert "learn:m needs the right to learn" in str(refused.error)
        [result] = client.stream([Job(SIGNAL)])
        assert result.ok
    assert guarded.count("turned_away", "permission") == before + 1


def test_a_key_that_is_revoked_is_refused_at_its_next_word(guarded: Guarded) -> None:
    """While connected, without a restart; the same key does not come in again, and does once it is back."""
    before = guarded.count("turned_away", "revoked")
    with guarded.client(guarded.credentials("leaver")) as client:
        assert next(client.stream([Job(SIGNAL)])).ok
        guarded.revoke("leaver")
        with pytest.raises(Unauthenticated, match="not authorised any more"):
            list(client.stream([Job(SIGNAL)]))
    assert guarded.count("turned_away", "revoked") > before
    with pytest.raises(Unauthenticated), guarded.client(guarded.credentials("leaver")):
        pass
    guarded.authorise("leaver")
    time.sleep(0.3)
    with guarded.client(guarded.credentials("leaver")) as client:
        assert next(client.stream([Job(SIGNAL)])).ok


def test_a_worker_whose_key_is_unknown_ends_with_78(guarded: Guarded) -> None:
    """Trying again would not help, so its supervisor is told not to."""
    keys = guarded.keys
    own = ("--key", str(keys / "stranger.key"), "--server-key", str(keys / "server.pub"))
    guarded.fleet.start_echo("stranger", *own)
    assert guarded.fleet.wait("stranger") == 78
    assert "UNAUTHENTICATED" in guarded.fleet.log("stranger")


def test_clients_see_of_the_others_only_how_many(guarded: Guarded) -> None:
    """Under another's run one could take its answers."""
    with guarded.client(guarded.credentials("alice")) as one, guarded.client(guarded.credentials("encoder")) as other:
        report = one.status()
        assert report["n_clients"] == 2
        [row] = report["clients"]
        assert row["run"] != other.status()["clients"][0]["run"]
        assert len(guarded.report()["clients"]) == 2


def test_a_client_with_a_key_says_nothing_to_a_broker_without(guarded: Guarded) -> None:
    """Whoever took the broker's place without its key gets neither a word nor an item."""
    with cluster() as fleet:
        fleet.front = f"tcp://127.0.0.1:{free_port()}"
        fleet.start_broker("--insecure")
        fleet.wait_ready()
        with (
            pytest.raises(ServerWithoutKeys),
            Client(fleet.front, credentials=guarded.credentials("alice"), connect_timeout_s=5),
        ):
            pass


@pytest.mark.parametrize("given", ["nothing", "key", "authorised"])
def test_a_broker_on_tcp_needs_both_its_key_and_who_may_come(guarded: Guarded, given: str) -> None:
    """With less it does not start, and says what is missing."""
    words = {
        "nothing": (),
        "key": ("--key", str(guarded.keys / "server.key")),
        "authorised": ("--authorised", str(guarded.keys / "authorised")),
    }[given]
    with cluster() as fleet:
        fleet.front = f"tcp://127.0.0.1:{free_port()}"
        fleet.start_broker(*words)
        assert fleet.wait("broker") == 78
        assert ("keygen" if given == "nothing" else "set both") in fleet.log("broker")


def n_open_files() -> int:
    """Of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextlib.contextmanager
def absent(fleet: Cluster) -> Iterator[str]:
    """A unix socket that is not there."""
    yield f"ipc://{fleet.run_dir}/none.sock"


@contextlib.contextmanager
def wrong_port(fleet: Cluster) -> Iterator[str]:  # noqa: ARG001 - as the others
    """A port that nobody has."""
    yield f"tcp://127.0.0.1:{free_port()}"


@contextlib.contextmanager
def frozen(fleet: Cluster) -> Iterator[str]:
    """A broker that is stopped."""
    fleet.start_broker()
    fleet.wait_ready()
    fleet.signal("broker", signal.SIGSTOP)
    try:
        yield fleet.front
    finally:
        fleet.signal("broker", signal.SIGCONT)


@contextlib.contextmanager
def black_hole(fleet: Cluster) -> Iterator[str]:  # noqa: ARG001 - as the others
    """A port whose queue is full: the kernel drops what asks for more, as a firewall does."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("place", "error"),
    [(absent, NobodyListens), (wrong_port, NobodyListens), (frozen, BrokerSilent), (black_hole, Unreachable)],
)
def test_each_silence_has_its_own_exception(
    place: Callable[[Cluster], contextlib.AbstractContextManager[str]], error: type[Exception]
) -> None:
    """Within the time to connect, with a remedy, and without a file left open."""
    with cluster() as fleet, place(fleet) as endpoint:
        before, began = n_open_files(), time.monotonic()
        with pytest.raises(error) as caught, Client(endpoint, connect_timeout_s=1.0):
            pass
        assert type(caught.value) is error
        assert "check the endpoint" in str(caught.value)
        assert time.monotonic() - began < 1.5
        assert n_open_files() == before


def test_the_admin_socket_is_its_owners(guarded: Guarded) -> None:
    """And takes nothing but STATUS and ADMIN."""
    path = guarded.fleet.run_dir / "admin.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match="takes STATUS"):
        ask(f"ipc://{path}", Message("PING"))
