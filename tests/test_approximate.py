"""Approximate indexes: exact where their recipe is, near it elsewhere, and the same after they were saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, NotFound
from streamfeat.learn.approximate import FAISS_FILE, ApproximateIndex
from streamfeat.learn.neighbours import Ids, NeighbourIndex
from streamfeat.learn.recipe import Recipe

N, DIM = 1500, 24


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float32]:
    """What `fetch` gives, made once."""
    return clumps()


def fetch(ids: Ids) -> NDArray[np.float32]:
    """The features of entries, as a log gives them."""
    return clumps()[ids - 1]


def clumps() -> NDArray[np.float32]:
    """Thirty clumps, as features of thirty classes are."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((30, DIM))
    return (centres[np.arange(N) % 30] + rng.standard_normal((N, DIM))).astype(np.float32)


def filled(
    rows: NDArray[np.float32], recipe: Recipe, metric: str = "cosine", *, measured: bool = True
) -> ApproximateIndex:
    """An index of the rows, in unequal batches, ids from 1."""

    index = ApproximateIndex(DIM, recipe, metric, fetch=fetch if measured else None)
    for first in range(0, len(rows), 333):
        some = rows[first : first + 333]
        index.add(some, [f"class {n % 30}" for n in range(first, first + len(some))], 1 + first + np.arange(len(some)))
    return index


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_flat_is_exact(rows: NDArray[np.float32], metric: str) -> None:
    """Ids, labels and distances of NeighbourIndex, to the bit."""
    index = filled(rows, Recipe("Flat"), metric)
    exact = NeighbourIndex(DIM, metric)
    exact.add(rows, [f"class {n % 30}" for n in range(N)], 1 + np.arange(N))
    found, expected = index.search(rows[:50], 7), exact.search(rows[:50], 7)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)
    assert found.labels == expected.labels


@pytest.mark.parametrize(
    ("factory", "least"), [("HNSW16", 0.95), ("IVF16,Flat", 0.95), ("PCA12,IVF16,PQ6x4", 0.6), ("RR12,Flat", 0.6)]
)
def test_most_neighbours_are_found_and_their_distances_are_true(
    rows: NDArray[np.float32], factory: str, least: float
) -> None:
    """Recall of ten well over chance (10 of 1500); every distance is the exact one of that entry."""
    index = filled(rows, Recipe(factory, n_train=600))
    assert index.is_trained
    exact = NeighbourIndex(DIM)
    exact.add(rows, [None] * N, 1 + np.arange(N))
    truth, found = exact.search(rows[:100], 10), index.search(rows[:100], 10)
    shared = [len(set(a) & set(b)) for a, b in zip(truth.ids.tolist(), found.ids.tolist(), strict=True)]
    assert np.mean(shared) / 10 >= least
    of = {(i, at): d for i in range(100) for at, d in zip(truth.ids[i].tolist(), truth.distances[i], strict=True)}
    for i in range(100):
        for at, d in zip(found.ids[i].tolist(), found.distances[i], strict=True):
            assert of.get((i, at), d) == d
    assert (np.diff(found.distances, axis=1) >= 0).all()


def test_before_it_is_trained_it_is_exact(rows: NDArray[np.float32]) -> None:
    """The first entries are searched as they are; training on demand, once there are enough."""
    index = filled(rows[:300], Recipe("IVF8,PQ6x4", n_train=1000))
    assert not index.is_trained
    exact = NeighbourIndex(DIM)
    exact.add(rows[:300], [None] * 300, 1 + np.arange(300))
    np.testing.assert_array_equal(index.search(rows[:20], 5).ids, exact.search(rows[:20], 5).ids)
    index.train()
    assert index.is_trained
    assert len(index.search(rows[:1], 5).labels[0]) == 5
    few = filled(rows[:10], Recipe("IVF8,PQ6x4", n_train=1000))
    with pytest.raises(ConfigError, match=r"'IVF8,PQ6x4' on 10 entries"):
        few.train()
    assert len(few.search(rows[:1], 5).labels[0]) == 5


