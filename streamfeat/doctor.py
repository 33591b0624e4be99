"""Checks of this machine for what commonly goes wrong, each with its remedy. Nothing is changed."""

from __future__ import annotations

import importlib.util
import mmap
import os
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import zmq

from streamfeat.bank import list_banks, open_bank
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.endpoints import check_endpoint
from streamfeat.errors import StreamfeatError
from streamfeat.featurelog import is_in_use
from streamfeat.logcheck import check_log
from streamfeat.model import latest, versions

MIN_OPEN_FILES = 1024
MIN_FREE_BYTES = 1 << 30
MAX_NAME_BYTES = 255
MIN_LIBZMQ = (4, 3, 5)  # older ones have overflows before authentication


@dataclass(frozen=True)
class Check:
    """One thing looked at; `remedy` says what to do when it is not ok, or what would be good to have."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def _verdict(name: str, ok: bool, found: str, remedy: str) -> Check:
    return Check(name, ok, found, "" if ok else remedy)


def examine(settings: Settings, environ: Mapping[str, str]) -> Iterator[Check]:
    """Every check, one after the other.

    Parameters
    ----------
    settings : Settings
        Directories and endpoints that a fleet would use.
    environ : mapping
        The environment, for what numba takes from it.

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
    yield from _directories(settings)
    for side in ("front", "back"):
        yield _endpoint(side, getattr(settings.fleet, side))
    yield _banks(Path(settings.fleet.bank_dir))
    for kind in ("learner", "index"):
        yield _kept(kind, Path(settings.fleet.state_dir) / kind)
    yield _broker(settings.fleet.front)
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
    return Check(
        "open files", soft >= MIN_OPEN_FILES, f"limit {soft} (hard {hard})", "raise it: LimitNOFILE= or ulimit -n"
    )


def _directories(settings: Settings) -> Iterator[Check]:
    for name in ("run_dir", "state_dir", "bank_dir"):
        folder = Path(getattr(settings.fleet, name))
        obstacle = _obstacle(folder)
        remedy = f"{obstacle} cannot be written to, or is no folder: choose another {name} or mend it"
        yield _verdict(name, obstacle is None, str(folder), remedy)
        if name == "state_dir" and obstacle is None:
            free = shutil.disk_usage(next(f for f in (folder, *folder.parents) if f.exists())).free
            yield _verdict("disk", free >= MIN_FREE_BYTES, f"{free >> 20} MiB free for {folder}", "free at least 1 GiB")


def _endpoint(side: str, endpoint: str) -> Check:
    try:
        check_endpoint(endpoint)
    except StreamfeatError as error:
        return Check(f"{side} endpoint", False, error.reason, f"set fleet.{side} or a shorter fleet.run_dir")
    return Check(f"{side} endpoint", True, endpoint)


def _banks(root: Path) -> Check:
    banks = list_banks(root)
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
    logs = sorted(state.glob("*/log.sqlite"))
    try:
        free = [log for log in logs if not is_in_use(log)]
        n_entries = sum(check_log(log).n_entries for log in free)
        for folder in [log.parent for log in logs if versions(log.parent)]:
            latest(folder)
    except (StreamfeatError, OSError) as error:
        remedy = f"the {kind} does not start before that is done; under systemd then `systemctl restart`"
        return Check(kind, False, str(error), remedy)
    in_use = f", {len(logs) - len(free)} in use" if len(free) < len(logs) else ""
    return Check(kind, True, f"{len(logs)} logs in {state}{in_use}, {n_entries} entries in the others")


def _broker(front: str) -> Check:
    try:
        with Client(front, connect_timeout_s=1.0) as client:
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
