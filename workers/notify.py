"""What a process and its supervisor say to each other: signals in, sd_notify datagrams out.

Imported before anything heavy, so that SIGTERM during the second of imports is a clean stop too. Uses the standard
library alone; outside systemd the notifications go nowhere.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Mapping, MutableMapping
from types import FrameType

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Read once, when numpy and numba are imported. Fleets scale by processes: N workers with N threads each crawl."""

READY = "READY=1"
STOPPING = "STOPPING=1"
WATCHDOG = "WATCHDOG=1"


class Notifier:
    """Datagrams to systemd: READY, STATUS, WATCHDOG, STOPPING, and more time where a step needs it.

    Only the work loop may call `beat`: a helper thread would report a stuck process as healthy.
    """

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched = environ.get("WATCHDOG_PID", str(pid)) == str(pid)
        watchdog_usec = environ.get("WATCHDOG_USEC", "0") if watched else "0"
        self._watchdog_s = int(watchdog_usec) / 1e6 if watchdog_usec.isdigit() else 0.0
        self._next_beat = float("-inf")
        self._stretched = False
        self._status = ""

    def say(self, *lines: str) -> None:
        """Send lines such as READY=1; nobody listening is not an error."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            try:
                out.sendto("\n".join(lines).encode(), self._address)
            except OSError as error:
                print(f"systemd did not take a notification: {error}", file=sys.stderr)

    def status(self, text: str) -> None:
        """What `systemctl status` shows; sent when it changes."""
        if text != self._status:
            self._status = text
            self.say(f"STATUS={text}")

    def beat(self, now: float) -> None:
        """Feed the watchdog at half of its time; call it as often as you like."""
        if self._stretched:
            self._stretched = False
            self.say(f"WATCHDOG_USEC={int(self._watchdog_s * 1e6)}")
        if self._watchdog_s and now >= self._next_beat:
            self._next_beat = now + self._watchdog_s / 2
            self.say(WATCHDOG)

    def stretch(self, busy_s: float, now: float) -> None:
        """Give the watchdog that much longer until the next `beat`: one step cannot feed it in between."""
        if busy_s > self._watchdog_s / 2 > 0:
            self._stretched = True
            self._next_beat = now
            self.say(f"WATCHDOG_USEC={int((busy_s + self._watchdog_s) * 1e6)}", WATCHDOG)

    def wait_s(self, now: float) -> float:
        """How long the loop may sleep before the watchdog is due; infinity without one."""
        return max(0.0, self._next_beat - now) if self._watchdog_s else float("inf")


class Stop:
    """SIGTERM and SIGINT, counted, and SIGHUP, remembered. `fd` turns readable with each, so that a poll wakes at once.

    Until `defer` is called a signal ends the process with status 0: nothing is in hand yet.
    """

    def __init__(self) -> None:
        self._n_signals = 0
        self._reload = False
        self._deferred = False
        self._parent: int | None = None
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    @property
    def count(self) -> int:
        """How often this process was told to stop; once at least if the parent it was to stop with is gone."""
        orphaned = self._parent is not None and os.getppid() != self._parent
        return max(self._n_signals, int(orphaned))

    @property
    def fd(self) -> int:
        """To be polled beside the sockets."""
        return self._read.fileno()

    def install(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP; main thread only."""
        signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_hangup)

    def defer(self) -> None:
        """From here on signals are only counted: the loop decides."""
        self._deferred = True

    def with_parent(self, pid: int = 0) -> None:
        """Stop when the parent process ends, too; noticed by the loop within a heartbeat.

        A parent that gives its own number is missed even if it ended during our imports.
        """
        self._parent = pid or os.getppid()

    def clear(self) -> None:
        """Empty the descriptor, after a poll reported it."""
        try:
            while self._read.recv(64):
                pass
        except BlockingIOError:
            return

    def take_reload(self) -> bool:
        """Whether SIGHUP came since the last call."""
        reload, self._reload = self._reload, False
        return reload

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._n_signals += 1
        if not self._deferred:
            raise SystemExit(0)


def begin(environ: MutableMapping[str, str], n_threads: int = 1) -> tuple[Stop, Notifier]:
    """First act of a worker process: that many threads a library, signals taken, crashes traced to standard error."""
    for variable in ONE_THREAD:
        environ.setdefault(variable, str(n_threads))
    faulthandler.enable()
    stop = Stop()
    stop.install()
    return stop, Notifier(environ, os.getpid())
