"""The feature log: labelled features that were acknowledged, in one SQLite file. Models and indexes are views of it.

A batch is one transaction, forced to disk before anyone is told (WAL, synchronous=FULL). An entry's key is (stream,
seq): the same key again is answered with the id of the first and changes nothing, whatever it carries, so a sender that
did not hear the acknowledgement may send again. After a kill at any moment everything acknowledged is there, once.

Every byte is watched over (`logcheck`): a log that was closed is sealed; one that was not, after a kill, has its
structure and the checksum of every entry gone through when it is opened, and all that was acknowledged must be there;
entries are held to their checksums whenever they are read. What is damaged is refused and kept as it is.

The log belongs to one bank, one dtype and width, and one type of label, those of its first entries, and to one
process, which holds a lock on `<path>.lock` for as long as it is open.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, NotFound, Unavailable
from streamfeat.learn.checks import Label, check_features, check_label
from streamfeat.logcheck import FORMAT, check_log, damaged, entry_checksum, meta_checksum
from streamfeat.seal import break_seal, seal
from streamfeat.tally import Tally, TallyWriter

log = logging.getLogger("streamfeat.featurelog")

TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice, and an index's own id
    stream TEXT NOT NULL,
    seq INTEGER NOT NULL,
    label,                                 -- no type: an int stays an int, a text a text
    grp TEXT,
    name TEXT,
    feature BLOB NOT NULL,
    crc INTEGER NOT NULL,                  -- CRC-32 of all the others but id
    UNIQUE (stream, seq)
);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One feature to be remembered.

    Parameters
    ----------
    stream, seq : str and int
        The key.
    feature : ndarray (D,)
        uint16 or float, finite; kept as it is.
    label : str or int, optional
    group : str, optional
        Who must be held out together, such as the speaker.
    name : str, optional
        For messages to people.
    """

    stream: str
    seq: int
    feature: NDArray[Any] = field(repr=False)
    label: Label | None = None
    group: str | None = None
    name: str | None = None


class Receipt(NamedTuple):
    """The entry's id in the log, and whether its key was there before."""

    id: int
    duplicate: bool


@dataclass(frozen=True)
class Logged:
    """All entries of a log, in order of id.

    Attributes
    ----------
    X : ndarray (n, D)
        In the dtype they came in.
    labels, groups : list
    ids : ndarray of int64 (n,)
    """

    X: NDArray[Any]
    labels: list[Label | None]
    groups: list[str | None]
    ids: NDArray[np.int64]


