"""What STATUS shows."""

from __future__ import annotations

from typing import Any

from streamfeat.wire.messages import Item, Message
from tests.fleet import BANK, FEATURE, Fleet, signal


def test_the_report_tells_who_is_there_and_what_they_have() -> None:
    """STATUS needs no HELLO and shows workers, clients, queues, counters and sizes."""
    fleet = Fleet()
    client, worker = fleet.client(), fleet.worker(credit={"items": 2, "bytes": 1000}, pid=4711, host="here")
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
            "state": "ready",
            "leased": 2,
            "leased_bytes": 20,
            "tasks": 1,
            "silent_ms": 1000,
            "pid": 4711,
            "host": "here",
        }
    ]
    assert report["queues"] == [{"stage": f"features:{BANK}", "options": "", "queued": 3}]
    assert (report["open"], report["retained_bytes"], report["oldest_s"]) == (5, 50, 1.0)
    assert report["clients"][0]["open"] == 5
    assert report["banks"] == {"digits": BANK}
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
        fleet.worker(name, stages=stages, **more)
    for n in range(1000):
        client = fleet.client(b"%06d" % n)
        if n < 100:
            options = {f"k{m}": "v" * 200 for m in range(8)} | {"n": n}
            item = Item({"id": 1, "label": 1}, (FEATURE,))
            fleet.request(client, [item], [f"learn:{'000'.ljust(60, 'x')}.0"], options=options)
    [message] = fleet.send("front", b"somebody", Message("STATUS"))
    assert message.fields["report"]["n_workers"] == 200
    assert message.fields["report"]["n_clients"] == 1000
