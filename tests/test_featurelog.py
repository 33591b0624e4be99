"""FeatureLog: what was acknowledged is there, once, whatever happens."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, Unavailable
from streamfeat.featurelog import Entry, FeatureLog

BANK = "a" * 64


def entry(seq: int, label: Any = "x", stream: str = "s", width: int = 3, dtype: str = "<u2", **more: Any) -> Entry:
    """An entry whose feature tells its number."""
    return Entry(stream, seq, np.full(width, seq, dtype=dtype), label, **more)


def test_entries_come_back_as_they_went_in(tmp_path: Path) -> None:
    """Features in their dtype, labels in their type, groups, names and ids, also after opening again."""
    entries = [entry(0, group="ann", name="1a.wav"), entry(1, "01"), entry(2, None), entry(0, stream="t")]
    with FeatureLog(tmp_path / "log.sqlite") as log:
        receipts = log.append(entries, BANK)
        assert [receipt.duplicate for receipt in receipts] == [False] * 4
    with FeatureLog(tmp_path / "log.sqlite") as log:
        assert (log.bank_hash, log.dtype, log.dim, len(log)) == (BANK, "<u2", 3, 4)
        back = list(log.read())
        assert [at for at, _ in back] == [receipt.id for receipt in receipts]
        for (_, found), given_ in zip(back, entries, strict=True):
            np.testing.assert_array_equal(found.feature, given_.feature)
            assert found.feature.dtype == np.uint16
            assert (found.stream, found.seq, found.label) == (given_.stream, given_.seq, given_.label)
            assert (found.group, found.name) == (given_.group, given_.name)
        logged = log.load()
        np.testing.assert_array_equal(logged.X, [each.feature for each in entries])
        assert logged.X.dtype == np.uint16
        assert logged.labels == ["x", "01", None, "x"]
        assert logged.groups == ["ann", None, None, None]
        assert [at for at, _ in log.read(after_id=receipts[1].id)] == [receipts[2].id, receipts[3].id]


@pytest.mark.parametrize("labels", [[1, -5, 2**62], ["1", "01", "ü"], [np.int64(4), 4]])
def test_labels_keep_their_type(tmp_path: Path, labels: list[Any]) -> None:
    """An int stays an int, "1" a text; numpy's become plain."""
    with FeatureLog(tmp_path / "log") as log:
        log.append([entry(i, label) for i, label in enumerate(labels)], BANK)
        back = log.load().labels
    assert back == labels
    assert {type(label) for label in back} <= {int, str}


def test_a_retry_is_harmless(tmp_path: Path) -> None:
    """The same key again gets the first id and changes nothing, whatever it carries; also within one batch."""
    with FeatureLog(tmp_path / "log") as log:
        first = log.append([entry(0), entry(1)], BANK)
        again = log.append([entry(1), Entry("s", 0, np.array([9, 9, 9], "<u2"), "other"), entry(2), entry(2)], BANK)
        assert [receipt.duplicate for receipt in again] == [True, True, False, True]
        assert [again[0].id, again[1].id] == [first[1].id, first[0].id]
        assert again[3].id == again[2].id
        np.testing.assert_array_equal(log.load().X[:, 0], [0, 1, 2])
        assert log.load().labels == ["x", "x", "x"]


@settings(deadline=None, max_examples=20)
@given(batches=st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 6)), max_size=5), max_size=6))
def test_it_is_a_dict_that_keeps_the_first(tmp_path_factory: pytest.TempPathFactory, batches: list[Any]) -> None:
    """Whatever keys come in whatever batches: each once, in order of first arrival, ids rising."""
    kept: dict[tuple[str, int], int] = {}
    with FeatureLog(tmp_path_factory.mktemp("log") / "log") as log:
        for i, keys in enumerate(batches):
            receipts = log.append([Entry(s, q, np.array([i], "<u2"), 0) for s, q in keys], BANK)
            for key, receipt in zip(keys, receipts, strict=True):
                assert receipt.duplicate == (key in kept)
                assert kept.setdefault(key, receipt.id) == receipt.id
        assert [((e.stream, e.seq), at) for at, e in log.read()] == list(kept.items())
        assert list(kept.values()) == sorted(kept.values())


