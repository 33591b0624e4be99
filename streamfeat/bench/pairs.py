"""`streamfeat bench verify`: every pair of many rows judged, beside the products of the same pairs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bench.turns import Run, spread_of
from streamfeat.learn.pairs import BLOCK, Corners, Pairs
from streamfeat.learn.verification import unit_rows, verify
from streamfeat.threads import in_threads, one_blas_thread

Say = Callable[[str], None]
Report = dict[str, Any]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    """Rows about the place of their label; 10^9 pairs."""

    n_rows: int = 44_722
    d: int = 64
    n_labels: int = 3000
    n_turns: int = 3


QUICK = Plan(n_rows=10_000, n_labels=700)


def bench_pairs(plan: Plan, say: Say) -> Report:
    """Time of `verify` and of sgemm over the same blocks in as many threads, turn about.

    Returns
    -------
    dict
        "pairs", "d", "n_threads"; of "verify" and of "sgemm" the "wall_s" and "cpu_s" of the quickest turn; "ratio" of
        the wall clock and "cpu_ratio" of the process's CPU time, turn by turn, {"median", "min", "max"}.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, plan.n_labels, plan.n_rows)
    X = rng.standard_normal((plan.n_labels, plan.d))[labels] + 1.5 * rng.standard_normal((plan.n_rows, plan.d))
    rows = X.astype(np.float32)
    pairs = Pairs(unit_rows(rows), labels)
    runs: dict[str, Run] = {"verify": lambda: verify(rows, labels), "sgemm": lambda: products(pairs)}
    taken = _taken(runs, plan.n_turns, say)
    both = list(zip(taken["verify"], taken["sgemm"], strict=True))
    quickest = {name: np.min(spent, axis=0).round(3).tolist() for name, spent in taken.items()}
    return {
        "pairs": len(pairs),
        "d": plan.d,
        "n_threads": len(pairs.shares()),
        **{name: {"wall_s": wall, "cpu_s": cpu} for name, (wall, cpu) in quickest.items()},
        "ratio": spread_of([ours[0] / theirs[0] for ours, theirs in both]),
        "cpu_ratio": spread_of([ours[1] / theirs[1] for ours, theirs in both]),
    }


def _taken(runs: Mapping[str, Run], n_turns: int, say: Say) -> dict[str, list[tuple[float, float]]]:
    """Seconds of the wall clock and of the process in each turn of each run, after one that is not counted."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for turn in range(n_turns + 1):
        for name, run in runs.items():
            say(f"turn {turn} of {n_turns}: {name}")
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            if turn > 0:
                taken[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return taken


def products(pairs: Pairs) -> None:
    """Nothing but the products of each block of pairs, shared among threads as `Pairs.scan` shares them."""
    rows = pairs.U.astype(np.float32)

    def multiply(share: Corners) -> None:
        room = np.empty((BLOCK, BLOCK), np.float32)
        for top, left in share:
            a, b = rows[top : top + BLOCK], rows[left : left + BLOCK]
            np.matmul(a, b.T, out=room[: len(a), : len(b)])

    shares = pairs.shares()
    with one_blas_thread():
        list(in_threads(multiply, shares, len(shares)))
