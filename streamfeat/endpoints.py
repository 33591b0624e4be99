"""Where processes meet: what an endpoint may be, and what must hold before it is bound.

Unix sockets everywhere, TCP on the loopback only: there are no keys yet, and a port that others can reach
without keys would let them work, learn and read. libzmq's own bind replaces whatever lies at an ipc path, an
ordinary file or the socket of a running broker alike, so `claim` looks first.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

from streamfeat.errors import ConfigError

MAX_IPC_PATH = 107
"""Bytes that fit into sockaddr_un beside its closing zero."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PROBE_TIMEOUT_S = 1.0


def check_endpoint(endpoint: str) -> str:
    """The endpoint itself, if a peer may connect to it or bind it.

    Raises
    ------
    ConfigError
        Neither ipc nor tcp; an ipc path that is relative or longer than 107 bytes; a tcp host off the loopback.
    """
    scheme, separator, rest = endpoint.partition("://")
    if separator and scheme == "ipc":
        _check_ipc_path(rest, endpoint)
    elif separator and scheme == "tcp":
        _check_tcp(rest, endpoint)
    else:
        raise ConfigError(f"an endpoint is ipc:///path/to.sock or tcp://127.0.0.1:PORT, got {endpoint!r}")
    return endpoint


def claim_endpoint(endpoint: str) -> str:
    """The endpoint itself, once it is safe to bind: nobody answers there and nothing but a stale socket is replaced.

    Raises
    ------
    ConfigError
        As `check_endpoint`; also when a process listens there already, when an ordinary file is in the way, or when
        the directory is missing or not writable.
    """
    check_endpoint(endpoint)
    if endpoint.startswith("ipc://"):
        _claim_ipc_path(Path(endpoint.removeprefix("ipc://")))
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
    if host not in LOOPBACK:
        raise ConfigError(
            f"tcp is for this machine only ({', '.join(LOOPBACK)}) until connections carry keys, got {endpoint!r}; "
            "use ipc, or a tunnel (ssh -L) from the other machine"
        )
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise ConfigError(f"a tcp endpoint needs a port of 1 to 65535, got {endpoint!r}")


def _claim_ipc_path(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        problem = "is not writable" if path.parent.is_dir() else "is not there"
        raise ConfigError(
            f"cannot make the socket {path}: its directory {problem}; create it or mend its owner and mode"
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
