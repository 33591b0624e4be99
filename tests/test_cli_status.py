"""`streamfeat status`: an operator's report, and watching it."""

from __future__ import annotations

import signal
import subprocess
import time

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
