"""Checks of this machine for what commonly goes wrong, each with its remedy. Nothing is changed."""

from __future__ import annotations

import errno
import importlib.util
import mmap
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq

from streamfeat.bank import list_banks, open_bank
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.connection import obstacle
from streamfeat.endpoints import check_endpoint, is_tcp
from streamfeat.errors import StreamfeatError
from streamfeat.featurelog import is_in_use
from streamfeat.keys import Credentials, Keyring, open_holder, open_key
from streamfeat.logcheck import check_log
from streamfeat.model import latest, versions

MIN_OPEN_FILES = 1024
MIN_FREE_BYTES = 1 << 30
MAX_NAME_BYTES = 255
MIN_TASKS = 256
MIN_LIBZMQ = (4, 3, 5)  # older ones have overflows before authentication


CLOCK_SLACK_S = 60.0
SIDES = ("front", "back", "admin")


@dataclass(frozen=True)
class Check:
    """One thing looked at; `remedy` says what to do when it is not ok, or what would be good to have."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def _verdict(name: str, ok: bool, found: str, remedy: str) -> Check:
    return Check(name, ok, found, "" if ok else remedy)


def examine(settings: Settings, environ: Mapping[str, str], page: str = "") -> Iterator[Check]:
    """Every check, one after the other.

    Parameters
    ----------
    settings : Settings
        Directories and endpoints that a fleet would use.
    environ : mapping
        The environment, for what numba takes from it.
    page : str
        HOST:PORT where a page would listen; empty: nowhere.

    Yields
    ------
    Check
    """
    yield _python()
    yield _libzmq()
    yield _executable_memory()
    yield _numba_cache(environ)
    yield _processors()
    yield _open_files()
    yield _tasks()
    yield _clock(Path(__file__).parent, time.time())
    yield from _directories(settings)
    for side in SIDES:
        yield _endpoint(side, getattr(settings.fleet, side))
    yield _keys(settings)
    yield _banks(Path(settings.fleet.bank_dir))
    for kind in ("learner", "index"):
        yield _kept(kind, Path(settings.fleet.state_dir) / kind)
    broker = _broker(settings)
    yield broker
    for name, address in _ports(settings, page).items():
        yield _port(name, address, ours=not broker.found.startswith("none"))
    yield from _extras()


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return _verdict("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _libzmq() -> Check:
    ok = zmq.zmq_version_info() >= MIN_LIBZMQ
    return _verdict("libzmq", ok, f"{zmq.zmq_version()}, pyzmq {zmq.__version__}", "install pyzmq 26.4 or newer")


def _executable_memory() -> Check:
    """numba writes machine code; MemoryDenyWriteExecute= forbids it."""
    remedy = "leave MemoryDenyWriteExecute= out of the unit: numba cannot compile under it"
    try:
        mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    except OSError as error:
        return Check("executable memory", False, f"refused: {error.strerror}", remedy)
    return Check("executable memory", True, "allowed")


def _numba_cache(environ: Mapping[str, str]) -> Check:
    """Where numba keeps what it compiled: the folder named, else beside the kernels, else the user's cache."""
    named = environ.get("NUMBA_CACHE_DIR")
    home_cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME') or '/'}/.cache"
    folders = (
        [Path(named)] if named else [Path(__file__).parent / "kernels" / "__pycache__", Path(home_cache) / "numba"]
    )
    for folder in folders:
        if _obstacle(folder) is None:
            return Check("numba cache", True, f"{folder} can be written")
    remedy = (
        "set NUMBA_CACHE_DIR to a folder that can be written (CacheDirectory= in a unit), else every start compiles"
    )
    return Check("numba cache", False, f"{' and '.join(map(str, folders))}: cannot be written", remedy)


def _obstacle(folder: Path) -> Path | None:
    """What keeps a folder from being written to, or made: itself or the nearest thing above it; None: nothing does."""
    there = folder
    while not os.path.lexists(there):  # False, not an error, for names too long for any file system
        there = there.parent
    name_fits = all(len(os.fsencode(part)) <= MAX_NAME_BYTES for part in folder.parts)
    return None if name_fits and there.is_dir() and os.access(there, os.W_OK | os.X_OK) else there


