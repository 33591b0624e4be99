"""NeighbourIndex: what a list would answer, whatever was added, removed, saved and opened."""

from __future__ import annotations

import builtins
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, NotFound
from streamfeat.learn.neighbours import NeighbourIndex
from tests import naive_learn as naive

DIM = 3
vectors = st.lists(st.tuples(*[st.integers(-3, 3)] * DIM), min_size=1, max_size=4)
"""Few values, so that equal features and equal distances are common."""


class IndexMachine(RuleBasedStateMachine):
    """Any acts, in any order, with the list beside it."""

    metric = "cosine"
    backend = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.n_saved = 0
        self.index = NeighbourIndex(DIM, self.metric, self.backend)
        self.twin = naive.NeighbourList(self.metric)

    @rule(rows=vectors, label=st.sampled_from([None, "a", "b"]))
    def add(self, rows: list[tuple[int, ...]], label: str | None) -> None:
        """Both give the same ids."""
        labels = [label] * len(rows)
        ids = self.index.add(np.array(rows, dtype=np.float64), labels)
        assert list(ids) == self.twin.add(rows, labels)

    @precondition(lambda self: self.twin.entries)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        """Some entries go."""
        there = [entry[0] for entry in self.twin.entries]
        gone = data.draw(st.lists(st.sampled_from(there), min_size=1, unique=True))
        self.index.remove(gone)
        self.twin.remove(gone)

    @rule()
    def save_and_open(self) -> None:
        """What was saved goes on as if nothing had happened."""
        path = self.folder / str(self.n_saved)
        self.n_saved += 1
        self.index.save(path)
        self.index = NeighbourIndex.open(path, self.backend)

    @rule(rows=vectors, k=st.integers(1, 6))
    def search(self, rows: list[tuple[int, ...]], k: int) -> None:
        """Distances, ids and labels are those of the list."""
        found = self.index.search(np.array(rows), k)
        for i, row in enumerate(rows):
            expected = self.twin.search(row, k)
            distances = {at: self.twin.distance(row, vector) for at, _, vector in self.twin.entries}
            assert found.ids.shape == (len(rows), len(expected))
            # unit vectors held as float32
            np.testing.assert_allclose(found.distances[i], [d for d, _, _ in expected], atol=5e-7)
            np.testing.assert_allclose(found.distances[i], [distances[at] for at in found.ids[i]], atol=5e-7)
            labels = {at: label for at, label, _ in self.twin.entries}
            assert found.labels[i] == [labels[at] for at in found.ids[i]]
            assert len(set(found.ids[i])) == len(expected)
            order = list(zip(found.distances[i], found.ids[i], strict=True))
            assert order == sorted(order)
            if self.metric == "l2":
                assert list(found.ids[i]) == [at for _, at, _ in expected]

    @invariant()
    def same_entries(self) -> None:
        """Both hold the same."""
        assert list(self.index.ids) == [entry[0] for entry in self.twin.entries]
        assert len(self.index) == len(self.twin.entries)

    def teardown(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder)


class EuclideanMachine(IndexMachine):
    """The same by Euclidean distance, where sums of small integers are exact and ties are ties."""

    metric = "l2"


class FaissMachine(EuclideanMachine):
    """The same with FAISS proposing."""

    backend = "faiss"


class FaissCosineMachine(IndexMachine):
    """FAISS, cosine."""

    backend = "faiss"


brief = settings(deadline=None, max_examples=10, stateful_step_count=15)
for machine in (IndexMachine, EuclideanMachine, FaissMachine, FaissCosineMachine):
    machine.TestCase.settings = brief
TestCosine = IndexMachine.TestCase
TestEuclidean = EuclideanMachine.TestCase
TestFaiss = FaissMachine.TestCase
TestFaissCosine = FaissCosineMachine.TestCase


def many(n: int, dim: int = 64, seed: int = 0) -> NDArray[np.float32]:
    """Features that resemble each other."""
    rng = np.random.default_rng(seed)
    return (5 + rng.standard_normal((n, dim))).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_answers_do_not_depend_on_the_batch(metric: str, backend: str) -> None:
    """A query alone has bit for bit the answer it has among others, and both backends give it."""
    index = NeighbourIndex(64, metric, backend)
    index.add(many(500), range(500))
    queries = many(33, seed=1)
    together = index.search(queries, 7)
    for i in range(33):
        alone = index.search(queries[i : i + 1], 7)
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_array_equal(alone.distances[0], together.distances[i])
    exact = NeighbourIndex(64, metric)
    exact.add(many(500), range(500))
    np.testing.assert_array_equal(exact.search(queries, 7).ids, together.ids)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_equal_features_go_by_id(metric: str, backend: str) -> None:
    """Copies of one feature are equally far, wherever they are stored; the older comes first."""
    rows = many(300)
    rows[::7] = rows[3]
    index = NeighbourIndex(64, metric, backend)
    index.add(rows, [None] * 300)
    found = index.search(many(20, seed=1), 300)
    for ids, distances in zip(found.ids, found.distances, strict=True):
        copies = np.isin(ids, np.arange(0, 300, 7)) | (ids == 3)
        assert list(ids[copies]) == sorted([3, *range(0, 300, 7)])
        assert len(set(distances[copies])) == 1


