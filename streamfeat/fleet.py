"""A fleet of real processes on this machine: broker, feature workers, learner, index.

For developers, containers and one-off runs (`streamfeat serve`, `stream`, `push`). It starts and stops; it does not
restart: a fleet that must come back by itself belongs to systemd (folder `systemd/`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO

from streamfeat.admin import ask
from streamfeat.config import Auth, Settings
from streamfeat.endpoints import claim_endpoint, is_tcp
from streamfeat.errors import ConfigError, Unavailable
from streamfeat.wire.messages import Message

WORKERS_STOP_S = 25.0
"""A worker drains for 20 s at the most and needs 2 for its last words."""

BROKER_STOP_S = 15.0
"""A broker drains for 10 s at the most and needs 1."""

STANDARD_ERROR = 2
"""The descriptor that members would have inherited."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def dead_letter_folder(settings: Settings) -> str:
    """Where the broker files items that ended too many workers."""
    return f"{settings.fleet.state_dir}/deadletters"


def broker_arguments(settings: Settings) -> list[str]:
    """Arguments of `python -m streamfeat.workers.broker`."""
    flags = {
        "--front": settings.fleet.front,
        "--back": settings.fleet.back,
        "--heartbeat-ms": settings.broker.heartbeat_ms,
        "--credit-items": settings.broker.credit_items,
        "--credit-bytes": settings.broker.credit_bytes,
        "--retained-bytes": settings.broker.retained_bytes,
        "--batch-items": settings.broker.batch_items,
        "--batch-wait-ms": settings.broker.batch_wait_ms,
        "--dead-letters": dead_letter_folder(settings),
        "--admin": settings.fleet.admin,
        "--metrics": settings.broker.metrics,
        "--front-mode": settings.fleet.front_mode,
        "--key": settings.auth.key,
        "--authorised": settings.auth.authorised,
    }
    given = [str(word) for flag, value in flags.items() if value != "" for word in (flag, value)]
    return [*given, "--insecure"] if settings.auth.insecure else given


def features_arguments(settings: Settings, name: str, banks: Sequence[Path]) -> list[str]:
    """Arguments of `python -m streamfeat.workers.features`."""
    return [*_connecting(settings, name), *(word for bank in banks for word in ("--bank", str(bank)))]


def stateful_arguments(settings: Settings, role: str, name: str | None = None) -> list[str]:
    """Arguments of `python -m streamfeat.workers.learner` and `.index`: each keeps its own folder of the state."""
    words = [*_connecting(settings, name or role), "--state", f"{settings.fleet.state_dir}/{role}"]
    if role == "index":
        named = ("metric", "factory", "train_items", "effort", "oversample")
        pairs = [(f"--{name.replace('_', '-')}", str(getattr(settings.index, name))) for name in named]
        words += [word for pair in pairs if pair[1] for word in pair]
    return words


def page_arguments(settings: Settings) -> list[str]:
    """Arguments of `python -m streamfeat.workers.page`: all but where it listens and what it shows besides."""
    words = ["--front", settings.fleet.front, "--admin", settings.fleet.admin]
    words += ["--state", settings.fleet.state_dir, "--dead-letters", dead_letter_folder(settings)]
    words += ["--connect-timeout-s", str(settings.client.connect_timeout_s)]
    if settings.auth.key and settings.auth.server:
        words += ["--key", settings.auth.key, "--server-key", settings.auth.server]
    return words


def _connecting(settings: Settings, name: str) -> list[str]:
    """Where a worker connects and as whom; over TCP with the key that the settings name."""
    words = ["--connect", settings.fleet.back, "--name", name]
    if is_tcp(settings.fleet.back) and settings.auth.key and settings.auth.server:
        words += ["--key", settings.auth.key, "--server-key", settings.auth.server]
    return words


