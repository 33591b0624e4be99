"""`streamfeat bench fleet`: what a fleet costs beside the same computation in this process, on the same two cores."""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.bankspec import BankSpec
from streamfeat.bench.load import closed_loop, open_loop, poisson
from streamfeat.bench.turns import spread_of
from streamfeat.client import PULL, WINDOW, Client, Job
from streamfeat.config import Settings
from streamfeat.connection import Connection
from streamfeat.featuremap import FeatureMap
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.presets import preset_signals
from streamfeat.signals import Signal
from streamfeat.threads import in_threads, one_blas_thread
from streamfeat.trials.usage import sample_of

Say = Callable[[str], None]
Report = dict[str, Any]

N_CORES = 2
"""Cores, feature workers, and threads in this process."""

ITEM_S = 1.0
"""Length of an utterance."""

TINY: dict[str, Any] = {
    "name": "bench-tiny",
    "front_end": [{"stage": "pixels", "height": 28, "width": 28}],
    "templates": {"source": "fourier", "m": 16},
    "pooling": {"kind": "fourier", "sigma": 0.5},
}
"""A bank that costs next to nothing, so that many items pass."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Plan:
    """How much is run: (what, preset, items a burst); turns; loads of the open loop against the closed one's rate."""

    kinds: tuple[tuple[str, str, int], ...] = (("image", "digits-image", 2048), ("audio", "digits-audio", 1024))
    n_turns: int = 9
    n_single: int = 400
    windows: tuple[int, ...] = (1, 8, 32)
    loads: tuple[float, ...] = (0.25, 0.5, 0.8)
    n_memory: tuple[int, int] | None = (10_000, 100_000)
    """Items after which memory is read."""


QUICK = Plan(
    kinds=(("image", "digits-image", 256), ("audio", "digits-audio", 128)),
    n_turns=3,
    n_single=50,
    windows=(1,),
    loads=(0.5,),
    n_memory=None,
)


def bench_fleet(plan: Plan, say: Say) -> Report:
    """Broker and two workers beside two threads of this process; latency under load; memory over many items.

    Returns
    -------
    dict
        "image" and "audio", each with `fleet_vs_inprocess` (rate over rate, median of turns; `ratio` has its spread),
        `cpu_vs_inprocess` (CPU time in this process over that of the whole fleet and the client), `p50_added_ms` (what
        single items take beyond computing), "closed" and "open", a row a window or load; "memory": MiB of each process.
    """
    begun = time.perf_counter()
    report: Report = {}
    with two_cores(), one_blas_thread(), tempfile.TemporaryDirectory(prefix="streamfeat-bench-") as folder:
        for what, preset, n_items in plan.kinds:
            say(f"{what}: building {preset}")
            bank = FeatureMap.fit(preset, preset_signals(preset)).bank.save(Path(folder))
            with _fleet(bank, Path(folder)) as fleet:
                jobs = [Job(signal) for signal in items_of(what, n_items)]
                report[what] = {"bank": preset, **_measured(fleet, FeatureMap.open(bank), jobs, plan, say)}
        if plan.n_memory is not None:
            say("memory: many items")
            bank = FeatureMap.fit(BankSpec.from_dict(TINY)).bank.save(Path(folder))
            with _fleet(bank, Path(folder)) as fleet:
                report["memory"] = _memory(fleet, plan.n_memory)
    report["load_average"] = round(os.getloadavg()[1], 1)
    report["wall_s"] = round(time.perf_counter() - begun, 1)
    return report


