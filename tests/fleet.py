"""A broker with clients and workers around it, without a socket and with a clock that the test turns.

Every message in either direction goes through the codec, so that no test passes on a message that could not travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streamfeat.wire.codec import decode, encode, encode_parts
from streamfeat.wire.messages import Array, Item, Message
from streamfeat.wire.routing import Broker, Outgoing, Side
from streamfeat.wire.settings import BrokerSettings

BANK = "0123456789abcdef" * 4
OTHER_BANK = "fedcba9876543210" * 4
FEATURE = Array.of(np.array([1, 2, 3], "<u2"))


def wave(n: int = 5) -> Array:
    """A waveform of n samples, 2 n bytes."""
    return Array.of(np.zeros(n, "<i2"))


def signal(item_id: int, n: int = 5, **fields: Any) -> Item:
    """A signal item as a client sends it."""
    return Item({"id": item_id, "signal": {"kind": "audio", "rate_hz": 8000}, **fields}, (wave(n),))


def run_of(peer: bytes, n: int = 0) -> str:
    """A run for a peer; another n is another start of the same process."""
    return f"{n:04x}{peer.hex()}".rjust(16, "0")[:64]


class Fleet:
    """The broker under test, its clock, and an inbox for each peer."""

    def __init__(self, **settings: Any) -> None:
        self.now = 100.0
        self.broker = Broker(BrokerSettings(**settings), "b0" * 8, self.now)
        self.inbox: dict[tuple[Side, bytes], list[Message]] = {}

    # --- what peers say ---

    def send(self, side: Side, peer: bytes, message: Message) -> list[Message]:
        """Let the peer say it; what the broker answers to this peer at once."""
        before = len(self.messages(side, peer))
        self.deliver(self.broker.receive(side, peer, decode(encode(message)), self.now))
        return self.messages(side, peer)[before:]

    def client(self, peer: bytes = b"client", n: int = 0) -> bytes:
        """A client that has said HELLO."""
        fields = {"protocol": [1, 1], "role": "client", "peer": run_of(peer, n)}
        self.send("front", peer, Message("HELLO", fields))
        return peer

    def worker(self, name: str = "w1", *, run: int = 0, peer: bytes | None = None, **fields: Any) -> bytes:
        """A worker that has said HELLO: features of BANK with room for 32 items unless told otherwise."""
        peer = f"{name}-{run}".encode() if peer is None else peer
        hello = {
            "protocol": [1, 1],
            "role": "worker",
            "peer": run_of(name.encode(), run),
            "name": name,
            "kind": "features",
            "stages": ["features"],
            "banks": {"digits": BANK},
            "credit": {"items": 32, "bytes": 1_000_000},
        }
        self.send("back", peer, Message("HELLO", {**hello, **fields}))
        return peer

    def learner(self, name: str = "learner", **fields: Any) -> bytes:
        """A worker with state: all models."""
        kinds = ["learn:*", "classify:*", "fit:*"]
        return self.worker(name, **{"kind": "learner", "stages": kinds, "banks": {}, **fields})

    def request(
        self,
        peer: bytes,
        items: Iterable[Item],
        route: Sequence[str] = ("features",),
        ttl_ms: int = 30_000,
        **fields: Any,
    ) -> list[Message]:
        """A REQUEST; what the client hears at once."""
        header = {"route": list(route), "ttl_ms": ttl_ms, **fields}
        return self.send("front", peer, Message("REQUEST", header, tuple(items)))

    def finish(self, worker: bytes, task: Message, **fields: Any) -> None:
        """Let the worker answer a TASK well."""
        items = tuple(good_result(item, task.fields["stage"], **fields) for item in task.items)
        self.send("back", worker, Message("RESULT", {"stage": task.fields["stage"]}, items))

    def finish_all(self, worker: bytes) -> int:
        """Let the worker answer TASKs until it has none; how many items that were."""
        n = 0
        while tasks := self.tasks(worker):
            for task in tasks:
                self.finish(worker, task)
                n += len(task.items)
        return n

    def stream_without_pause(self, client: bytes, workers: Sequence[bytes], rounds: int) -> None:
        """Each worker answers its oldest TASK and has another in hand; the client sends as much as it hears."""
        in_hand: dict[bytes, list[Message]] = {worker: [] for worker in workers}
        for n in range(rounds):
            self.request(client, [signal(1000 + 4 * n + m) for m in range(4)], options={"of": "many"})
            for worker in workers:
                in_hand[worker] += self.tasks(worker)
                if in_hand[worker]:
                    self.finish(worker, in_hand[worker].pop(0))

    # --- what happens ---

    def pass_time(self, seconds: float, alive: Iterable[bytes] = ()) -> None:
        """Turn the clock in steps of a quarter of a second; workers named here keep pinging."""
        for _ in range(round(seconds * 4)):
            self.now += 0.25
            for peer in alive:
                self.send("back", peer, Message("PING"))
            self.tick()

    def tick(self) -> None:
        """What follows from the time."""
        self.deliver(self.broker.tick(self.now))

    def lose(self, side: Side, peer: bytes) -> None:
        """A message to the peer could not be sent."""
        self.deliver(self.broker.lost(side, peer, self.now))

    def deliver(self, outgoing: Iterable[Outgoing]) -> None:
        """Put messages into inboxes, by way of the codec."""
        for side, peer, message in outgoing:
            self.inbox.setdefault((side, peer), []).extend(map(decode, encode_parts(message)))

    # --- what peers have heard ---

    def messages(self, side: Side, peer: bytes) -> list[Message]:
        """All that the peer has been sent, oldest first."""
        return self.inbox.setdefault((side, peer), [])

    def tasks(self, worker: bytes) -> list[Message]:
        """Take the worker's TASKs out of its inbox."""
        inbox = self.messages("back", worker)
        tasks = [m for m in inbox if m.verb == "TASK"]
        inbox[:] = [m for m in inbox if m.verb != "TASK"]
        return tasks

    def replies(self, client: bytes) -> dict[int, list[Item]]:
        """Every reply the client has had, by its id."""
        replies: dict[int, list[Item]] = {}
        for message in self.messages("front", client):
            if message.verb == "REPLY":
                for item in message.items:
                    replies.setdefault(item.fields["id"], []).append(item)
        return replies

    def outcome(self, client: bytes) -> dict[int, str]:
        """Kind or error code of each reply; an id answered twice fails."""
        outcome = {}
        for item_id, items in self.replies(client).items():
            assert len(items) == 1, f"item {item_id} was answered {len(items)} times"
            fields = items[0].fields
            outcome[item_id] = fields["kind"] if fields["ok"] else fields["error"]["code"]
        return outcome

    def count(self, name: str) -> int:
        """A counter of the report."""
        value = self.broker.report(self.now)[name]
        assert isinstance(value, int)
        return value


def good_result(item: Item, stage: str, **fields: Any) -> Item:
    """What a healthy worker answers at this stage."""
    kind = stage.partition(":")[0]
    common = {"id": item.fields["id"], "ok": True, "compute_ms": 1.5}
    by_kind: dict[str, dict[str, Any]] = {
        "features": {"kind": "features", "bank": item.fields.get("bank")},
        "classify": {"kind": "label", "label": "nine", "score": 0.5},
        "learn": {"kind": "committed", "stream": item.fields["stream"], "seq": item.fields["seq"], "duplicate": False},
        "insert": {"kind": "committed", "stream": item.fields["stream"], "seq": item.fields["seq"], "duplicate": False},
        "fit": {"kind": "fit", "lam": 1.0, "n_items": 3, "n_classes": 2, "accuracy": 0.5, "criterion": "loo"},
        "search": {"kind": "neighbours", "labels": ["nine"]},
    }
    return Item({**common, **by_kind[kind], **fields}, (FEATURE,) if kind == "features" else ())


def error_of(messages: list[Message]) -> tuple[str, str]:
    """Code and reason of the single ERROR."""
    [message] = messages
    assert message.verb == "ERROR"
    return message.fields["code"], message.fields["reason"]
