"""The command line as a test runs it: in this process, with its output and exit status taken down."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamfeat.cli import run

EXECUTABLE = str(Path(sys.executable).with_name("streamfeat"))


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON: fails if anything else is on it."""
        return json.loads(self.out)

    def refused(self, status: int, said: str) -> None:
        """It ended with this status, nothing on standard output and one line on standard error that holds `said`."""
        assert (self.status, self.out) == (status, ""), self
        assert said in self.err
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err


@dataclass(frozen=True)
class Terminal:
    """Runs commands with banks and state in its own directories; calling it gives a `Ran`."""

    home: Path
    run_dir: Path
    variables: Mapping[str, str]

    @property
    def banks(self) -> Path:
        """Where banks are built."""
        return self.home / "banks"

    @property
    def front(self) -> str:
        """Endpoint of a fleet that runs here."""
        return f"ipc://{self.run_dir}/front.sock"

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a command."""
        return {**os.environ, **self.variables}

    def __call__(self, *words: str | Path) -> Ran:
        """Run `streamfeat WORDS` in this process."""
        out, err = io.StringIO(), io.StringIO()
        before = dict(os.environ)
        os.environ.update(self.variables)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = run([str(word) for word in words])
        finally:
            os.environ.clear()
            os.environ.update(before)
        return Ran(status, out.getvalue(), err.getvalue())

    def execute(self, *words: str | Path, timeout_s: float = 60.0) -> Ran:
        """Run the executable that pip installed."""
        done = subprocess.run(
            [EXECUTABLE, *map(str, words)],
            capture_output=True,
            check=False,
            text=True,
            env=self.environ,
            timeout=timeout_s,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def serving(self, *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
        """`streamfeat serve WORDS` as a process, ready; killed afterwards if it is still there."""
        log = self.home / "serve.log"
        with log.open("wb") as file:
            command = [EXECUTABLE, "serve", *map(str, words)]
            process = subprocess.Popen(command, env=self.environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            deadline = time.monotonic() + 60
            while b"ready: " not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)  # asks again
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def children(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pids: list[int], timeout_s: float = 20.0) -> None:
    """Return when none of these processes is left."""
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)  # looks again


def _runs(pid: int) -> bool:
    """Whether the process is there and is more than a zombie nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def terminal(home: Path, *, run_dir: Path, banks: Path | None = None) -> Iterator[Terminal]:
    """A terminal whose run directory is short enough for sockets and gone afterwards."""
    variables = {
        "STREAMFEAT_FLEET__RUN_DIR": str(run_dir),
        "STREAMFEAT_FLEET__STATE_DIR": str(home / "state"),
        "STREAMFEAT_FLEET__BANK_DIR": str(banks or home / "banks"),
        "STREAMFEAT_CLIENT__CONNECT_TIMEOUT_S": "0.5",
    }
    try:
        yield Terminal(home, run_dir, variables)
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
