"""Keys of the two ends of a TCP connection (CURVE), and what the holder of a key may do.

    NAME.key   both halves, mode 0600: stays with its holder
    NAME.pub   the public half and the rights: goes into the broker's folder of authorised keys

A `Keyring` is that folder. It is read again whenever it changes, so that putting a file there lets somebody in and
removing it shuts them out, connected or not, without a restart.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq

from streamfeat.errors import ConfigError, InvalidArgument

RIGHTS = ("encode", "learn", "work", "admin")
"""encode: features, classify, search. learn: learn, fit, insert. work: join as a worker. admin: what others do."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_KEY = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")  # Z85
_MOST_KEYS = 10_000
_SECRET_MODE = 0o027
"""What nobody may have of a secret: writing by the group, anything by others. A group of one service may read."""


@dataclass(frozen=True)
class Key:
    """Both halves, in the forty letters of Z85."""

    name: str
    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Holder:
    """A public key and what whoever holds its secret half may do."""

    name: str
    public: str
    rights: frozenset[str]


@dataclass(frozen=True)
class Credentials:
    """What a peer needs to connect with keys: its own, and the public half of the broker's."""

    key: Key
    server: str

    @classmethod
    def open(cls, key_file: Path | str | None, server_file: Path | str | None) -> Credentials | None:
        """Read both files; None where neither is named.

        Raises
        ------
        ConfigError
            One without the other; and as `open_key` and `open_holder`.
        """
        if not key_file and not server_file:
            return None
        if not key_file or not server_file:
            raise ConfigError(
                "who connects with a key needs the broker's public key too, and the other way round: "
                "set both auth.key and auth.server, or neither"
            )
        return cls(open_key(Path(key_file)), open_holder(Path(server_file)).public)


def save_key(folder: Path, name: str, rights: Sequence[str]) -> tuple[Path, Path]:
    """Make a key; its two files, of which the first is secret. Nothing is ever written over.

    Raises
    ------
    InvalidArgument
        A name that is no file name, or an unknown right.
    ConfigError
        The files are there already, or the folder cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"a key's name is 1 to 64 of a-z 0-9 . _ - and starts with a letter or digit: {name!r}")
    _check_rights(rights, InvalidArgument)
    public, secret = (half.decode() for half in zmq.curve_keypair())
    key_file, pub_file = folder / f"{name}.key", folder / f"{name}.pub"
    listed = ", ".join(f'"{right}"' for right in rights)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if pub_file.exists():
            raise FileExistsError
        _write(key_file, f'# stays with its holder\npublic = "{public}"\nsecret = "{secret}"\n', 0o600)
        try:
            _write(pub_file, f'# for the broker\'s authorised keys\npublic = "{public}"\nrights = [{listed}]\n', 0o644)
        except OSError:
            key_file.unlink()
            raise
    except FileExistsError:
        raise ConfigError(f"{folder}: there is a key called {name!r}; choose another name, or move it away") from None
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; choose a folder that can be written") from error
    return key_file, pub_file


def _write(file: Path, text: str, mode: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w") as opened:
            os.fchmod(descriptor, mode)
            opened.write(text)
    except OSError:  # the disk is full: an empty key would be in the way of the next attempt
        file.unlink()
        raise


def open_key(file: Path) -> Key:
    """The key in a NAME.key file.

    Raises
    ------
    ConfigError
        Not there, not a key, or readable by everybody.
    """
    table = _read(file)
    key = Key(file.stem, _half(table, "public", file), _half(table, "secret", file))
    mode = file.stat().st_mode & 0o777
    if mode & _SECRET_MODE:
        raise ConfigError(f"{file} is secret, but its mode is {mode:04o}: chmod 600 {file}, and make a new key")
    return key


def open_holder(file: Path) -> Holder:
    """The public key in a NAME.pub file, and its rights.

    Raises
    ------
    ConfigError
        Not there, or not a public key.
    """
    table = _read(file)
    rights = table.get("rights", [])
    if not isinstance(rights, list):
        raise ConfigError(f"{file}: rights must be a list, got {rights!r}")
    _check_rights(rights, ConfigError)
    return Holder(file.stem, _half(table, "public", file), frozenset(rights))


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"key {file}: {error.strerror}; `streamfeat keygen` makes one") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"key {file}: not a key file of `streamfeat keygen`: {error}") from error


def _half(table: dict[str, Any], half: str, file: Path) -> str:
    value = table.get(half)
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise ConfigError(f"key {file}: no {half} half of 40 letters; is it the right file of the two?")
    return value


def _check_rights(rights: Sequence[Any], error: type[ConfigError] | type[InvalidArgument]) -> None:
    for right in rights:
        if right not in RIGHTS:
            raise error(f"a right is one of {', '.join(RIGHTS)}, got {right!r}")


class Keyring:
    """The authorised keys in a folder of NAME.pub files.

    A file that cannot be read shuts out its holder and is told in `problems`; the others are not touched.

    Raises
    ------
    ConfigError
        The folder cannot be listed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._holders: dict[str, Holder] = {}
        self.problems: tuple[str, ...] = ()
        self.refresh()

    def holder(self, public: str) -> Holder | None:
        """Who holds this key, or None if it is not, or no longer, authorised."""
        return self._holders.get(public)

    def refresh(self) -> bool:
        """Look whether the folder has changed; whether it had.

        Raises
        ------
        ConfigError
            It cannot be listed, or has more files than anybody would look through: nobody is let in any more.
        """
        try:
            seen = {entry.name: _version(entry) for entry in os.scandir(self._folder) if entry.name.endswith(".pub")}
        except OSError as error:
            self._holders, self._seen = {}, {}
            raise ConfigError(f"authorised keys {self._folder}: {error.strerror}; mend auth.authorised") from error
        if len(seen) > _MOST_KEYS:
            self._holders, self._seen = {}, {}
            raise ConfigError(f"{self._folder} has {len(seen)} keys, more than {_MOST_KEYS}")
        if seen == self._seen:
            return False
        holders, problems = {}, []
        for name in sorted(seen):
            try:
                holder = open_holder(self._folder / name)
            except ConfigError as error:
                problems.append(error.reason)
            else:
                holders[holder.public] = holder
        self._seen, self._holders, self.problems = seen, holders, tuple(problems)
        return True


def _version(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    status = entry.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
