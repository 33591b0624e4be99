"""Fuzzing of the wire: golden frames, mutated, against the codec and against a broker that runs.

    scripts/fuzz-frames [codec|live ...] [--frames 1000000 | --seconds S] [--seed N]

A mutant has a byte changed, a frame cut, doubled, swapped or too many, or a good header in which one value is another:
these get past the parser and reach what decides. `live` starts a broker and a worker and talks to both of the broker's
doors, with the frames, and with bytes that are no frames. It fails when a process ends, when an answer cannot be
decoded or is an error without a name, when the broker falls silent, or when it grows. The last batch is then saved.
"""

from __future__ import annotations

import argparse
import copy
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import zmq

from streamfeat.errors import CallerError
from streamfeat.trials.usage import sample_of
from streamfeat.wire.codec import decode, encode, encode_parts, glimpse
from streamfeat.wire.messages import FROM_BROKER, Message
from tests.cluster import Cluster, cluster
from tests.fuzz import mutate
from tests.golden import EXAMPLES

BATCH = 100
"""Mutants sent before an answer is waited for: far below what a socket queues."""

FOLDER = Path()
"""Where messages that fail are saved."""

ANSWER_S = 20.0
MOST_GROWN = 16 << 20
"""Of the broker, between a quarter of the way and the end: what its allocator may still move by."""

SETTLED = 5000
"""Frames until the broker has compiled its schemas and filled its lists of what it remembers."""

FOR_THE_WORKER = Message(
    "REQUEST", {**EXAMPLES["REQUEST"].fields, "bank": "echo", "route": ["features"]}, EXAMPLES["REQUEST"].items
)
GOLDEN = [[bytes(frame) for frame in encode(message)] for message in (*EXAMPLES.values(), FOR_THE_WORKER)]
PIECES = [frame for frames in GOLDEN for frame in frames]
ODD: list[Any] = [
    *(None, True, -1, 0, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, float("nan"), float("inf"), 1e300),
    *("", "x", "x" * 300, "\0", "../../etc", "\udcff", b"", b"\xff", [], {}, [[]], [0, 1], {"": None}, {"id": 1}),
    *(["features"], ["features"] * 9, "features:x", "fit:digits", msgpack.ExtType(4, b"x")),
]


def mutant(rng: random.Random) -> list[bytes]:
    """A golden message, changed."""
    frames = list(rng.choice(GOLDEN))
    if rng.random() < 0.5:
        frames[2] = other_value(frames[2], rng)
    if rng.random() < 0.5:
        at = rng.randrange(len(frames))
        frames[at] = mutate(frames[at], PIECES, rng)
    if rng.random() < 0.2:
        change_frames(frames, rng)
    return frames


def other_value(header: bytes, rng: random.Random) -> bytes:
    """The header with one or two of its values, at any depth, replaced or gone."""
    tree = msgpack.unpackb(header)
    for _ in range(rng.randint(1, 2)):
        node = tree
        while node:
            key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
            if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
                node = node[key]
                continue
            if rng.random() < 0.2:
                del node[key]
            else:
                node[key] = copy.deepcopy(rng.choice(ODD))
            break
    return bytes(msgpack.packb(tree, unicode_errors="surrogatepass"))


def change_frames(frames: list[bytes], rng: random.Random) -> None:
    """Frames gone, twice, in another order, or too many."""
    at, kind = rng.randrange(len(frames)), rng.randrange(5)
    if kind == 0 and len(frames) > 1:
        del frames[at]
    elif kind == 1:
        frames.insert(at, frames[at])
    elif kind == 2:
        rng.shuffle(frames)
    elif kind == 3:
        frames.insert(at, rng.choice(PIECES))
    else:
        frames += [rng.randbytes(rng.randrange(4))] * rng.choice([1, 30, 1000])


