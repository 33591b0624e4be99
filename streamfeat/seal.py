"""A seal: the length and hash of a file as it was closed, kept beside it, so that any byte changed since is noticed.

<file>.seal     blake2b of the file, its length; gone as long as the file is open for writing
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from streamfeat.errors import ConfigError

MAX_BYTES = 1 << 30
"""A larger file is not sealed: hashing it, about a second a GiB, would outlast the time a process has to end."""


def seal(file: Path) -> None:
    """Seal a file that was closed whole."""
    if file.stat().st_size > MAX_BYTES:
        return
    part = _seal_of(file).with_suffix(".part")
    with part.open("w") as out:
        out.write(_digest(file))
        out.flush()
        os.fsync(out.fileno())
    part.replace(_seal_of(file))


def is_sealed(file: Path) -> bool:
    """Whether there is a seal."""
    return _seal_of(file).exists()


def check_seal(file: Path) -> None:
    """Raise `ConfigError` unless the file is, to the byte, what was sealed. Nothing is changed."""
    said = _seal_of(file).read_bytes()
    found = _digest(file).encode() if file.exists() else b"no file"
    if said != found:
        raise ConfigError(
            f"{file} is not what was closed (its hash differs); it is kept as it is: copy it again from where it is "
            f"whole, or move it and {_seal_of(file).name} away to begin anew"
        )


def break_seal(file: Path) -> None:
    """The file is about to change."""
    _seal_of(file).unlink(missing_ok=True)


def _seal_of(file: Path) -> Path:
    return file.with_name(file.name + ".seal")


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return f"{hashlib.file_digest(content, 'blake2b').hexdigest()} {file.stat().st_size}\n"
