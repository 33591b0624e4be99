"""The fleet's last minutes as numbers."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.page.history import History, percentile_ms
from tests.fleet import Fleet, signal


def report_of(fleet: Fleet) -> dict[str, Any]:
    """What an operator is told."""
    return fleet.broker.report(fleet.now)


def test_samples_are_what_changed_between_two_reports() -> None:
    """Two items a second accepted, one answered after 100 ms; the first report gives amounts and no rates."""
    fleet, history = Fleet(), History()
    client, worker = fleet.client(), fleet.worker()
    history.add(10.0, report_of(fleet))
    fleet.request(client, [signal(n) for n in range(4)])
    history.add(12.0, report_of(fleet))
    fleet.now += 0.1
    fleet.finish_all(worker)
    history.add(13.0, report_of(fleet))
    first, second, third = history.since(0)["samples"]
    assert (first["accepted_rate"], first["p50_ms"], first["open"]) == (None, None, 0)
    assert (second["accepted_rate"], second["answered_rate"], second["open"]) == (2.0, 0.0, 4)
    assert (third["accepted_rate"], third["answered_rate"], third["open"]) == (0.0, 4.0, 0)
    assert 64 <= third["p50_ms"] <= third["p95_ms"] <= 128


def test_a_reader_gets_what_it_has_not_seen() -> None:
    """By number; a reader that knows a number of another process, or none, gets all there is; silence is a sample."""
    fleet, history = Fleet(), History(n_samples=3)
    for moment in range(4):
        history.add(float(moment), report_of(fleet))
    history.miss(4.0, "UNAVAILABLE")
    told = history.since(0)
    assert told["number"] == 5
    assert [sample["at"] for sample in told["samples"]] == [2.0, 3.0, 4.0]
    assert told["samples"][-1]["error"] == "UNAVAILABLE"
    assert [sample["at"] for sample in history.since(4)["samples"]] == [4.0]
    assert history.since(5)["samples"] == []
    assert len(history.since(900)["samples"]) == 3
    assert history.since(0) == told  # looking changes nothing


def test_another_broker_starts_anew() -> None:
    """Counters of a broker that was started again are not subtracted from the old one's."""
    history = History()
    for moment in range(2):
        history.add(float(moment), report_of(Fleet()) | {"broker": f"boot {moment}", "accepted": 1000 - moment})
    assert [sample["accepted_rate"] for sample in history.since(0)["samples"]] == [None, None]


def test_a_browser_sees_no_endpoint_process_or_run() -> None:
    """A run is what answers are kept under: who knows it could ask for them."""
    fleet, history = Fleet(), History()
    client = fleet.client()
    fleet.worker(pid=4711, host="secret-host")
    fleet.request(client, [signal(0)])
    history.add(0.0, report_of(fleet) | {"endpoint": "ipc:///run/admin.sock"})
    shown, run = str(history.since(0)), report_of(fleet)["clients"][0]["run"]
    assert not any(word in shown for word in ("4711", "secret-host", "admin.sock", run))


@pytest.mark.parametrize(
    ("counts", "part", "expected"),
    [
        ([0, 0, 0], 0.5, None),
        ([2, 0, 0], 0.5, 0.25),
        ([1, 0, 1], 1.0, 2.0),
        ([0, 4, 0], 0.5, 0.75),
        ([0, 0, 4], 0.25, 1.25),
    ],
)
def test_percentiles_by_hand(counts: list[int], part: float, expected: float | None) -> None:
    """Bins end at 0.5, 1 and 2 ms; linear inside a bin."""
    assert percentile_ms(counts, part) == expected