class Voice:
    """What one member says: passed on to our standard error line by line, and its last line remembered.

    A thread reads until the member and all that it started have ended. Where our standard error is gone it reads on: a
    member whose pipe is full would wait.
    """

    def __init__(self, said: IO[bytes]) -> None:
        self._last = b""
        self._reader = threading.Thread(target=self._pass_on, args=(said,), daemon=True)
        self._reader.start()

    def wait(self, timeout_s: float = 1.0) -> None:
        """Until all is passed on that a member said which has ended."""
        self._reader.join(timeout_s)

    def last_line(self, timeout_s: float = 1.0) -> str:
        """Of a member that has ended; of one that has not, what it said so far once the time is over."""
        self.wait(timeout_s)
        return self._last.decode(errors="replace").strip()

    def _pass_on(self, said: IO[bytes]) -> None:
        with said:
            for line in said:
                with contextlib.suppress(OSError):
                    os.write(STANDARD_ERROR, line)
                self._last = line if line.strip() else self._last


class LocalFleet:
    """Processes of one fleet, as a context manager: ready inside, gone outside.

    Parameters
    ----------
    settings : Settings
        Endpoints, directories and limits.
    banks : sequence of Path
        Bank directories that every feature worker opens.
    n_workers : int
        Feature workers; one core each.
    learner, index : bool
        Start these as well; what they keep lies in `settings.fleet.state_dir`.
    log_dir : Path, optional
        Where each process writes NAME.log; None: what they say goes on to this process's standard error.
    ready_timeout_s : float
        How long the whole start may take: cold numba caches compile for tens of seconds.

    Raises
    ------
    ConfigError
        Another fleet is there; or a process ended while starting: its last words are in the message.
    Unavailable
        Not ready in time.
    """

    def __init__(
        self,
        settings: Settings,
        banks: Sequence[Path],
        *,
        n_workers: int = 2,
        learner: bool = False,
        index: bool = False,
        log_dir: Path | None = None,
        ready_timeout_s: float = 120.0,
    ) -> None:
        self.settings = settings
        self.banks = tuple(banks)
        self.n_workers = n_workers
        self.learner = learner
        self.index = index
        self.log_dir = log_dir
        self.ready_timeout_s = ready_timeout_s
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._roles: dict[str, tuple[str, list[str], tuple[int, ...]]] = {}
        self._voices: dict[str, Voice] = {}

    @property
    def front(self) -> str:
        """The endpoint that clients connect to."""
        return self.settings.fleet.front

    @property
    def pids(self) -> dict[str, int]:
        """Process id of every member that still runs, by name."""
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def __enter__(self) -> LocalFleet:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start every process and return when all have said that they are ready."""
        Path(self.settings.fleet.run_dir).mkdir(mode=0o700, parents=True, exist_ok=True)
        # before anything runs: our workers would join a broker that is there already and take its workers' names
        for endpoint in (self.settings.fleet.front, self.settings.fleet.back, self.settings.fleet.admin):
            claim_endpoint(endpoint)
        self._spawn("broker", "broker", broker_arguments(self.settings))
        for n in range(self.n_workers if self.banks else 0):
            name = f"features-{n + 1}"
            self._spawn(name, "features", features_arguments(self.settings, name, self.banks))
        for role, wanted in (("learner", self.learner), ("index", self.index)):
            if wanted:
                self._spawn(role, role, stateful_arguments(self.settings, role))
        self._wait_ready()

    def stop(self) -> None:
        """End every process: workers drain first, then the broker; what does not end in time is killed."""
        workers = [process for name, process in self._processes.items() if name != "broker"]
        brokers = [process for name, process in self._processes.items() if name == "broker"]
        for group, timeout_s in ((workers, WORKERS_STOP_S), (brokers, BROKER_STOP_S)):
            for process in group:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + timeout_s
            for process in group:
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(5)
        for voice in self._voices.values():
            voice.wait()

    def attend(self, name: str, role: str, arguments: list[str], descriptors: tuple[int, ...] = ()) -> None:
        """Start one process more, which inherits these descriptors and ends with the fleet."""
        self._spawn(name, role, arguments, descriptors)

    def fallen(self) -> dict[str, int]:
        """Members that ended by themselves, with their exit status (negative: the signal)."""
        return {name: process.returncode for name, process in self._processes.items() if process.poll() is not None}

    def last_words(self, name: str) -> str:
        """The end of a message about a member: the last line that it said, or nothing."""
        if self.log_dir is None:
            said = self._voices[name].last_line()
        else:
            log = self.log_dir / f"{name}.log"
            said = log.read_text(errors="replace").strip().rpartition("\n")[2] if log.exists() else ""
        return f"; {name} said: {said}" if said else ""

    def restart(self, name: str) -> None:
        """Start a member that has fallen once more, as a supervisor does: same name, same arguments, same log."""
        self._processes[name].wait(5)
        self._spawn(name, *self._roles[name])

    def _spawn(self, name: str, role: str, arguments: list[str], descriptors: tuple[int, ...] = ()) -> None:
        self._roles[name] = role, arguments, descriptors
        parent = ["--stop-with-parent", str(os.getpid())]
        command = [sys.executable, "-m", f"streamfeat.workers.{role}", *arguments, *parent]
        with contextlib.ExitStack() as stack:
            log = None
            if self.log_dir is not None:
                self.log_dir.mkdir(parents=True, exist_ok=True)
                again = name in self._processes
                log = stack.enter_context((self.log_dir / f"{name}.log").open("ab" if again else "wb"))
            environ = {**os.environ, **(ONE_THREAD if role == "features" else {})}
            self._processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE if log is None else log,
                env=environ,
                pass_fds=descriptors,
            )
        if (said := self._processes[name].stderr) is not None:
            self._voices[name] = Voice(said)

    def _wait_ready(self) -> None:
        wanted = set(self._processes) - {"broker"}
        deadline = time.monotonic() + self.ready_timeout_s
        missing = wanted
        while time.monotonic() < deadline:
            self._refuse_fallen()
            try:
                workers = ask(self.settings.fleet.admin, Message("STATUS"), timeout_s=1.0)["workers"]
            except Unavailable:
                continue
            missing = wanted - {w["name"] for w in workers if w["state"] == "ready"}
            if not missing:
                return
            time.sleep(0.02)  # each turn asks again; nothing depends on the length
        raise Unavailable(
            f"fleet at {self.front}: {', '.join(sorted(missing)) or 'broker'} not ready "
            f"within {self.ready_timeout_s:g} s{''.join(map(self.last_words, sorted(missing)))}"
        )

    def _refuse_fallen(self) -> None:
        for name, status in self.fallen().items():
            raise ConfigError(f"{name} ended with status {status} while starting{self.last_words(name)}")


@contextlib.contextmanager
def private_settings(settings: Settings, *, state_dir: Path | None = None) -> Iterator[Settings]:
    """Settings of a fleet that nobody else meets: its own run directory, gone afterwards.

    Parameters
    ----------
    settings : Settings
        Limits and bank directory are kept.
    state_dir : Path, optional
        Where learner and index keep what they learn; None: below the run directory, gone with it.

    Yields
    ------
    Settings
    """
    # a short path: a socket's path may not be longer than 107 bytes
    run_dir = Path(tempfile.mkdtemp(prefix="streamfeat-"))
    try:
        yield replace(
            settings,
            fleet=replace(
                settings.fleet,
                run_dir=str(run_dir),
                state_dir=str(state_dir or run_dir / "state"),
                front=f"ipc://{run_dir}/front.sock",
                back=f"ipc://{run_dir}/back.sock",
                admin=f"ipc://{run_dir}/admin.sock",
            ),
            auth=Auth(),
            broker=replace(settings.broker, metrics=""),
        )
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
