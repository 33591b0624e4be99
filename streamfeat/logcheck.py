"""Whether a feature log is whole: each byte if it was closed, each entry after a kill. Looking changes nothing.

What is said beside the log is held against it: the seal of one that was closed (`seal`), and how many entries were
acknowledged (`tally`), which is all that tells of a log that was cut, or whose write-ahead log was.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamfeat.errors import ConfigError
from streamfeat.seal import check_seal, is_sealed
from streamfeat.tally import Tally, read_tally, tally_of

FORMAT = "streamfeat-log-2"

_LOG = logging.getLogger("streamfeat.featurelog")


def check_log(log: Path) -> Tally:
    """What a log holds, once it was found whole; zeros for one that is not there.

    Parameters
    ----------
    log : Path
        In use by nobody.

    Raises
    ------
    ConfigError
        The log, its write-ahead log, seal or tally was changed or cut: what is wrong, and the ways out.
    """
    said = read_tally(log)
    if said is None and _size(log) and not is_sealed(log):
        _LOG.warning("%s has no tally: whether all that was acknowledged is there cannot be told", log)
    if _size(log, "-journal"):
        if said != Tally():
            raise damaged(log, f"{log.name}-journal lies beside it, which a log never has")
        return Tally()  # killed while it was made: SQLite takes back what was begun
    has_wal = _size(log, "-wal") > 0
    was_closed = is_sealed(log) and not has_wal
    if was_closed:
        check_seal(log)
    if _size(log):
        how = "mode=ro" if has_wal else "immutable=1"
        found, there = _look(log, how, said, every_entry=not was_closed)
    elif has_wal:  # asked for anything, SQLite would remove it
        raise damaged(log, f"it is gone or empty, and {log.name}-wal is not")
    else:
        found = there = Tally()
    if said is not None and there != said:
        raise damaged(
            log,
            f"of {said.n_entries} entries that were acknowledged {there.n_entries} are there (or move "
            f"{tally_of(log).name} away to go on with these)",
        )
    return found


def _look(log: Path, how: str, said: Tally | None, *, every_entry: bool) -> tuple[Tally, Tally]:
    """All entries of a file, and those up to the last that was acknowledged."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(log.resolve()))}?{how}", uri=True)) as db:
            if every_entry:
                _check_pages(log, db)
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchall():
                return Tally(), Tally()
            _check_meta(log, dict(db.execute("SELECT key, value FROM meta")))
            if every_entry:
                _check_entries(log, db)
            count = "SELECT count(*), coalesce(max(id), 0) FROM entries"
            found = Tally(*db.execute(count).fetchone())
            if said is None:
                return found, found
            return found, Tally(*db.execute(f"{count} WHERE id <= ?", (said.last_id,)).fetchone())
    except sqlite3.DatabaseError as error:
        raise damaged(log, str(error)) from error


def _check_pages(log: Path, db: sqlite3.Connection) -> None:
    [(verdict,), *_] = db.execute("PRAGMA integrity_check(1)")
    if verdict != "ok":
        raise damaged(log, verdict)


def _check_meta(log: Path, meta: Mapping[str, str]) -> None:
    if meta.get("format", FORMAT) != FORMAT:  # what another version writes is not ours to judge
        raise ConfigError(f"{log} has the format {meta['format']!r}, this version reads {FORMAT!r}")
    if meta and meta.get("check") != meta_checksum(meta):
        raise damaged(log, "what it says of its entries is not what was written")


def _check_entries(log: Path, db: sqlite3.Connection) -> None:
    for at, *row, said in db.execute("SELECT id, stream, seq, label, grp, name, feature, crc FROM entries"):
        if said != entry_checksum(row):
            raise damaged(log, f"entry {at} is not what was logged")


def damaged(log: Path, what: str) -> ConfigError:
    """The error for a log that is not what was written."""
    return ConfigError(
        f"{log} is damaged, or no feature log: {what}; it is kept as it is: copy it again from where it is "
        "whole, or move it away to begin anew"
    )


def entry_checksum(row: Sequence[Any]) -> int:
    """CRC-32 of an entry: of stream, seq, label, group and name with their types, then of the feature's bytes."""
    *about, feature = row
    return zlib.crc32(feature, zlib.crc32(repr(about).encode()))


def meta_checksum(meta: Mapping[str, str]) -> str:
    """CRC-32 of what is said of all entries."""
    return str(zlib.crc32(repr(sorted((k, v) for k, v in meta.items() if k != "check")).encode()))


def _size(log: Path, suffix: str = "") -> int:
    """Bytes of a log, or of what SQLite keeps beside it."""
    file = log.with_name(log.name + suffix)
    return file.stat().st_size if file.exists() else 0
