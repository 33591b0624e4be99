"""Settings: arguments > environment (`STREAMFEAT_TABLE__KEY`) > TOML file > default.

Read once, in the command line and in the workers, and passed on as plain values: the library itself never looks at
the environment. An unknown table or key is an error that names the nearest known one.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from streamfeat.errors import ConfigError
from streamfeat.spec import did_you_mean

ENV_PREFIX = "STREAMFEAT_"
FILE_VARIABLE = ENV_PREFIX + "CONFIG"
DATA_VARIABLE = ENV_PREFIX + "DATA"
"""Folder of the data that `streamfeat evaluate` trains on; no setting of a fleet."""


@dataclass(frozen=True)
class Fleet:
    """Where the processes of one fleet meet and what they keep."""

    run_dir: str = ""
    """Sockets and locks; empty: $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/streamfeat or /tmp/streamfeat-UID."""
    state_dir: str = ""
    """Feature logs, models and indexes; empty: $STATE_DIRECTORY, $XDG_STATE_HOME/streamfeat, else below HOME."""
    bank_dir: str = ""
    """Banks; empty: `banks` in state_dir."""
    front: str = ""
    """Endpoint for clients; empty: ipc://RUN_DIR/front.sock."""
    back: str = ""
    """Endpoint for workers; empty: ipc://RUN_DIR/back.sock."""
    admin: str = ""
    """Endpoint for operators; empty: ipc://RUN_DIR/admin.sock."""
    front_mode: str = "0600"
    """File mode of the clients' unix socket; 0660 lets the group in. Those of workers and operators are 0600."""
    workers: int = 2
    """Feature workers that `serve`, `stream` and `push` start; one core each."""


@dataclass(frozen=True)
class Auth:
    """Keys of connections over TCP; unix sockets are guarded by their file modes."""

    key: str = ""
    """This process's own key, a NAME.key of `streamfeat keygen`; a broker's, a worker's or a client's."""
    server: str = ""
    """The broker's public key, a NAME.pub: for whoever connects to it."""
    authorised: str = ""
    """The broker's folder of NAME.pub files: who may connect, and do what."""
    insecure: bool = False
    """TCP without keys: whoever reaches the port may work, learn and read."""


@dataclass(frozen=True)
class Broker:
    """The broker's limits."""

    heartbeat_ms: int = 1000
    """A worker silent for three of these has lost its leases."""
    credit_items: int = 512
    """Items one client may have under way."""
    credit_bytes: int = 64 << 20
    """Bytes one client may have under way."""
    retained_bytes: int = 512 << 20
    """Payload bytes kept for all clients together; above it, new items are answered OVERLOADED."""
    batch_items: int = 16
    """Items handed to a worker in one message."""
    batch_wait_ms: float = 0.0
    """How long a message that is not full may wait for more items while its worker is busy; 0: not at all."""
    metrics: str = ""
    """HOST:PORT where /metrics (Prometheus), /livez and /readyz are shown over HTTP; empty: nowhere."""


@dataclass(frozen=True)
class Features:
    """What feature workers do."""

    banks: str = ""
    """Banks to serve, names or hashes with spaces between."""


@dataclass(frozen=True)
class Index:
    """What an index worker keeps in memory, and how it searches."""

    metric: str = "cosine"
    """cosine or l2."""
    factory: str = ""
    """FAISS factory string of indexes that are larger than memory, such as IVF256,PQ32; empty: exact, all in memory."""
    train_items: int = 10_000
    """The first entries, on which such an index is trained; until they are there it is exact."""
    effort: str = ""
    """How hard a search tries, such as nprobe=32 or efSearch=128; empty: 16 lists or 64 nodes."""
    oversample: int = 5
    """So many times k entries are proposed and then measured by their features in the log."""


@dataclass(frozen=True)
class Client:
    """How long a client waits."""

    connect_timeout_s: float = 5.0
    timeout_s: float = 30.0


@dataclass(frozen=True)
class Settings:
    """All settings of a fleet; see the fields of each table."""

    fleet: Fleet = field(default_factory=Fleet)
    broker: Broker = field(default_factory=Broker)
    features: Features = field(default_factory=Features)
    index: Index = field(default_factory=Index)
    client: Client = field(default_factory=Client)
    auth: Auth = field(default_factory=Auth)


_TABLES: dict[str, type[Any]] = {
    "fleet": Fleet,
    "broker": Broker,
    "features": Features,
    "index": Index,
    "client": Client,
    "auth": Auth,
}


