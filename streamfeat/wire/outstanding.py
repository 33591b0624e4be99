"""A client's open items: what waits for credit, what is with the broker, what must be asked again.

No socket and no clock. An item is `waiting` (to be sent, perhaps not before a moment) or `sent`, and ends exactly once
as an `Outcome`: the reply, or an error. It ends at its deadline even if the broker is gone. Ids are never reused, so
asking again after a reconnection is harmless: the broker answers a known id from its reply cache, and what it answers
twice is counted and dropped here.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamfeat.errors import (
    Cancelled,
    DeadlineExceeded,
    Overloaded,
    StreamfeatError,
    TooLarge,
    Unavailable,
    error_from_code,
)
from streamfeat.wire.messages import Item, Message

GRACE_S = 0.2
"""The broker's own word on a deadline says more than ours, so it gets this much longer."""

MAX_TTL_MS = 86_400_000
"""What the wire takes: a day."""

MIN_PAUSE_MS = 50
MAX_PAUSE_MS = 2000
"""Bounds of the pause before a refused item is offered again; it doubles each time."""

PATIENCE_S = 5.0
"""How long UNAVAILABLE is not believed. A broker that was started again hears from its workers within about four
seconds, and one that drains is replaced; a stage that nobody serves is still reported soon. Of a route that was served
before it is not believed at all: its workers are away together with the broker that knew them, and they come back."""

MOST_ROUTES = 1000

DEFAULT_CREDIT = {"items": 1, "bytes": 1 << 20}
DEFAULT_LIMITS = {"item_bytes": 16 << 20, "message_items": 64, "message_bytes": 64 << 20}