def _processors() -> Check:
    n = len(os.sched_getaffinity(0))
    return Check("processors", n >= 1, f"{n} to run on: up to {n} feature workers, one thread each")


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"limit {soft} (hard {hard})"
    return _verdict("open files", soft >= MIN_OPEN_FILES, found, "raise it: LimitNOFILE= or ulimit -n")


def _tasks() -> Check:
    """Processes and threads that this user may have: a worker takes about ten."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    said = {resource.RLIM_INFINITY: "none"}
    found = f"limit {said.get(soft, soft)} (hard {said.get(hard, hard)})"
    ok = soft == resource.RLIM_INFINITY or soft >= MIN_TASKS
    return _verdict("processes and threads", ok, found, f"raise it to {MIN_TASKS} or more: LimitNPROC= or ulimit -u")


def _clock(package: Path, now: float) -> Check:
    """Whether the clock is behind the files that are installed: numba's cache goes by their times."""
    newest = max(file.stat().st_mtime for file in package.rglob("*.py"))
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if newest > now + CLOCK_SLACK_S:
        found += f", but {package} was written at {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(newest))}"
    ok = newest <= now + CLOCK_SLACK_S
    return _verdict("clock", ok, found, "set it (`timedatectl set-ntp true`): numba's cache and the logs go by it")


def _directories(settings: Settings) -> Iterator[Check]:
    for name in ("run_dir", "state_dir", "bank_dir"):
        folder = Path(getattr(settings.fleet, name))
        obstacle = _obstacle(folder)
        remedy = f"{obstacle} cannot be written to, or is no folder: choose another {name} or mend it"
        yield _verdict(name, obstacle is None, str(folder), remedy)
        if name == "state_dir" and obstacle is None:
            free = shutil.disk_usage(next(f for f in (folder, *folder.parents) if os.path.lexists(f))).free
            yield _verdict("disk", free >= MIN_FREE_BYTES, f"{free >> 20} MiB free for {folder}", "free at least 1 GiB")


def _endpoint(side: str, endpoint: str) -> Check:
    """Whether it can be bound and connected to, as far as its form, and the socket that is there, tell."""
    name = f"{side} endpoint"
    try:
        check_endpoint(endpoint)
    except StreamfeatError as error:
        return Check(name, False, error.reason, f"set fleet.{side} or a shorter fleet.run_dir")
    path = Path(endpoint.removeprefix("ipc://"))
    if is_tcp(endpoint) or not os.path.lexists(path):
        return Check(name, True, endpoint)
    if not path.is_socket():
        return Check(name, False, f"{path} is there and no socket", f"move it away, or set fleet.{side}")
    mode = path.stat().st_mode & 0o777
    if mode & 0o007:
        remedy = f"chmod o= {path}, and set fleet.front_mode to 0600 or 0660"
        return Check(name, False, f"{endpoint} has mode {mode:04o}: it lets in everybody", remedy)
    barrier = obstacle(endpoint)
    if barrier is None or side != "front":  # the doors of workers and operators are not for every user
        return Check(name, True, f"{endpoint}, {barrier or f'mode {mode:04o}'}")
    remedy = f"usermod -aG {path.group()} NAME, and log in again"
    if not mode & 0o020:
        remedy = f'have front_mode = "0660" set in [fleet] there; {remedy}'
    return Check(name, False, f"{endpoint}: {barrier}", remedy)


def _keys(settings: Settings) -> Check:
    """Whether the keys that are named can be used, and are there where TCP needs them."""
    auth = settings.auth
    if not (auth.key or auth.server or auth.authorised):
        tcp = [side for side in SIDES if is_tcp(getattr(settings.fleet, side))]
        found = f"none, and {', '.join(tcp)} over TCP" if tcp else "none, and none are needed: unix sockets alone"
        remedy = "`streamfeat keygen` makes them; set auth.key, and auth.authorised (broker) or auth.server (others)"
        return _verdict("keys", not tcp or auth.insecure, found, remedy)
    try:
        if auth.key:
            open_key(Path(auth.key))
        if auth.server:
            open_holder(Path(auth.server))
        problems = Keyring(Path(auth.authorised)).problems if auth.authorised else ()
    except StreamfeatError as error:
        return Check("keys", False, error.reason, "mend that file, or take the setting out of [auth]")
    if problems:
        return Check("keys", False, "; ".join(problems), "mend or remove those files: their holders are shut out")
    return Check("keys", True, ", ".join(name for name in (auth.key, auth.server, auth.authorised) if name))