def load_settings(
    environ: Mapping[str, str],
    *,
    file: Path | None = None,
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Settings from every source, checked.

    Parameters
    ----------
    environ : mapping
        The environment; `STREAMFEAT_CONFIG` names the file when `file` is not given.
    file : Path, optional
        TOML file with the tables [fleet], [broker], [features], [client] and [auth].
    arguments : mapping of table to mapping of key to value, optional
        What the command line says; None values are left out.

    Raises
    ------
    ConfigError
        Unreadable file, unknown table or key, or a value of the wrong type or range.
    """
    if file is None and environ.get(FILE_VARIABLE):
        file = Path(environ[FILE_VARIABLE])
    settings = Settings()
    if file is not None:
        settings = _merge(settings, _read_file(file), str(file))
    settings = _merge(settings, _from_environment(environ), "environment")
    given = {t: {k: v for k, v in table.items() if v is not None} for t, table in (arguments or {}).items()}
    return _locate(_merge(settings, given, "arguments"), environ)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"settings file {file}: {error.strerror}; mend the path or leave it out") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"settings file {file}: not TOML: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for name, value in environ.items():
        if not name.startswith(ENV_PREFIX) or name in (FILE_VARIABLE, DATA_VARIABLE):
            continue
        table, separator, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        if not separator:
            known = [f"{ENV_PREFIX}{t}__{f.name}".upper() for t, c in _TABLES.items() for f in fields(c)]
            raise ConfigError(f"environment: unknown setting {name}{_nearest(name, [*known, FILE_VARIABLE])}")
        tables.setdefault(table, {})[key] = value
    return tables


def _merge(settings: Settings, tables: Mapping[str, Any], source: str) -> Settings:
    for table, values in tables.items():
        if table not in _TABLES:
            raise ConfigError(f"{source}: unknown table [{table}]{_nearest(table, list(_TABLES))}")
        if not isinstance(values, Mapping):
            raise ConfigError(f"{source}: [{table}] must be a table, got {values!r}")
        known = {f.name: f.default for f in fields(_TABLES[table])}
        changes = {}
        for key, value in values.items():
            if key not in known:
                raise ConfigError(f"{source}: unknown setting {table}.{key}{_nearest(key, list(known))}")
            changes[key] = _cast(value, known[key], f"{source}: {table}.{key}")
        settings = replace(settings, **{table: replace(getattr(settings, table), **changes)})
    return settings


def _cast(value: Any, default: Any, where: str) -> Any:
    """`value` as the type of `default`; numbers must be positive."""
    if isinstance(default, bool):
        if str(value).lower() not in ("true", "false"):
            raise ConfigError(f"{where} must be true or false, got {value!r}")
        return str(value).lower() == "true"
    if isinstance(default, str):
        if not isinstance(value, str | Path):
            raise ConfigError(f"{where} must be text, got {value!r}")
        return str(value)
    kind = type(default)
    try:
        if isinstance(value, bool) or (kind is int and isinstance(value, float)):
            raise ValueError
        number = kind(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{where} must be {'a whole' if kind is int else 'a'} number, got {value!r}") from None
    if not 0 < number < float("inf") and number != default:
        raise ConfigError(f"{where} must be above 0 and finite, got {value!r}")
    return number


def file_mode(text: str, where: str) -> int:
    """The file mode that the octal digits are.

    Raises
    ------
    ConfigError
        No mode of a socket that its owner can use, or one that lets in everybody.
    """
    mode = int(text, 8) if re.fullmatch("0?[0-7]{3}", text) else 0
    if mode & 0o600 != 0o600 or mode & 0o007:
        raise ConfigError(f"{where} must be 0600 (the owner) or 0660 (the group too), got {text!r}")
    return mode


def _nearest(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) or f"; known: {', '.join(known)}"


def _locate(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Fill in the directories and endpoints that were left empty."""
    fleet = settings.fleet
    home = environ.get("HOME") or "/"
    run_dir = fleet.run_dir or environ.get("RUNTIME_DIRECTORY") or _below(environ.get("XDG_RUNTIME_DIR"))
    if not run_dir:
        run_dir = f"/tmp/streamfeat-{os.getuid()}"  # noqa: S108 - made 0700; claim_endpoint looks whose it is
    state_dir = (
        fleet.state_dir
        or environ.get("STATE_DIRECTORY")
        or _below(environ.get("XDG_STATE_HOME"))
        or f"{home}/.local/state/streamfeat"
    )
    return replace(
        settings,
        fleet=replace(
            fleet,
            run_dir=run_dir,
            state_dir=state_dir,
            bank_dir=fleet.bank_dir or f"{state_dir}/banks",
            front=fleet.front or f"ipc://{run_dir}/front.sock",
            back=fleet.back or f"ipc://{run_dir}/back.sock",
            admin=fleet.admin or f"ipc://{run_dir}/admin.sock",
        ),
    )


def _below(directory: str | None) -> str:
    return f"{directory}/streamfeat" if directory else ""
