"""A fleet whose members are killed, frozen and crashed while items go through it; what became of each item.

    scripts/chaos --items 100000 --seconds 900 --json chaos.json

Every item goes three ways: `features`, `features > learn` and `features > insert`. Four feature workers, the learner
and the index are hit in turn (`faults`), the broker is killed five times, and whoever ended is started again, as a
service manager does. At the end the account: every answer counted, every feature compared to the bit, in the answers
and in both feature logs, with the one that this process computes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.client import Client, Job
from streamfeat.config import load_settings
from streamfeat.errors import StreamfeatError
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.trials.account import Account
from streamfeat.trials.faults import Fault, Faults
from streamfeat.trials.legs import LAST_ANSWERS_S, NAME, ROUTES, Leg, rows_on_disk
from streamfeat.trials.workload import Workload

N_WORKERS = 4
BROKER_KILLS = 5
PACE_S = 20.0
"""The least that sending may take: few items are sent slowly, so that every kind of fault finds some under way."""

LOOK_S = 0.05
IN_HAND_S = 0.05
"""A worker is stopped for so long before it is killed: it dies with what was sent to it meanwhile in hand."""
REPORT_S = 0.5
SETTLE_S = 15.0
"""What the last thaws, restarts and late answers may take."""

SIGNALS = {
    "kill": signal.SIGKILL,
    "segfault": signal.SIGSEGV,
    "freeze": signal.SIGSTOP,
    "thaw": signal.SIGCONT,
}


class Chaos:
    """One trial: a fleet, its clients, and what is done to it."""

    def __init__(self, fleet: LocalFleet, workload: Workload, seconds: float, pace_s: float, seed: int) -> None:
        self._fleet, self._workload = fleet, workload
        self._started = time.monotonic()
        self._until = self._started + seconds
        self._pace_s = pace_s
        self._faults = Faults(sorted(set(fleet.pids) - {"broker"}), seed, self._started)
        self._broker_kills = 0
        self._reports: dict[str, dict[str, Any]] = {}
        self._at_work: dict[str, int] = {}
        self._back: dict[str, int] = {}
        self._next_report = self._started
        self._legs = [Leg(fleet.front, workload, route, self._released, self._until) for route in ROUTES]

    def run(self) -> Account:
        """Send everything, harm the fleet meanwhile, and say what became of it."""
        for leg in self._legs:
            leg.start()
        give_up = self._until + LAST_ANSWERS_S
        while any(leg.is_alive() for leg in self._legs) and time.monotonic() < give_up:
            self._turn(time.monotonic())
            time.sleep(LOOK_S)
        for fault in self._faults.end():
            self._strike(fault)
        for leg in self._legs:
            leg.finish()
        account = Account(items=len(self._workload))
        self._settle(account)
        self._count(account)
        return account

    def compare(self, account: Account, state: Path) -> None:
        """Hold what was answered, and what is on disk now that the fleet is gone, to what this process computes."""
        expected = self._workload.expected()
        features, *stored = self._legs
        answered = features.answers > 0
        account.mismatched += int((features.features != expected)[answered].any(axis=1).sum())
        for leg, role in zip(stored, ("learner", "index"), strict=True):
            n_rows, on_disk = rows_on_disk(state / role / NAME / "log.sqlite", self._workload)
            account.lost += int(((leg.answers > 0) & (n_rows == 0)).sum())
            account.doubled += int((n_rows > 1).sum())
            account.mismatched += int((on_disk != expected)[n_rows > 0].any(axis=1).sum())

    @property
    def complaints(self) -> list[str]:
        """Errors by route and code, for the terminal."""
        return [f"{leg.route}: {n} items {code}" for leg in self._legs for code, n in sorted(leg.failed.items())]

    def _released(self) -> int:
        """How many items may be sent by now: as many as the pace says, and not many beyond the broker's next kill."""
        share = (time.monotonic() - self._started) / self._pace_s
        return int(len(self._workload) * min(share, (self._broker_kills + 1.5) / (BROKER_KILLS + 1)))

    def _turn(self, now: float) -> None:
        for name in self._fleet.fallen():
            self._fleet.restart(name)
        pids = self._fleet.pids
        for fault in self._faults.due(now, {name for name, pid in self._at_work.items() if pids.get(name) == pid}):
            self._strike(fault)
        n_sent = min(leg.sent for leg in self._legs)
        if n_sent * (BROKER_KILLS + 1) > (self._broker_kills + 1) * len(self._workload):
            self._kill_broker()
        if now >= self._next_report:
            self._next_report = now + REPORT_S
            self._report()

    def _strike(self, fault: Fault) -> None:
        pid = self._fleet.pids.get(fault.member)
        if pid is None:
            return
        if fault.kind == "kill":
            os.kill(pid, signal.SIGSTOP)
            time.sleep(IN_HAND_S)
        os.kill(pid, SIGNALS[fault.kind])

    def _kill_broker(self) -> None:
        if self._broker_kills == BROKER_KILLS:
            return
        self._report()
        self._strike(Fault("kill", "broker"))
        self._broker_kills += 1

    def _report(self) -> dict[str, Any] | None:
        """The broker's report, kept as the last one of that broker; None if it does not answer now."""
        try:
            with Client(self._fleet.front, connect_timeout_s=0.5, timeout_s=0.5) as client:
                report = client.status()
        except StreamfeatError:
            return None
        self._reports[report["broker"]] = report
        # at work since the last report at least: faults must not wait at the door for whoever comes back
        back, self._back = self._back, {worker["name"]: worker["pid"] for worker in report["workers"]}
        self._at_work = {name: pid for name, pid in self._back.items() if back.get(name) == pid}
        return report

    def _settle(self, account: Account) -> None:
        """Wait for everyone to be back and nothing to be under way, and ask learner and index how much they hold."""
        deadline = time.monotonic() + SETTLE_S
        wanted = set(self._fleet.pids)
        while time.monotonic() < deadline:
            for name in self._fleet.fallen():
                self._fleet.restart(name)
            report = self._report()
            if report is not None:
                account.leases_left = report["open"] + sum(worker["leased"] for worker in report["workers"])
                account.retained_bytes = report["retained_bytes"]
                ready = {worker["name"] for worker in report["workers"]} | {"broker"}
                if ready == wanted and not account.leases_left:
                    break
            time.sleep(LOOK_S)
        with Client(self._fleet.front, timeout_s=SETTLE_S, connect_timeout_s=SETTLE_S) as client:
            [fitted] = client.stream([Job(None)], route=f"fit:{NAME}")
            [found] = client.stream([self._workload.job(0)], route=f"features > search:{NAME}")
        account.learner_rows, account.index_rows = fitted.fields.get("n_items", 0), found.fields.get("n_items", 0)

    def _count(self, account: Account) -> None:
        answers = np.stack([leg.answers for leg in self._legs])
        account.results = int((answers == 1).all(axis=0).sum())
        sent = np.arange(len(self._workload)) < np.array([[leg.sent] for leg in self._legs])
        account.lost = int((sent & (answers == 0)).any(axis=0).sum())
        account.doubled = int((answers > 1).any(axis=0).sum())
        account.faults = {**self._faults.counts, "broker kill": self._broker_kills}
        account.quarantined = sum(leg.failed["QUARANTINED"] for leg in self._legs)
        account.add_reports(self._reports.values())
        account.duplicates_dropped += sum(leg.n_dropped for leg in self._legs)


