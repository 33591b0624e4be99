"""Runs that take turns, so that what a busy machine does to one it does to the others too."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Run = Callable[[], object]
Spread = dict[str, float]


@dataclass(frozen=True)
class Times:
    """What each turn of a run took, for one item: seconds of the thread's own CPU time, and of the wall clock."""

    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]

    @property
    def cpu_ms(self) -> float:
        """The median turn."""
        return 1e3 * statistics.median(self.cpu_s)

    @property
    def wall_ms(self) -> float:
        """The median turn."""
        return 1e3 * statistics.median(self.wall_s)


def take_turns(runs: Mapping[str, tuple[Run, int]], n_turns: int) -> dict[str, Times]:
    """Run each in turn, n times after a turn that is not counted.

    CPU time of the calling thread is what ratios are taken of: nothing here starts a thread, and on two cores that
    others use too the wall clock would measure them.

    Parameters
    ----------
    runs : mapping
        Name -> what is run, and how many items that is.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for turn in range(n_turns + 1):
        for name, (run, n_items) in runs.items():
            wall, cpu = time.perf_counter(), time.thread_time()
            run()
            spent = (time.thread_time() - cpu) / n_items, (time.perf_counter() - wall) / n_items
            if turn > 0:
                taken[name].append(spent)
    return {name: Times(*zip(*pairs, strict=True)) for name, pairs in taken.items()}


def ratio(slow: Times, fast: Times) -> Spread:
    """How many times as long one took as the other, turn by turn."""
    return spread_of([a / b for a, b in zip(slow.cpu_s, fast.cpu_s, strict=True)])


def spread_of(values: Sequence[float]) -> Spread:
    """Their median, min and max."""
    spread = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, 3) for name, value in spread.items()}
