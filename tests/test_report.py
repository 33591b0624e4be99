"""What STATUS shows."""

from __future__ import annotations

from typing import Any

from streamfeat.wire.codec import encode
from streamfeat.wire.messages import Item, Message
from tests.fleet import BANK, FEATURE, Fleet, signal

WARM: dict[str, Any] = {"warm_ms": 1500, "compiled": 0, "bank_bytes": {BANK: 4096}}


def test_the_report_tells_who_is_there_and_what_they_have() -> None:
    """STATUS needs no HELLO and shows workers, clients, queues, counters and sizes."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 2, "bytes": 1000}, pid=4711, host="here", **WARM)
    fleet.request(client, [signal(n) for n in range(5)])
    fleet.now += 1
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    assert message.fields["report"]["clients"] == []
    report = fleet.broker.report(fleet.now)
    assert report["workers"] == [
        {
            "name": "w1",
            "kind": "features",
            "stages": ["features"],
            "banks": ["digits"],
            "state": "ready",
            "leased": 2,
            "leased_bytes": 20,
            "tasks": 1,
            "silent_ms": 1000,
            "pid": 4711,
            "host": "here",
            "restarts": 0,
            "warm_ms": 1500,
            "compiled": 0,
        }
    ]
    assert report["queues"] == [{"stage": f"features:{BANK}", "options": "", "queued": 3, "queued_bytes": 30}]
    assert (report["open"], report["retained_bytes"], report["oldest_s"]) == (5, 50, 1.0)
    assert report["clients"][0]["open"] == 5
    assert report["banks"] == {"digits": BANK}
    assert report["bank_bytes"] == {"digits": 4096}
    fleet.finish_all(worker)
    assert fleet.count("answered") == 5


def test_the_report_counts_how_long_answers_took() -> None:
    """An item falls under the least 2^n / 2 ms that it stayed below; what took minutes is counted last."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker()
    for n, (took_s, place) in enumerate(((0.0, 0), (0.0009, 1), (0.0035, 3), (0.6, 11))):
        before = fleet.broker.report(fleet.now)["took"]
        fleet.request(client, [signal(n)])
        fleet.now += took_s
        fleet.finish_all(worker)
        after = fleet.broker.report(fleet.now)["took"]
        assert [k for k, (a, b) in enumerate(zip(after, before, strict=True)) if a > b] == [place]


def test_the_report_fits_into_a_header_whatever_the_fleet() -> None:
    """Two hundred workers with long names, a thousand clients and a thousand queues are still one REPORT."""
    fleet = Fleet()
    for n in range(200):
        name = f"{n:03d}".ljust(64, "x")
        stages = [f"learn:{name[:60]}.{s}" for s in range(8)]
        more: dict[str, Any] = {"banks": {name: f"{n:064x}"}, "host": "h" * 200, "pid": 2**63 - 1}
        more |= {"reloads": {"done": 0, "failed": 1, "error": "e" * 200}, "bank_bytes": {f"{n:064x}": 2**62}}
        fleet.worker(name, stages=stages, **more)
    for n in range(1000):
        client = fleet.client(b"%06d" % n)
        if n < 100:
            options = {f"k{m}": "v" * 200 for m in range(8)} | {"n": n}
            item = Item({"id": 1, "label": 1}, (FEATURE,))
            fleet.request(client, [item], [f"learn:{'000'.ljust(60, 'x')}.0"], options=options)
    whole = fleet.broker.report(fleet.now)  # to an operator, who is also told what came to the doors
    encode(Message("REPORT", {"report": {**whole, "recent": [{"ago_s": 1.0, "what": "n" * 250}] * 20}}))
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    assert message.fields["report"]["n_workers"] == 200
    assert message.fields["report"]["n_clients"] == 1000


def test_restarts_and_reloads_are_counted_and_their_errors_are_for_operators() -> None:
    """Another run under a name is a restart; what a run says of its reloads counts once, however often it says it."""
    fleet = Fleet()

    def told(done: int, failed: int, error: str = "", run: int = 0) -> dict[str, Any]:
        reloads = {"done": done, "failed": failed, **({"error": error} if error else {})}
        fleet.worker(run=run, reloads=reloads)
        report = fleet.broker.report(fleet.now)
        return {
            **{key: report[key] for key in ("reloads", "reloads_failed", "reload_errors")},
            "restarts": report["workers"][0]["restarts"],
        }

    assert told(2, 3) == {"reloads": 0, "reloads_failed": 0, "reload_errors": {}, "restarts": 0}  # of another broker
    failed = {"reloads": 0, "reloads_failed": 1, "reload_errors": {"w1": "no such bank"}, "restarts": 0}
    assert told(2, 4, "no such bank") == failed
    assert told(2, 4, "no such bank") == failed
    assert "worker w1 could not reload: no such bank" in fleet.broker.take_notes()
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    assert message.fields["report"].get("reload_errors") is None
    assert told(3, 4) == {"reloads": 1, "reloads_failed": 1, "reload_errors": {}, "restarts": 0}
    assert told(0, 0, run=1) == {"reloads": 1, "reloads_failed": 1, "reload_errors": {}, "restarts": 1}