def test_features_of_another_bank_are_refused(tmp_path: Path) -> None:
    """Both hashes are named, and the log is as it was, also after opening again."""
    with FeatureLog(tmp_path / "log") as log:
        log.append([entry(0)], BANK)
    with FeatureLog(tmp_path / "log") as log:
        with pytest.raises(BankMismatch, match=f"{BANK}.*{'b' * 64}"):
            log.append([entry(1)], "b" * 64)
        assert len(log) == 1


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (entry(5, width=4), "3 columns.*got 4"),
        (entry(5, dtype="<f4"), "dtype <u2.*<f4"),
        (entry(5, label=1), "all str.*int"),
        (entry(5, label=1.5), "label"),
        (entry(5, label=True), "label"),
        (entry(5, label=""), "label"),
    ],
)
def test_a_refused_entry_takes_its_batch_along(tmp_path: Path, bad: Entry, match: str) -> None:
    """Another width, dtype or kind of label: named, and nothing of that batch is stored."""
    with FeatureLog(tmp_path / "log") as log:
        log.append([entry(0)], BANK)
        with pytest.raises(InvalidArgument, match=match):
            log.append([entry(1), bad], BANK)
        assert len(log) == 1


def test_nan_is_refused_and_what_it_brought_forgotten(tmp_path: Path) -> None:
    """A first batch that fails leaves the log open to any bank, dtype and label."""
    with FeatureLog(tmp_path / "log") as log:
        first = Entry("s", 0, np.array([1.0], "<f4"), "x")
        with pytest.raises(InvalidArgument, match="non-finite"):
            log.append([first, Entry("s", 1, np.array([np.nan], "<f4"), "x")], BANK)
        assert (len(log), log.bank_hash, log.dtype) == (0, None, None)
        log.append([entry(0, label=3)], "b" * 64)
        assert (log.bank_hash, log.dtype, log.load().labels) == ("b" * 64, "<u2", [3])


def test_in_a_transaction_a_refused_entry_fails_alone(tmp_path: Path) -> None:
    """`put` raises for one entry; the others of the block are on disk when it ends."""
    with FeatureLog(tmp_path / "log") as log:
        with log.transaction():
            log.put(entry(0), BANK)
            with pytest.raises(InvalidArgument):
                log.put(entry(1, width=9), BANK)
            log.put(entry(2), BANK)
        np.testing.assert_array_equal(log.load().X[:, 0], [0, 2])


def test_one_owner(tmp_path: Path) -> None:
    """A second opener is refused and told who has it; after closing it may come in."""
    path = tmp_path / "log"
    with FeatureLog(path), pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        FeatureLog(path)
    with FeatureLog(path) as log:
        assert len(log) == 0


def test_a_lock_that_cannot_be_written_is_let_go(tmp_path: Path) -> None:
    """On a full disk each attempt says so; the second does not find the log in use by the first."""
    (tmp_path / "a.sqlite.lock").symlink_to("/dev/full")
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be written"):
            FeatureLog(tmp_path / "a.sqlite")


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    """A text file, another format, a folder that cannot be written: named, and the lock is free again."""
    path = tmp_path / "log"
    path.write_text("this is no database, just text that is long enough to be taken for a header of one " * 20)
    for _ in range(2):
        with pytest.raises(ConfigError, match="no feature log"):
            FeatureLog(path)
    other = tmp_path / "other"
    FeatureLog(other).close()
    with sqlite3.connect(other) as db:
        db.execute("UPDATE meta SET value = 'streamfeat-log-9' WHERE key = 'format'")
    db.close()
    (tmp_path / "other.seal").unlink()
    for _ in range(2):
        with pytest.raises(ConfigError, match="streamfeat-log-9"):
            FeatureLog(other)


def test_a_full_disk_is_the_operators(tmp_path: Path) -> None:
    """When SQLite cannot write, the batch is not acknowledged, the error says so, and the log goes on later."""
    with FeatureLog(tmp_path / "log") as log:
        log.append([entry(0)], BANK)
        pages = log._db.execute("PRAGMA page_count").fetchone()[0]
        log._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(Unavailable, match="full"):
            log.append([entry(i, width=3) for i in range(1, 5000)], BANK)
        log._db.execute("PRAGMA max_page_count = 100000")
        assert len(log) == 1
        assert log.append([entry(1)], BANK)[0].duplicate is False


def filled(path: Path) -> Path:
    """A closed log of twenty entries."""
    with FeatureLog(path) as log:
        log.append([entry(i, f"c{i % 3}", width=20, group="ann") for i in range(20)], BANK)
    return path


def changed(data: bytes, rng: random.Random) -> bytes:
    """One byte flipped, or the end cut off."""
    at = rng.randrange(len(data))
    if rng.random() < 0.3:
        return data[:at]
    return data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]


