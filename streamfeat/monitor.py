"""What libzmq says of a connection and hides from whoever uses the socket: `Monitor`.

A wrong key, a missing one, a stopped process and an address that does not exist look the same from the socket:
silence. The monitor tells them apart, and `Monitor.trouble` makes of each its own error with its remedy.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import Counter

import zmq
from zmq.utils.monitor import parse_monitor_message

from streamfeat.errors import (
    BrokerSilent,
    NobodyListens,
    NoKey,
    ServerWithoutKeys,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WrongServerKey,
)

_CERTAIN = 3
"""Handshakes cut short in a row by a broker with keys that mean another key: one or two mean that it was stopped."""

GIVEN_UP_S = 0.2
"""After the end of a connection libzmq says within microseconds that it tries again; the rest is for busy machines."""

GREETING_S = 1.0
"""How long a greeting is waited for; the whole of it is 64 bytes, from a broker on any network at once."""

_GREETING_BYTES = 64
_OUR_WORDS = b"\xff" + bytes(8) + b"\x7f\x03\x01"
"""Signature and version, after which the other side says all of its own; another mechanism would end it before that."""

_WATCHED = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_ACCEPTED
    | zmq.EVENT_ACCEPT_FAILED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
"""Not EVENT_HANDSHAKE_FAILED_PROTOCOL. libzmq 4.3.5 says it too of a frame that fails CURVE's check long after the
handshake, and sending the event overwrites the errno by which the connection would be ended: it stays, is read no more,
and when the peer closes it the whole process is aborted (`Assertion failed: !_io_error`)."""


class Monitor:
    """Events of one socket, of the same thread. Make it before the socket connects or binds.

    Parameters
    ----------
    socket : zmq.Socket
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._events = socket.get_monitor_socket(_WATCHED)
        self.counts: Counter[str] = Counter()
        """How often each event came, by its name in small letters: `handshake_failed_auth`, `disconnected`."""
        self.connected = False
        """Whether a peer's socket had a connection as of the last look."""
        self._cut_short = 0
        self._n_made = 0
        self._ended_at: float | None = None
        self._news = self._unknown = False

    @property
    def fd(self) -> zmq.Socket[bytes]:
        """To be polled beside the socket: readable when something happened."""
        return self._events

    def look(self) -> None:
        """Take down what happened since the last call."""
        while True:
            try:
                event = parse_monitor_message(self._events.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return
            kind = zmq.Event(event["event"])
            self.counts[str(kind.name).lower()] += 1
            if kind == zmq.Event.HANDSHAKE_FAILED_AUTH:
                self._unknown = True
            elif kind == zmq.Event.DISCONNECTED:
                self._cut_short, self._news = self._cut_short + 1, True
                self._ended_at, self.connected = time.monotonic(), False
            elif kind in (zmq.Event.CONNECT_RETRIED, zmq.Event.CONNECTED):
                self._ended_at = None
            elif kind == zmq.Event.HANDSHAKE_SUCCEEDED:
                self._cut_short, self._news, self._unknown, self.connected = 0, False, False, True

    @property
    def n_unfinished(self) -> int:
        """Connections that were taken and whose handshake did not succeed, or not yet."""
        return self.counts["accepted"] - self.counts["handshake_succeeded"]

    def made_again(self) -> bool:
        """Whether the connection was made anew since the last call: what was under way in the old one is lost."""
        self.look()
        before, self._n_made = self._n_made, self.counts["handshake_succeeded"]
        return 0 < before < self._n_made

    def given_up(self) -> bool:
        """Whether libzmq ended the connection and does not make it again, said once: then `connect_again`.

        It makes again what was cut, and says so at once; not what broke the protocol, as a changed bit does.
        """
        self.look()
        if self._ended_at is None or time.monotonic() - self._ended_at < GIVEN_UP_S:
            return False
        self._ended_at = None
        return True

    def refused(self, endpoint: str, key: str | None) -> Unauthenticated | None:
        """Why there will be no connection however long one waits; None while there may be one.

        Parameters
        ----------
        endpoint : str
        key : str, optional
            Name of the key that the socket shows; None without.
        """
        self.look()
        if self._unknown:
            return Unauthenticated(
                f"{endpoint}: the broker does not take the key {key!r} here: it is unknown, revoked or without the "
                f"right; have {key}.pub put into its folder of authorised keys"
            )
        if not self._news or self.counts["handshake_succeeded"] or not endpoint.startswith("tcp://"):
            return None
        self._news = False
        mechanism = greeted_with(endpoint)
        if mechanism == "CURVE" and key is None:
            return NoKey(
                f"{endpoint}: the broker wants a key and this side shows none; "
                "set auth.key and auth.server (`streamfeat keygen` makes them)"
            )
        if mechanism not in ("", "CURVE") and key is not None:
            return ServerWithoutKeys(
                f"{endpoint}: whoever listens there takes no keys, and this side has {key!r}; nothing was sent. "
                "Check the endpoint, or give the broker its key"
            )
        if mechanism == "CURVE" and self._cut_short >= _CERTAIN:
            return WrongServerKey(
                f"{endpoint}: the broker is not the one whose public key is in auth.server; "
                "get its server.pub again from whoever runs it"
            )
        return None

    def absent(self, endpoint: str, waited: str) -> Unavailable:
        """Why there was no welcome within the time, as far as the network tells."""
        self.look()
        tail = f"(waited {waited}); check the endpoint, or start a fleet with `streamfeat serve`"
        if self.counts["connected"]:
            return BrokerSilent(
                f"{endpoint}: a process is there and does not answer: stuck, stopped or no broker {tail}"
            )
        if self.counts["connect_retried"]:
            return NobodyListens(f"{endpoint}: nobody answers there {tail}")
        return Unreachable(
            f"{endpoint}: the network does not answer, neither yes nor no: a wrong address or a firewall {tail}"
        )

    def close(self) -> None:
        """Stop watching; before the socket closes."""
        self._socket.disable_monitor()
        self._events.close(linger=0)


def greeted_with(endpoint: str) -> str:
    """The security mechanism that whoever listens at a TCP endpoint greets with (ZMTP 3.1: 20 bytes from byte 12 on).

    Empty where nobody greets: no broker, or something in between whose broker is not there. What libzmq tells of a
    handshake that was cut short is the same in all these cases.
    """
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    heard = b""
    with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), GREETING_S) as other:
        other.settimeout(GREETING_S)
        other.sendall(_OUR_WORDS)
        while len(heard) < _GREETING_BYTES and (piece := other.recv(_GREETING_BYTES - len(heard))):
            heard += piece
    return heard[12:32].rstrip(b"\0").decode("ascii", "replace") if len(heard) == _GREETING_BYTES else ""
