"""`streamfeat status`: an operator's report, and watching it."""

from __future__ import annotations

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


def test_watching_shows_rates_until_it_is_stopped(served: Terminal) -> None:
    """Ctrl-C ends it with 130, as every command."""
    command = [EXECUTABLE, "status", "--watch", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=served.environ) as watching:
        time.sleep(3)  # it shows the last picture when it ends, so nothing can be waited for
        watching.send_signal(signal.SIGINT)
        out, _ = watching.communicate(timeout=20)
    assert watching.returncode == 130
    assert b"answered 0/s" in out
    served("status", "--watch", "--json").refused(64, "--watch is for people")
