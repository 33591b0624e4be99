"""Blocks of features on the disk: known again by bank, names and content."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.blocks import Done, blocks_folder, cut_blocks, is_kept, join, keep, read_kept
from streamfeat.delivery import Failure
from streamfeat.errors import ConfigError
from streamfeat.featureset import read_features
from streamfeat.signals.pictures import Picture


def entries(value: int = 0) -> list[Picture]:
    """Five pictures, the last filled with `value`."""
    return [Picture(f"p{i}", "a", None, np.full((2, 2), value if i == 4 else i, np.uint8)) for i in range(5)]


def test_a_key_tells_bank_reading_and_content() -> None:
    """Whatever changes changes the key of its block, and of no other."""
    keys = [block.key for block in cut_blocks(entries(), "bank", "first", 2)]
    assert len(set(keys)) == 3
    assert [block.key for block in cut_blocks(entries(), "bank", "first", 2)] == keys
    changed = [block.key for block in cut_blocks(entries(9), "bank", "first", 2)]
    assert (changed[:2], changed[2] != keys[2]) == (keys[:2], True)
    for bank, reading in (("other", "first"), ("bank", "refuse")):
        assert not {block.key for block in cut_blocks(entries(), bank, reading, 2)} & set(keys)


def test_blocks_are_joined_in_order(tmp_path: Path) -> None:
    """Features, names and labels of the items that have some; failures beside."""
    blocks = cut_blocks(entries(), "bank", "first", 3)
    failure = Failure("p1", "INVALID_ARGUMENT", "p1: damaged")
    folder = blocks_folder(tmp_path)
    keep(folder, blocks[1], Done(np.array([[3], [4]], np.uint16), (0, 1), ()))
    assert [is_kept(folder, block) for block in blocks] == [False, True]
    keep(folder, blocks[0], Done(np.array([[0], [2]], np.uint16), (0, 2), (failure,)))
    assert join(tmp_path, entries(), blocks, "bank", np.empty((0, 1), np.uint16)) == [failure]
    found = read_features(tmp_path)
    assert found.rows[:].tolist() == [[0], [2], [3], [4]]
    assert found.names.tolist() == ["p0", "p2", "p3", "p4"]
    assert (found.labels.tolist(), found.speakers.tolist()) == (["a"] * 4, [""] * 4)


def test_a_damaged_block_is_named(tmp_path: Path) -> None:
    """The error says which folder to remove."""
    [block] = cut_blocks(entries(), "bank", "first", 5)
    keep(tmp_path, block, Done(np.zeros((5, 1), np.uint16), (0, 1, 2, 3, 4), ()))
    (tmp_path / block.key / "features.npy").write_bytes(b"")
    with pytest.raises(ConfigError, match=f"{block.key}.*remove it"):
        read_kept(tmp_path, block)
