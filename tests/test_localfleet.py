"""`LocalFleet`: a fleet of processes that is ready inside, gone outside, and loses nothing when one of them dies."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamfeat.bankspec import BankSpec
from streamfeat.client import Client, Job
from streamfeat.config import Settings, load_settings
from streamfeat.errors import ConfigError, Unavailable
from streamfeat.featuremap import FeatureMap
from streamfeat.fleet import LocalFleet, Voice, private_settings
from streamfeat.signals import Signal, open_corpus
from tests.files import shared
from tests.terminal import wait_gone


@pytest.fixture
def private() -> Iterator[Settings]:
    """Settings of a fleet of its own."""
    with private_settings(load_settings({})) as settings:
        yield settings


def test_members_are_ready_inside_and_gone_outside(private: Settings, audio_bank: Path) -> None:
    """Every member answers for itself inside; no process, no run directory afterwards, also after an error."""
    fleet = LocalFleet(private, [audio_bank], n_workers=1, learner=True, index=True)
    pids: list[int] = []

    def fail_inside() -> None:
        with fleet, Client(fleet.front) as client:
            pids.extend(fleet.pids.values())
            ready = {w["name"]: w["pid"] for w in client.status()["workers"]}
            assert {**ready, "broker": fleet.pids["broker"]} == fleet.pids
            assert set(ready) == {"features-1", "learner", "index"}
            raise RuntimeError("from within")

    with pytest.raises(RuntimeError, match="from within"):
        fail_inside()
    wait_gone(pids, timeout_s=0.5)
    assert fleet.pids == {}
    assert set(fleet.fallen().values()) == {0}


def test_private_settings_are_gone_afterwards() -> None:
    """The run directory is short, its own, and removed; the state stays where it was asked for."""
    with private_settings(load_settings({"STREAMFEAT_BROKER__CREDIT_ITEMS": "7"})) as one:
        with private_settings(load_settings({}), state_dir=Path("/elsewhere")) as other:
            assert one.fleet.run_dir != other.fleet.run_dir
            assert other.fleet.state_dir == "/elsewhere"
        assert one.broker.credit_items == 7
        assert Path(one.fleet.run_dir).stat().st_mode & 0o777 == 0o700
        assert one.fleet.state_dir.startswith(one.fleet.run_dir)
    assert not Path(one.fleet.run_dir).exists()


def test_a_member_that_cannot_start_ends_the_start(private: Settings, audio_bank: Path, tmp_path: Path) -> None:
    """A bank that is not there: ConfigError with the worker's own last words; the others are stopped."""
    fleet = LocalFleet(private, [tmp_path / "no-bank"], n_workers=1, log_dir=tmp_path / "log")
    with pytest.raises(
        ConfigError, match=r"features-1 ended with status 78 while starting; features-1 said: .*no-bank"
    ):
        fleet.start()
    fleet.stop()
    assert fleet.pids == {}
    with (
        pytest.raises(ConfigError, match=r"features-1 said: .*no-bank"),
        LocalFleet(private, [tmp_path / "no-bank"], n_workers=1),
    ):
        pass
    with (
        pytest.raises(Unavailable, match=r"features-1 not ready within 0\.01 s"),
        LocalFleet(private, [audio_bank], n_workers=1, ready_timeout_s=0.01),
    ):
        pass


def test_what_a_member_says_goes_on_and_its_last_line_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    """Whole and in order, also without a line end; blank lines are no last words; nothing said, nothing kept."""
    for said, last in ((b"one\ntwo\n\n", "two"), (b"one\nt\xffo", "t\ufffdo"), (b"", "")):
        out, into = os.pipe()
        voice = Voice(open(out, "rb"))  # noqa: PTH123, SIM115 - a descriptor, which the voice closes
        os.write(into, said)
        os.close(into)
        assert voice.last_line(30) == last
        assert capfd.readouterr().err == said.decode(errors="replace")


def test_a_second_fleet_in_the_same_place_is_refused(private: Settings, audio_bank: Path) -> None:
    """Before it starts anything: the first keeps its workers."""
    with LocalFleet(private, [audio_bank], n_workers=1) as fleet:
        pids = fleet.pids
        second = LocalFleet(private, [audio_bank], n_workers=1)
        with pytest.raises(ConfigError, match=r"front\.sock has a process listening"):
            second.start()
        assert second.pids == {}
        with Client(fleet.front) as client:
            assert {w["pid"] for w in client.status()["workers"]} == {pids["features-1"]}


