"""Index: insert and search; its log outlives it; ids are the log's; one bad item fails alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streamfeat.workers.indexing import Index

from streamfeat.client import Client
from streamfeat.errors import ConfigError, InvalidArgument, NotFound
from streamfeat.learn.neighbours import NeighbourIndex
from streamfeat.learn.recipe import Recipe
from streamfeat.payloads import Job
from streamfeat.wire.messages import Item
from tests.cluster import cluster
from tests.test_learner import BANK, OTHER, error_of, items, no_beat, spoken, travels


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An index worker with nothing inserted."""
    made = Index(tmp_path)
    made.warm()
    yield made
    made.close()


def test_insert_and_search(index: Index) -> None:
    """Acknowledged, then found: the answers of NeighbourIndex in process, to the bit, and they travel."""
    X, labels, _ = spoken(40)
    committed = index.handle("insert:near", items(X, label=labels), {}, no_beat)
    assert [item.fields["duplicate"] for item in committed] == [False] * 40
    alone = NeighbourIndex(20)
    alone.add(X, labels, ids=np.arange(1, 41))
    test, _, _ = spoken(9, seed=1)
    answers = index.handle("search:near", items(test), {"k": 5}, no_beat)
    expected = alone.search(test, 5)
    for i, item in enumerate(answers):
        np.testing.assert_array_equal(item.arrays[0].to_numpy(), expected.ids[i])
        np.testing.assert_array_equal(item.arrays[1].to_numpy(), expected.distances[i].astype(np.float32))
        assert item.fields["labels"] == expected.labels[i]
        assert item.fields["n_items"] == 40
    travels("insert:near", committed)
    travels("search:near", answers)
    assert len(index.handle("search:near", items(test[:1]), {}, no_beat)[0].fields["labels"]) == 10


def test_fewer_entries_than_k_and_entries_without_label(index: Index) -> None:
    """All there are; a label that nobody gave is null."""
    X, _, _ = spoken(2)
    index.handle("insert:near", items(X, label=["one", None]), {}, no_beat)
    found = index.handle("search:near", items(X), {"k": 9}, no_beat)
    assert [item.fields["labels"] for item in found] == [["one", None], [None, "one"]]
    travels("search:near", found)


@pytest.mark.parametrize("backend", ["exact", "faiss"])
def test_the_index_is_rebuilt_from_its_log(tmp_path: Path, backend: str) -> None:
    """After a restart: the same ids, labels and distances; a retry is a duplicate and not found twice; ids go on."""
    X, labels, _ = spoken(1100)
    test, _, _ = spoken(3, seed=1)
    first = Index(tmp_path, metric="l2", backend=backend)
    first.warm()
    first.handle("insert:near", items(X[:1000], label=labels[:1000]), {}, no_beat)
    before = first.handle("search:near", items(test), {"k": 100}, no_beat)
    first.close()
    second = Index(tmp_path, metric="l2", backend=backend)
    second.warm()
    after = second.handle("search:near", items(test), {"k": 100}, no_beat)
    assert [item.fields for item in after] == [item.fields for item in before]
    assert [bytes(a.data) for item in after for a in item.arrays] == [
        bytes(a.data) for item in before for a in item.arrays
    ]
    retried = second.handle("insert:near", items(X[900:], first=900, label=labels[900:]), {}, no_beat)
    assert [item.fields["duplicate"] for item in retried] == [True] * 100 + [False] * 100
    last = second.handle("search:near", items(X[-1:]), {"k": 1}, no_beat)[0]
    assert last.arrays[0].to_numpy()[0] > 1000
    ids = second.handle("search:near", items(test[:1]), {"k": 1000}, no_beat)[0].arrays[0].to_numpy()
    assert len(set(ids)) == 1000
    second.close()


def test_an_index_larger_than_memory(tmp_path: Path) -> None:
    """A recipe: nearly the answers of the exact index; the same after a restart, from a snapshot."""
    X, labels, _ = spoken(600)
    test, _, _ = spoken(30, seed=1)
    exact = Index(tmp_path / "exact")
    coded = Index(tmp_path / "coded", recipe=Recipe("IVF8,PQ5x4", n_train=300, oversample=10))
    answers = []
    for made in (exact, coded):
        made.warm()
        made.handle("insert:near", items(X[:250], label=labels[:250]), {}, no_beat)
        made.handle("insert:near", items(X[250:], first=250, label=labels[250:]), {}, no_beat)
        answers.append(made.handle("search:near", items(test), {"k": 10}, no_beat))
        made.close()
    shared = [len({*a.arrays[0].to_numpy()} & {*b.arrays[0].to_numpy()}) for a, b in zip(*answers, strict=True)]
    assert np.mean(shared) / 10 > 0.8  # by chance 10 of 600
    travels("search:near", answers[1])
    assert (tmp_path / "coded" / "near" / "index-000000000600").is_dir()
    again = Index(tmp_path / "coded", recipe=Recipe("IVF8,PQ5x4", n_train=300, oversample=10))
    again.warm()
    after = again.handle("search:near", items(test), {"k": 10}, no_beat)
    assert [bytes(a.data) for item in after for a in item.arrays] == [
        bytes(a.data) for item in answers[1] for a in item.arrays
    ]
    assert not again.reload()  # trained already
    again.close()