def test_fewer_entries_than_k() -> None:
    """k over the number of entries gives all there are, and an empty index gives none."""
    index = NeighbourIndex(2)
    empty = index.search([[1.0, 0.0], [0.0, 1.0]], 5)
    assert empty.ids.shape == empty.distances.shape == (2, 0)
    assert empty.labels == [[], []]
    index.add([[1.0, 0.0], [0.0, 1.0]], ["x", "y"])
    assert index.search([[1.0, 0.1]], 5).labels == [["x", "y"]]


def test_ids_are_never_used_again(tmp_path: Path) -> None:
    """After the last entry goes, after saving and opening, and after given ids: a new one is always newer."""
    index = NeighbourIndex(2)
    index.add(np.eye(2), ["a", "b"], ids=[5, 9])
    index.remove([9])
    index.save(tmp_path / "index")
    index = NeighbourIndex.open(tmp_path / "index")
    assert list(index.add([[1.0, 1.0]], ["c"])) == [10]
    index.remove([5, 10])
    assert list(index.add([[1.0, 1.0]], ["d"])) == [11]
    for ids in ([11], [3], [14, 13], [12, 12], [12.5], [[12]]):
        with pytest.raises(InvalidArgument, match="rising ints from 12"):
            index.add(np.ones((len(ids), 2)), ["e"] * len(ids), ids=ids)
    assert len(index) == 1


def test_half_of_a_thousand_deleted_and_some_back(tmp_path: Path) -> None:
    """Deleting half, adding a hundred with other vectors, saving and loading: the answers of a list."""
    rows = many(1000, dim=8)
    index, twin = NeighbourIndex(8, "l2"), naive.NeighbourList("l2")
    index.add(rows, range(1000))
    twin.add(rows.tolist(), range(1000))
    gone = list(range(0, 1000, 2))
    index.remove(gone)
    twin.remove(gone)
    index.add(many(100, dim=8, seed=2), range(100))
    twin.add(many(100, dim=8, seed=2).tolist(), range(100))
    index.save(tmp_path / "index")
    index = NeighbourIndex.open(tmp_path / "index")
    query = many(1, dim=8, seed=3)
    found = index.search(query, 600)
    expected = twin.search(query[0].tolist(), 600)
    assert list(found.ids[0]) == [at for _, at, _ in expected]
    assert found.labels[0] == [label for _, _, label in expected]


@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_any_layout_and_number_type_is_taken(backend: str) -> None:
    """Slices with gaps, Fortran order, uint16, float64, int32 ids, read-only rows: one answer."""
    rows = np.random.default_rng(0).integers(0, 400, (40, 6)).astype(np.uint16)
    wide = np.zeros((80, 12), dtype=np.float64)
    wide[::2, ::2] = rows
    frozen = rows.astype(np.float32)
    frozen.flags.writeable = False
    answers = []
    for given in (rows, wide[::2, ::2], np.asfortranarray(rows.astype(np.float64)), frozen):
        index = NeighbourIndex(6, "l2", backend)
        index.add(given, range(40), ids=np.arange(40, dtype=np.int32))
        answers.append(index.search(given[3:9], 4))
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.ids, answers[0].ids)
        np.testing.assert_array_equal(answer.distances, answers[0].distances)


def test_zeros_are_far_from_all() -> None:
    """A feature of zeros (silence) is stored and found at distance 1, without NaN."""
    index = NeighbourIndex(2)
    index.add([[0.0, 0.0], [1.0, 0.0]], ["silent", "east"])
    found = index.search([[1.0, 0.0], [0.0, 0.0]], 2)
    np.testing.assert_array_equal(found.distances, [[0.0, 1.0], [1.0, 1.0]])
    assert found.labels == [["east", "silent"], ["silent", "east"]]


def test_centre_is_subtracted(tmp_path: Path) -> None:
    """With a centre, cosine is of the differences from it, also after opening."""
    index = NeighbourIndex(2, centre=[10.0, 10.0])
    index.add([[11.0, 10.0], [10.0, 11.0]], ["east", "north"])
    index.save(tmp_path / "index")
    for each in (index, NeighbourIndex.open(tmp_path / "index")):
        np.testing.assert_allclose(each.search([[12.0, 10.0]], 2).distances, [[0.0, 1.0]], atol=1e-7)


def test_labels_come_back_as_given(tmp_path: Path) -> None:
    """1 stays an int and "1" a text, also after opening; numpy's become plain."""
    labels: list[Any] = [1, "1", np.int64(7), np.str_("x"), None]
    index = NeighbourIndex(5)
    index.add(np.eye(5), labels)
    index.save(tmp_path / "index")
    for each in (index, NeighbourIndex.open(tmp_path / "index")):
        found = [each.search(np.eye(5)[i : i + 1], 1).labels[0][0] for i in range(5)]
        assert found == [1, "1", 7, "x", None]
        assert [type(label) for label in found] == [int, str, int, str, type(None)]