def on_the_line(frames: Sequence[bytes]) -> bytes:
    """The bytes by which ZeroMQ sends them: greeting, READY, and each frame with its flags and length."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
    ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
    line = greeting + b"\x04" + bytes([len(ready)]) + ready
    for n, frame in enumerate(frames, 1):
        line += bytes([2 + (n < len(frames))]) + len(frame).to_bytes(8, "big") + frame
    return line


# --- the codec --------------------------------------------------------------------------------------------------------


def try_codec(frames: Sequence[bytes]) -> bool:
    """Whether they are a message. What is one can be sent on; what is none is refused, and said so of its ids."""
    glimpse(frames)
    try:
        message = decode(frames)
    except CallerError:
        return False
    encode_parts(message)
    return True


def fuzz_codec(goes_on: Callable[[int], bool], rng: random.Random) -> dict[str, Any]:
    """Mutants through the codec; how many there were, and how many were messages still."""
    n = accepted = 0
    before = own_rss()
    while goes_on(n):
        frames = mutant(rng)
        try:
            accepted += try_codec(frames)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}; {save([frames])}") from error
        n += 1
        before = own_rss() if n == SETTLED else before
    return {"frames": n, "messages": accepted, "grown_mib": round((own_rss() - before) / (1 << 20), 1)}


def own_rss() -> int:
    """Resident bytes of this process."""
    return sample_of(int(Path("/proc/self").resolve().name), 0).rss


# --- a broker that runs -----------------------------------------------------------------------------------------------


@dataclass
class Intruder:
    """A peer at one door of the broker that says anything."""

    endpoint: str
    socket: zmq.Socket[bytes]
    heard: Counter[str] = field(default_factory=Counter)
    n_fences: int = 1 << 40

    def batch(self, many: Sequence[Sequence[bytes]]) -> None:
        """Send them all, and hear what there is to hear until the broker has come to the end."""
        for frames in many:
            self.socket.send_multipart(frames)
        self.n_fences += 1
        fence = msgpack.packb({"items": [{"id": self.n_fences}]})  # broken, so it is answered with its id at both doors
        self.socket.send_multipart([b"SF1", b"REPLY", fence, b"surplus"])
        deadline = time.monotonic() + ANSWER_S
        while not self.hears(self.n_fences):
            assert time.monotonic() < deadline, f"no answer within {ANSWER_S} s, heard {dict(self.heard)}"

    def hears(self, fence: int) -> bool:
        """Take the next answer, if there is one; whether it is the one about that fence."""
        if not self.socket.poll(1000):
            return False
        message = decode(self.socket.recv_multipart())
        assert message.verb in FROM_BROKER, message
        errors = [message.fields] if message.verb == "ERROR" else [i.fields.get("error") for i in message.items]
        for error in filter(None, errors):
            assert error["code"] != "INTERNAL", error["reason"]
            self.heard[error["code"]] += 1
        self.heard[message.verb] += 1
        return message.verb == "ERROR" and fence in message.fields.get("ids", ())

    def noise(self, frames: Sequence[bytes], rng: random.Random) -> None:
        """A connection of its own that breaks the rules of ZeroMQ itself."""
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(1.0)
            raw.connect(self.endpoint.removeprefix("ipc://"))
            try:
                raw.sendall(mutate(on_the_line(frames), PIECES, rng))
            except (BrokenPipeError, ConnectionResetError):
                self.heard["cut off"] += 1  # as it should be


def fuzz_live(goes_on: Callable[[int], bool], rng: random.Random) -> dict[str, Any]:
    """Mutants at both doors of a broker with a worker behind it; what was heard, and what the broker grew by."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with cluster() as fleet, context:
        fleet.start_broker("--heartbeat-ms", "500")
        fleet.start_echo("echo-1")
        fleet.wait_ready("echo-1")
        doors = []
        for endpoint in (fleet.front, fleet.back):
            doors.append(Intruder(endpoint, context.socket(zmq.DEALER)))
            doors[-1].socket.linger = 0
            doors[-1].socket.connect(endpoint)
        n, rss = 0, [broker_rss(fleet)]
        while goes_on(n):
            door, many = doors[n // BATCH % 2], [mutant(rng) for _ in range(BATCH)]
            try:
                door.noise(many[0], rng)
                door.batch(many)
                for name, process in fleet.processes.items():
                    assert process.poll() is None, f"{name} ended with {process.poll()}: {fleet.log(name)[-3000:]}"
            except Exception as error:
                raise AssertionError(
                    f"{type(error).__name__}: {error}; {save(many)}; {fleet.log('broker')[-2000:]}"
                ) from error
            n += BATCH
            rss.append(broker_rss(fleet))
        for door in doors:
            door.socket.close()
        fleet.wait_ready("echo-1")  # and it serves
        assert "Traceback" not in fleet.log("broker") + fleet.log("echo-1")
    settled = min(SETTLED // BATCH, len(rss) // 2)
    grown = rss[-1] - max(rss[: settled + 1])
    assert grown < MOST_GROWN, f"the broker grew by {grown >> 20} MiB in {n} frames"
    heard = sum((door.heard for door in doors), Counter())
    rss_mib = [round(value / (1 << 20), 1) for value in (rss[0], rss[settled], rss[-1])]
    return {"frames": n, "rss_mib": rss_mib, "heard": dict(heard.most_common())}


def broker_rss(fleet: Cluster) -> int:
    """Resident bytes of the broker."""
    return sample_of(fleet.processes["broker"].pid, 0).rss


# --- the command ------------------------------------------------------------------------------------------------------


def save(many: Sequence[Sequence[bytes]]) -> str:
    """Where these messages are now: a msgpack list of lists of frames."""
    file = FOLDER / "fuzz-frames.msgpack"
    file.write_bytes(msgpack.packb([list(frames) for frames in many]))
    return f"the last messages are in {file.resolve()}"


TARGETS = {"codec": fuzz_codec, "live": fuzz_live}


def limit(frames: int | None, seconds: float | None) -> Callable[[int], bool]:
    """Goes on until so many frames, or for so long from now."""
    until = time.monotonic() + (float("inf") if seconds is None else seconds)
    return lambda n: (frames is None or n < frames) and time.monotonic() < until


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="of codec, live; both when none is given")
    parser.add_argument("--frames", type=int, metavar="N", help="messages for each target; a million, unless --seconds")
    parser.add_argument("--seconds", type=float, metavar="S", help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"targets are {', '.join(TARGETS)}, got {', '.join(sorted(unknown))}")
    frames = 1_000_000 if given.frames is None and given.seconds is None else given.frames
    for name in given.targets or TARGETS:
        began = time.monotonic()
        found = TARGETS[name](limit(frames, given.seconds), random.Random(given.seed))
        print(f"{name}: {found} in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
