"""A pile of items through a fleet: what became of each, in order, and what of it is kept."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from streamfeat.client import WINDOW, Client
from streamfeat.delivery import Delivery, Failure, deliver, labels_of, rate_report
from streamfeat.errors import InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.signals import Signal
from tests.cluster import cluster
from tests.files import no_room
from tests.terminal import Terminal


@dataclass(frozen=True)
class Tone:
    """A short tone, or one that cannot be read."""

    name: str
    label: str | None
    hz: float

    def read(self) -> Signal:
        """The tone."""
        if self.hz <= 0:
            raise InvalidArgument(f"{self.name}: no tone of {self.hz} Hz")
        samples = np.round(9000 * np.sin(2 * np.pi * self.hz * np.arange(4000) / 8000)).astype(np.int16)
        return Signal("audio", samples, 8000, self.name)


def tones(n: int, bad: tuple[int, ...] = ()) -> list[Tone]:
    """n tones of different pitch; those numbered in `bad` cannot be read."""
    return [Tone(f"tone {i}", f"c{i % 3}", 0 if i in bad else 200 + 30 * i) for i in range(n)]


def test_every_item_is_accounted_for_in_order(served: Terminal, audio_bank: Path, tmp_path: Path) -> None:
    """sent == answered + failed; positions point at the items; progress counts all; what is saved is those answered."""
    items = tones(30, bad=(0, 7, 29))
    steps: list[int] = []
    with Client(served.front) as client:
        delivery = deliver(client, items, bank="digits-audio", progress=steps.append)
    assert (delivery.sent, delivery.answered, sum(steps)) == (30, 27, 30)
    assert [(f.file, f.code) for f in delivery.failed] == [(f"tone {i}", "INVALID_ARGUMENT") for i in (0, 7, 29)]
    assert "no tone of 0 Hz" in delivery.failed[0].reason
    good = [i for i in range(30) if i not in (0, 7, 29)]
    assert delivery.positions == good
    assert labels_of(items, delivery.positions) == [f"c{i % 3}" for i in good]
    expected = FeatureMap.open(audio_bank).transform(items[i].read() for i in good)
    np.testing.assert_array_equal(delivery.features(), expected)
    assert all(result.job.payload is None for result in delivery.results)  # a corpus may be larger than memory
    delivery.save(tmp_path / "saved.npz", items)
    with np.load(tmp_path / "saved.npz") as saved:
        np.testing.assert_array_equal(saved["features"], expected)
        assert saved["names"].tolist() == [f"tone {i}" for i in good]
        assert str(saved["bank"]) == audio_bank.name[-12:] + str(saved["bank"])[12:]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["saved.npz"]
    report = delivery.report()
    assert (report["sent"], report["answered"], len(report["failed"])) == (30, 27, 3)
    assert report["items_per_s"] > 0


def test_an_item_the_fleet_refuses_fails_alone(served: Terminal) -> None:
    """Tones sent to the bank of pictures: each fails with the worker's reason, in order."""
    with Client(served.front) as client:
        delivery = deliver(client, tones(5), bank="digits-image")
    assert (delivery.answered, [f.file for f in delivery.failed]) == (0, [f"tone {i}" for i in range(5)])
    assert delivery.features().shape == (0, 0)
    assert delivery.report()["p50_ms"] is None


def test_when_nobody_answers_the_rest_is_not_waited_for() -> None:
    """A window in a row without an answer: what is left fails at once, by name, with the last one's reason."""
    steps: list[int] = []
    with cluster() as fleet:
        fleet.start_broker()
        fleet.wait_ready()
        started = time.monotonic()
        with Client(fleet.front) as client:
            delivery = deliver(client, tones(20 * WINDOW), progress=steps.append)
    # UNAVAILABLE is believed after 5 s: two or three windows of waiting, not twenty
    assert time.monotonic() - started < 40
    assert delivery.sent == sum(steps) == len(delivery.failed) == 20 * WINDOW
    assert delivery.n_unheard >= WINDOW
    assert {f.code for f in delivery.failed} == {"UNAVAILABLE"}
    reasons = {f.file: f.reason for f in delivery.failed}
    assert re.match(r"not sent: \d+ before it had no answer, the last: no", reasons[f"tone {20 * WINDOW - 1}"])


def test_a_list_sent_again_adds_what_is_new_in_it(served: Terminal) -> None:
    """By name, whatever the order; items of one name are told apart; another stream is another list."""
    items = tones(12)
    with Client(served.front) as client:

        def learned(some: list[Tone], stream: str = "tones") -> int:
            deliver(client, some, route="features > learn:tones", bank="digits-audio", stream=stream)
            return int(client.fit("tones")["n_items"])

        assert learned(items[:4] + items[5:]) == 11
        assert learned(items) == 12
        assert learned(items[::-1]) == 12
        twins = [Tone("twin", "c0", 300), Tone("twin", "c1", 500)]
        assert learned([*items, *twins]) == 14
        assert learned([*items, *twins]) == 14
        assert learned(items, "others") == 26


def test_groups_reach_the_learner(served: Terminal) -> None:
    """With speakers known to all, a fit leaves speakers out."""
    items = tones(12)
    groups = [f"speaker {i // 3 % 2}" for i in range(12)]
    with Client(served.front) as client:
        deliver(client, items, route="features > learn:grouped", bank="digits-audio", groups=groups, stream="s")
        assert client.fit("grouped")["criterion"] == "logo"


def test_merging_adds_counts_and_times() -> None:
    """Results stay where they are."""
    total = Delivery()
    total.merge(Delivery(sent=3, failed=[Failure("a", "CODE", "reason")], latencies_ms=[1.0, 2.0], wall_s=1.0))
    total.merge(Delivery(sent=2, latencies_ms=[3.0, 4.0], wall_s=1.0))
    assert (total.sent, len(total.failed), total.wall_s, total.results) == (5, 1, 2.0, [])
    assert total.report() == {
        "sent": 5,
        "answered": 4,
        "unsent": 0,
        "failed": [{"file": "a", "code": "CODE", "reason": "reason"}],
        "items_per_s": 2.0,
        "p50_ms": 2.5,
        "p99_ms": pytest.approx(3.97),
        "wall_s": 2.0,
    }


def test_a_rate_of_nothing_is_not_a_number() -> None:
    """None, which JSON has a word for."""
    assert rate_report([], 0.5) == {"items_per_s": None, "p50_ms": None, "p99_ms": None, "wall_s": 0.5}
    assert rate_report([2.0], 0.0)["items_per_s"] is None


def test_a_failure_may_stop_the_rest(served: Terminal) -> None:
    """Nothing is sent after the first that fails; what was under way is finished and accounted for."""
    items = tones(20, bad=(3,))
    with Client(served.front) as client:
        delivery = deliver(client, items, bank="digits-audio", on_error="stop")
    assert (delivery.sent, delivery.answered, delivery.unsent) == (4, 3, 16)
    assert [failure.file for failure in delivery.failed] == ["tone 3"]


def test_a_save_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    """The file that was to be is named with the reason, and no part of it stays where there is no room."""
    with pytest.raises(OSError, match=r"File too large: .*saved\.npz"), no_room():
        Delivery().save(tmp_path / "saved.npz", [])
    assert not list(tmp_path.iterdir())
