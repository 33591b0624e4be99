"""Banks on disk: saved whole or not at all, and held to their hashes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamfeat.bank import Bank, build_bank, find_bank, list_banks, open_bank
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, NotFound
from streamfeat.kernels import LANES
from tests.test_bank import SHIFT, bank_of
from tests.test_bankspec import small


@pytest.fixture(scope="module")
def bank() -> Bank:
    return bank_of()


def test_a_saved_bank_opens_as_it_was(bank: Bank, tmp_path: Path) -> None:
    """Hash, arrays and manifest come back; arrays are mapped, read-only and used without a copy."""
    path = bank.save(tmp_path)
    assert path.name == f"small-{bank.hash[:12]}"
    opened = open_bank(path)
    assert opened.hash == bank.hash
    assert opened.manifest == bank.manifest
    for name, array in opened.arrays.items():
        np.testing.assert_array_equal(array, bank.arrays[name])
        assert not array.flags.writeable
        assert isinstance(array.base, np.memmap)
    assert bank.only.axes == opened.only.axes


def test_saving_twice_changes_nothing(bank: Bank, tmp_path: Path) -> None:
    """A bank that is there stays untouched, and no other file is left behind."""
    path = bank.save(tmp_path)
    before = {f.name: f.stat().st_mtime_ns for f in path.iterdir()}
    assert bank.save(tmp_path) == path
    assert {f.name: f.stat().st_mtime_ns for f in path.iterdir()} == before
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


def test_processes_that_save_the_same_bank_meet_in_one_directory(bank: Bank, tmp_path: Path) -> None:
    """Three processes at once: one whole bank, all content with it, nothing left behind."""
    bank.save(tmp_path / "first")
    code = (
        "import sys; from pathlib import Path; from streamfeat.bank import *; "
        "print(open_bank(next(Path(sys.argv[1]).iterdir())).save(Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "first"), str(tmp_path / "second")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {process.communicate(timeout=60)[0].strip() for process in running}
    assert paths == {str(tmp_path / "second" / bank.folder)}
    assert [f.name for f in (tmp_path / "second").iterdir()] == [bank.folder]
    assert open_bank(tmp_path / "second" / bank.folder).hash == bank.hash


def cut(path: Path) -> None:
    file = path / "templates.npy"
    file.write_bytes(file.read_bytes()[:-100])


def flip(path: Path) -> None:
    file = path / "templates.npy"
    data = bytearray(file.read_bytes())
    data[-8] ^= 1
    file.write_bytes(data)


def lose(path: Path) -> None:
    (path / "thresholds.npy").unlink()


def rename_array(path: Path) -> None:
    (path / "thresholds.npy").rename(path / "limits.npy")


def empty(path: Path) -> None:
    (path / "scale.npy").write_bytes(b"")


def swap(path: Path) -> None:
    np.save(path / "scale.npy", np.zeros((1, 27, LANES)))


def edit(path: Path) -> None:
    file = path / "manifest.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))


def break_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("{")


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def other_format(path: Path) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": "streamfeat-bank-9"}))


def lose_key(path: Path) -> None:
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["axes"]
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut, r"templates\.npy is cut"),
        (flip, r"templates\.npy is not what was saved"),
        (lose, r"thresholds\.npy is missing"),
        (rename_array, r"thresholds\.npy is missing"),
        (empty, r"scale\.npy is cut"),
        (swap, r"scale\.npy should hold <f4 .* it holds <f8"),
        (edit, "edited"),
        (break_manifest, r"manifest\.json cannot be read"),
        (lose_manifest, r"no bank at .*bank list"),
        (other_format, "streamfeat-bank-9"),
        (lose_key, "'axes'"),
    ],
)
def test_a_harmed_bank_is_refused_by_the_name_of_the_file(
    bank: Bank, tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    """Each kind of harm is told with the file and the way out."""
    path = bank.save(tmp_path)
    harm(path)
    with pytest.raises(ConfigError, match=message):
        open_bank(path)


def test_no_byte_of_a_bank_changes_unseen(bank: Bank, tmp_path: Path) -> None:
    """Flipped or cut anywhere: refused and kept, or, in what no number is read from, the same bank to the bit."""
    path, rng, n_same = bank.save(tmp_path), np.random.default_rng(0), 0
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for at in rng.integers(0, len(whole), 30):
            for changed in (whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :], whole[:at]):
                file.write_bytes(changed)
                try:
                    opened = open_bank(path)
                except ConfigError as error:
                    reason = str(error)
                    assert file.name in reason
                else:
                    assert changed[at:], "cut, and not noticed"
                    assert opened.manifest == bank.manifest
                    assert all(np.array_equal(opened.arrays[name], array) for name, array in bank.arrays.items())
                    n_same += 1
                assert file.read_bytes() == changed
        file.write_bytes(whole)
    assert n_same < 30, "spaces of a manifest and of the heads of arrays"


def test_a_renamed_directory_is_refused(bank: Bank, tmp_path: Path) -> None:
    """The directory's name is the hash; another name is told with the right one."""
    path = bank.save(tmp_path)
    with pytest.raises(ConfigError, match=bank.folder):
        open_bank(path.rename(tmp_path / "small-000000000000"))


def test_an_unverified_bank_opens_in_milliseconds(tmp_path: Path) -> None:
    """Without verification opening does not read the arrays: 30 MB in less than 50 ms (3 ms measured)."""
    spec = small(templates={"source": "gaussian", "m": 256}, front_end=[{"stage": "pixels", "height": 64, "width": 64}])
    path = build_bank(BankSpec.from_dict({**spec, "group": [SHIFT], "form": "dense"})).save(tmp_path)
    open_bank(path, verify=False)
    started = time.perf_counter()
    open_bank(path, verify=False)
    assert time.perf_counter() - started < 0.05


def test_banks_are_found_by_name_and_by_hash(bank: Bank, tmp_path: Path) -> None:
    """The newest of a name; any start of a hash; what is missing lists what is there."""
    assert list_banks(tmp_path / "nowhere") == []
    first, second = bank.save(tmp_path), bank_of(seed=1).save(tmp_path)
    assert list_banks(tmp_path) == sorted([first, second])
    assert find_bank(tmp_path, "small") == second
    assert find_bank(tmp_path, bank.hash) == find_bank(tmp_path, bank.hash[:7]) == first
    assert find_bank(tmp_path, first.name) == first
    assert find_bank(tmp_path / "elsewhere", str(first)) == first
    with pytest.raises(NotFound, match=f"(?s)'other'.*{first.name}"):
        find_bank(tmp_path, "other")


def test_a_harmed_bank_comes_back_as_its_message_says(bank: Bank, tmp_path: Path) -> None:
    """Removed first, then built again; saving alone repairs nothing, nor does it take a directory for a bank."""
    path = bank.save(tmp_path)
    flip(path)
    bank.save(tmp_path)
    with pytest.raises(ConfigError, match="remove it, then"):
        open_bank(path)
    lose_manifest(path)
    with pytest.raises(OSError, match="not empty"):
        bank.save(tmp_path)
    shutil.rmtree(path)
    assert open_bank(bank.save(tmp_path)).hash == bank.hash