@contextmanager
def two_cores() -> Iterator[None]:
    """This process, and those it starts, on the first two of its cores."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(own)[:N_CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


@contextmanager
def _fleet(bank: Path, folder: Path) -> Iterator[LocalFleet]:
    with (
        private_settings(Settings()) as settings,
        LocalFleet(settings, [bank], n_workers=N_CORES, log_dir=folder / "log") as fleet,
    ):
        yield fleet


def items_of(what: str, n: int) -> list[Signal]:
    """n digits of 28 x 28, or n utterances of `ITEM_S`: recordings one after the other."""
    if what == "image":
        some = preset_signals("digits-image")
    else:
        words = preset_signals("digits-audio")
        rate_hz = words[0].rate_hz or 0
        said = np.concatenate([word.samples for word in words])
        pieces = np.split(said[: len(said) // rate_hz * rate_hz], len(said) // rate_hz)
        some = [Signal("audio", piece, rate_hz, f"second {i}") for i, piece in enumerate(pieces)]
    return [some[i % len(some)] for i in range(n)]


def _measured(fleet: LocalFleet, fmap: FeatureMap, jobs: Sequence[Job], plan: Plan, say: Say) -> Report:
    fmap.warm()
    with Client(fleet.front) as client:
        closed_loop(client, jobs[: 4 * WINDOW])
        say("fleet and this process, turn about")
        figures = _against_in_process(fleet, client, fmap, jobs, plan.n_turns)
        say("one item at a time")
        figures["p50_added_ms"] = round(closed_loop(client, jobs[: plan.n_single], 1).added_ms, 3)
        figures["closed"] = []
        for window in (*plan.windows, WINDOW):
            some = jobs if window >= PULL else jobs[: plan.n_single]
            figures["closed"].append({"window": window, **closed_loop(client, some, window).figures()})
    say("Poisson arrivals")
    figures["open"] = _under_load(fleet, jobs, figures["fleet_items_per_s"], plan.loads)
    return figures


def _against_in_process(
    fleet: LocalFleet, client: Client, fmap: FeatureMap, jobs: Sequence[Job], n_turns: int
) -> Report:
    """The same items through the fleet and through threads here, turn about."""
    signals = [job.payload for job in jobs if isinstance(job.payload, Signal)]
    parts = [signals[first : first + PULL] for first in range(0, len(signals), PULL)]
    walls, cpus = [], []
    for _ in range(n_turns):
        members, own = sum(map(cpu_s, fleet.pids.values())), time.process_time()
        there_s = closed_loop(client, jobs).wall_s
        there_cpu_s = sum(map(cpu_s, fleet.pids.values())) - members + time.process_time() - own
        begun, own = time.perf_counter(), time.process_time()
        for _features in in_threads(fmap.transform, parts, N_CORES):
            pass
        walls.append((there_s, time.perf_counter() - begun))
        cpus.append((there_cpu_s, time.process_time() - own))
    ratio = spread_of([here / there for there, here in walls])
    n = len(jobs)
    return {
        "fleet_vs_inprocess": ratio["median"],
        "ratio": ratio,
        "cpu_vs_inprocess": spread_of([here / there for there, here in cpus])["median"],
        "fleet_items_per_s": round(n / statistics.median(there for there, _ in walls), 1),
        "inprocess_items_per_s": round(n / statistics.median(here for _, here in walls), 1),
        "fleet_cpu_ms": round(1e3 * statistics.median(there for there, _ in cpus) / n, 4),
        "inprocess_cpu_ms": round(1e3 * statistics.median(here for _, here in cpus) / n, 4),
    }


def _under_load(fleet: LocalFleet, jobs: Sequence[Job], full_rate: float, loads: Sequence[float]) -> list[Report]:
    rng = np.random.default_rng(0)
    connection = Connection(fleet.front, connect_timeout_s=5.0, peer=secrets.token_hex(8))
    connection.connect()
    try:
        rows = []
        for load in loads:
            due_s = poisson(len(jobs), load * full_rate, rng)
            heard = open_loop(connection, jobs, due_s, timeout_s=30.0)
            rows.append({"load": load, "offered_per_s": round(load * full_rate, 1), **heard.figures()})
        return rows
    finally:
        connection.close()


def _memory(fleet: LocalFleet, n_items: tuple[int, int]) -> Report:
    """MiB of each process after the first and after the last of many items."""
    jobs = [Job(signal) for signal in items_of("image", 256)]
    seen: dict[str, list[float]] = {}
    n_sent = 0
    with Client(fleet.front) as client:
        for n in n_items:
            for result in client.stream((jobs[i % len(jobs)] for i in range(n_sent, n)), ordered=False):
                if result.error is not None:
                    raise result.error
            n_sent = n
            for name, pid in {**fleet.pids, "client": os.getpid()}.items():
                seen.setdefault(name, []).append(round(sample_of(pid, n).rss / (1 << 20), 2))
    return {
        name: {"mib": mib, "after_items": list(n_items), "growth": round(mib[1] / mib[0] - 1, 4)}
        for name, mib in seen.items()
    }


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, all threads, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S
