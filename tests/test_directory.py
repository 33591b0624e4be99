"""write_directory: whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.directory import replace_file, write_directory, write_file


def test_what_was_written_is_there(tmp_path: Path) -> None:
    """Bytes and arrays, below folders that are made, readable by others, nothing beside."""
    path = tmp_path / "a" / "b"
    with write_directory(path) as partial:
        write_file(partial / "text", b"one")
        write_file(partial / "numbers.npy", np.arange(3))
        assert not path.exists()
    assert (path / "text").read_bytes() == b"one"
    np.testing.assert_array_equal(np.load(path / "numbers.npy"), [0, 1, 2])
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(path.parent.iterdir()) == [path]


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """No half-written directory, by its own name or another."""
    with pytest.raises(FileNotFoundError), write_directory(tmp_path / "a") as partial:
        write_file(partial / "missing" / "text", b"one")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"one" * 9999, np.arange(9999)])
def test_a_full_disk_is_named(content: bytes | NDArray[np.int64]) -> None:
    """No room for bytes or for an array: reason and file are there, though NumPy's error has neither."""
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_file(Path("/dev/full"), content)


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    """New text in its place; on a full disk the old one, the file's name in the error, and nothing beside."""
    file = tmp_path / "report.json"
    for text in ("one", "two"):
        replace_file(file, text)
        assert file.read_text() == text
    (tmp_path / ".report.json.part").symlink_to("/dev/full")  # where the text goes until it is whole
    with pytest.raises(OSError, match=r"No space left on device: .*report\.json"):
        replace_file(file, "three" * 9999)
    assert file.read_text() == "two"
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_there_stays(tmp_path: Path) -> None:
    """A directory with something in it, or a file, is not replaced."""
    for there in ("folder", "file"):
        path = tmp_path / there
        if there == "folder":
            path.mkdir()
            (path / "old").touch()
        else:
            path.touch()
        with pytest.raises(OSError, match=there), write_directory(path) as partial:
            write_file(partial / "text", b"new")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder", "old"]
