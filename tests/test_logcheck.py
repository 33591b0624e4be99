"""Whether a log is whole: of one that a kill left, any byte flipped or cut is noticed, or was never needed."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.featurelog import Entry, FeatureLog
from streamfeat.logcheck import check_log
from streamfeat.tally import Tally

BANK = "a" * 64
N = 90

WRITER = """
import os, signal, sys
from pathlib import Path
import numpy as np
from streamfeat.featurelog import Entry, FeatureLog
log = FeatureLog(Path(sys.argv[1]))
first, last, checkpointed = (int(word) for word in sys.argv[2:])
for seq in range(first, last, 3):
    log.append([Entry("s", i, np.full(300, i, "<u2"), f"c{i % 3}", "ann") for i in range(seq, seq + 3)], "a" * 64)
    if seq == checkpointed:
        log._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
print("acknowledged", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, first: int = 0, last: int = N, checkpointed: int = -1) -> Path:
    """A log of which a process acknowledged 90 entries, three at a time, before it was killed."""
    words = [sys.executable, "-c", WRITER, str(path), str(first), str(last), str(checkpointed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("acknowledged\n", -signal.SIGKILL), done.stderr
    return path


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of logs that were left open: all in the write-ahead log, half of it, and a log that was closed before."""
    logs = {name: tmp_path_factory.mktemp(name) / "log" for name in ("wal", "half", "reopened")}
    killed(logs["wal"])
    killed(logs["half"], checkpointed=45)
    with FeatureLog(logs["reopened"]) as log:
        log.append(expected()[:30], BANK)
    killed(logs["reopened"], first=30)
    return {name: path.parent for name, path in logs.items()}


def expected() -> list[Entry]:
    """What was acknowledged."""
    return [Entry("s", i, np.full(300, i, "<u2"), f"c{i % 3}", "ann") for i in range(N)]


def kept(folder: Path) -> dict[str, bytes]:
    """All that is said and held; not the index of the write-ahead log, which is made anew each time."""
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir()) if not f.name.endswith(("-shm", ".lock"))}


def is_noticed(folder: Path) -> bool:
    """Whether a log is refused, by name and with a way out, and all of it kept; else every entry must be there."""
    before = kept(folder)
    try:
        with FeatureLog(folder / "log") as log:
            found = list(log.read())
            facts = (log.bank_hash, log.dtype, log.dim, len(log))
    except ConfigError as refused:
        reason = str(refused)
        assert str(folder / "log") in reason
        assert "it is kept as it is: copy it again" in reason
        assert kept(folder) == before
        return True
    assert facts == (BANK, "<u2", 300, N)
    assert [at for at, _ in found] == list(range(1, N + 1))
    for (_, entry), whole in zip(found, expected(), strict=True):
        assert (entry.seq, entry.label, entry.group) == (whole.seq, whole.label, whole.group)
        np.testing.assert_array_equal(entry.feature, whole.feature)
    return False


def changes(data: bytes, rng: random.Random, n: int) -> Iterator[bytes]:
    """A byte flipped somewhere, or everything from there on gone, or a block of zeros."""
    for i in range(n):
        at = rng.randrange(len(data))
        if i % 3 == 0:
            yield data[:at] + bytes([data[at] ^ rng.randrange(1, 256)]) + data[at + 1 :]
        elif i % 3 == 1:
            yield data[:at]
        else:
            yield data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]


@pytest.mark.parametrize("kind", ["wal", "half", "reopened"])
@pytest.mark.parametrize("suffix", ["", "-wal", ".tally"])
def test_what_a_kill_left_is_whole_or_refused(left: dict[str, Path], tmp_path: Path, kind: str, suffix: str) -> None:
    """Flips, cuts and lost blocks in each file: noticed, or all 90 entries are there as they were acknowledged."""
    rng, n_noticed, n = random.Random(f"{kind}{suffix}"), 0, 45
    whole = (left[kind] / f"log{suffix}").read_bytes()
    for i, changed in enumerate(changes(whole, rng, n)):
        folder = tmp_path / str(i)
        shutil.copytree(left[kind], folder)
        (folder / f"log{suffix}").write_bytes(changed)
        n_noticed += is_noticed(folder)
    superseded = (kind, suffix) == ("wal", "")  # one page, whose newer content is in the write-ahead log
    assert superseded or n_noticed > n / 4, f"{n_noticed} of {n}"


@pytest.mark.parametrize("kind", ["wal", "half", "reopened"])
def test_the_write_ahead_log_without_its_end(left: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """Cut after each commit, where SQLite sees nothing wrong, or gone: refused, and what is missing is counted."""
    wal = (left[kind] / "log-wal").read_bytes()
    frame = 24 + 4096
    ends = [at + frame for at in range(32, len(wal), frame) if wal[at + 4 : at + 8] != bytes(4)]  # frames that commit
    assert len(ends) >= 14
    for i, end in enumerate([0, *ends[:-1]]):
        folder = tmp_path / str(i)
        shutil.copytree(left[kind], folder)
        (folder / "log-wal").write_bytes(wal[:end])
        with pytest.raises(ConfigError, match=rf"of {N} entries that were acknowledged \d+ are there"):
            FeatureLog(folder / "log")
        assert is_noticed(folder)
    folder = tmp_path / "gone"
    shutil.copytree(left[kind], folder)
    (folder / "log-wal").unlink()
    assert is_noticed(folder)


def test_the_file_itself_gone_or_empty(left: dict[str, Path], tmp_path: Path) -> None:
    """With or without the write-ahead log: refused; nothing new is begun in its place."""
    for i, (names, empty) in enumerate([(["log"], False), (["log"], True), (["log", "log-wal"], False)]):
        folder = tmp_path / str(i)
        shutil.copytree(left["half"], folder)
        for name in names:
            (folder / name).unlink()
            if empty:
                (folder / name).touch()
        assert is_noticed(folder)


def test_a_journal_that_is_none_of_ours(left: dict[str, Path], tmp_path: Path) -> None:
    """SQLite would play it back into the log: refused before it is asked. Killed while a log is made, it may do so."""
    folder = tmp_path / "log-with-journal"
    shutil.copytree(left["half"], folder)
    (folder / "log-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    assert is_noticed(folder)


def test_a_tally_put_away_opens_what_can_be_read(
    left: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The way out that the error names: the entries before the damage, and a warning that others may be missing."""
    folder = tmp_path / "f"
    shutil.copytree(left["wal"], folder)
    wal = folder / "log-wal"
    wal.write_bytes(wal.read_bytes()[: 32 + 40 * 4120])
    with pytest.raises(ConfigError, match=r"or move log\.tally away to go on with these"):
        FeatureLog(folder / "log")
    (folder / "log.tally").rename(folder / "tally-of-old")
    with FeatureLog(folder / "log") as log:
        n = len(log)
        assert [entry.seq for _, entry in log.read()] == list(range(n))
        assert 0 < n < N
    assert "has no tally" in caplog.text
    assert check_log(folder / "log") == Tally(n, n)


def test_looking_changes_nothing(left: dict[str, Path], tmp_path: Path) -> None:
    """Not even the write-ahead log of a whole log is brought home; closed or new logs are as they were."""
    for kind in ("wal", "half"):
        shutil.copytree(left[kind], tmp_path / kind)
        before = kept(tmp_path / kind)
        assert check_log(tmp_path / kind / "log") == Tally(N, N)
        assert kept(tmp_path / kind) == before
        with FeatureLog(tmp_path / kind / "log"):
            pass
        before = kept(tmp_path / kind)
        assert sorted(before) == ["log", "log.seal", "log.tally"]
        assert check_log(tmp_path / kind / "log") == Tally(N, N)
        assert kept(tmp_path / kind) == before
    assert check_log(tmp_path / "none") == Tally()
    assert not (tmp_path / "none").exists()


def test_an_older_copy_is_refused(tmp_path: Path) -> None:
    """A closed log put back with its seal, while more was acknowledged since: what is missing is counted."""
    with FeatureLog(tmp_path / "log") as log:
        log.append(expected()[:6], BANK)
    older = {name: (tmp_path / name).read_bytes() for name in ("log", "log.seal")}
    with FeatureLog(tmp_path / "log") as log:
        log.append(expected()[6:9], BANK)
    for name, content in older.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match="of 9 entries that were acknowledged 6 are there"):
        FeatureLog(tmp_path / "log")
