"""Where the page listens: this machine alone, unless somebody insists."""

from __future__ import annotations

import socket

from streamfeat.errors import ConfigError

LISTEN = "127.0.0.1:9672"
LOOPBACK = ("127.0.0.1", "localhost")


def bind_page(address: str, *, insecure: bool = False) -> socket.socket:
    """A socket that listens there.

    Parameters
    ----------
    address : str
        HOST:PORT; port 0 is any that is free.
    insecure : bool
        Hosts other than this machine's loopback are allowed: whoever reaches the port may look and try.

    Raises
    ------
    ConfigError
        No such address, a wildcard, one beyond loopback without `insecure`, or a port that is taken.
    """
    host, separator, port = address.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"the page listens at HOST:PORT, such as {LISTEN}, got {address!r}")
    if host in ("", "*", "0.0.0.0"):  # noqa: S104 - refused here
        raise ConfigError(f"the page answers to one name of this machine, got {address!r}; name the host")
    if host not in LOOPBACK and not insecure:
        raise ConfigError(
            f"{address}: the page has no keys, whoever reaches it may look and try; say --insecure, or use a tunnel "
            f"(ssh -L) to {LISTEN}"
        )
    try:
        return socket.create_server((host, int(port)))
    except OSError as error:
        raise ConfigError(f"page at {address}: {error.strerror or error}; choose another address") from error


def page_hosts(bound: socket.socket, address: str) -> list[str]:
    """Names that a browser may ask for at that socket."""
    host = address.rpartition(":")[0]
    return [*LOOPBACK] if host in LOOPBACK else [host, bound.getsockname()[0]]


def page_url(bound: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = bound.getsockname()[:2]
    return f"http://{host}:{port}/"
