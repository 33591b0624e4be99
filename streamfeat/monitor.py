"""What libzmq says of a connection and hides from whoever uses the socket: `Monitor`.

A wrong key, a missing one, a stopped process and an address that does not exist look the same from the socket:
silence. The monitor tells them apart, and `Monitor.trouble` makes of each its own error with its remedy.
"""

from __future__ import annotations

import contextlib
import socket
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

_MECHANISM_MISMATCH = 0x11000002  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
_CRYPTOGRAPHIC = 0x11000001
_CERTAIN = 3
"""Handshakes cut short in a row after which the other side is asked for its greeting: one or two are a broker that was
just stopped."""

GREETING_S = 1.0
"""How long a greeting is waited for; the whole of it is 64 bytes, from a broker on any network at once."""

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)

_WATCHED = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_ACCEPTED
    | zmq.EVENT_ACCEPT_FAILED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)


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
        self._cut_short = 0
        self._n_made = 0
        self._mismatch = self._unknown = False

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
            kind, value = zmq.Event(event["event"]), event["value"]
            name = str(kind.name).lower()
            if kind == zmq.Event.HANDSHAKE_FAILED_PROTOCOL and value == _MECHANISM_MISMATCH:
                name, self._mismatch = "handshake_failed_mechanism", True
            elif kind == zmq.Event.HANDSHAKE_FAILED_PROTOCOL and value == _CRYPTOGRAPHIC:
                name = "handshake_failed_key"
            elif kind == zmq.Event.HANDSHAKE_FAILED_AUTH:
                self._unknown = True
            elif kind == zmq.Event.HANDSHAKE_FAILED_NO_DETAIL:
                self._cut_short += 1
            elif kind == zmq.Event.HANDSHAKE_SUCCEEDED:
                self._cut_short, self._mismatch, self._unknown = 0, False, False
            self.counts[name] += 1

    def made_again(self) -> bool:
        """Whether the connection was made anew since the last call: what was under way in the old one is lost."""
        self.look()
        before, self._n_made = self._n_made, self.counts["handshake_succeeded"]
        return 0 < before < self._n_made

    def refused(self, endpoint: str, key: str | None) -> Unauthenticated | None:
        """Why there will be no connection however long one waits; None while there may be one.

        Parameters
        ----------
        endpoint : str
        key : str, optional
            Name of the key that the socket shows; None without.
        """
        self.look()
        if self._mismatch and key is None:
            return NoKey(
                f"{endpoint}: the broker wants a key and this side shows none; "
                "set auth.key and auth.server (`streamfeat keygen` makes them)"
            )
        if self._mismatch and key is not None:
            return _without_keys(endpoint, key)
        if self._unknown:
            return Unauthenticated(
                f"{endpoint}: the broker does not take the key {key!r} here: it is unknown, revoked or without the "
                f"right; have {key}.pub put into its folder of authorised keys"
            )
        if self._cut_short >= _CERTAIN and key is not None and not self.counts["handshake_succeeded"]:
            self._cut_short = 0
            mechanism = greeted_with(endpoint)
            if mechanism == "CURVE":
                return WrongServerKey(
                    f"{endpoint}: the broker is not the one whose public key is in auth.server; "
                    "get its server.pub again from whoever runs it"
                )
            if mechanism:
                return _without_keys(endpoint, key)
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
        other.sendall(_GREETING)
        while len(heard) < len(_GREETING) and (piece := other.recv(len(_GREETING) - len(heard))):
            heard += piece
    return heard[12:32].rstrip(b"\0").decode("ascii", "replace") if len(heard) == len(_GREETING) else ""


def _without_keys(endpoint: str, key: str) -> ServerWithoutKeys:
    return ServerWithoutKeys(
        f"{endpoint}: whoever listens there takes no keys, and this side has {key!r}; nothing was sent. "
        "Check the endpoint, or give the broker its key"
    )
