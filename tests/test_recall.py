"""Recall: by definition on indexes whose answers are known, from Python and from the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.learn.recall import exact, recall
from streamfeat.learn.recipe import Recipe, faiss_package
from tests.terminal import Terminal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1200, 16)).astype(np.float32)
Q = RNG.standard_normal((40, 16)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_the_exact_index_has_it_all(metric: str) -> None:
    """Flat: recall 1, no error of distances beyond rounding, 4 D bytes and an id an entry."""
    truth = exact(X, Q, 10, metric)
    found = recall(X, Q, truth, Recipe("Flat"), metric)
    assert (found.recall_1, found.recall_k) == (1.0, 1.0)
    assert found.distance_error < 1e-5
    assert 4 * 16 + 8 <= found.bytes_per_entry < 4 * 16 + 8 + 1


def test_a_hundredth_of_the_lists_is_a_bound_by_hand() -> None:
    """One list of many: recall is the part of true neighbours that lie in the list of the query."""
    recipe = Recipe("IVF40,Flat", n_train=1200, effort="nprobe=1")
    truth = exact(X, Q, 10, "l2")
    found = recall(X, Q, truth, recipe, "l2")
    index = recipe.build(16)
    index.train(X)
    inner = faiss_package().extract_index_ivf(index)
    list_of = inner.quantizer.search(X, 1)[1][:, 0]
    asked = inner.quantizer.search(Q, 1)[1][:, 0]
    by_hand = np.mean([np.mean(list_of[truth.found.ids[i]] == asked[i]) for i in range(len(Q))])
    assert found.recall_k == pytest.approx(by_hand)
    assert found.recall_k < 0.7


def test_fewer_directions_lose_more() -> None:
    """Random and principal directions: the error of distances falls with their number, to none at all 16."""
    truth = exact(X, Q, 10, "l2")
    for kind in ("PCA", "RR"):
        found = [recall(X, Q, truth, Recipe(f"{kind}{n},Flat", oversample=1), "l2") for n in (4, 8, 16)]
        errors = [each.distance_error for each in found]
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-4
        assert found[0].recall_k < found[1].recall_k < found[2].recall_k == 1.0
    measured_again = recall(X, Q, truth, Recipe("PCA8,Flat", oversample=10), "l2")
    assert measured_again.recall_k > found[1].recall_k


def test_the_command(cli: Terminal) -> None:
    """A line an index, the exact one first; JSON of the same; what cannot be is refused in one line."""
    file = cli.home / "features.npz"
    np.savez(file, features=X, labels=np.arange(len(X)) % 7)
    asked: list[str | Path] = [
        "recall",
        file,
        "--factory",
        "Flat",
        "--factory",
        "IVF16,PQ8x4",
        "--queries",
        "50",
        "--k",
        "5",
    ]
    ran = cli(*asked)
    assert ran.status == 0, ran
    assert [line.split()[0] for line in ran.out.splitlines()[2:]] == ["exact", "Flat", "IVF16,PQ8x4"]
    report = cli(*asked, "--json").json
    assert (report["rows"], report["numbers"], report["k"]) == (1150, 16, 5)
    flat, coded = report["indexes"]
    assert flat["recall_k"] == 1.0
    assert 0.2 < coded["recall_k"] <= 1.0
    assert coded["bytes_per_entry"] < flat["bytes_per_entry"]
    cli("recall", file, "--factory", "IVF16,PQ7").refused(78, "multiple of the number of subquantizers")
    cli("recall", file, "--factory", "Flat", "--queries", "1200").refused(64, "too few for 1200 queries")
    with pytest.raises(ConfigError, match="IVF2000"):
        recall(X, Q, exact(X, Q, 1, "l2"), Recipe("IVF2000,Flat", n_train=1200), "l2")
