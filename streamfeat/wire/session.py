"""A peer's decisions: when to say hello, when to ping, when the broker is gone, when to leave.

Messages and `now` in, messages out; no socket and no clock. Client and worker use the same `Session`: the socket's
owner hands it what arrived (`hear`), then asks what to send (`due`) and how long to sleep (`wait_s`).

    greeting   says HELLO, again and again with growing pauses, until WELCOME
    ready      pings once a heartbeat; any message of the broker counts as a sign of life
    draining   a worker that takes nothing new and finishes what it has
    closed     says nothing more

A connection that was cut and made again loses what was under way, and ZeroMQ tells neither side: whoever watches the
socket says `cut`, and the peer greets the broker afresh.

The broker is silent when a PING stayed unanswered for `liveness` heartbeats *while this peer was there to hear*: time
in which the peer itself computed, slept or was stopped proves nothing, so the clock then starts again.
A worker that will not come back to its socket for a while says so beforehand (`busy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from streamfeat.errors import CallerError, ConfigError, StreamfeatError, Unauthenticated, error_from_code
from streamfeat.wire.messages import Message

State = Literal["greeting", "ready", "draining", "closed"]
Event = Literal["welcome", "forgotten", "silence", "cut", "bye", "refused", "drain", "finish"]

TRANSITIONS: dict[tuple[State, Event], State] = {
    ("greeting", "welcome"): "ready",
    ("greeting", "forgotten"): "greeting",
    ("greeting", "cut"): "greeting",
    ("greeting", "bye"): "greeting",
    ("greeting", "refused"): "closed",
    ("greeting", "drain"): "closed",  # nobody knows this peer: there is nothing to finish
    ("greeting", "finish"): "closed",
    ("ready", "welcome"): "ready",
    ("ready", "forgotten"): "greeting",
    ("ready", "silence"): "greeting",
    ("ready", "cut"): "greeting",  # what was under way is lost, and nobody says what it was
    ("ready", "bye"): "greeting",
    ("ready", "refused"): "closed",
    ("ready", "drain"): "draining",
    ("ready", "finish"): "closed",
    ("draining", "welcome"): "draining",
    ("draining", "forgotten"): "closed",  # the leases went with the broker that gave them
    ("draining", "silence"): "closed",
    ("draining", "bye"): "closed",
    ("draining", "refused"): "closed",
    ("draining", "drain"): "draining",
    ("draining", "finish"): "closed",
}
"""What each event makes of each state; a pair that is not listed changes nothing."""

HELLO_FIRST = "HELLO_FIRST"
HELLO_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Between one HELLO and the next; the last one repeats."""

AWAY = 1.5
"""Heartbeats between two calls of `due` above which the peer itself was away; it is called once a heartbeat."""

MAX_BUSY_MS = 3_600_000
DEFAULT_HEARTBEAT_S = 1.0
DEFAULT_LIVENESS = 3


