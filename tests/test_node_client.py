"""A client in another language, written from schemas/README.md alone: tests/client.mjs speaks to a live fleet."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.bankspec import BankSpec
from streamfeat.featuremap import FeatureMap
from streamfeat.signals import Signal
from tests.cluster import Cluster, cluster

ROOT = Path(__file__).parent.parent
NEEDED = {"node": shutil.which("node"), "zeromq.js": (ROOT / "node_modules" / "zeromq").is_dir()}
MISSING = [name for name, there in NEEDED.items() if not there]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed; see scripts/node")

SPEC: dict[str, Any] = {
    "name": "small",
    "front_end": [{"stage": "pixels", "height": 12, "width": 10}],
    "templates": {"source": "gaussian", "m": 16},
    "group": [{"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 3}],
    "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5},
}


@pytest.fixture
def running() -> Iterator[Cluster]:
    """An empty cluster."""
    with cluster() as empty:
        yield empty


class NodeClient:
    """The client as a process, asking for features of the pictures in a file; its answers go to another file."""

    def __init__(self, endpoint: str, pictures: Path) -> None:
        command = ["node", str(ROOT / "tests" / "client.mjs"), endpoint, str(pictures), "12", "10"]
        self._answers, self._errors = pictures.with_suffix(".jsonl"), pictures.with_suffix(".err")
        with self._answers.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(command, stdout=out, stderr=err)

    @property
    def answers(self) -> list[dict[str, Any]]:
        """Those there are, whole lines only."""
        return [json.loads(line) for line in self._answers.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def wait_for(self, n: int) -> None:
        """Until so many are there."""
        deadline = time.monotonic() + 60
        while len(self.answers) < n:
            assert self._process.poll() is None, self._errors.read_text()
            assert time.monotonic() < deadline, f"{len(self.answers)} answers"
            time.sleep(0.005)

    def end(self) -> None:
        """Until it has ended, without an error."""
        assert self._process.wait(60) == 0, self._errors.read_text()


def test_every_picture_is_answered_once_with_the_same_feature(running: Cluster, tmp_path: Path) -> None:
    """More pictures than the client has credit for, worker and broker killed meanwhile: to the bit what Python has."""
    pictures = np.random.default_rng(0).integers(0, 256, (2000, 12, 10), np.uint8)
    pictures.tofile(tmp_path / "pictures")
    features = FeatureMap.fit(BankSpec.from_dict(SPEC))
    bank = features.bank.save(tmp_path / "banks")
    running.start_broker("--credit-items", "200")
    running.start_features("one", [bank])
    running.start_features("two", [bank])
    running.wait_ready("one", "two")
    client = NodeClient(running.front, tmp_path / "pictures")
    client.wait_for(300)
    running.signal("one", signal.SIGKILL)
    running.start_features("one", [bank])
    client.wait_for(900)
    running.signal("broker", signal.SIGKILL)
    running.start_broker("--credit-items", "200")
    client.end()
    rows = features.transform([Signal("image", picture) for picture in pictures])
    want = {n: hashlib.sha256(row.tobytes()).hexdigest() for n, row in enumerate(rows)}
    assert len(client.answers) == len(want)
    assert {answer["id"]: answer.get("sha256", answer) for answer in client.answers} == want


def test_what_is_refused_is_said(running: Cluster, tmp_path: Path) -> None:
    """A bank of another kind of signal: each item ends with its code and its reason."""
    (tmp_path / "pictures").write_bytes(bytes(range(120)) * 3)
    heard = {
        **SPEC,
        "front_end": [{"stage": "resample", "rate_hz": 8000}, {"stage": "fixed_length", "n": 120}],
        "group": [],
    }
    running.start_broker()
    running.start_features("one", [FeatureMap.fit(BankSpec.from_dict(heard)).bank.save(tmp_path / "banks")])
    running.wait_ready("one")
    client = NodeClient(running.front, tmp_path / "pictures")
    client.end()
    answers = client.answers
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert {answer["error"]["code"] for answer in answers} == {"INVALID_ARGUMENT"}
    assert all("image" in answer["error"]["reason"] for answer in answers)