def test_any_change_of_a_closed_log_is_refused(tmp_path: Path) -> None:
    """A byte flipped or cut anywhere, in use or not: refused by name, the file kept as it is."""
    path, rng = filled(tmp_path / "log"), random.Random(1)
    whole = path.read_bytes()
    for _ in range(60):
        damaged = changed(whole, rng)
        path.write_bytes(damaged)
        with pytest.raises(ConfigError, match=r"log is not what was closed.*copy it again"):
            FeatureLog(path)
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    with FeatureLog(path) as log:
        assert len(log) == 20
        assert not path.with_name("log.seal").exists()  # a kill from now on leaves it unsealed


def test_a_change_of_an_unsealed_log_is_refused_or_harmless(tmp_path: Path) -> None:
    """After a kill: what was acknowledged is there as it was, or the log is refused; never something else."""
    path, rng = filled(tmp_path / "log"), random.Random(2)
    whole = path.read_bytes()
    n_refused = 0
    for n in range(120):
        path.with_name("log.seal").unlink(missing_ok=True)
        for left in tmp_path.glob("log-*"):
            left.unlink()
        damaged = changed(whole, rng)
        if n % 2:  # in the pages that hold something
            at = rng.choice([i for i in range(4096, len(whole)) if whole[i]])
            damaged = whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :]
        path.write_bytes(damaged)
        try:
            with FeatureLog(path) as log:
                found = [(e.stream, e.seq, e.label, e.group, e.feature.tolist()) for _, e in log.read()]
                about = (log.bank_hash, log.dtype, log.dim)
        except ConfigError:
            n_refused += 1
            continue
        assert found == [("s", i, f"c{i % 3}", "ann", [i] * 20) for i in range(20)]
        assert about == (BANK, "<u2", 20)
    assert n_refused > 60


def test_an_entry_changed_behind_our_back_is_refused(tmp_path: Path) -> None:
    """Valid SQL that we did not say: the entry is named when the log is opened, and when it is read."""
    path = filled(tmp_path / "log")
    path.with_name("log.seal").unlink()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entries SET label = 'c9' WHERE id = 7")
    db.close()
    with pytest.raises(ConfigError, match="entry 7 is not what was logged"):
        FeatureLog(path)


def test_damage_to_an_open_log_is_named(tmp_path: Path) -> None:
    """Pages written over while it is open: the next batch, or whoever reads, is told; nothing is taken for stored."""
    path = tmp_path / "log"
    with FeatureLog(path) as log:
        log.append([entry(i, width=900) for i in range(40)], BANK)
        log._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            n_bytes = file.seek(0, os.SEEK_END)
            file.seek(4096)  # after the schema
            file.write(b"\xaa" * (n_bytes - 4096))
        log._db.execute("PRAGMA shrink_memory")  # what it remembers of the pages
        for act in (lambda: log.append([entry(41, width=900)], BANK), lambda: list(log.read())):
            with pytest.raises(ConfigError, match=r"log is damaged.*it is kept as it is: copy it again"):
                act()
        assert len(log) == 40
    assert not path.with_name("log.seal").exists()
    with pytest.raises(ConfigError, match="is damaged"):
        FeatureLog(path)


WRITER = """
import sys
from pathlib import Path
import numpy as np
from streamfeat.featurelog import Entry, FeatureLog
log = FeatureLog(Path(sys.argv[1]))
seq = int(sys.argv[2])
while True:
    batch = [Entry("s", seq + i, np.full(200, (seq + i) % 1000, "<u2"), (seq + i) % 10) for i in range(1 + seq % 7)]
    log.append(batch, "a" * 64)
    seq += len(batch)
    print(seq, flush=True)
"""


def test_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """SIGKILL at random moments: every acknowledged entry is there, once, whole; the next writer takes the lock."""
    path, rng = tmp_path / "log", random.Random(0)
    acknowledged = 0
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(max(0, acknowledged - 3))], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        acknowledged = max(acknowledged, int(writer.stdout.readline()))
        time.sleep(rng.uniform(0.0, 0.15))
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().splitlines(keepends=True)
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        writer.wait(timeout=10)
        writer.stdout.close()
        with FeatureLog(path) as log:
            seqs = [each.seq for _, each in log.read()]
            # at most the batch that was on its way when the kill came is more
            assert seqs[:acknowledged] == list(range(acknowledged))
            assert len(set(seqs)) == len(seqs) <= acknowledged + 7
            for _, each in log.read():
                np.testing.assert_array_equal(each.feature, np.full(200, each.seq % 1000))
                assert each.label == each.seq % 10