def test_fewer_entries_than_asked_for(rows: NDArray[np.float32]) -> None:
    """Empty: none. Lists that are not looked through: what is missing has the id -1 and no label."""
    empty = ApproximateIndex(DIM, Recipe("Flat"))
    assert empty.search(rows[:2], 3).labels == [[], []]
    assert empty.search(rows[:2], 3).ids.shape == (2, 0)
    index = filled(rows, Recipe("IVF64,Flat", n_train=600, effort="nprobe=1"))
    found = index.search(rows[:30], 400)
    assert found.ids.shape == (30, 400)
    for i in range(30):
        n = len(found.labels[i])
        assert (found.ids[i, :n] > 0).all()
        assert (found.ids[i, n:] == -1).all()
        assert np.isinf(found.distances[i, n:]).all()
    assert min(map(len, found.labels)) < 400


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_distances_of_codes_alone(rows: NDArray[np.float32], metric: str) -> None:
    """Nothing to fetch from: FAISS's own, on the same scale; of Flat they are the true ones but for rounding."""
    index = filled(rows, Recipe("Flat"), metric, measured=False)
    exact = filled(rows, Recipe("Flat"), metric)
    ours, theirs = exact.search(rows[:20] + 0.1, 5), index.search(rows[:20] + 0.1, 5)
    np.testing.assert_allclose(theirs.distances, ours.distances, rtol=1e-3, atol=1e-5)  # float32 squares


def test_what_is_refused_changes_nothing(rows: NDArray[np.float32]) -> None:
    """Width, NaN, labels, ids that do not rise, another bank."""
    index = ApproximateIndex(DIM, Recipe("Flat"), bank_hash="aa")
    index.add(rows[:3], ["a", None, 3], [1, 2, 5])
    bad = rows[:1].copy()
    bad[0, 0] = np.nan
    for features, labels, ids in (
        (rows[:1, :5], ["a"], [6]),
        (bad, ["a"], [6]),
        (rows[:2], ["a"], [6, 7]),
        (rows[:1], [1.5], [6]),
        (rows[:1], ["a"], [5]),
        (rows[:2], ["a", "a"], [7, 6]),
    ):
        with pytest.raises(InvalidArgument):
            index.add(features, labels, ids)
    assert (len(index), index.last_id) == (3, 5)
    with pytest.raises(BankMismatch):
        index.search(rows[:1], 1, bank_hash="bb")
    assert index.search(rows[:1], 3).labels[0][0] == "a"


def test_saved_and_restored(rows: NDArray[np.float32], tmp_path: Path) -> None:
    """The same answers, ids that go on, the marks that were given; nothing is restored of another kind."""
    recipe = Recipe("IVF16,PQ6x4", n_train=600)
    index = filled(rows[:1000], recipe)
    index.save(tmp_path / "a", {"entry": 7})
    again = ApproximateIndex(DIM, recipe, fetch=fetch)
    assert again.restore(tmp_path / "a") == {"entry": 7}
    assert (again.last_id, len(again)) == (1000, 1000)
    for one in (index, again):
        one.add(rows[1000:], [7] * 500, 1001 + np.arange(500))
    before, after = index.search(rows[:60], 9), again.search(rows[:60], 9)
    np.testing.assert_array_equal(before.ids, after.ids)
    np.testing.assert_array_equal(before.distances, after.distances)
    assert before.labels == after.labels
    others = [
        ApproximateIndex(DIM, Recipe("IVF16,PQ6x4", n_train=700)),
        ApproximateIndex(DIM, Recipe("IVF16,PQ4x4", n_train=600)),
        ApproximateIndex(DIM, recipe, "l2"),
        ApproximateIndex(DIM, recipe, bank_hash="aa"),
        ApproximateIndex(12, recipe),
    ]
    for other in others:
        with pytest.raises(ConfigError, match="an index of another kind"):
            other.restore(tmp_path / "a")
    with pytest.raises(InvalidArgument, match="300 of the 600 entries"):
        filled(rows[:300], recipe).save(tmp_path / "b", {})
    with pytest.raises(NotFound):
        again.restore(tmp_path / "b")


@pytest.mark.parametrize("file", ["index.json", FAISS_FILE, "ids.npy", "codes.npy"])
def test_a_changed_bit_is_refused(rows: NDArray[np.float32], tmp_path: Path, file: str) -> None:
    """In any file of the directory: before FAISS reads a byte of it."""
    recipe = Recipe("IVF16,PQ6x4", n_train=600)
    filled(rows[:700], recipe).save(tmp_path / "a", {})
    content = bytearray((tmp_path / "a" / file).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a" / file).write_bytes(content)
    with pytest.raises(ConfigError, match=r"hash differs|cannot be read"):
        ApproximateIndex(DIM, recipe).restore(tmp_path / "a")
    (tmp_path / "a" / file).unlink()
    with pytest.raises((ConfigError, NotFound)):
        ApproximateIndex(DIM, recipe).restore(tmp_path / "a")


def test_a_disk_that_cannot_be_written(rows: NDArray[np.float32], tmp_path: Path) -> None:
    """FAISS's failure to write is an OSError with the file, and no directory is left."""
    index = filled(rows[:700], Recipe("IVF16,PQ6x4", n_train=600))
    with pytest.raises(OSError, match=FAISS_FILE):
        index._write(tmp_path / "nowhere" / FAISS_FILE)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        index.save(tmp_path / "file" / "a", {})
