"""A tally: how many entries of a log were acknowledged, and the last of them, kept beside it.

    <log>.tally     one line of 64 bytes, written over in place after each commit and before anyone is told

A log that a kill left open may end early without a fault in it: SQLite takes the first broken frame of a write-ahead
log for the end of what was written, and a file cut between two entries is as good as one that never had the second. So
what must be there has to be said in another file.

It is written to the system's memory, where a kill leaves it whole, and forced to the disk when the log is opened and
closed: forcing it with each commit would double what an acknowledgement takes. So after a loss of power it may say less
than was acknowledged, by what came in the last half minute or so, never more.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from streamfeat.directory import force_folder
from streamfeat.errors import ConfigError, Unavailable

FORMAT = "streamfeat-tally-1"
N_BYTES = 64
"""One line, which lies in one sector: it is the old one or the new one, whatever happens while it is written."""


class Tally(NamedTuple):
    """So many entries were acknowledged, and this is the highest of their ids."""

    n_entries: int = 0
    last_id: int = 0


def tally_of(log: Path) -> Path:
    """Where the tally of a log lies."""
    return log.with_name(log.name + ".tally")


def read_tally(log: Path) -> Tally | None:
    """What was said of a log; None: nothing, it has no tally.

    Raises
    ------
    ConfigError
        A byte of it was changed or cut.
    """
    file = tally_of(log)
    try:
        line = file.read_bytes()
    except FileNotFoundError:
        return None
    words = line.decode("ascii", "replace").split()
    if len(words) == 4 and words[1].isdigit() and words[2].isdigit():
        said = Tally(int(words[1]), int(words[2]))
        if line == _line(said):
            return said
    raise ConfigError(
        f"{file} is not what was written; it is kept as it is: copy it again from where it is whole, or move it away "
        f"to use the entries of {log.name} that can be read, if it is known that none is missing"
    )


class TallyWriter:
    """Keeps the tally of one log up to date; `close` it.

    Parameters
    ----------
    log : Path
    said : Tally
        What holds already; written if the file is new or says something else.

    Raises
    ------
    Unavailable
        The disk is full or gone.
    """

    def __init__(self, log: Path, said: Tally) -> None:
        self._file = tally_of(log)
        self._said: Tally | None = None
        with self._writing(), ExitStack() as opened:
            self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            opened.callback(os.close, self._descriptor)
            self.say(said)
            os.fdatasync(self._descriptor)
            force_folder(self._file.parent)
            opened.pop_all()

    def say(self, tally: Tally) -> None:
        """Have it there for whoever reads the file, whatever becomes of this process; nothing to do if it is."""
        if tally != self._said:
            with self._writing():
                os.pwrite(self._descriptor, _line(tally), 0)
            self._said = tally

    def close(self) -> None:
        """Let go of the file, on disk."""
        try:
            with self._writing():
                os.fdatasync(self._descriptor)
        finally:
            os.close(self._descriptor)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(
                f"{self._file} cannot be written: {error.strerror}; free the disk and try again"
            ) from error


def _line(tally: Tally) -> bytes:
    words = f"{FORMAT} {tally.n_entries} {tally.last_id}"
    return f"{words} {zlib.crc32(words.encode()):08x}".ljust(N_BYTES - 1).encode() + b"\n"