class FeatureLog:
    """An open log; use it in a `with` block or `close` it.

    Attributes
    ----------
    bank_hash, dtype, dim
        Those of its entries; None as long as it is empty.

    Raises
    ------
    ConfigError
        Another process has it open (its pid is named), or the file is no log of this version, or is damaged.
    Unavailable
        The disk is full or gone.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            self._lock = _lock(_lock_of(self.path))
            opened.callback(os.close, self._lock)
            self._held = check_log(self.path)
            self._is_whole = True
            # before the log itself: so a new one is known to hold nothing yet
            self._tally = TallyWriter(self.path, self._held)
            opened.callback(self._tally.close)
            self._db = sqlite3.connect(self.path, isolation_level=None, timeout=5.0)
            opened.callback(self._db.close)
            self._set_up()
            break_seal(self.path)
            opened.pop_all()

    def __enter__(self) -> FeatureLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._held.n_entries

    @property
    def bank_hash(self) -> str | None:
        """The bank of all entries."""
        return self._meta.get("bank")

    @property
    def dtype(self) -> str | None:
        """The dtype of all features."""
        return self._meta.get("dtype")

    @property
    def dim(self) -> int | None:
        """D of all features."""
        return int(self._meta["dim"]) if "dim" in self._meta else None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is put in the block is on disk when it ends, all of it, or none if it raises."""
        before = self._held
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._read_meta()
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._held = before
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._read_meta()
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self.path} cannot be written: {error}; free the disk and try again") from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        self._tally.say(self._held)

    def append(self, entries: Sequence[Entry], bank_hash: str) -> list[Receipt]:
        """Put entries on disk, all or, if one is refused, none; a receipt for each.

        Raises
        ------
        BankMismatch
            The log holds features of another bank; both are named.
        InvalidArgument
            Another dtype, width or type of label; NaN.
        Unavailable
            The disk is full or gone.
        ConfigError
            The file was damaged while it was open.
        """
        with self.transaction():
            return [self.put(entry, bank_hash) for entry in entries]

    def put(self, entry: Entry, bank_hash: str) -> Receipt:
        """Put one entry, inside a `transaction`; if it is refused, the others of the block go on."""
        feature = check_features(entry.feature[None, :], self.dim)[0]
        facts = {"bank": bank_hash, "dtype": feature.dtype.newbyteorder("<").str, "dim": str(len(feature))}
        label = None if entry.label is None else check_label(entry.label)
        if label is not None:
            facts["label"] = type(label).__name__
        self._agree(facts)
        if facts.keys() - self._meta.keys():
            self._write_meta({**facts, **self._meta})
        key = (entry.stream, int(entry.seq))
        row = (*key, label, entry.group, entry.name, feature.astype(facts["dtype"]).tobytes())
        done = self._db.execute(
            "INSERT INTO entries (stream, seq, label, grp, name, feature, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (stream, seq) DO NOTHING",
            (*row, entry_checksum(row)),
        )
        if done.rowcount == 1:
            self._held = Tally(self._held.n_entries + 1, int(done.lastrowid or 0))
            return Receipt(self._held.last_id, duplicate=False)
        found = self._db.execute("SELECT id FROM entries WHERE stream = ? AND seq = ?", key).fetchone()
        return Receipt(int(found[0]), duplicate=True)

    def read(self, after_id: int = 0) -> Iterator[tuple[int, Entry]]:
        """Entries with an id over `after_id`, in order, one at a time."""
        query = "SELECT id, stream, seq, label, grp, name, feature, crc FROM entries WHERE id > ? ORDER BY id"
        try:
            for at, *row, crc in self._db.execute(query, (after_id,)):
                if crc != entry_checksum(row):
                    raise self._damaged(f"entry {at} is not what was logged")
                stream, seq, label, group, name, feature = row
                yield at, Entry(stream, seq, np.frombuffer(feature, self.dtype), label, group, name)
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error

    def features(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """The features (n, D) of entries, in the order of the ids.

        Raises
        ------
        NotFound
            An id that is not there.
        """
        X = np.empty((len(ids), self.dim or 0), dtype=self.dtype or "<f4")
        for row, number in enumerate(ids.tolist()):
            found = next(self.read(number - 1), None)
            if found is None or found[0] != number:
                raise NotFound(f"{self.path} has no entry {number}")
            X[row] = found[1].feature
        return X

    def load(self) -> Logged:
        """All entries at once: what a model is fitted on."""
        n = len(self)
        X = np.empty((n, self.dim or 0), dtype=self.dtype or "<f4")
        labels: list[Label | None] = []
        groups: list[str | None] = []
        ids = np.empty(n, dtype=np.int64)
        for row, (at, entry) in enumerate(self.read()):
            X[row], ids[row] = entry.feature, at
            labels.append(entry.label)
            groups.append(entry.group)
        return Logged(X, labels, groups, ids)

    def close(self) -> None:
        """Let go of the file, sealed, and of the lock."""
        try:
            with closing(self._tally):
                self._db.close()  # which brings the write-ahead log home
            if self._is_whole and not self._wal_left():
                seal(self.path)
        except (sqlite3.Error, OSError, Unavailable) as error:  # it stays unsealed: gone through at the next start
            log.warning("%s is closed without a seal: %s", self.path, error)
        finally:
            os.close(self._lock)

    def _set_up(self) -> None:
        """Tables and format of a new log."""
        try:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            with self.transaction():
                for statement in TABLES.split(";"):
                    self._db.execute(statement)
                if not self._meta:
                    self._write_meta({"format": FORMAT})
        except (sqlite3.Error, Unavailable) as error:
            raise ConfigError(f"{self.path} cannot be used: {error}") from error

    def _damaged(self, what: str) -> ConfigError:
        """The error for it; what was found damaged once is not sealed as whole."""
        self._is_whole = False
        return damaged(self.path, what)

    def _wal_left(self) -> bool:
        wal = self.path.with_name(self.path.name + "-wal")
        return wal.exists() and wal.stat().st_size > 0

    def _read_meta(self) -> None:
        try:
            self._meta: dict[str, str] = dict(self._db.execute("SELECT key, value FROM meta"))
        except sqlite3.OperationalError:  # a new file: no tables yet
            self._meta = {}

    def _write_meta(self, meta: dict[str, str]) -> None:
        meta["check"] = meta_checksum(meta)
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", sorted(meta.items()))
        self._meta = meta

    def _agree(self, facts: dict[str, str]) -> None:
        """What the log holds and what came are of one kind."""
        held = self._meta
        if held.get("bank", facts["bank"]) != facts["bank"]:
            raise BankMismatch(
                f"{self.path} holds features of bank {held['bank']}, got one of bank {facts['bank']}; "
                "learn it under another name"
            )
        if held.get("dtype", facts["dtype"]) != facts["dtype"]:
            raise InvalidArgument(f"features must be of dtype {held['dtype']}, as those before, got {facts['dtype']}")
        if "label" in facts and held.get("label", facts["label"]) != facts["label"]:
            raise InvalidArgument(f"labels must be all {held['label']}, as those before, got one of {facts['label']}")


def is_in_use(log: Path) -> bool:
    """Whether a process has a log open: said by the kernel, for trying the lock could keep a worker from starting."""
    try:
        inode = _lock_of(log).stat().st_ino
    except FileNotFoundError:
        return False
    held = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any("FLOCK" in words and words[-3].rpartition(":")[2] == str(inode) for words in held)


def _lock_of(log: Path) -> Path:
    return log.with_name(log.name + ".lock")


def _lock(path: Path) -> int:
    """An open, locked file that names this process; the lock goes with the process, however it ends."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened for writing: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 20).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise ConfigError(
            f"{path.with_suffix('')} is in use by process {owner}; stop it or give another path"
        ) from None
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    except OSError as error:  # let go of it, or nobody in this process could lock it again
        os.close(descriptor)
        raise Unavailable(f"{path} cannot be written: {error.strerror}; free the disk and try again") from error
    return descriptor
