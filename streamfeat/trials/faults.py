"""What is done to a fleet, to whom and when: decided by `now` and a seed, without a clock or a process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["kill", "segfault", "freeze", "thaw"]
"""SIGKILL, SIGSEGV, SIGSTOP, and the SIGCONT that ends it."""

KILL_EVERY_S = 2.0
FREEZES_S = (0.5, 4.0)
"""Shorter than three heartbeats, so that nobody notices, and longer, so that what it answers afterwards is late."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing done to one member."""

    kind: Kind
    member: str


class Faults:
    """A kill every two seconds, and half-way between two of them a segfault or a freeze, in turn.

    Who is struck is at work, and was spared of that kind of fault for longest. A fault that finds nobody at work, as on
    a machine that takes long to start processes, waits for the first who is back.

    Parameters
    ----------
    members : sequence of str
    seed : int
        Of the order of the first round.
    now : float
        When the first two seconds begin.
    """

    def __init__(self, members: Sequence[str], seed: int, now: float) -> None:
        self.counts: Counter[str] = Counter()
        shuffle = random.Random(seed)  # noqa: S311 - a reproducible order, no secret
        kinds: tuple[Kind, ...] = ("kill", "segfault", "freeze")
        self._next_victims = {kind: shuffle.sample(members, len(members)) for kind in kinds}
        self._next_kill = now + KILL_EVERY_S
        self._next_other = now + KILL_EVERY_S / 2
        self._n_others = 0
        self._frozen: dict[str, float] = {}

    def due(self, now: float, at_work: Collection[str]) -> list[Fault]:
        """What is to be done by now, given who is at work; the caller does it."""
        faults = [self._thaw(member) for member, until in tuple(self._frozen.items()) if until <= now]
        if now >= self._next_kill and (victim := self._choose("kill", at_work)):
            self._next_kill = _after(self._next_kill, now)
            self._frozen.pop(victim, None)
            faults.append(Fault("kill", victim))
        kind: Kind = "segfault" if self._n_others % 2 else "freeze"
        struck = {fault.member for fault in faults} | set(self._frozen)
        if now >= self._next_other and (victim := self._choose(kind, set(at_work) - struck)):
            self._next_other = _after(self._next_other, now)
            if kind == "freeze":
                self._frozen[victim] = now + FREEZES_S[self._n_others // 2 % 2]
            self._n_others += 1
            faults.append(Fault(kind, victim))
        self.counts.update(fault.kind for fault in faults if fault.kind != "thaw")
        return faults

    def end(self) -> list[Fault]:
        """No more faults: the thaws that are left."""
        return [self._thaw(member) for member in tuple(self._frozen)]

    def _thaw(self, member: str) -> Fault:
        del self._frozen[member]
        return Fault("thaw", member)

    def _choose(self, kind: Kind, at_work: Collection[str]) -> str | None:
        order = self._next_victims[kind]
        victim = next((member for member in order if member in at_work), None)
        if victim is not None:
            order.remove(victim)
            order.append(victim)
        return victim


def _after(due: float, now: float) -> float:
    """The next time: in step, unless this one had to wait for so long that the step is lost."""
    return due + KILL_EVERY_S if now < due + KILL_EVERY_S else now + KILL_EVERY_S