def _ports(settings: Settings, page: str) -> dict[str, str]:
    """HOST:PORT of everything that would listen over TCP, by name."""
    sides = {side: getattr(settings.fleet, side) for side in SIDES}
    ports = {side: endpoint.removeprefix("tcp://") for side, endpoint in sides.items() if is_tcp(endpoint)}
    others = {"metrics": settings.broker.metrics, "page": page}
    return ports | {name: address for name, address in others.items() if address}


def _port(side: str, address: str, *, ours: bool) -> Check:
    """Whether a process of this user could listen there now; `ours`: a fleet runs, and it may be the one who does."""
    name, (host, _, port) = f"{side} port", address.rpartition(":")
    with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as whoever listens; not over who does
        try:
            probe.bind(("" if host == "*" else host.strip("[]"), int(port)))
        except (OSError, ValueError, OverflowError) as error:
            number = getattr(error, "errno", None)
            if number == errno.EADDRNOTAVAIL:
                return Check(name, True, f"{address} is another machine's")
            if number == errno.EADDRINUSE:
                remedy = f"`ss -ltnp sport = :{port}` says by whom: stop it, or choose another port"
                return _verdict(name, ours or side == "page", f"{address} is in use", remedy)
            remedy = "ports below 1024 are root's: choose another" if number == errno.EACCES else "mend HOST:PORT"
            return Check(name, False, f"{address}: {error}", remedy)
    return Check(name, True, f"{address} is free")


def _banks(root: Path) -> Check:
    try:
        banks = list_banks(root)
    except OSError as error:
        return Check("banks", False, f"{root}: {error.strerror}", "ask as a user who may read it, or set bank_dir")
    if not banks:
        return Check("banks", True, f"none in {root}", "`streamfeat bank build digits-audio` makes one")
    for path in banks:
        try:
            open_bank(path, verify=True)
        except StreamfeatError as error:
            return Check("banks", False, error.reason, f"remove {path} and build it again")
    return Check("banks", True, ", ".join(path.name for path in banks))


def _kept(kind: str, state: Path) -> Check:
    """What a learner or an index acknowledged and saved: every byte of it, except of logs that are in use."""
    try:
        logs = sorted(state.glob("*/log.sqlite"))
        free = [log for log in logs if not is_in_use(log)]
        n_entries = sum(check_log(log).n_entries for log in free)
        for folder in [log.parent for log in logs if versions(log.parent)]:
            latest(folder)
    except OSError as error:
        return Check(kind, False, str(error), "look again as the user that the fleet runs as, or mend the folder")
    except StreamfeatError as error:
        remedy = f"the {kind} does not start before that is done; under systemd then `systemctl restart`"
        return Check(kind, False, error.reason, remedy)
    in_use = f", {len(logs) - len(free)} in use" if len(free) < len(logs) else ""
    return Check(kind, True, f"{len(logs)} logs in {state}{in_use}, {n_entries} entries in the others")


def _broker(settings: Settings) -> Check:
    front, auth = settings.fleet.front, settings.auth
    try:
        credentials = Credentials.open(auth.key, auth.server) if is_tcp(front) else None
        with Client(front, connect_timeout_s=1.0, credentials=credentials) as client:
            report = client.status()
    except StreamfeatError as error:
        return Check("broker", True, f"none: {error.reason}", "`streamfeat serve` starts a fleet")
    return Check("broker", True, f"{front}: {len(report['workers'])} workers, up {report['uptime_s']:.0f} s")


def _extras() -> Iterator[Check]:
    for module, extra in (
        ("espeakng_loader", "synth"),
        ("faiss", "faiss"),
        ("matplotlib", "quickstart"),
        ("sklearn", "quickstart"),
    ):
        there = importlib.util.find_spec(module) is not None
        remedy = "" if there else f"pip install 'streamfeat[{extra}]' if you need it"
        yield Check(module, True, "installed" if there else "not installed", remedy)
