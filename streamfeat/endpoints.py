"""Where processes meet: what an endpoint may be, what must hold before it is bound, and the sockets there.

Unix sockets, which their file modes guard, or TCP with keys (CURVE): a port without keys would let whoever reaches it
work, learn and read, so it is bound only by those who say `insecure`. libzmq's own bind replaces whatever lies at an
ipc path, an ordinary file or the socket of a running broker alike, so `claim_endpoint` looks first. Its other defaults
lose messages in silence or wait for ever; `open_dealer` and `open_router` set every option that matters.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

import zmq

from streamfeat.errors import ConfigError, NoKey
from streamfeat.keys import Credentials, Key

MAX_IPC_PATH = 107
"""Bytes that fit into sockaddr_un beside its closing zero."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"\*|[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
PROBE_TIMEOUT_S = 1.0

QUEUE_MESSAGES = 1024
"""High-water mark of each pipe: a backstop. It counts messages, not bytes; credit is the bound."""

FileId = tuple[int, int, int]
"""Device, inode and moment of creation: inodes are used again."""

ROUTER_LINGER_MS = 1000
"""What the broker's last words may take when it closes."""


@dataclass(frozen=True)
class Door:
    """How a broker's TCP socket is guarded: its key, or that it is said to be `insecure`.

    The domain says which door it is to the ZAP handler; without a handler nobody is let in.
    """

    key: Key | None = None
    insecure: bool = False
    domain: str = "front"


def check_endpoint(endpoint: str) -> str:
    """The endpoint itself, if a peer may connect to it or bind it.

    Raises
    ------
    ConfigError
        Neither ipc nor tcp; an ipc path that is relative or longer than 107 bytes; a tcp address without host or port.
    """
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme == "ipc":
        _check_ipc_path(rest, endpoint)
    elif separator and scheme == "tcp":
        _check_tcp(rest, endpoint)
    else:
        raise ConfigError(f"an endpoint is ipc:///path/to.sock or tcp://HOST:PORT, got {endpoint!r}")
    return endpoint


def check_reach(endpoint: str, credentials: Credentials | None) -> str:
    """The endpoint itself, if a peer with these keys may connect to it: without any, to this machine only.

    Raises
    ------
    ConfigError
        As `check_endpoint`.
    NoKey
        Another machine, and no keys: whoever listens on the way could read, and answer in the broker's place.
    """
    check_endpoint(endpoint)
    host = endpoint.removeprefix("tcp://").rpartition(":")[0]
    if is_tcp(endpoint) and host == "*":
        raise ConfigError(f"{endpoint} can be bound, not connected to; name the host")
    if is_tcp(endpoint) and credentials is None and host not in LOOPBACK:
        raise NoKey(
            f"{endpoint}: another machine is reached with keys: set auth.key and auth.server (`streamfeat keygen`), "
            f"or use a tunnel (ssh -L) to {LOOPBACK[0]}"
        )
    return endpoint


def claim_endpoint(endpoint: str) -> str:
    """The endpoint itself, once it is safe to bind: nobody answers there and nothing but a stale socket is replaced.

    Raises
    ------
    ConfigError
        As `check_endpoint`; also when a process listens there already, when an ordinary file is in the way, or when
        the directory is missing, not writable, or somebody else's in a place where anybody could have made it.
    """
    check_endpoint(endpoint)
    if endpoint.startswith("ipc://"):
        _claim_ipc_path(Path(endpoint.removeprefix("ipc://")))
    else:
        _claim_port(endpoint)
    return endpoint


def _check_ipc_path(path: str, endpoint: str) -> None:
    if not path.startswith("/") or path.endswith("/"):
        raise ConfigError(f"an ipc endpoint needs the absolute path of a socket, got {endpoint!r}")
    length = len(os.fsencode(path))
    if length > MAX_IPC_PATH:
        raise ConfigError(
            f"ipc path of {length} bytes, but a unix socket takes at most {MAX_IPC_PATH}: {path}; "
            "choose a shorter run directory (fleet.run_dir or STREAMFEAT_FLEET__RUN_DIR)"
        )


def _check_tcp(address: str, endpoint: str) -> None:
    host, _, port = address.rpartition(":")
    if not _HOST.fullmatch(host):
        raise ConfigError(f"a tcp endpoint needs a host: a name, an address or [an IPv6 address], got {endpoint!r}")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ConfigError(f"a tcp endpoint needs a port of 1 to 65535, got {endpoint!r}")


def _claim_ipc_path(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        problem = "is not writable" if path.parent.is_dir() else "is not there"
        raise ConfigError(
            f"cannot make the socket {path}: its directory {problem}; create it or mend its owner and mode"
        )
    above, owner = path.parent.parent.stat().st_mode, path.parent.stat().st_uid
    if above & stat.S_IWOTH and owner not in (0, os.geteuid()):  # /tmp/streamfeat-UID, made by another before us
        raise ConfigError(
            f"{path.parent} belongs to another user (uid {owner}), who could take the place of the socket; "
            "choose another run directory (fleet.run_dir or STREAMFEAT_FLEET__RUN_DIR)"
        )
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} is there and is not a socket; it is left alone: move it or choose another endpoint")
    if _answers(path):
        raise ConfigError(f"{path} has a process listening; stop that one first, or choose another endpoint")
    path.unlink(missing_ok=True)


def _claim_port(endpoint: str) -> None:
    """Raise `ConfigError` if a port is taken. A trial bind, not a connection: that may meet itself on a loopback."""
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    try:
        found = socket.getaddrinfo(
            None if host == "*" else host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise ConfigError(f"{endpoint}: no such host ({error.strerror}); bind an address of this machine") from error
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that were closed do not count
                probe.bind(address)
        except OSError as error:  # any other, a machine without IPv6 say, is for the broker's own bind to tell
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(
                    f"{endpoint} has a process listening; stop that one first, or choose another endpoint"
                ) from error


def _answers(path: Path) -> bool:
    """Whether somebody listens at the socket, stopped or slow processes included."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (TimeoutError, BlockingIOError):
            return True
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, "?")
            raise ConfigError(
                f"cannot tell whether {path} is in use ({reason}); remove it if nobody uses it"
            ) from error
    return True


def open_dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    endpoint: str,
    peer: str,
    *,
    linger_ms: int,
    credentials: Credentials | None = None,
) -> zmq.Socket[bytes]:
    """A peer's socket, not connected yet: whoever wants to watch it connect can.

    The identity is this run's own, so that a connection that was cut and made again is the same peer to the broker.
    Over TCP it shows its key where it has one; a broker that wants keys lets in nobody without.
    """
    check_reach(endpoint, credentials)
    socket_ = context.socket(zmq.DEALER)
    _set(socket_, linger_ms)
    socket_.set(zmq.IDENTITY, peer.encode())
    # Not IMMEDIATE: libzmq 4.3.5 then ends the queue of what came when a connection is cut, and where that is between
    # two frames of a message being read, it aborts the process (`Assertion failed: !_more`). Whoever has said something
    # to nobody asks the monitor first whether there is a connection.
    socket_.set(zmq.RECONNECT_IVL, 100)
    socket_.set(zmq.RECONNECT_IVL_MAX, 2000)
    if credentials is not None and is_tcp(endpoint):
        _show_key(socket_, credentials.key)
        socket_.set(zmq.CURVE_SERVERKEY, credentials.server.encode())
    return socket_


def connect_again(socket_: zmq.Socket[bytes], endpoint: str) -> None:
    """Give a silent connection up and make another: it may be half open, or one that the other side has given up.

    libzmq finds out about a half-open one for itself in 20 s; one that broke the protocol, by a changed bit, it ends
    for good and does not make again.
    """
    try:
        socket_.disconnect(endpoint)
    except zmq.ZMQError as error:
        if error.errno != errno.ENOENT:  # ended already
            raise
    socket_.connect(endpoint)


def open_router(
    context: zmq.Context[zmq.Socket[bytes]], endpoint: str, *, max_frame_bytes: int, door: Door
) -> zmq.Socket[bytes]:
    """The broker's socket, guarded as `door` says; `bind_router` opens it.

    Raises
    ------
    ConfigError
        As `claim_endpoint`; also TCP without a key that is not said to be insecure.
    """
    check_endpoint(endpoint)
    if is_tcp(endpoint) and door.key is None and not door.insecure:
        raise ConfigError(
            f"{endpoint}: tcp needs a key: `streamfeat keygen broker`, then auth.key and auth.authorised; "
            "or --insecure, if whoever reaches the port may work, learn and read"
        )
    claim_endpoint(endpoint)
    socket_ = context.socket(zmq.ROUTER)
    _set(socket_, linger_ms=ROUTER_LINGER_MS)
    socket_.set(zmq.ROUTER_MANDATORY, 1)  # else what cannot be delivered is dropped without a word
    socket_.set(zmq.ROUTER_HANDOVER, 1)  # else a peer that comes back is ignored until its old connection times out
    socket_.set(zmq.MAXMSGSIZE, max_frame_bytes)
    socket_.set(zmq.BACKLOG, 512)
    if is_tcp(endpoint) and door.key is not None:
        socket_.set(zmq.CURVE_SERVER, 1)
        _show_key(socket_, door.key)
        socket_.set(zmq.ZAP_DOMAIN, door.domain.encode())
        socket_.set(zmq.ZAP_ENFORCE_DOMAIN, 1)  # else, with no handler there, every key is let in
    return socket_


def bind_router(socket_: zmq.Socket[bytes], endpoint: str, mode: int) -> None:
    """Open a broker's socket; a unix socket's file has its mode from the first moment.

    Raises
    ------
    ConfigError
        A port is taken, or an address is not of this machine.
    """
    before = os.umask(0o777 & ~mode)
    try:
        socket_.bind(endpoint)
    except zmq.ZMQError as error:
        raise ConfigError(f"cannot bind {endpoint}: {error.strerror}; stop what holds it or choose another") from error
    finally:
        os.umask(before)


def is_tcp(endpoint: str) -> bool:
    """Whether keys are needed there; unix sockets have file modes."""
    return endpoint.startswith("tcp://")


def _show_key(socket_: zmq.Socket[bytes], key: Key) -> None:
    socket_.set(zmq.CURVE_PUBLICKEY, key.public.encode())
    socket_.set(zmq.CURVE_SECRETKEY, key.secret.encode())


def close_router(socket_: zmq.Socket[bytes], endpoint: str, file_id: FileId | None) -> None:
    """Close a broker's socket and remove its file, which libzmq would leave, unless it is somebody else's by now.

    The file goes first: from then on the next broker makes its own, which this one no longer touches.
    """
    if file_id is not None and file_id == socket_file(endpoint):
        Path(endpoint.removeprefix("ipc://")).unlink(missing_ok=True)
    socket_.close()


def socket_file(endpoint: str) -> FileId | None:
    """What lies at an ipc endpoint, told apart from whatever may lie there later; None where there is nothing."""
    if not endpoint.startswith("ipc://"):
        return None
    try:
        status = Path(endpoint.removeprefix("ipc://")).lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _set(socket_: zmq.Socket[bytes], linger_ms: int) -> None:
    """What libzmq's defaults get wrong for every one of our sockets."""
    socket_.set(zmq.LINGER, linger_ms)  # for ever
    socket_.set(zmq.SNDHWM, QUEUE_MESSAGES)
    socket_.set(zmq.RCVHWM, QUEUE_MESSAGES)
    socket_.set(zmq.HEARTBEAT_IVL, 5_000)  # off; finds dead connections, says nothing about stuck processes
    socket_.set(zmq.HEARTBEAT_TIMEOUT, 15_000)
    socket_.set(zmq.HEARTBEAT_TTL, 15_000)
    socket_.set(zmq.HANDSHAKE_IVL, 5_000)
    socket_.set(zmq.TCP_KEEPALIVE, 1)
    socket_.set(zmq.TCP_KEEPALIVE_IDLE, 60)
    socket_.set(zmq.TCP_KEEPALIVE_INTVL, 10)
    socket_.set(zmq.TCP_KEEPALIVE_CNT, 6)
    socket_.set(zmq.IPV6, 1)
