"""Who comes in at the broker's doors: handshakes over TCP, keys and rights, and what was turned away.

The ZAP handler is a socket of the broker's own loop, not a thread beside it: while the loop does not answer, nobody is
let in. Every message is held to the rights that its sender's key has now, so a key that is taken out of the folder
is refused at its next word.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

import zmq
from zmq.utils import z85

from streamfeat.endpoints import is_tcp
from streamfeat.errors import ConfigError, StreamfeatError, Unauthenticated
from streamfeat.keys import Keyring
from streamfeat.monitor import Monitor
from streamfeat.wire.rights import DOORS, Door, may_enter

log = logging.getLogger("streamfeat.broker")

ZAP_ENDPOINT = "inproc://zeromq.zap.01"  # fixed by ZeroMQ's RFC 27
LOOK_EVERY_S = 0.1
"""How often the folder of keys is looked at: what a revocation may take."""


class Gate:
    """Keys, rights and refusals of one broker.

    Parameters
    ----------
    context : zmq.Context
        Of the sockets that are guarded; before any of them is bound.
    authorised : Path, optional
        Folder of public keys; None where no socket has keys.

    Raises
    ------
    ConfigError
        The folder cannot be listed.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], authorised: Path | None) -> None:
        self._keyring = None if authorised is None else Keyring(authorised)
        self._tell_problems()
        self._next_look = 0.0
        self._monitors: dict[Door, Monitor] = {}
        self._with_keys: set[Door] = set()
        self.refused: Counter[str] = Counter()
        """Connections and messages turned away: unknown_key, no_right, revoked, permission."""
        self.zap = context.socket(zmq.REP)
        self.zap.bind(ZAP_ENDPOINT)

    def guard(self, door: Door, socket: zmq.Socket[bytes], endpoint: str) -> None:
        """Watch this socket; to be called before it is bound."""
        self._monitors[door] = Monitor(socket)
        if is_tcp(endpoint) and self._keyring is not None:
            self._with_keys.add(door)

    def register(self, poller: zmq.Poller) -> None:
        """Have the poller wake for handshakes and for news of connections: libzmq stops when nobody takes those."""
        poller.register(self.zap, zmq.POLLIN)
        for monitor in self._monitors.values():
            poller.register(monitor.fd, zmq.POLLIN)

    def events(self) -> dict[str, dict[str, int]]:
        """What happened to the connections at each door, counted."""
        return {
            door: {**monitor.counts, "handshake_unfinished": monitor.n_unfinished}
            for door, monitor in self._monitors.items()
        }

    def turn(self, ready: Collection[Any], now: float) -> None:
        """Answer the handshakes that wait, after a look at the folder of keys; `ready` is what the poller named."""
        if self._keyring is not None and now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            try:
                if self._keyring.refresh():
                    self._tell_problems()
            except ConfigError as error:
                log.error("%s; nobody is let in", error)
        for monitor in self._monitors.values():
            if monitor.fd in ready:
                monitor.look()
        while self.zap in ready and self.zap.poll(0):
            self._answer(self.zap.recv_multipart())

    def _tell_problems(self) -> None:
        for problem in self._keyring.problems if self._keyring else ():
            log.error("%s", problem)

    def _answer(self, request: list[bytes]) -> None:
        """One handshake: yes with the key as user id, or no."""
        version, number, domain, address, _identity, mechanism, *credentials = request
        public, refusal = "", "no_key"
        door = cast(Door, domain.decode())
        if mechanism == b"CURVE" and credentials and door in DOORS:
            public = z85.encode(credentials[0]).decode()
            holder = self._keyring.holder(public) if self._keyring else None
            refusal = "unknown_key" if holder is None else "" if may_enter(door, holder.rights) else "no_right"
        if refusal:
            self.refused[refusal] += 1
            log.warning("refused at the %s from %s: %s %s", domain.decode(), address.decode(), refusal, public)
        status = [b"400", refusal.encode()] if refusal else [b"200", b"OK"]
        self.zap.send_multipart([version, number, *status, b"" if refusal else public.encode(), b""])

    def rights(self, door: Door, frame: zmq.Frame) -> frozenset[str]:
        """What the sender of this frame may do, now.

        Raises
        ------
        Unauthenticated
            Its key is not authorised any more.
        """
        if door not in self._with_keys or self._keyring is None:
            return DOORS[door]
        holder = self._keyring.holder(str(frame.get("User-Id")))
        if holder is None or not may_enter(door, holder.rights):
            self.refused["revoked"] += 1
            raise Unauthenticated("this key is not authorised any more; ask whoever runs the broker")
        return holder.rights

    def denied(self, error: StreamfeatError) -> None:
        """Take down a message that its sender's rights do not cover."""
        self.refused["permission"] += 1
        log.warning("refused: %s", error)

    def close(self) -> None:
        """Stop watching and let nobody in; before the sockets close."""
        for monitor in self._monitors.values():
            monitor.close()
        self.zap.close(linger=0)
