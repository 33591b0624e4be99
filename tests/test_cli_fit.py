"""`streamfeat fit`: from what featurize wrote to a model that RLS.fit would have given."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfeat.dask import connect
from streamfeat.featureset import write_features
from streamfeat.learn.rls import RLS
from streamfeat.model import Model
from tests.terminal import Terminal, terminal

N, D = 900, 12
CODES = np.random.default_rng(1).integers(0, 3, N)
X = (np.random.default_rng(2).normal(size=(N, D)) + np.eye(3, D)[CODES]).astype(np.float32)
LABELS = np.where(np.arange(N) % 9 == 0, "", CODES.astype(np.str_))
SPEAKERS = np.array([f"s{i % 60}" for i in range(N)])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with banks of its own."""
    with terminal(tmp_path, run_dir=Path(tempfile.mkdtemp(prefix="sf-"))) as made:
        yield made


def put(place: Path, speakers: np.ndarray = SPEAKERS) -> Path:
    """A feature set in which every ninth row has no label."""
    texts = {"names": np.arange(N).astype(np.str_), "labels": LABELS, "speakers": speakers}
    write_features(place, [X[:500], X[500:]], X[:0], texts, {"bank": "b7"})
    return place


def test_the_model_is_that_of_this_process(shell: Terminal, tmp_path: Path) -> None:
    """On a scheduler that runs and on one of its own; from parquet and zarr; rows without a label are left out."""
    kept = LABELS != ""
    with connect(n_workers=1) as client:
        address = client.scheduler_info()["address"]
        place = put(tmp_path / "x.parquet")
        ran = shell("fit", place, "--out", tmp_path / "a", "--lam", "logo", "--scheduler", address, "--json")
    assert (ran.status, ran.json["rows"], ran.json["unlabelled"]) == (0, 800, 100)
    expected = RLS("logo").fit(X[kept], LABELS[kept], SPEAKERS[kept])
    assert ran.json["held_out"] == {"criterion": "logo", "accuracy": expected.held_out_.accuracy}
    model = Model.open(tmp_path / "a")
    assert (model.bank_hash, model.classes) == ("b7", ["0", "1", "2"])
    # sums in another order, 1e-16, times a condition number of 1e4 at most
    np.testing.assert_allclose(model.scores(X), expected.decision_function(X), atol=1e-11)
    ran = shell("fit", put(tmp_path / "x.zarr"), "--out", tmp_path / "b", "--balance", "--json", tmp_path / "b.json")
    assert ran.status == 0
    assert "3 classes from 800 rows" in ran.out
    expected = RLS(balance=True).fit(X[kept], LABELS[kept])
    np.testing.assert_allclose(Model.open(tmp_path / "b").scores(X), expected.decision_function(X), atol=1e-11)


def test_what_cannot_be_fitted_is_refused(shell: Terminal, tmp_path: Path) -> None:
    """Before a cluster is started: no features, a model that is there, a lambda that is none, rows without speakers."""
    place = put(tmp_path / "x.npy", np.where(np.arange(N) == 5, "", SPEAKERS))
    shell("fit", tmp_path / "none", "--out", tmp_path / "m").refused(64, "no features that")
    shell("fit", place, "--out", place).refused(64, "is there already")
    shell("fit", place, "--out", tmp_path / "m", "--lam", "lou").refused(64, "lam must be")
    shell("fit", place, "--out", tmp_path / "m", "--lam", "logo").refused(64, "not every row has one")