def test_a_recipe_that_does_not_fit_is_told_before_anything_is_stored(tmp_path: Path) -> None:
    """The insert fails with FAISS's words, and no log was made."""
    made = Index(tmp_path, recipe=Recipe("PQ7"))
    made.warm()
    with pytest.raises(ConfigError, match="multiple of the number of subquantizers"):
        made.handle("insert:near", items(spoken(3)[0], label=["a", "b", "c"]), {}, no_beat)
    assert not (tmp_path / "near").exists()
    made.close()


def test_one_bad_item_fails_alone(index: Index) -> None:
    """Another bank, another width, no bank: named; the others are stored and answered, in their places."""
    X, labels, _ = spoken(6)

    def batch() -> list[Item]:
        made = items(X, label=labels)
        made[1] = items(X[:1], first=50, bank=OTHER, label=["one"])[0]
        made[3] = items(X[:1, :5], first=51, label=["one"])[0]
        made[4] = items(X[:1], first=52, bank=None, label=["one"])[0]
        return made

    inserted = index.handle("insert:near", batch(), {}, no_beat)
    found = index.handle("search:near", batch(), {"k": 1}, no_beat)
    for results in (inserted, found):
        assert [item.fields["ok"] for item in results] == [True, False, True, False, False, True]
        codes = [error_of(results[place])[0] for place in (1, 3, 4)]
        assert codes == ["BANK_MISMATCH", "INVALID_ARGUMENT", "INVALID_ARGUMENT"]
    assert [found[place].fields["labels"] for place in (0, 2, 5)] == [["one"], ["zero"], ["zero"]]


def test_what_is_missing_or_impossible_is_named(index: Index) -> None:
    """No such index, k out of range, an unknown option, a learner's stage."""
    X, labels, _ = spoken(3)
    with pytest.raises(NotFound, match="no index 'near'"):
        index.handle("search:near", items(X), {}, no_beat)
    assert error_of(index.handle("insert:near", items(X, bank=None), {}, no_beat)[0])[0] == "INVALID_ARGUMENT"
    with pytest.raises(NotFound, match="no index 'near'"):
        index.handle("search:near", items(X), {}, no_beat)
    index.handle("insert:near", items(X, label=labels), {}, no_beat)
    for k in (0, -1, 1001, 2.0, "3", True):
        with pytest.raises(InvalidArgument, match="k must be"):
            index.handle("search:near", items(X), {"k": k}, no_beat)
    with pytest.raises(InvalidArgument, match="no option 'n'"):
        index.handle("search:near", items(X), {"n": 1}, no_beat)
    with pytest.raises(InvalidArgument, match="an index serves"):
        index.handle("learn:near", items(X), {}, no_beat)


@pytest.mark.parametrize("factory", ["", "IVF8,PQ5x4"])
def test_a_killed_index_finds_all_it_acknowledged(factory: str) -> None:
    """Real processes: the index is killed in the middle of a stream and started again; every item is found once."""
    X, labels, _ = spoken(300)
    jobs = [Job(x, label=label) for x, label in zip(X, labels, strict=True)]
    with cluster() as fleet:
        arguments = ["--connect", fleet.back, "--name", "index", "--state", str(fleet.run_dir / "state")]
        if factory:
            arguments += ["--factory", factory, "--train-items", "60", "--effort", "nprobe=8"]
        fleet.start_broker()
        fleet.spawn("index", "streamfeat.workers.index", *arguments)
        fleet.wait_ready("index")
        with Client(fleet.front) as client:
            n_acknowledged = 0
            for result in client.stream(jobs, route="insert:near", bank=BANK):
                assert result.ok, result.error
                n_acknowledged += 1
                if n_acknowledged == 100:
                    fleet.signal("index", signal.SIGKILL)
                    fleet.wait("index")
                    fleet.spawn("index", "streamfeat.workers.index", *arguments)
            assert n_acknowledged == 300
            found = next(iter(client.stream([Job(X[0])], route="search:near", bank=BANK, options={"k": 1000})))
            assert found.ok, found.error
            neighbours = found.neighbours
        fleet.signal("index", signal.SIGTERM)
        assert fleet.wait("index") == 0
    assert len({at for _, at, _ in neighbours}) == len(neighbours) == 300
    assert sorted(str(label) for label, _, _ in neighbours) == sorted(labels)
