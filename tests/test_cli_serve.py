"""`streamfeat serve`, `status`, `broker` and `worker`: what they start is there, and what they started is gone."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from streamfeat.client import Client
from streamfeat.errors import Unavailable
from tests.terminal import EXECUTABLE, Terminal, children, wait_gone


def members_of(run_dir: Path) -> list[str]:
    """Command lines of processes that were told the fleet's endpoints."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if str(run_dir) in line:
            found.append(line)
    return found


def test_status_tells_what_is_there(served: Terminal) -> None:
    """--json: workers with their processes, banks, counts; the text names them too; --run-dir finds the fleet."""
    report = served("status", "--json").json
    names = {"features-1", "features-2", "learner", "index"}
    assert {w["name"] for w in report["workers"]} == names
    assert all(w["state"] == "ready" and Path(f"/proc/{w['pid']}").exists() for w in report["workers"])
    assert set(report["banks"]) == {"digits-audio", "digits-image"}
    assert report["open"] == 0
    shown = served("status", "--run-dir", served.run_dir)
    assert shown.status == 0
    assert all(name in shown.out for name in names | {"bank digits-audio"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_with_status_0_and_leaves_nothing(cli: Terminal, number: signal.Signals) -> None:
    """Told to stop: every member of its --json report ends, the status is 0, the sockets are gone."""
    report = cli.home / "serve.json"
    with cli.serving("--bank", "digits-audio", "--workers", "1", "--json", report) as process:
        members = children(process.pid)
        told = json.loads(report.read_text())
        assert sorted(told["pids"].values()) == sorted(members)
        assert set(told["pids"]) == {"broker", "features-1", "learner", "index", "page"}
        assert f"page: {told['page']}" in (cli.home / "serve.log").read_text()
        assert told["front"].startswith("ipc://")
        process.send_signal(number)
        assert process.wait(30) == 0
        wait_gone(members, timeout_s=0.5)
        assert not list(cli.run_dir.glob("*.sock"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_serve_told_to_stop_while_it_starts(cli: Terminal, number: signal.Signals) -> None:
    """SIGTERM or SIGKILL before it is ready, at whatever point: no member stays; after SIGTERM the status is 0."""
    command = [EXECUTABLE, "serve", "--bank", "digits-audio"]
    process = subprocess.Popen(command, env=cli.environ, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not children(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)  # looks again
    process.send_signal(number)
    assert process.wait(30) == (0 if number == signal.SIGTERM else -number)
    while left := members_of(cli.run_dir):  # also one whose start was cut short, which `serve` never knew
        assert time.monotonic() < deadline, left
        time.sleep(0.02)  # looks again


def test_serve_killed_takes_its_members_along(cli: Terminal) -> None:
    """SIGKILL of `serve`: its members notice that they are orphans and stop."""
    with cli.serving("--bank", "digits-audio", "--workers", "1") as process:
        members = children(process.pid)
        process.kill()
        process.wait(10)
        wait_gone(members)


def workers_of(cli: Terminal) -> dict[str, int]:
    """Process ids of the fleet's workers, by name."""
    return {worker["name"]: worker["pid"] for worker in cli("status", "--json").json["workers"]}


def test_serve_ends_when_its_broker_does(cli: Terminal) -> None:
    """The broker killed: 69, and the line says who ended. A worker killed: said, the others go on."""
    with cli.serving("--bank", "digits-audio", "--no-page") as process:
        assert cli("status").status == 0
        workers = workers_of(cli)
        [broker] = set(children(process.pid)) - set(workers.values())
        os.kill(workers["features-2"], signal.SIGKILL)
        log = cli.home / "serve.log"
        deadline = time.monotonic() + 20
        while "features-2 ended with status -9; the others go on" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)  # looks again
        assert process.poll() is None
        os.kill(broker, signal.SIGKILL)
        assert process.wait(15) == 69  # a worker's drain may take 20 s, but these have nobody to finish anything for
        wait_gone(list(workers.values()), timeout_s=0.5)
    assert "broker ended with status -9; so does the fleet" in log.read_text()


def test_serve_says_what_starts_another_worker(cli: Terminal) -> None:
    """The only one is killed; the command that is printed then, pasted, brings one of its name."""
    with cli.serving("--bank", "digits-audio", "--workers", "1", "--no-page"):
        killed = workers_of(cli)["features-1"]
        os.kill(killed, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while "another: " not in (log := (cli.home / "serve.log").read_text()):
            assert time.monotonic() < deadline, log
            time.sleep(0.02)  # looks again
        told = log.partition("another: ")[2].partition("\n")[0].partition("; features-1 said")[0]
        command, *words = shlex.split(told)
        assert command == "streamfeat"
        another = subprocess.Popen([EXECUTABLE, *words], env=cli.environ, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while workers_of(cli).get("features-1") != another.pid:
                assert another.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.02)  # asks again
        finally:
            another.terminate()
            status = another.wait(60)
    assert status == 0


def test_the_command_that_serve_prints_can_be_pasted(cli: Terminal) -> None:
    """A run directory with a space in its name: `ready: ...` is quoted, as a shell needs it."""
    with cli.serving("--bank", "digits-audio", "--workers", "1", "--no-page", "--run-dir", cli.home / "my run"):
        line = (cli.home / "serve.log").read_text().partition("ready: ")[2].partition("\n")[0]
        command, *words = shlex.split(line)
        assert command == "streamfeat"
        assert cli(*words).status == 0


def test_two_fleets_do_not_share_a_run_directory(cli: Terminal) -> None:
    """A second `serve` in the same place: 78, one line; the first keeps every one of its workers."""
    with cli.serving("--bank", "digits-audio", "--workers", "1"):
        before = {w["name"]: w["pid"] for w in cli("status", "--json").json["workers"]}
        cli.execute("serve", "--bank", "digits-audio", "--workers", "1").refused(78, f"{cli.run_dir}/front.sock")
        assert {w["name"]: w["pid"] for w in cli("status", "--json").json["workers"]} == before


def test_broker_and_workers_one_by_one(cli: Terminal) -> None:
    """As a service manager starts them: same process id throughout, status 0 after SIGTERM."""
    roles = {
        "broker": ["broker"],
        "features": ["worker", "features", "--name", "features-9", "--bank", "digits-audio"],
        "learner": ["worker", "learner"],
        "index": ["worker", "index"],
    }
    cli.run_dir.mkdir(exist_ok=True)
    processes = {}
    try:
        for role, words in roles.items():
            with (cli.home / f"{role}.log").open("wb") as log:
                processes[role] = subprocess.Popen([EXECUTABLE, *words], env=cli.environ, stderr=log)
        deadline = time.monotonic() + 60
        workers: dict[str, int] = {}
        while set(workers) != {"features-9", "learner", "index"}:
            assert time.monotonic() < deadline, workers
            assert all(process.poll() is None for process in processes.values())
            try:
                with Client(cli.front, connect_timeout_s=0.2) as client:
                    workers = {w["name"]: w["pid"] for w in client.status()["workers"] if w["state"] == "ready"}
            except Unavailable:
                continue
        assert workers == {
            "features-9": processes["features"].pid,
            "learner": processes["learner"].pid,
            "index": processes["index"].pid,
        }
        for role in ("features", "learner", "index", "broker"):
            processes[role].send_signal(signal.SIGTERM)
            assert processes[role].wait(20) == 0, role
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
