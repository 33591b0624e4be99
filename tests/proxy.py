"""A TCP link that misbehaves: in front of a port, in a thread, told from outside what to do to what passes."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Literal

LOOK_S = 0.005


class Link:
    """Connections to `port` of this machine, by way of a port of its own.

    Attributes
    ----------
    delay_s : float
        How long each piece is held back.
    holed : bool
        Nothing passes any more, and nobody is told: a half-open connection.
    flip : "", "there" or "back"
        A bit of the next piece to the port, or from it, is changed; then it is "" again.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.delay_s, self.holed = 0.0, False
        self.flip: Literal["", "there", "back"] = ""
        self._ends: dict[socket.socket, socket.socket] = {}
        self._towards_port: set[socket.socket] = set()
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._over, self._cut = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """End every connection there is, as a reset."""
        self._cut.set()

    def close(self) -> None:
        """End it all."""
        self._over.set()
        self._thread.join(5)
        self._server.close()

    def _run(self) -> None:
        while not self._over.is_set():
            if self._cut.is_set():
                self._drop_all()
                self._cut.clear()
            ready, _, _ = select.select([self._server, *self._ends], [], [], LOOK_S)
            for end in ready:
                if end is self._server:
                    self._accept()
                elif end in self._ends and not self.holed:
                    self._take(end)
            while self._late and self._late[0][0] <= time.monotonic():
                _, end, data = self._late.popleft()
                with contextlib.suppress(OSError):  # it was dropped meanwhile
                    end.sendall(data)
            if self.holed:
                time.sleep(LOOK_S)  # what waits would wake the select at once
        self._drop_all()

    def _accept(self) -> None:
        client, _ = self._server.accept()
        try:
            broker = socket.create_connection(("127.0.0.1", self._to), timeout=1)
        except OSError:
            client.close()
            return
        self._ends |= {client: broker, broker: client}
        self._towards_port.add(client)

    def _take(self, end: socket.socket) -> None:
        try:
            data = end.recv(1 << 16)
        except OSError:
            data = b""
        other = self._ends[end]
        if not data:
            for one in (end, other):
                self._ends.pop(one, None)
                self._towards_port.discard(one)
                one.close()
            return
        if self.flip == ("there" if end in self._towards_port else "back"):
            self.flip = ""
            data = data[:-1] + bytes([data[-1] ^ 1])
        self._late.append((time.monotonic() + self.delay_s, other, data))

    def _drop_all(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close as a reset
            end.close()
        self._ends.clear()
        self._towards_port.clear()
        self._late.clear()


@contextlib.contextmanager
def link(port: int) -> Iterator[Link]:
    """A link to that port, until the end of the block."""
    made = Link(port)
    try:
        yield made
    finally:
        made.close()
