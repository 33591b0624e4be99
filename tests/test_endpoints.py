"""Endpoints: what may be bound, and what is never overwritten."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import zmq

from streamfeat.endpoints import (
    MAX_IPC_PATH,
    Door,
    bind_router,
    check_endpoint,
    check_reach,
    claim_endpoint,
    close_router,
    open_dealer,
    open_router,
    socket_file,
)
from streamfeat.errors import ConfigError, NoKey
from streamfeat.keys import Credentials, Key


def bound(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, mode: int = 0o600) -> zmq.Socket[bytes]:
    """A broker's socket, open."""
    router = open_router(context, endpoint, max_frame_bytes=1000, door=Door())
    bind_router(router, endpoint, mode)
    return router


@pytest.mark.parametrize(
    "endpoint",
    [
        "ipc:///run/streamfeat/front.sock",
        "tcp://127.0.0.1:5671",
        "tcp://localhost:1",
        "tcp://[::1]:65535",
        "tcp://*:5671",
        "tcp://192.168.1.2:5671",
        "tcp://example.org:5671",
    ],
)
def test_endpoints_are_taken(endpoint: str) -> None:
    """Absolute ipc paths, and ports of any host, come back unchanged."""
    assert check_endpoint(endpoint) == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "front.sock",
        "ipc://",
        "ipc://front.sock",
        "ipc:///run/",
        "ipc://*",
        "inproc://x",
        "pgm://10.0.0.1:1",
        "tcp://::1:5671",
        "tcp://:5671",
        "tcp://a b:5671",
        "tcp://-x:5671",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:*",
        "tcp://127.0.0.1:٣",
    ],
)
def test_other_endpoints_are_refused_with_their_text(endpoint: str) -> None:
    """What nobody could reach is a ConfigError that repeats it."""
    with pytest.raises(ConfigError) as caught:
        check_endpoint(endpoint)
    assert repr(endpoint) in str(caught.value)


def test_long_path_names_both_numbers() -> None:
    """107 bytes are taken, 108 are refused; bytes count, not letters."""
    assert check_endpoint("ipc:///" + "a" * (MAX_IPC_PATH - 1))
    with pytest.raises(ConfigError, match=r"108 bytes.*107"):
        check_endpoint("ipc:///" + "a" * MAX_IPC_PATH)
    with pytest.raises(ConfigError, match=r"109 bytes.*107"):
        check_endpoint("ipc:///" + "é" * 54)


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    """What a killed process left behind does not stop the next one."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    assert claim_endpoint(f"ipc://{path}") == f"ipc://{path}"
    assert not path.exists()


def test_a_live_socket_is_refused(tmp_path: Path) -> None:
    """A second start on a live endpoint is an error, and the first keeps its socket."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(1)
        with pytest.raises(ConfigError, match="listening"):
            claim_endpoint(f"ipc://{path}")
        assert path.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_taken_port_is_refused(host: str) -> None:
    """Before anything is started that would join whoever listens there; a port that was closed is free at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"tcp://{host}:{server.getsockname()[1]}"
        with pytest.raises(ConfigError, match="listening"):
            claim_endpoint(endpoint)
    assert claim_endpoint(endpoint) == endpoint


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away needs root")
def test_another_users_directory_is_not_ours_to_bind_in(tmp_path: Path) -> None:
    """Where anybody may make directories, ours must be made by us; elsewhere the owner is the operator's choice."""
    folder = tmp_path / "streamfeat-0"
    folder.mkdir()
    os.chown(folder, 12345, -1)
    endpoint = f"ipc://{folder}/s"
    assert claim_endpoint(endpoint) == endpoint
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigError, match=r"another user \(uid 12345\)"):
        claim_endpoint(endpoint)
    os.chown(folder, os.geteuid(), -1)
    assert claim_endpoint(endpoint) == endpoint


