"""The lease: the broker's note of one accepted item, from the moment it is accepted until nobody holds it.

`TRANSITIONS` is the whole life of a lease; `Lease.move` allows nothing else, and the tests read the same table.

    state     what it means                                          the client     the payload
    queued    waiting for a worker, at its current stage             is waiting     kept
    working   with a worker, under a number of its own               is waiting     kept, to be sent again
    orphaned  with a worker, but nobody waits for the result         was answered   dropped
    done      with nobody                                            was answered   dropped

Each dispatch draws a new number, so what a worker says about an older one is told apart: late, twice, or stray.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from streamfeat.errors import InternalError
from streamfeat.wire.messages import Array

if TYPE_CHECKING:
    from streamfeat.wire.peers import Client, Worker
    from streamfeat.wire.services import Route

State = Literal["queued", "working", "orphaned", "done"]
Event = Literal["dispatch", "advance", "hand back", "lose", "abandon", "finish"]

TRANSITIONS: dict[tuple[State, Event], State] = {
    ("queued", "dispatch"): "working",
    ("queued", "finish"): "done",  # cancelled, past its deadline, or the client left
    ("working", "advance"): "queued",  # this stage is done, the route goes on
    ("working", "hand back"): "queued",  # the worker did not start it: costs no attempt
    ("working", "lose"): "queued",  # the worker went away: one attempt more, and a charge if it may have begun it
    ("working", "finish"): "done",  # the last result, a failure, or quarantined
    ("working", "abandon"): "orphaned",  # answered at its deadline, or the client left
    ("orphaned", "finish"): "done",  # the worker answered after all, handed it back or went away
}


class Served(NamedTuple):
    """An accepted item that was answered: at which stage, with what code, and where its time went."""

    op: str
    bank: str | None
    code: str
    took_s: float
    queue_s: float
    compute_s: float


class Dispatched(NamedTuple):
    """A TASK that a worker was given: its items, what they cost together, and how long the first of them had waited."""

    op: str
    n_items: int
    cost: int
    wait_s: float


class Lease(msgspec.Struct, eq=False):
    """One accepted item: whose it is, where it stands on its route, and who has it.

    `size` is what the item weighs at its current stage, `charge` what it weighed when it came: that much of the
    client's credit is spent until the reply.
    """

    client: Client
    id: int  # the client's
    fields: dict[str, Any]  # as they came, with stream, seq and bank: what workers are told
    arrays: tuple[Array, ...]
    route: Route
    deadline: float
    accepted: float
    order: int  # of acceptance; also the key in queues
    charge: int
    size: int = 0
    state: State = "queued"
    step: int = 0
    number: int = 0  # of the current dispatch
    worker: Worker | None = None
    attempt: int = 1  # one more for each worker that went away with it, over all stages
    lost_with: list[str] = []  # those who may have been computing it, at this stage
    lost: bool = False  # since it was dispatched last
    cost: int = 1  # at its current stage: samples x what each of them meets there
    since: float = 0.0  # when it joined the queue
    ripe: float = 0.0  # until then it may wait there for company
    queue_s: float = 0.0
    compute_ms: float = 0.0

    def move(self, event: Event) -> None:
        """Take the transition, or raise InternalError if the table has none."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise InternalError(f"lease of item {self.id} is {self.state}: no transition {event!r}")
        self.state = state

    @property
    def stage(self) -> str:
        """The stage it stands at."""
        return self.route.stages[self.step]

    @property
    def last_stage(self) -> bool:
        """Whether the route ends here."""
        return self.step + 1 == len(self.route.stages)

    def weigh(self, size: int) -> None:
        """Set `size`, the bytes of the arrays, and `cost` for the stage it has come to."""
        self.size = size
        n_numbers = 0
        for array in self.arrays:  # one as a rule: a generator would cost as much again
            n_numbers += array.n_numbers
        self.cost = max(1, n_numbers) * self.route.work_of(self.stage)

    @property
    def options(self) -> dict[str, Any]:
        """Options concern the last stage; the ones before it batch better without."""
        return self.route.options if self.last_stage else {}

    @property
    def unanswered(self) -> bool:
        """Whether a client still waits for it."""
        return self.state in ("queued", "working")


class Deadlines:
    """Unanswered leases by deadline.

    A heap from which answered leases are not taken out one by one but swept when they are the majority: memory is
    bounded by what is open, not by how long deadlines are.
    """

    _SLACK = 64

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Lease]] = []
        self.n_open = 0

    def add(self, lease: Lease) -> None:
        """Watch a lease that was just accepted."""
        self.n_open += 1
        heapq.heappush(self._heap, (lease.deadline, lease.order, lease))

    def drop(self) -> None:
        """One of the leases was answered; its state says which."""
        self.n_open -= 1
        if len(self._heap) > 2 * self.n_open + self._SLACK:
            self._heap = [entry for entry in self._heap if entry[2].unanswered]
            heapq.heapify(self._heap)

    def due(self, now: float) -> list[Lease]:
        """Take out the unanswered leases whose time is up."""
        leases = []
        while self._heap and self._heap[0][0] <= now:
            lease = heapq.heappop(self._heap)[2]
            if lease.unanswered:
                leases.append(lease)
        return leases

    def next(self) -> float | None:
        """The earliest deadline; that of an answered lease at worst, which wakes somebody for nothing."""
        return self._heap[0][0] if self._heap else None
