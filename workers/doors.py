"""The broker's sockets: opened, guarded, watched, closed. What comes in is not read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import zmq

from streamfeat import multipart
from streamfeat.endpoints import Door, FileId, bind_router, close_router, is_tcp, open_router, socket_file
from streamfeat.errors import ConfigError, StreamfeatError, Unauthenticated
from streamfeat.keys import Key
from streamfeat.wire.messages import Frame
from streamfeat.wire.rights import Door as DoorName

from .gate import Gate

OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Guards:
    """What guards the doors: the file mode of the clients' unix socket; for TCP the broker's key and who may come."""

    front_mode: int = OWNER_ONLY
    key: Key | None = None
    authorised: Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.key is None) != (self.authorised is None):
            raise ConfigError(
                "a broker with a key needs a folder of authorised keys, and the other way round: "
                "set both auth.key and auth.authorised, or neither"
            )


class Arrival(NamedTuple):
    """One message as it came: from whom, what, and what its sender may do or why not."""

    peer: bytes
    frames: list[Frame]
    rights: frozenset[str] | Unauthenticated


class Doors:
    """The sockets of one broker.

    Parameters
    ----------
    endpoints : mapping of door to endpoint
    guards : Guards
    frame_bytes : int
        Longest frame that is taken; a longer one costs its connection.

    Raises
    ------
    ConfigError
        An endpoint that cannot or must not be bound.
    """

    def __init__(self, endpoints: Mapping[DoorName, str], guards: Guards, frame_bytes: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: dict[DoorName, zmq.Socket[bytes]] = {}
        self._endpoints = endpoints
        self._files: dict[DoorName, FileId | None] = {}
        with_keys = any(is_tcp(endpoint) for endpoint in endpoints.values())
        self.gate = Gate(self._context, guards.authorised if with_keys else None)
        try:
            for name, endpoint in endpoints.items():
                mode = guards.front_mode if name == "front" else OWNER_ONLY
                door = Door(guards.key, guards.insecure, name)
                socket = open_router(self._context, endpoint, max_frame_bytes=frame_bytes, door=door)
                self._sockets[name] = socket
                self.gate.guard(name, socket, endpoint)
                bind_router(socket, endpoint, mode)
                self._files[name] = socket_file(endpoint)
        except StreamfeatError:
            self.close()
            raise

    def register(self, poller: zmq.Poller) -> None:
        """Have the poller wake for messages and for handshakes."""
        for socket in self._sockets.values():
            poller.register(socket, zmq.POLLIN)
        self.gate.register(poller)

    def busy(self, ready: Collection[Any], now: float) -> frozenset[DoorName]:
        """The doors where messages wait, of what the poller named; the gate has had its turn then.

        A look at a quiet socket costs an exception, and there are six: a fifth of the broker's time an item.
        """
        self.gate.turn(ready, now)
        return frozenset(name for name, socket in self._sockets.items() if socket in ready)

    def receive(self, name: DoorName) -> Arrival | None:
        """The next message at this door, if one waits."""
        if name not in self._sockets:
            return None
        try:
            peer, *frames = multipart.receive(self._sockets[name])
        except zmq.Again:
            return None
        rights: frozenset[str] | Unauthenticated
        try:
            rights = self.gate.rights(name, peer)
        except Unauthenticated as error:
            rights = error
        return Arrival(peer.bytes, multipart.contents(frames), rights)

    def send(self, name: DoorName, peer: bytes, frames: list[Frame]) -> bool:
        """Whether the message is on its way: not if the peer is gone, or does not read."""
        try:
            multipart.send(self._sockets[name], [peer, *frames])
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Let go of everything, the files of unix sockets included."""
        self.gate.close()
        for name, socket in self._sockets.items():
            close_router(socket, self._endpoints[name], self._files.get(name))
        self._context.term()