def run_chaos(n_items: int, seconds: float, pace_s: float = PACE_S, *, seed: int = 1) -> tuple[Account, list[str]]:
    """One trial in a fleet of its own; the account, and the errors that items ended in."""
    with private_settings(load_settings({})) as settings:
        home = Path(settings.fleet.run_dir)
        workload = Workload(n_items, home / "banks")
        with LocalFleet(
            settings, [workload.bank], n_workers=N_WORKERS, learner=True, index=True, log_dir=home / "logs"
        ) as fleet:
            chaos = Chaos(fleet, workload, seconds, min(pace_s, seconds / 2), seed)
            account = chaos.run()
        chaos.compare(account, Path(settings.fleet.state_dir))
    return account, chaos.complaints


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trial, print its table; 0 if everything was sent in time and nothing was lost, doubled or changed."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument("--seconds", type=float, default=300.0, metavar="S", help="to send them all in; default: 300")
    parser.add_argument("--pace", type=float, default=PACE_S, metavar="S", help="to send them in at least; default: 20")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the order of the faults")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the account there")
    args = parser.parse_args(argv)
    if args.items < 1 or not (args.seconds > 0 and args.pace > 0):
        parser.error("--items, --seconds and --pace must be above 0")
    account, complaints = run_chaos(args.items, args.seconds, args.pace, seed=args.seed)
    if args.json is not None:
        args.json.write_text(json.dumps(account.as_dict(), indent=2) + "\n", encoding="utf-8")
    print(account.table())
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 0 if account.passed else 1


if __name__ == "__main__":
    sys.exit(main())
