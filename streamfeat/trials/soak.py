"""A fleet at full load for a long time; memory, files and threads of every process must stay flat.

    scripts/soak                       15 minutes
    scripts/soak --hours 8 --json soak.json

The same items go round and round: computed, learned and inserted again under the same keys, and searched for; so what
learner and index hold does not grow after the first round, and nothing else may.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from streamfeat.client import Client, Job
from streamfeat.config import load_settings
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.trials.legs import NAME, ROUTES
from streamfeat.trials.usage import Sample, sample_of, trend
from streamfeat.trials.workload import Workload
from streamfeat.wire.settings import BrokerSettings

N_WORKERS = 2
N_ITEMS = 500
SAMPLES = 100
LAST_ANSWERS_S = 30.0

WARM_ITEMS = 3 * BrokerSettings().cached_replies // 2
WARM_S = 120.0
"""Before the first sample: the broker's memory of replies is full by then, or the time is up."""


class Load(threading.Thread):
    """One client that sends the items round and round along a route until told to stop."""

    def __init__(self, front: str, workload: Workload, route: str, stop: threading.Event) -> None:
        super().__init__(name=route, daemon=True)
        self._front, self._workload, self._stop_asked = front, workload, stop
        self.route = route
        self.n_answered = 0
        self.failure: str | None = None

    def run(self) -> None:
        """Count answers; the first that is an error ends the load."""
        try:
            with Client(self._front) as client:
                for result in client.stream(self._jobs(), route=self.route, ordered=False):
                    if result.error is not None:
                        raise result.error
                    self.n_answered += 1
        except Exception as error:
            self.failure = f"{self.route}: {error!r}"

    def _jobs(self) -> Iterator[Job]:
        for n in itertools.cycle(range(len(self._workload))):
            if self._stop_asked.is_set():
                return
            yield self._workload.job(n)


def run_soak(seconds: float) -> dict[str, Any]:
    """One trial in a fleet of its own.

    Returns
    -------
    dict
        seconds, answered, items_per_s, failures, processes (by name, see `usage.trend`), passed.
    """
    with private_settings(load_settings({})) as settings:
        home = Path(settings.fleet.run_dir)
        workload = Workload(N_ITEMS, home / "banks")
        with LocalFleet(settings, [workload.bank], n_workers=N_WORKERS, learner=True, index=True) as fleet:
            with Client(fleet.front) as client:  # so that there is something to search in
                client.insert((workload.job(n) for n in range(N_ITEMS)), NAME)
            return _soak(fleet, workload, seconds)


def _soak(fleet: LocalFleet, workload: Workload, seconds: float) -> dict[str, Any]:
    stop = threading.Event()
    loads = [Load(fleet.front, workload, route, stop) for route in (*ROUTES, f"features > search:{NAME}")]
    pids = fleet.pids
    samples: dict[str, list[Sample]] = {name: [] for name in pids}
    for load in loads:
        load.start()

    def whole(until: float) -> bool:
        return time.monotonic() < until and not fleet.fallen() and all(load.is_alive() for load in loads)

    begun = time.monotonic()
    while whole(begun + WARM_S) and sum(load.n_answered for load in loads) < WARM_ITEMS:
        time.sleep(seconds / SAMPLES)
    sampled = time.monotonic()
    while whole(sampled + seconds):
        n_answered = sum(load.n_answered for load in loads)
        for name, pid in pids.items():
            samples[name].append(sample_of(pid, n_answered))
        time.sleep(seconds / SAMPLES)
    stop.set()
    took_s = time.monotonic() - begun
    for load in loads:
        load.join(LAST_ANSWERS_S)
    failures = [load.failure for load in loads if load.failure] + [f"{name} ended" for name in fleet.fallen()]
    processes = {name: trend(kept) for name, kept in samples.items() if kept}
    n_answered = sum(load.n_answered for load in loads)
    return {
        "seconds": round(took_s, 1),
        "answered": n_answered,
        "items_per_s": round(n_answered / took_s, 1),
        "failures": failures,
        "processes": processes,
        "passed": not failures and n_answered > 0 and all(process["flat"] for process in processes.values()),
    }


def table(report: dict[str, Any]) -> str:
    """For people: a line a process."""
    lines = [f"{report['answered']} items in {report['seconds']} s, {report['items_per_s']} a second"]
    lines.append(f"{'process':<14}{'MiB':>8}{'bytes/item':>12}{'files':>12}{'threads':>10}")
    for name, process in sorted(report["processes"].items()):
        files, threads = ("-".join(map(str, process[key])) for key in ("files", "threads"))
        flat = "" if process["flat"] else "  NOT FLAT"
        lines.append(f"{name:<14}{process['rss_mib']:>8}{process['bytes_per_item']:>12}{files:>12}{threads:>10}{flat}")
    return "\n".join([*lines, *report["failures"], "passed" if report["passed"] else "FAILED"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trial and print its table; 0 if everything stayed flat and every item was answered."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=900.0, metavar="S", help="default: 900, which is 15 minutes")
    parser.add_argument("--hours", type=float, metavar="H", help="instead of --seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    args = parser.parse_args(argv)
    seconds = args.seconds if args.hours is None else 3600 * args.hours
    if not 0 < seconds < float("inf"):
        parser.error("--seconds and --hours must be above 0")
    report = run_soak(seconds)
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(table(report))
    return 0 if report["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
