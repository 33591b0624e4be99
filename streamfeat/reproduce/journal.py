"""What is done so far: parts of a long experiment on disk, so that a stopped run goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from streamfeat.bankspec import canonical_json
from streamfeat.directory import naming
from streamfeat.errors import ConfigError


class Journal:
    """Parts by name, one JSON line each. A file of other parameters, or one cut short, gives what still fits.

    It is locked until `close`, or until the process ends, however it does.

    Parameters
    ----------
    file : Path
    parameters : dict
        Of the experiment, plain JSON values. Parts that were computed with others are not used.

    Raises
    ------
    ConfigError
        Another run has it.
    """

    def __init__(self, file: Path, parameters: dict[str, Any]) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._lock: int | None = _locked(file)
        head = {"parameters": json.loads(canonical_json(parameters))}
        lines, n_bytes = _lines(file.read_bytes())
        if lines[:1] == [head]:
            os.truncate(file, n_bytes)  # or what comes next would be lost behind a line that was cut
        else:
            with naming(file):
                file.write_text(json.dumps(head) + "\n")
            lines = []
        self._parts = {line["part"]: line["value"] for line in lines[1:]}

    def get(self, part: str) -> Any:
        """What was put under that name, None if nothing was."""
        return self._parts.get(part)

    def put(self, part: str, value: Any) -> None:
        """Keep a part; on disk when this returns."""
        self._parts[part] = value
        with naming(self._file), self._file.open("a") as out:
            out.write(json.dumps({"part": part, "value": value}) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def finish(self) -> None:
        """The experiment is whole: its report takes the journal's place."""
        self._file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let another run have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _locked(file: Path) -> int:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise ConfigError(f"{file}: another run is at it; wait until it ends, or name another --out") from None
    return descriptor


def _lines(content: bytes) -> tuple[list[Any], int]:
    """The lines up to the first that is none of ours, and how many bytes they are."""
    lines: list[Any] = []
    n_bytes = 0
    for line in content.splitlines(keepends=True):
        try:
            entry = json.loads(line)
        except ValueError:
            break  # the line that was being written when the run was stopped
        if not line.endswith(b"\n") or not isinstance(entry, dict) or (lines and set(entry) != {"part", "value"}):
            break
        lines.append(entry)
        n_bytes += len(line)
    return lines, n_bytes
