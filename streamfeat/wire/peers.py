"""Who the broker knows: clients and workers, and the credit each has left.

A peer has an address (its ROUTER identity, where messages go) and a run (drawn when its process started, who it is).
A client that reconnects under another address is the same run, and its items are still its own. A worker that is
restarted is another run under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfeat.wire.leases import Lease


@dataclass(eq=False, slots=True)
class Client:
    """A client and what it waits for: `n_bytes` is the credit that this takes, `held` the payload at its stages."""

    address: bytes
    run: str
    heard: float
    alive_until: float
    software: str = ""
    leases: dict[int, Lease] = field(default_factory=dict)  # by the client's id, in order of acceptance
    n_bytes: int = 0
    held: int = 0
    probed: float = 0.0  # when it was last asked whether it is there


@dataclass(eq=False, slots=True)
class Worker:
    """A worker and what it has under way; the broker keeps within the credit that the worker granted."""

    address: bytes
    run: str
    name: str
    kind: str
    announced: tuple[str, ...]
    banks: dict[str, str]
    credit_items: int
    credit_bytes: int
    heard: float
    alive_until: float
    work: dict[str, int] = field(default_factory=dict)  # hash of a bank -> moved templates that a sample meets in it
    in_hand: int | None = None  # so many of the oldest leases may be under computation; None: all
    pid: int | None = None
    host: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # what else it said of itself: for people
    draining: bool = False  # on its own word: it will leave
    resting: bool = False  # on an operator's: it will come back
    alone: bool = False  # has an item that must have the worker to itself
    leases: dict[int, Lease] = field(default_factory=dict)  # by number, in order of dispatch
    n_bytes: int = 0
    n_tasks: int = 0
    stages: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        named = {stage for stage in self.announced if stage != "features"}
        if "features" in self.announced:
            named |= {f"features:{digest}" for digest in self.banks.values()}
        self.stages = frozenset(named)

    def serves(self, stage: str) -> bool:
        """Whether the worker announced this stage, by name or as KIND:*."""
        return serves(self.stages, stage)

    def shares_stage(self, stages: frozenset[str]) -> str | None:
        """A stage that both would serve and only one may; features may be served by many."""
        for stage in sorted(stages):
            if not stage.startswith("features:") and (
                self.serves(stage) or any(serves(stages, s) for s in self.stages)
            ):
                return stage
        return None

    @property
    def free_items(self) -> int:
        """Items it may still be given."""
        return self.credit_items - len(self.leases)

    def fits(self, size: int) -> bool:
        """Whether an item of that size is within the credit; an idle worker gets one however large it is."""
        return not self.leases or self.n_bytes + size <= self.credit_bytes

    def begun(self) -> frozenset[int]:
        """Numbers of the leases that it may be computing; it goes by the order in which it got them."""
        return frozenset(islice(self.leases, self.in_hand))

    def take_over(self, other: Worker) -> None:
        """What the same worker had when it said HELLO before."""
        self.leases, self.n_bytes, self.alone = other.leases, other.n_bytes, other.alone
        self.n_tasks, self.resting = other.n_tasks, other.resting
        for lease in self.leases.values():
            lease.worker = self

    def take(self, number: int, lease: Lease) -> None:
        """Note that the worker has the lease."""
        self.leases[number] = lease
        self.n_bytes += lease.size

    def release(self, number: int) -> Lease | None:
        """Take the lease back; None if the worker does not have it."""
        lease = self.leases.pop(number, None)
        if lease is not None:
            self.n_bytes -= lease.size
            self.alone = self.alone and bool(self.leases)
        return lease


def serves(stages: frozenset[str] | set[str], stage: str) -> bool:
    """Whether the stage is among these, by its own name or by KIND:*."""
    return stage in stages or f"{stage.partition(':')[0]}:*" in stages
