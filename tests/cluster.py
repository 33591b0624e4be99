"""Fleets of real processes for tests: broker and workers on unix sockets in a short temporary directory.

Ready is asked for through the client's status, nothing is slept for blindly, and each cluster ends only the processes
that it started itself, by pid.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from streamfeat.client import Client
from streamfeat.errors import Unavailable

READY_TIMEOUT_S = 60.0
"""With cold numba caches on a loaded machine; a usual start takes a second."""


class Cluster:
    """Processes of one fleet. `front` and `back` are its endpoints."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.front = f"ipc://{run_dir}/front.sock"
        self.back = f"ipc://{run_dir}/back.sock"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_broker(self, *arguments: str) -> None:
        """Start (or start again) the broker; what listens is told apart from what answers by `wait_ready`."""
        self.spawn("broker", "streamfeat.workers.broker", "--front", self.front, "--back", self.back, *arguments)

    def start_features(self, name: str, banks: Sequence[Path], *arguments: str) -> None:
        """Start a feature worker."""
        named = [word for bank in banks for word in ("--bank", str(bank))]
        self.spawn(name, "streamfeat.workers.features", "--connect", self.back, "--name", name, *named, *arguments)

    def start_echo(self, name: str, *arguments: str) -> None:
        """Start a worker of `tests.handlers`."""
        self.spawn(name, "tests.handlers", "--connect", self.back, "--name", name, *arguments)

    def spawn(self, name: str, module: str, *arguments: str) -> None:
        """Start `python -m module`."""
        self.spawn_python(name, "-m", module, *arguments)

    def spawn_python(self, name: str, *arguments: str) -> None:
        """Start a process of this cluster; its log is NAME.log in the run directory."""
        if name in self.processes:
            self.processes[name].wait(10)  # its predecessor, which was just killed
        with (self.run_dir / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_ready(self, *names: str, timeout_s: float = READY_TIMEOUT_S) -> dict[str, Any]:
        """Wait until the broker reports every named worker as ready; its report."""
        deadline = time.monotonic() + timeout_s
        report: dict[str, Any] = {}
        while time.monotonic() < deadline:
            for name in names:
                status = self.processes[name].poll()
                assert status is None, f"{name} ended with status {status}: {self.log(name)}"
            try:
                with Client(self.front, connect_timeout_s=1.0, timeout_s=1.0) as client:
                    while time.monotonic() < deadline:
                        report = client.status()
                        if {w["name"] for w in report["workers"] if w["state"] == "ready"} >= set(names):
                            return report
                        time.sleep(0.01)  # asks again
            except Unavailable:
                continue
        raise AssertionError(f"not ready within {timeout_s} s: {names}; {report}; {self.log('broker')}")

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to one process of this cluster."""
        os.kill(self.processes[name].pid, number)

    def wait(self, name: str, timeout_s: float = 10.0) -> int:
        """Exit status of a process that is about to end."""
        return self.processes[name].wait(timeout_s)

    def log(self, name: str) -> str:
        """What the process said."""
        return (self.run_dir / f"{name}.log").read_text(errors="replace")

    def stop(self) -> None:
        """End every process that is left, at once."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """An empty cluster, ended and removed afterwards."""
    run_dir = Path(tempfile.mkdtemp(prefix="sf-"))  # short: a socket's path has 107 bytes at most
    running = Cluster(run_dir)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(run_dir)