def test_a_directory_too_deep_for_a_socket_is_said_to_be(audio_bank: Path, tmp_path: Path) -> None:
    """Both lengths are in the message."""
    deep = tmp_path / ("d" * 100)
    settings = load_settings({}, arguments={"fleet": {"run_dir": str(deep)}})
    with pytest.raises(ConfigError, match=r"of \d{3} bytes, but a unix socket takes at most 107"):
        LocalFleet(settings, [audio_bank]).start()


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_feature_worker_is_ready_for_little(private: Settings, audio_bank: Path) -> None:
    """With warm caches: below 2.5 s of processor time when ready; nothing of the building side mapped."""
    FeatureMap.open(audio_bank).warm()  # compiles what is not cached
    with LocalFleet(private, [audio_bank], n_workers=2) as fleet:
        for name in ("features-1", "features-2"):
            assert cpu_s(fleet.pids[name]) < 2.5  # 0.7 s measured
            mapped = Path(f"/proc/{fleet.pids[name]}/maps").read_text()
            assert "numba" in mapped
            assert not [p for p in ("sklearn", "matplotlib", "librosa", "pandas") if f"/{p}/" in mapped]


def test_two_workers_hold_a_large_bank_once(private: Settings, tmp_path: Path) -> None:
    """Proportional set sizes of two workers on a dense bank of 300 MB: below 1.5 banks and 300 MB together."""
    spec = BankSpec.from_dict(
        {
            "name": "large",
            "form": "dense",
            "front_end": [{"stage": "pixels", "height": 28, "width": 28}],
            "templates": {"source": "gaussian", "m": 1184, "epsilon": 0.5},
            "group": [{"factor": "translation", "law": "grid", "low": -4, "high": 4, "n": 9}],
            "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5},
        }
    )
    bank = FeatureMap.fit(spec).bank.save(tmp_path)
    size = sum(file.stat().st_size for file in bank.iterdir())
    assert 290e6 < size < 330e6
    pictures = [Signal("image", np.full((28, 28), n, np.uint8) + np.eye(28, dtype=np.uint8)) for n in range(8)]
    try:
        with LocalFleet(private, [bank], n_workers=2) as fleet, Client(fleet.front) as client:
            client.features(pictures)
            pss = 0
            for name in ("features-1", "features-2"):
                for line in Path(f"/proc/{fleet.pids[name]}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        pss += 1024 * int(line.split()[1])
        assert size < pss < 1.5 * size + 300e6
    finally:
        for file in bank.iterdir():
            file.unlink()  # pytest keeps three runs' temporary folders


def test_all_free_spoken_digits_though_a_worker_is_killed(private: Settings, audio_bank: Path) -> None:
    """3,000 recordings, SIGKILL of one of two workers after the 1,000th: each answered once, equal to the bit."""
    utterances = open_corpus(shared("data", "fsdd")).utterances
    assert len(utterances) == 3000
    signals = [u.read() for u in utterances]
    features: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.uint16]]] = {}
    attempts = []
    with LocalFleet(private, [audio_bank], n_workers=2) as fleet, Client(fleet.front) as client:
        for result in client.stream((Job(s, tag=n) for n, s in enumerate(signals)), ordered=False):
            assert result.ok, result.error
            assert result.job.tag not in features
            features[result.job.tag] = result.feature
            attempts.append(result.fields["attempt"])
            if len(features) == 1000:
                os.kill(fleet.pids["features-1"], signal.SIGKILL)
        assert set(fleet.fallen()) == {"features-1"}
        assert client.status()["open"] == 0
    assert sorted(features) == list(range(3000))
    assert max(attempts) == 2
    expected = FeatureMap.open(audio_bank).transform(signals)
    np.testing.assert_array_equal(np.stack([features[n] for n in range(3000)]), expected)


def test_a_fleet_on_loopback_ports(private: Settings, audio_bank: Path) -> None:
    """tcp endpoints instead of sockets in the run directory."""
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("127.0.0.1", 0))
        front, back = (f"tcp://127.0.0.1:{probe.getsockname()[1]}" for probe in (one, two))
    insecure = replace(private.auth, insecure=True)
    settings = replace(private, fleet=replace(private.fleet, front=front, back=back), auth=insecure)
    with LocalFleet(settings, [audio_bank], n_workers=1) as fleet, Client(fleet.front) as client:
        assert client.features([Signal("audio", np.ones(4000, np.int16), 8000)]).shape[0] == 1
        second = LocalFleet(settings, [audio_bank], n_workers=1)
        with pytest.raises(ConfigError, match="has a process listening"):
            second.start()  # else its worker would join the first fleet and take the place of the worker there
        assert second.pids == {}