@dataclass(frozen=True, slots=True)
class Errand:
    """What is to be done with items: a route, a bank and options. Items of one errand share a REQUEST."""

    route: tuple[str, ...]
    bank: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Entry:
    """One item until its outcome."""

    id: int
    errand: Errand
    item: Item
    n_bytes: int
    submitted_at: float
    deadline: float
    ticket: Any
    n_refusals: int = 0
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an item ended: `reply` when it was computed, else `error`."""

    ticket: Any
    reply: Item | None
    error: StreamfeatError | None
    latency_s: float


class Outstanding:
    """The open items of one client.

    Parameters
    ----------
    rng : random.Random
        Spreads what is offered again, so that refused clients do not come back in step.
    """

    def __init__(self, rng: random.Random) -> None:
        self.n_late = 0
        """Replies to items that had been given up."""
        self.n_duplicate = 0
        """Replies to items that had been answered."""
        self._rng = rng
        self._next_id = 0
        self._credit: Mapping[str, int] = DEFAULT_CREDIT
        self._limits: Mapping[str, int] = DEFAULT_LIMITS
        self._waiting: deque[Entry] = deque()
        self._pausing: list[tuple[float, int, Entry]] = []
        self._sent: dict[int, Entry] = {}
        self._sent_bytes = 0
        self._open: dict[int, Entry] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._given_up: set[int] = set()
        self._served: set[tuple[str, ...]] = set()  # routes that a broker of this conversation took items for

    def __len__(self) -> int:
        return len(self._open)

    @property
    def credit_items(self) -> int:
        """How many items the broker lets this client have under way."""
        return self._credit["items"]

    def grant(self, terms: Mapping[str, Any]) -> None:
        """Take credit and limits from a WELCOME."""
        self._credit = {**DEFAULT_CREDIT, **terms.get("credit", {})}
        self._limits = {**DEFAULT_LIMITS, **terms.get("limits", {})}

    def submit(self, errand: Errand, item: Item, *, now: float, timeout_s: float, ticket: Any) -> int:
        """Add an item; its id. `ticket` comes back in its outcome.

        Raises
        ------
        TooLarge
            The item is above what the broker takes, or above the whole credit in bytes.
        """
        n_bytes = item.n_bytes
        limit = min(self._limits["item_bytes"], self._limits["message_bytes"], self._credit["bytes"])
        if n_bytes > limit:
            raise TooLarge(f"an item may have {limit} bytes here, this one has {n_bytes}; cut or resample it")
        entry = Entry(
            id=self._next_id,
            errand=errand,
            item=Item({**item.fields, "id": self._next_id}, item.arrays),
            n_bytes=n_bytes,
            submitted_at=now,
            deadline=now + timeout_s,
            ticket=ticket,
        )
        self._next_id += 1
        self._open[entry.id] = entry
        self._waiting.append(entry)
        heapq.heappush(self._deadlines, (entry.deadline, entry.id))
        return entry.id

    def next_request(self, now: float) -> Message | None:
        """A REQUEST with as many waiting items of one errand as credit and limits allow; they count as sent."""
        self._end_pauses(now)
        batch: list[Entry] = []
        n_bytes = 0
        while self._waiting and len(batch) < self._limits["message_items"]:
            entry = self._waiting[0]
            if entry.id not in self._open:
                self._waiting.popleft()
                continue
            if batch and entry.errand is not batch[0].errand:
                break
            n_bytes += entry.n_bytes
            if n_bytes > self._limits["message_bytes"] or not self._has_credit(entry):
                break
            self._mark_sent(self._waiting.popleft())
            batch.append(entry)
        return _request(batch, now) if batch else None

    def put_back(self, request: Message) -> None:
        """The socket did not take it: its items wait again, before all others."""
        self._wait_again(self._sent[item.fields["id"]] for item in request.items)

    def send_again(self) -> None:
        """A new conversation began: whatever is unanswered is asked again, under the same ids."""
        for entry in self._sent.values():
            self._mark_served(entry.errand.route)
        self._wait_again(list(self._sent.values()))

    def hear(self, message: Message, now: float) -> list[Outcome]:
        """What a REPLY or an ERROR ends."""
        if message.verb == "REPLY":
            return [outcome for item in message.items if (outcome := self._reply(item, now)) is not None]
        if message.verb == "ERROR" and message.fields.get("verb", "REQUEST") == "REQUEST":
            ids = message.fields.get("ids")
            named = [e for i in ids if (e := self._open.get(i))] if ids else list(self._sent.values())
            verdict = dict(message.fields)
            return [outcome for entry in named if (outcome := self._refused(entry, verdict, now)) is not None]
        return []

    def expire(self, now: float, why: str) -> tuple[list[Outcome], Message | None]:
        """Items past their deadline, and the CANCEL that spares the fleet their computation."""
        outcomes, ids = [], []
        while self._deadlines and self._deadlines[0][0] + GRACE_S <= now:
            entry = self._open.get(heapq.heappop(self._deadlines)[1])
            if entry is None:
                continue
            was_sent = entry.id in self._sent
            if was_sent:
                ids.append(entry.id)
            timeout_s = entry.deadline - entry.submitted_at
            told = "sent, not answered" if was_sent else "not sent yet"
            error = DeadlineExceeded(f"no answer within {timeout_s:g} s ({told}; {why})")
            outcomes.append(self._end(entry, None, error, now, given_up=True))
        return outcomes, Message("CANCEL", {"ids": ids}) if ids else None

    def cancel(self, ids: Iterable[int], now: float) -> tuple[list[Outcome], Message | None]:
        """Give items up, and the CANCEL to send; replies that still come are dropped."""
        entries = [e for i in ids if (e := self._open.get(i))]
        sent = [e.id for e in entries if e.id in self._sent]
        error = Cancelled("withdrawn by the client")
        outcomes = [self._end(e, None, error, now, given_up=True) for e in entries]
        return outcomes, Message("CANCEL", {"ids": sent}) if sent else None

    def fail(self, entry_id: int, error: StreamfeatError, now: float) -> list[Outcome]:
        """End an item that cannot be sent at all."""
        entry = self._open.get(entry_id)
        return [] if entry is None else [self._end(entry, None, error, now)]

    def open_ids(self) -> list[int]:
        """Ids of all open items, oldest first."""
        return list(self._open)

    def wait_s(self, now: float) -> float:
        """How long until a deadline passes or a pause ends; infinity without either.

        A pause that is over counts no more: what it held up may have no broker to go to, and no time to wait for.
        """
        self._end_pauses(now)
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        moments = [self._deadlines[0][0] + GRACE_S] if self._deadlines else []
        if self._pausing:
            moments.append(self._pausing[0][0])
        return max(0.0, min(moments) - now) if moments else float("inf")

    def _end_pauses(self, now: float) -> None:
        while self._pausing and self._pausing[0][0] <= now:
            self._waiting.append(heapq.heappop(self._pausing)[2])

    def _has_credit(self, entry: Entry) -> bool:
        return len(self._sent) < self._credit["items"] and self._sent_bytes + entry.n_bytes <= self._credit["bytes"]

    def _mark_served(self, route: tuple[str, ...]) -> None:
        if len(self._served) >= MOST_ROUTES:
            self._served.clear()
        self._served.add(route)

    def _mark_sent(self, entry: Entry) -> None:
        self._sent[entry.id] = entry
        self._sent_bytes += entry.n_bytes

    def _mark_unsent(self, entry: Entry) -> None:
        if self._sent.pop(entry.id, None) is not None:
            self._sent_bytes -= entry.n_bytes

    def _wait_again(self, entries: Iterable[Entry]) -> None:
        for entry in sorted(entries, key=lambda e: -e.id):
            self._mark_unsent(entry)
            self._waiting.appendleft(entry)

    def _reply(self, item: Item, now: float) -> Outcome | None:
        entry = self._open.get(item.fields["id"])
        if entry is None:
            late = item.fields["id"] in self._given_up
            self._given_up.discard(item.fields["id"])
            self.n_late += late
            self.n_duplicate += not late
            return None
        if item.fields["ok"]:
            self._mark_served(entry.errand.route)
            return self._end(entry, item, None, now)
        return self._refused(entry, item.fields["error"], now)

    def _refused(self, entry: Entry, verdict: Mapping[str, Any], now: float) -> Outcome | None:
        """The end of an item, unless there was just no room or nobody for it and there is time to offer it again."""
        retry_after_ms = int(verdict.get("retry_after_ms") or 0)
        error = error_from_code(str(verdict.get("code")), str(verdict.get("reason", "")), retry_after_ms)
        if not entry.n_refusals:
            entry.refused_at = now
        if isinstance(error, Overloaded | Unavailable):
            pause_ms = min(max(retry_after_ms, MIN_PAUSE_MS) * 2 ** min(entry.n_refusals, 8), MAX_PAUSE_MS)
            again_at = now + pause_ms / 1000 * self._rng.uniform(0.75, 1.25)
            believed = isinstance(error, Unavailable) and entry.errand.route not in self._served
            until = entry.refused_at + PATIENCE_S if believed else entry.deadline
            if again_at < min(until, entry.deadline):
                entry.n_refusals += 1
                self._mark_unsent(entry)
                heapq.heappush(self._pausing, (again_at, entry.id, entry))
                return None
        return self._end(entry, None, error, now)

    def _end(
        self, entry: Entry, reply: Item | None, error: StreamfeatError | None, now: float, *, given_up: bool = False
    ) -> Outcome:
        if given_up and entry.id in self._sent:
            self._given_up.add(entry.id)
        self._mark_unsent(entry)
        del self._open[entry.id]
        return Outcome(entry.ticket, reply, error, now - entry.submitted_at)


def _request(batch: list[Entry], now: float) -> Message:
    """The time to live is the longest of the batch: each item's own deadline is kept here."""
    errand = batch[0].errand
    fields: dict[str, Any] = {
        "route": list(errand.route),
        "ttl_ms": min(max(1, int((max(e.deadline for e in batch) - now) * 1000)), MAX_TTL_MS),
    }
    if errand.bank is not None:
        fields["bank"] = errand.bank
    if errand.options:
        fields["options"] = dict(errand.options)
    return Message("REQUEST", fields, tuple(e.item for e in batch))
