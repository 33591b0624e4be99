"""The logs of a learner or an index: how many there may be, and what makes one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from streamfeat.workers.logs import Logs

from streamfeat.errors import ConfigError, InvalidArgument, TooLarge
from streamfeat.featurelog import Receipt
from tests.test_learner import items, no_beat, spoken
from tests.test_logcheck import killed


def test_names_are_bounded(tmp_path: Path) -> None:
    """Two names where two may be: a third is refused and leaves nothing; the two go on, also after a restart."""
    X, _labels, _ = spoken(4)
    logs = Logs(tmp_path, n_most=2)
    for name in ("a", "b"):
        assert all(isinstance(r, Receipt) for r in logs.append(name, items(X), no_beat, need_label=False))
    with pytest.raises(TooLarge, match="2 names are in use"):
        logs.append("c", items(X), no_beat, need_label=False)
    logs.close()
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["a", "b"]
    again = Logs(tmp_path, n_most=1)
    assert again.names == ["a", "b"]
    again.append("b", items(X, first=4), no_beat, need_label=False)
    assert len(again.get("b")) == 8
    again.close()


def test_a_state_directory_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    """Named, with the remedy, and with the status that systemd leaves alone."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"state directory .*file/x cannot be made: Not a directory; .*--state-dir"):
        Logs(tmp_path / "file" / "x")


@pytest.mark.parametrize("role", ["learner", "index"])
@pytest.mark.parametrize("left", ["closed", "killed"])
def test_a_damaged_log_stops_its_worker(tmp_path: Path, role: str, left: str) -> None:
    """78, which systemd does not restart; log and `systemctl status` have the file and the ways out, in one line."""
    log = damaged = tmp_path / "state" / "words" / "log.sqlite"
    if left == "closed":
        logs = Logs(tmp_path / "state")
        logs.append("words", items(spoken(4)[0]), no_beat, need_label=False)
        logs.close()
    else:
        killed(log)
        damaged = log.with_name("log.sqlite-wal")
    whole = damaged.read_bytes()
    before = whole[:-2000] + bytes([whole[-2000] ^ 1]) + whole[-1999:]
    damaged.write_bytes(before)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        words = ["--connect", f"ipc://{tmp_path}/back", "--name", role, "--state", str(tmp_path / "state")]
        done = subprocess.run(
            [sys.executable, "-m", f"streamfeat.workers.{role}", *words],
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        systemd.setblocking(False)
        assert systemd.recv(1000).startswith(b"STATUS=warming")
        told = systemd.recv(1000).decode()
    unit = Path(__file__).parent.parent / "systemd" / f"streamfeat-{role}.service"
    assert done.returncode == 78
    assert " 78\n" in re.findall(r"RestartPreventExitStatus=.*\n", unit.read_text())[0]
    for said in (told.removeprefix("STATUS="), done.stderr):
        assert f"CONFIG: {log} is {'not what was closed' if left == 'closed' else 'damaged'}" in said
        assert "copy it again from where it is whole, or move it" in said
    assert done.stderr.count("\n") == 1
    assert damaged.read_bytes() == before


def test_what_is_refused_makes_no_log(tmp_path: Path) -> None:
    """Items without a label or a bank, under a new name: each gets its reason, and the name stays unknown."""
    X, labels, _ = spoken(2)
    logs = Logs(tmp_path)
    for refused in (items(X), items(X, bank=None, label=labels)):
        receipts = logs.append("new", refused, no_beat, need_label=True)
        assert [type(receipt) for receipt in receipts] == [InvalidArgument] * 2
    assert not logs.names
    assert not any(tmp_path.iterdir())
    one_good = [*items(X[:1]), *items(X[1:], first=1, label=labels[1:])]
    receipts = logs.append("new", one_good, no_beat, need_label=True)
    assert [type(receipt) for receipt in receipts] == [InvalidArgument, Receipt]
    logs.close()


@pytest.mark.parametrize(("soft", "hard", "becomes"), [(256, 2048, 2048), (256, 20000, 16384), (18000, 20000, 18000)])
def test_a_worker_may_open_many_files(soft: int, hard: int, becomes: int) -> None:
    """Below the hard limit a worker takes what it needs; a higher limit stays."""
    told = (
        "import resource; from streamfeat.workers.launch import allow_open_files; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); allow_open_files(); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == str((becomes, hard))
