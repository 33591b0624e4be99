"""The trial by chaos: what is done when, what counts as passed, and a short one on real processes."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamfeat.trials.account import Account
from streamfeat.trials.chaos import run_chaos
from streamfeat.trials.faults import FREEZES_S, Fault, Faults

ROOT = Path(__file__).resolve().parent.parent
MEMBERS = ("features-1", "features-2", "index", "learner")
GOOD = Account(items=9, results=9, learner_rows=9, index_rows=9)


def test_members_are_struck_in_turn() -> None:
    """A kill every two seconds, something else in between, everybody's share of each, and every freeze has its end."""
    faults = Faults(MEMBERS, seed=3, now=0.0)
    log = [(tenth / 10, fault) for tenth in range(1, 961) for fault in faults.due(tenth / 10, MEMBERS)]
    kills = [now for now, fault in log if fault.kind == "kill"]
    assert kills == pytest.approx([2.0 * n for n in range(1, 49)])
    by_kind = Counter((fault.kind, fault.member) for _, fault in log)
    assert {by_kind["kill", member] for member in MEMBERS} == {12}
    assert {by_kind[kind, member] for kind in ("freeze", "segfault") for member in MEMBERS} <= {5, 6, 7}
    assert faults.counts == {"kill": 48, "freeze": 24, "segfault": 24}
    frozen: dict[str, float] = {}
    for now, fault in log:
        if fault.kind == "freeze":
            assert fault.member not in frozen
            frozen[fault.member] = now
        elif fault.member in frozen:
            assert fault.kind in ("kill", "thaw")
            assert now - frozen.pop(fault.member) <= max(FREEZES_S) + 0.11
    assert {fault.member for fault in faults.end()} == set(frozen)
    assert faults.end() == []


def test_only_who_is_at_work_is_struck() -> None:
    """Nobody there: the fault waits, once; the next ones are not made up for."""
    faults = Faults(MEMBERS, seed=3, now=0.0)
    assert [fault for second in range(1, 60) for fault in faults.due(float(second), ())] == []
    assert [(fault.kind, fault.member) for fault in faults.due(60.0, ["index"])] == [("kill", "index")]
    assert [(fault.kind, fault.member) for fault in faults.due(60.1, ["learner"])] == [("freeze", "learner")]
    assert faults.due(61.0, MEMBERS) == [Fault("thaw", "learner")]


@pytest.mark.parametrize(
    "trouble",
    [
        {"results": 8},
        {"lost": 1},
        {"doubled": 1},
        {"mismatched": 1},
        {"leases_left": 1},
        {"retained_bytes": 1},
        {"learner_rows": 8},
        {"index_rows": 10},
    ],
)
def test_any_trouble_fails_the_trial(trouble: dict[str, Any]) -> None:
    """Exactly once, to the bit, with nothing left over: or it failed, and the table says so."""
    assert GOOD.passed
    assert "passed" in GOOD.table()
    account = replace(GOOD, **trouble)
    assert not account.passed
    assert "FAILED" in account.table()


def test_an_account_adds_up_what_each_broker_counted() -> None:
    """Five brokers killed: five last reports."""
    account = replace(GOOD)
    account.add_reports([{"redelivered": 3, "duplicates": 1, "late": 2, "stray": 0}] * 5)
    assert (account.redeliveries, account.duplicates_dropped) == (15, 15)


def test_nothing_is_lost_under_chaos(tmp_path: Path) -> None:
    """Real processes, from another directory: every kind of fault, the broker killed five times, each item once."""
    file = tmp_path / "account.json"
    command = [
        str(ROOT / "scripts" / "chaos"),
        "--items",
        "4000",
        "--seconds",
        "200",
        "--pace",
        "8",
        "--json",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    account = json.loads(file.read_text())
    faults, redeliveries, dropped = (account.pop(key) for key in ("faults", "redeliveries", "duplicates_dropped"))
    exact = ("items", "results", "learner_rows", "index_rows")
    assert account == {key: 4000 if key in exact else 0 for key in account}
    assert set(GOOD.as_dict()) == {*account, "faults", "redeliveries", "duplicates_dropped"}
    assert set(faults) == {"kill", "segfault", "freeze", "broker kill"}
    assert faults["broker kill"] == 5
    assert faults["kill"] >= 3
    assert redeliveries > 0
    assert dropped >= 0
    assert "verdict" in done.stdout


def test_what_was_not_sent_in_time_is_not_lost() -> None:
    """Too many items for two seconds: what is missing was never sent, nothing of the rest is lost."""
    account, _ = run_chaos(200_000, seconds=2.0)
    assert not account.passed
    assert 0 < account.results < account.items
    assert account.lost == account.doubled == account.mismatched == 0