def test_features_of_another_bank_are_refused(tmp_path: Path) -> None:
    """Both hashes are named, when adding and when searching, also after opening; nothing is stored."""
    index = NeighbourIndex(2, bank_hash="aaaa")
    index.add(np.eye(2), ["x", "y"], bank_hash="aaaa")
    index.save(tmp_path / "index")
    for each in (index, NeighbourIndex.open(tmp_path / "index")):
        with pytest.raises(BankMismatch, match=r"aaaa.*bbbb"):
            each.add(np.eye(2), ["x", "y"], bank_hash="bbbb")
        with pytest.raises(BankMismatch, match=r"aaaa.*bbbb"):
            each.search(np.eye(2), 1, bank_hash="bbbb")
        assert len(each) == 2


def test_every_changed_byte_is_refused(tmp_path: Path) -> None:
    """Flip any byte of any file, cut or remove one: opening refuses, by name, before anything is used."""
    index = NeighbourIndex(2, centre=[0.0, 0.0])
    index.add(np.eye(2), ["x", "y"])
    path = tmp_path / "index"
    index.save(path)
    files = sorted(path.iterdir())
    assert len(files) == 4
    for file in files:
        whole = file.read_bytes()
        for at in range(0, len(whole), 5):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
            with pytest.raises(ConfigError, match=file.stem):
                NeighbourIndex.open(path)
        file.write_bytes(whole[:-1] if file.suffix == ".npy" else whole[:-3])
        with pytest.raises(ConfigError, match=file.stem):
            NeighbourIndex.open(path)
        file.unlink()
        with pytest.raises((ConfigError, NotFound), match=file.stem):
            NeighbourIndex.open(path)
        file.write_bytes(whole)
    assert len(NeighbourIndex.open(path)) == 2


@pytest.mark.parametrize("name", ["dim", "next_id", "labels", "metric", "bank_hash", "format"])
def test_edited_fields_are_refused(tmp_path: Path, name: str) -> None:
    """A count, a dimension or a label edited by hand: the hash of the fields tells."""
    index = NeighbourIndex(2)
    index.add(np.eye(2), ["x", "y"])
    index.save(tmp_path / "index")
    file = tmp_path / "index" / "index.json"
    fields = json.loads(file.read_text())
    fields[name] = 1
    file.write_text(json.dumps(fields))
    with pytest.raises(ConfigError, match="hash differs"):
        NeighbourIndex.open(tmp_path / "index")


def test_saved_things_do_not_change(tmp_path: Path) -> None:
    """Saving where something is refuses, and leaves no half-written directory behind."""
    index = NeighbourIndex(2)
    index.save(tmp_path / "index")
    with pytest.raises(InvalidArgument, match="there already"):
        index.save(tmp_path / "index")
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    with pytest.raises(NotFound, match="no index at"):
        NeighbourIndex.open(tmp_path / "other")


def test_what_is_refused_leaves_the_index_as_it_was() -> None:
    """Another width, NaN, too large, missing labels, unknown ids, k of zero: named, and nothing is stored or lost."""
    index = NeighbourIndex(2)
    index.add(np.eye(2), ["x", "y"])
    refused: list[tuple[type[Exception], str, Any]] = [
        (InvalidArgument, "2 columns", lambda: index.add([[1.0, 2.0, 3.0]], ["z"])),
        (InvalidArgument, "row 1, column 0", lambda: index.add([[1.0, 2.0], [np.nan, 0.0]], ["z", "z"])),
        (InvalidArgument, "over 1e15", lambda: index.add([[1e20, 2.0]], ["z"])),
        (InvalidArgument, "need 1 labels", lambda: index.add([[1.0, 2.0]], [])),
        (InvalidArgument, "label", lambda: index.add([[1.0, 2.0]], [1.5])),
        (NotFound, "no entry 7", lambda: index.remove([0, 7])),
        (InvalidArgument, "k must be", lambda: index.search(np.eye(2), 0)),
        (InvalidArgument, "shape", lambda: index.search(np.ones(2), 1)),
    ]
    for error, match, act in refused:
        with pytest.raises(error, match=match):
            act()
    assert list(index.ids) == [0, 1]
    assert list(index.add([[1.0, 1.0]], ["z"])) == [2]
    for bad in ({"dim": 0}, {"dim": 2, "metric": "ip"}, {"dim": 2, "backend": "hnsw"}):
        with pytest.raises(InvalidArgument, match="must be"):
            NeighbourIndex(**bad)


def test_without_faiss_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where FAISS is not installed the message says what to install."""
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "faiss", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"streamfeat\[faiss\]"):
        NeighbourIndex(2, backend="faiss")
