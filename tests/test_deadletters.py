"""Dead letters: whole or not there, bounded, and sent again from where they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamfeat.workers.broker import BrokerLoop

from streamfeat.cli import run
from streamfeat.client import Client, Job
from streamfeat.deadletters import DeadLetters
from streamfeat.errors import ConfigError, NotFound, Quarantined
from streamfeat.payloads import job_of_letter
from streamfeat.signals import Signal
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import Array, Item, Message
from streamfeat.wire.routing import Outgoing
from streamfeat.wire.settings import BrokerSettings
from tests.cluster import cluster

SAMPLES = np.arange(8, dtype=np.int16)


def letter_of(n: int = 0, samples: Any = SAMPLES, **changes: Any) -> Letter:
    """A letter about a recording on its way to a learner."""
    fields = {"signal": {"kind": "audio", "rate_hz": 8000}, "stream": "s", "seq": n, "label": "nine", "name": f"n{n}"}
    about: dict[str, Any] = {
        "route": ("features", "learn:m"),
        "bank": "ab" * 32,
        "options": {},
        "client": "c0ffee00",
        "id": n,
        "attempt": 3,
        "lost_with": ("w1", "w2", "w1"),
        "reason": "3 workers went away while they had it: w1, w2, w1",
        "item": Item(fields, (Array.of(samples),)),
    }
    return Letter(**{**about, **changes})


def test_a_letter_comes_back_as_it_was(tmp_path: Path) -> None:
    """Header, payload and reason; the job that is sent again carries the same samples, label and key."""
    letters = DeadLetters(tmp_path / "dead")
    assert letters.names() == []
    name = letters.put(letter_of(5), 1000.0)
    filed = DeadLetters(tmp_path / "dead").open(name)
    assert (filed.name, filed.written, filed.n_bytes) == (name, 1000.0, SAMPLES.nbytes)
    assert filed.letter == letter_of(5)
    job = job_of_letter(filed.letter)
    assert isinstance(job.payload, Signal)
    np.testing.assert_array_equal(job.payload.samples, SAMPLES)
    assert (job.label, job.stream, job.seq, job.name, job.payload.rate_hz) == ("nine", "s", 5, "n5", 8000)


def test_a_feature_is_sent_again_as_a_feature() -> None:
    """Past the features stage there is no signal any more."""
    item = Item({"stream": "s", "seq": 1, "bank": "ab" * 32}, (Array.of(np.array([1, 2], np.uint16)),))
    job = job_of_letter(letter_of(route=("learn:m",), item=item))
    np.testing.assert_array_equal(job.payload, [1, 2])
    assert job_of_letter(letter_of(route=("fit:m",), item=Item({"stream": "s", "seq": 1}))).payload is None


def test_letters_are_bounded_in_number_and_bytes(tmp_path: Path) -> None:
    """The oldest give way; the newest is there in any case."""
    few = DeadLetters(tmp_path / "few", most_letters=3)
    names = [few.put(letter_of(n), 1000.0 + n) for n in range(7)]
    assert few.names() == names[-3:]
    light = DeadLetters(tmp_path / "light", most_bytes=5 * SAMPLES.nbytes)
    names = [light.put(letter_of(n), 1000.0 + n) for n in range(7)]
    assert light.names() == names[-5:]
    last = light.put(letter_of(9, np.zeros(100, np.int16)), 2000.0)
    assert light.names() == [last]


def test_a_letter_is_whole_or_not_there(tmp_path: Path) -> None:
    """A write that is cut short leaves no letter; what is no letter is named and can be dropped."""
    letters = DeadLetters(tmp_path)
    name = letters.put(letter_of(), 1000.0)
    (tmp_path / f".{name}.cut").mkdir()  # where a write was killed
    assert letters.names() == [name]
    (tmp_path / name / "payload-0.bin").write_bytes(b"short")
    with pytest.raises(ConfigError, match="has 5 bytes"):
        letters.open(name)
    (tmp_path / name / "letter.json").write_text("{}")
    with pytest.raises(ConfigError, match="drop it"):
        letters.open(name)
    letters.drop(name)
    for wrong in (name, "../elsewhere"):
        with pytest.raises(NotFound, match="no dead letter"):
            letters.open(wrong)
        with pytest.raises(NotFound, match="no dead letter"):
            letters.drop(wrong)


def test_a_letter_is_filed_before_its_client_is_told(tmp_path: Path) -> None:
    """Also where a worker is found gone by a message that could not be sent to it: what follows is sent at once."""
    letters, told = DeadLetters(tmp_path), []

    class Doors:
        def send(self, side: str, _peer: bytes, _frames: object) -> bool:
            told.append((side, len(letters.names())))
            return side == "front"

    class Core:
        waiting: tuple[Letter, ...] = ()

        def take_dead_letters(self) -> tuple[Letter, ...]:
            taken, self.waiting = self.waiting, ()
            return taken

        def lost(self, *_: object) -> list[Outgoing]:
            self.waiting = (letter_of(),)
            return [Outgoing("front", b"client", Message("PONG"))]

    doors: Any = Doors()
    nobody: Any = None
    loop = BrokerLoop(BrokerSettings(), doors, stop=nobody, notifier=nobody, drain_timeout_s=1, dead_letters=letters)
    vars(loop)["_core"] = Core()
    loop._send_all([Outgoing("back", b"worker", Message("PING"))])
    assert told == [("back", 0), ("front", 1)]


def test_poison_ends_in_the_folder_and_goes_on_once_workers_are_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Real deaths: three workers end on one item; it is listed, shown, retried in vain, retried well, and gone."""
    where = ("--state-dir", str(tmp_path))

    def said(*words: str) -> tuple[int, Any]:
        status = run(["deadletter", *words, *where, "--json"])
        return status, json.loads(capsys.readouterr().out)

    with cluster() as running:
        running.start_broker("--dead-letters", str(tmp_path / "deadletters"))
        names = [f"echo-{n}" for n in range(4)]
        for worker in names:
            running.start_echo(worker)
        running.wait_ready(*names)
        with Client(running.front) as client:
            jobs = [Job(Signal("audio", np.full(4, n, np.int16), 8000), "die" * (n == 3), tag=n) for n in range(9)]
            results = list(client.stream(jobs))
            assert [n for n, r in enumerate(results) if not r.ok] == [3]
            assert isinstance(results[3].error, Quarantined)
        status, report = said("list")
        [letter] = report["letters"]
        assert (status, letter["item"]["name"], letter["route"], letter["bytes"]) == (0, "die", ["features"], 8)
        assert sorted(set(letter["lost_with"])) == sorted(letter["lost_with"])  # three different workers
        assert said("show", letter["name"]) == (0, letter)
        ended = {name for name in names if running.processes[name].poll() is not None}
        assert len(ended) == 3
        for worker in ended:
            running.start_echo(worker, "--immortal")
        running.wait_ready(*names)
        for worker in set(names) - ended:
            running.processes[worker].kill()
        status, report = said("retry", letter["name"], "--connect", running.front)
        assert (status, report) == (0, {"letters": {letter["name"]: "answered"}})
        assert said("list")[1]["letters"] == []


def test_what_is_left_after_a_drop_is_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`drop --all`, by name, and the mistakes: neither name nor --all, both, and a letter that is not there."""
    letters = DeadLetters(tmp_path / "deadletters")
    first, second, _ = (letters.put(letter_of(n), 1000.0 + n) for n in range(3))
    where = ["--state-dir", str(tmp_path)]
    assert run(["deadletter", "list", *where]) == 0
    assert first in capsys.readouterr().out
    assert run(["deadletter", "drop", second, *where]) == 0
    assert second not in letters.names()
    assert run(["deadletter", "drop", *where]) == 64
    assert run(["deadletter", "drop", first, "--all", *where]) == 64
    assert run(["deadletter", "show", second, *where]) == 64
    (letters.folder / first / "letter.json").unlink()
    capsys.readouterr()
    assert run(["deadletter", "list", *where]) == 3
    assert first in capsys.readouterr().err
    assert run(["deadletter", "drop", "--all", *where]) == 0
    assert letters.names() == []
    shutil.rmtree(letters.folder)
    assert run(["deadletter", "list", *where]) == 0
