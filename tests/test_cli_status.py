"""`streamfeat status`: an operator's report, and watching it."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from streamfeat.config import load_settings
from streamfeat.inquiry import absent_keepers
from tests.terminal import EXECUTABLE, Terminal


def test_status_asks_the_admin_socket(served: Terminal) -> None:
    """Whoever may open it sees every client, what was turned away and what happened; --connect asks at the front."""
    report = served("status", "--json").json
    assert report["endpoint"].endswith("admin.sock")
    assert {"turned_away", "events", "recent"} <= set(report)
    assert any("joined" in note["what"] for note in report["recent"])
    client = served("status", "--connect", served.front, "--json").json
    assert "recent" not in client
    assert len(client["clients"]) == client["n_clients"] == 1
    text = served("status").out
    assert "features-1" in text
    assert "joined" in text
    # no terminal, nothing cut: whoever greps for a worker finds all of it
    row = next(line for line in text.splitlines() if line.split()[:1] == ["features-1"])
    assert str(next(w["pid"] for w in report["workers"] if w["name"] == "features-1")) in row.split()
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_a_keeper_that_is_not_there_is_missed(served: Terminal, tmp_path: Path) -> None:
    """Logs of a learner without one: it may have been stopped by a damaged log, so the doctor is named."""
    fleet = served("status", "--json").json
    assert fleet["absent"] == {}
    without = {**fleet, "workers": [worker for worker in fleet["workers"] if worker["kind"] != "learner"]}
    settings = load_settings({}, arguments={"fleet": {"state_dir": str(tmp_path)}})
    assert absent_keepers(settings, without) == {}
    for name in ("a", "b"):
        (tmp_path / "learner" / name).mkdir(parents=True)
        (tmp_path / "learner" / name / "log.sqlite").touch()
    assert absent_keepers(settings, without) == {"learner": 2}
    assert absent_keepers(settings, fleet) == {}


def shown_until(word: bytes, terminal: int) -> bytes:
    """What a program writes to the other side of a terminal, until a word is in it or nobody is there."""
    shown, deadline = b"", time.monotonic() + 60
    while not word or word not in shown:
        assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], shown
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError as error:
            if error.errno == errno.EIO:  # Linux: the other side was closed
                return shown
            raise
    return shown


def test_watching_shows_rates_until_it_is_stopped(served: Terminal) -> None:
    """On a terminal, picture after picture; Ctrl-C ends it with 130, as every command."""
    ours, theirs = os.openpty()
    command = [EXECUTABLE, "status", "--watch", "--every", "0.1"]
    environ = {**served.environ, "TERM": "xterm", "COLUMNS": "1000"}  # rates are not broken into two lines
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environ) as watching:
        os.close(theirs)
        assert b"answered 0/s" in shown_until(b"answered 0/s", ours)
        watching.send_signal(signal.SIGINT)
        shown_until(b"", ours)  # a full terminal would hold it up
        watching.communicate(timeout=20)
    os.close(ours)
    assert watching.returncode == 130
    served("status", "--watch", "--json").refused(64, "--watch is for people")
