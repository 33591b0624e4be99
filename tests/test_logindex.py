"""An approximate index of a log: the log is the truth, a snapshot only spares the work of reading it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.featurelog import Entry, FeatureLog
from streamfeat.learn.neighbours import Neighbours
from streamfeat.learn.recipe import Recipe
from streamfeat.logindex import LogIndex, chunks

RECIPE = Recipe("IVF8,PQ4x4", n_train=200)
BANK = "ab" * 32
X = np.random.default_rng(0).standard_normal((900, 16)).astype(np.float32)


def put(log: FeatureLog, first: int, last: int) -> list[tuple[int, Entry]]:
    """Entries of these numbers in the log; what it answered."""
    entries = [Entry("stream", n, X[n], f"class {n % 7}") for n in range(first, last)]
    return [(receipt.id, entry) for receipt, entry in zip(log.append(entries, BANK), entries, strict=True)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FeatureLog]:
    """A log of 300 features."""
    with FeatureLog(tmp_path / "log.sqlite") as made:
        put(made, 0, 300)
        yield made


def open_index(log: FeatureLog, recipe: Recipe = RECIPE) -> tuple[LogIndex, list[int]]:
    """The index of a log, and what it said of how long it may take."""
    beats: list[int] = []
    return LogIndex(log, recipe, "cosine", beats.append), beats


def answers(made: LogIndex) -> Neighbours:
    return made.index.search(X[:40], 6)


def test_from_the_log_and_from_a_snapshot_the_same(log: FeatureLog, tmp_path: Path) -> None:
    """Answers, ids and labels; of the snapshot nothing is read again but its last entry and what came after."""
    first, beats = open_index(log)
    assert len(first.index) == 300
    assert max(beats) > 0  # it said that training takes time
    assert not list(tmp_path.glob("index-*"))  # 300 are no twice 200
    first.save(beats.append)
    assert [path.name for path in tmp_path.glob("index-*")] == ["index-000000000300"]
    added = put(log, 300, 350)
    second, _ = open_index(log)
    assert (len(second.index), second.index.last_id) == (350, 350)
    first.add(added, beats.append)
    one, other = answers(first), answers(second)
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.distances, other.distances)
    assert one.labels == other.labels


def test_snapshots_come_as_it_grows_and_the_last_is_kept(log: FeatureLog, tmp_path: Path) -> None:
    """When it has twice what the last one has: each entry is written a few times, however many there will be."""
    made, beats = open_index(log)
    seen = set()
    for first in range(300, 900, 50):
        made.add(put(log, first, first + 50), beats.append)
        seen |= {path.name for path in tmp_path.glob("index-*")}
        assert len(list(tmp_path.glob("index-*"))) <= 1
    assert seen == {"index-000000000400", "index-000000000800"}


@pytest.mark.parametrize("harm", ["cut", "bit", "recipe", "other log", "leftover"])
def test_a_snapshot_that_is_not_right_costs_time_alone(log: FeatureLog, tmp_path: Path, harm: str) -> None:
    """Cut, changed, of another recipe, of a log that was replaced, or a folder of something else: the log decides."""
    made, beats = open_index(log)
    made.save(beats.append)
    expected = answers(made)
    snapshot = tmp_path / "index-000000000300"
    recipe = RECIPE
    if harm == "cut":
        (snapshot / "ids.npy").unlink()
    if harm == "bit":
        file = snapshot / "index.faiss"
        file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    if harm == "recipe":
        recipe = Recipe("IVF8,Flat", n_train=200)
    if harm == "leftover":
        (tmp_path / "index-000000000999").mkdir()
    if harm == "other log":
        with FeatureLog(tmp_path / "other" / "log.sqlite") as other:
            entries = [Entry("another", n, X[n]) for n in range(400)]
            other.append(entries, BANK)
            snapshot.rename(tmp_path / "other" / snapshot.name)
            again, _ = open_index(other)
            assert len(again.index) == 400
            assert again.index.search(X[399:400], 1).ids.tolist() == [[400]]
        return
    refused = tmp_path / ("index-000000000999" if harm == "leftover" else snapshot.name)
    there = {file.name: file.read_bytes() for file in refused.iterdir()}
    again, _ = open_index(log, recipe)
    [kept] = tmp_path.glob("refused-*")
    assert kept.name == f"refused-{refused.name}"
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == there
    assert len(again.index) == 300
    if recipe is RECIPE:
        assert np.array_equal(answers(again).ids, expected.ids)
    again.save(beats.append)
    assert (tmp_path / "index-000000000300" / "index.json").is_file()
    assert len(open_index(log, recipe)[0].index) == 300


def test_a_full_disk_costs_the_snapshot_alone(log: FeatureLog, tmp_path: Path) -> None:
    """Nothing is raised and nothing left; the next one is taken when there is room."""
    made, beats = open_index(log)
    (tmp_path / "index-000000000300").write_text("in the way")
    made.save(beats.append)
    assert (tmp_path / "index-000000000300").is_file()
    (tmp_path / "index-000000000300").unlink()
    made.save(beats.append)
    assert (tmp_path / "index-000000000300" / "index.json").is_file()


def test_training_on_demand(log: FeatureLog) -> None:
    """Of those that wait for more; what is trained already stays as it is. An empty log has no index."""
    made, beats = open_index(log, Recipe("IVF8,PQ4x4", n_train=1000))
    assert not made.index.is_trained
    assert made.train(beats.append)
    assert made.index.is_trained
    assert not made.train(beats.append)
    with FeatureLog(log.path.parent / "empty" / "log.sqlite") as empty, pytest.raises(InvalidArgument, match="nothing"):
        open_index(empty)


def test_chunks_are_the_whole_log(log: FeatureLog) -> None:
    """In order, after the entry that is named."""
    put(log, 300, 900)
    numbers = [number for chunk in chunks(log, 10) for number, _ in chunk]
    assert numbers == list(range(11, 901))
    np.testing.assert_array_equal(log.features(np.array([7, 3, 900])), X[[6, 2, 899]])