@pytest.mark.parametrize("make", ["file", "directory", "link"])
def test_what_is_no_socket_is_never_touched(tmp_path: Path, make: str) -> None:
    """An ordinary file, a directory or a link at the path stays as it is."""
    path = tmp_path / "s"
    if make == "file":
        path.write_text("precious")
    elif make == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = path.lstat()
    with pytest.raises(ConfigError, match="not a socket"):
        claim_endpoint(f"ipc://{path}")
    assert path.lstat() == before


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    """The remedy names the directory, which is not made behind the operator's back."""
    with pytest.raises(ConfigError, match="directory is not there"):
        claim_endpoint(f"ipc://{tmp_path}/none/s")
    if os.geteuid() != 0:  # root may write anywhere
        tmp_path.chmod(0o500)
        with pytest.raises(ConfigError, match="not writable"):
            claim_endpoint(f"ipc://{tmp_path}/s")


def test_the_broker_removes_its_own_socket_only(tmp_path: Path) -> None:
    """Closing removes the file that libzmq leaves; one that another process made meanwhile stays."""
    endpoint = f"ipc://{tmp_path}/s"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context:
        router = bound(context, endpoint)
        close_router(router, endpoint, socket_file(endpoint))
        assert socket_file(endpoint) is None
        router = bound(context, endpoint)
        mine = socket_file(endpoint)
        (tmp_path / "s").unlink()
        (tmp_path / "s").write_text("another's")
        close_router(router, endpoint, mine)
        assert (tmp_path / "s").read_text() == "another's"
    assert socket_file("tcp://127.0.0.1:5671") is None


def test_no_socket_waits_for_ever(tmp_path: Path) -> None:
    """Linger, high-water marks, heartbeats and handshake are bounded on both kinds of sockets."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context:
        endpoint = f"ipc://{tmp_path}/s"
        with bound(context, endpoint) as router:
            with open_dealer(context, endpoint, "ab" * 8, linger_ms=100) as dealer:
                for socket_ in (router, dealer):
                    bounds = {zmq.LINGER: 2000, zmq.SNDHWM: 1024, zmq.RCVHWM: 1024, zmq.HANDSHAKE_IVL: 5000}
                    for option, most in bounds.items():
                        assert 0 < int(socket_.get(option)) <= most
                    assert int(socket_.get(zmq.HEARTBEAT_IVL)) > 0
            assert router.get(zmq.MAXMSGSIZE) == 1000


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_a_unix_socket_has_its_mode_from_the_first_moment(tmp_path: Path, mode: int) -> None:
    """Whatever the umask of the process is, which is left as it was."""
    before = os.umask(0o022)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        with context, bound(context, f"ipc://{tmp_path}/s", mode):
            assert (tmp_path / "s").stat().st_mode & 0o777 == mode
            assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5671", "tcp://*:5671"])
def test_tcp_needs_a_key_or_the_word_insecure(endpoint: str) -> None:
    """Nothing is bound without; the message says both remedies."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context:
        with pytest.raises(ConfigError, match=r"keygen.*--insecure"):
            open_router(context, endpoint, max_frame_bytes=1000, door=Door())
        with socket.create_server(("127.0.0.1", 0)) as server:
            free = server.getsockname()[1]
        open_router(context, f"tcp://127.0.0.1:{free}", max_frame_bytes=1000, door=Door(insecure=True)).close()


def test_another_machine_is_reached_with_keys_only() -> None:
    """Without, this machine alone; and what stands for every address can only be bound."""
    key = Key("alice", "a" * 40, "b" * 40)
    for endpoint in ("tcp://192.0.2.1:5671", "tcp://example.org:5671"):
        with pytest.raises(NoKey, match="ssh -L"):
            check_reach(endpoint, None)
        assert check_reach(endpoint, Credentials(key, "c" * 40)) == endpoint
    assert check_reach("tcp://127.0.0.1:5671", None) == "tcp://127.0.0.1:5671"
    with pytest.raises(ConfigError, match="name the host"):
        check_reach("tcp://*:5671", None)
