"""The systemd units of a fleet, with the paths of this installation filled in."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from streamfeat.directory import replace_file
from streamfeat.errors import ConfigError

COMMAND = "/opt/streamfeat/venv/bin/streamfeat"
"""What the units of the package run; replaced by the command of this installation."""

UNIT_DIR = "etc/systemd/system"
ROLES = ("broker", "features", "learner", "index")
"""What a host runs of a fleet, unless told otherwise."""

PAGE = "page"
"""A role that a host has if it is asked for."""

HIDDEN = ("/root", "/home", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - ProtectHome and PrivateTmp hide these

_OPEN_NETWORK = """\
PrivateNetwork=no
IPAddressDeny=
IPAddressAllow=
RestrictAddressFamilies=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
"""


def render(
    *, command: str | None = None, n_workers: int = 2, keys: str | None = None, roles: Collection[str] = ROLES
) -> dict[str, str]:
    """Every file of a systemd installation, by its path below the root directory.

    Parameters
    ----------
    command : str, optional
        The `streamfeat` that the units run; that of this installation unless given.
    n_workers : int
        Feature workers that the target starts.
    keys : str, optional
        Folder with broker.key, worker.key, page.key, broker.pub and authorised/: TCP with keys, handed over by
        LoadCredential=.
    roles : collection of str
        What this host runs of the fleet, of `ROLES` and `PAGE`; all `ROLES` unless given. Other units are left out.

    Raises
    ------
    ConfigError
        Fewer than one worker, no such role, or a path that systemd would not take.
    """
    known = (*ROLES, PAGE)
    unknown = set(roles) - set(known)
    if unknown or not roles:
        raise ConfigError(f"a host runs one or more of {', '.join(known)}, got {', '.join(sorted(unknown)) or 'none'}")
    if n_workers < 1:
        raise ConfigError(f"a fleet needs at least 1 feature worker, got {n_workers}")
    run = _quoted(command or own_command())
    files = {}
    for file in sorted(resources.files("streamfeat.systemd").iterdir(), key=lambda f: f.name):
        if file.name.endswith((".service", ".target")):
            if not _wanted(file.name, roles):
                continue
            text = _without_others(file.read_text("utf-8"), roles).replace(COMMAND, run)
            files[f"{UNIT_DIR}/{file.name}"] = _with_workers(text, n_workers) if file.name.endswith(".target") else text
        elif file.name.endswith(".sysusers.conf"):
            files[f"usr/lib/sysusers.d/{file.name.replace('.sysusers', '')}"] = file.read_text("utf-8")
        elif file.name.endswith(".toml"):
            files[f"etc/streamfeat/{file.name}"] = file.read_text("utf-8")
    if keys is not None:
        folder = _quoted(keys).rstrip("/")
        drop_ins = {unit: text for unit, text in _keys(folder, run).items() if _wanted(unit, roles)}
        files |= {f"{UNIT_DIR}/{unit}.d/keys.conf": text for unit, text in drop_ins.items()}
    return files


def install(root: Path, files: dict[str, str]) -> list[tuple[Path, bool]]:
    """Write the files below a root directory; each path, and whether it was written.

    Units are written anew; settings that are there are the operator's and stay.

    Raises
    ------
    ConfigError
        A file cannot be written.
    """
    done = []
    for name, text in files.items():
        file = root / name
        if file.exists() and file.suffix == ".toml":
            done.append((file, False))
            continue
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, text)
        except OSError as error:
            raise ConfigError(f"{file}: {error.strerror}; run it as root, or give another --root") from error
        done.append((file, True))
    return done


def own_command() -> str:
    """The `streamfeat` beside the interpreter that runs."""
    return str(Path(sys.executable).with_name("streamfeat"))


def hidden(command: str | None) -> str | None:
    """Why a sandboxed unit would not see this command, or the interpreter behind our own, if so."""
    paths = [own_command(), str(Path(sys.executable).resolve())] if command is None else [command]
    for path in paths:
        for folder in HIDDEN:
            if path.startswith(f"{folder}/"):
                return f"{path} lies below {folder}, which the units do not see: install into /opt/streamfeat/venv"
    return None


def _with_workers(target: str, n_workers: int) -> str:
    """The target with features@1 to features@N."""
    packaged = "streamfeat-features@1.service streamfeat-features@2.service"
    return target.replace(packaged, " ".join(f"streamfeat-features@{n + 1}.service" for n in range(n_workers)))


def _wanted(unit: str, roles: Collection[str]) -> bool:
    """Whether a host with these roles has this unit; what is warmed up is for feature workers."""
    role = re.split("[@.]", unit.removeprefix("streamfeat-"))[0]
    return {"warmup": "features"}.get(role, role) in roles or role not in (*ROLES, PAGE, "warmup")


def _without_others(unit: str, roles: Collection[str]) -> str:
    """A unit that waits for nothing that another host runs."""
    lines = []
    for line in unit.splitlines():
        key, equals, names = line.partition("=")
        if key not in ("Wants", "After"):
            lines.append(line)
        elif kept := [name for name in names.split() if _wanted(name, roles)]:
            lines.append(key + equals + " ".join(kept))
    return "\n".join(lines) + "\n"


def _keys(folder: str, run: str) -> dict[str, str]:
    """Drop-ins that hand each unit its own key and open its network; workers of several hosts need several names."""
    broker = f"""\
[Service]
LoadCredential=broker.key:{folder}/broker.key
Environment=STREAMFEAT_AUTH__KEY=%d/broker.key
Environment=STREAMFEAT_AUTH__AUTHORISED={folder}/authorised
{_OPEN_NETWORK}"""
    worker, page = (
        f"""\
[Service]
LoadCredential={name}.key:{folder}/{name}.key
LoadCredential=broker.pub:{folder}/broker.pub
Environment=STREAMFEAT_AUTH__KEY=%d/{name}.key
Environment=STREAMFEAT_AUTH__SERVER=%d/broker.pub
{_OPEN_NETWORK}"""
        for name in ("worker", "page")
    )
    by_host = f"ExecStart=\nExecStart={run} worker features --name features-%l-%i\n"
    return {
        "streamfeat-broker.service": broker,
        "streamfeat-features@.service": worker + by_host,
        "streamfeat-learner.service": worker,
        "streamfeat-index.service": worker,
        "streamfeat-page.service": page,
    }


def _quoted(path: str) -> str:
    """A path as a unit file takes it."""
    if not path.startswith("/") or any(letter in path for letter in " \t\n\"'\\;$"):
        raise ConfigError(f"a unit needs an absolute path without spaces, quotes, $ or backslashes, got {path!r}")
    return path.replace("%", "%%")