class Session:
    """One peer's conversation with the broker.

    Parameters
    ----------
    hello : mapping
        Fields of the HELLO message, sent unchanged every time.
    """

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.state: State = "greeting"
        self.terms: dict[str, Any] = {}
        """Fields of the last WELCOME: credit, limits, banks."""
        self.refusal: StreamfeatError | None = None
        """Why the broker will not have this peer; the state is closed then."""
        self.complaint: StreamfeatError | None = None
        """Why the broker did not welcome this peer yet, such as `draining`; it may later."""
        self.n_welcomes = 0
        self._hello = dict(hello)
        self._n_hellos = 0
        self._afresh = False
        self._next_hello = float("-inf")
        self._next_ping = float("-inf")
        self._asked_at: float | None = None
        self._seen_at = float("-inf")
        self._answers: list[Message] = []

    @property
    def heartbeat_s(self) -> float:
        """The broker's heartbeat."""
        return float(self.terms.get("heartbeat_ms", DEFAULT_HEARTBEAT_S * 1000)) / 1000

    @property
    def silence_s(self) -> float:
        """How long a ping may stay unanswered."""
        return self.heartbeat_s * float(self.terms.get("liveness", DEFAULT_LIVENESS))

    @property
    def broker(self) -> str:
        """Boot id of the broker that welcomed this peer last; empty before."""
        return str(self.terms.get("broker", ""))

    def hear(self, message: Message, now: float) -> Event | None:
        """Take a message of the broker; what it means for this conversation, None for any other message."""
        self._asked_at = None
        event = self._meaning(message)
        if event is not None:
            self._happen(event, now)
        return event

    def due(self, now: float) -> list[Message]:
        """What to say now. Call it after `hear` has had everything that waits in the socket."""
        if now - self._seen_at > AWAY * self.heartbeat_s:
            self._asked_at = None if self._asked_at is None else now
        self._seen_at = now
        if self._asked_at is not None and now - self._asked_at > self.silence_s:
            self._happen("silence", now)
        messages, self._answers = self._answers, []
        if self.state == "greeting" and now >= self._next_hello:
            pause = HELLO_PAUSES_S[min(self._n_hellos, len(HELLO_PAUSES_S) - 1)]
            self._n_hellos += 1
            self._next_hello = now + pause
            messages.append(Message("HELLO", {**self._hello, "afresh": True} if self._afresh else dict(self._hello)))
        elif self.state in ("ready", "draining") and now >= self._next_ping:
            messages.append(self._ping({}, now))
        return messages

    def wait_s(self, now: float) -> float:
        """How long nothing will be due; infinity when closed."""
        if self.state == "closed":
            return float("inf")
        return max(0.0, (self._next_hello if self.state == "greeting" else self._next_ping) - now)

    def cut(self, now: float) -> bool:
        """The connection was made anew: what was under way in the old one is lost, and HELLO says so.

        False for a peer that is leaving: what it does not answer goes elsewhere with its BYE.
        """
        if self.state not in ("greeting", "ready"):
            return False
        self._happen("cut", now)
        self._afresh, self._next_hello = True, now
        return True

    def busy(self, busy_ms: int, now: float) -> list[Message]:
        """The PING that asks for patience before a step of `busy_ms`."""
        return [self._ping({"busy_ms": min(busy_ms, MAX_BUSY_MS)}, now)] if self.state in ("ready", "draining") else []

    def announce(self, hello: Mapping[str, Any]) -> list[Message]:
        """Say HELLO anew, with other fields: at once if the broker knows this peer, else when it is greeted."""
        self._hello = dict(hello)
        return [Message("HELLO", dict(hello))] if self.state == "ready" else []

    def drain(self, now: float) -> list[Message]:
        """Ask for nothing new; the state is draining, or closed if no broker knows this peer."""
        was = self.state
        self._happen("drain", now)
        return [Message("DRAIN", {})] if was == "ready" else []

    def finish(self, reason: str, now: float) -> list[Message]:
        """Leave; the state is closed."""
        was = self.state
        self._happen("finish", now)
        return [Message("BYE", {"reason": reason})] if was in ("ready", "draining") else []

    def _meaning(self, message: Message) -> Event | None:
        match message.verb:
            case "WELCOME":
                self.terms = dict(message.fields)
                self.complaint = None
                self.n_welcomes += 1
                return "welcome"
            case "PING":
                self._answers = [Message("PONG", {})]
            case "BYE":
                return "bye"
            case "ERROR" if message.fields.get("code") == HELLO_FIRST:
                return "forgotten"
            case "ERROR" if message.fields.get("code") == Unauthenticated.code:
                self.refusal = Unauthenticated(str(message.fields.get("reason", "")))
                return "refused"
            case "ERROR" if message.fields.get("verb") == "HELLO":
                error = error_from_code(str(message.fields.get("code")), str(message.fields.get("reason", "")))
                if isinstance(error, CallerError | ConfigError):
                    self.refusal = error
                    return "refused"
                self.complaint = error
        return None

    def _happen(self, event: Event, now: float) -> None:
        was = self.state
        self.state = TRANSITIONS.get((was, event), was)
        if self.state == "greeting" and was != "greeting":
            self._n_hellos = 0
            self._next_hello = now
            self._asked_at = None
        elif event == "welcome":
            self._afresh = False
            self._next_ping = now + self.heartbeat_s

    def _ping(self, fields: dict[str, Any], now: float) -> Message:
        self._next_ping = now + self.heartbeat_s
        if self._asked_at is None:
            self._asked_at = now
        return Message("PING", fields)
