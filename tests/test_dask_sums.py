"""RLS from a tree of sums through Dask: the weights of `RLS.fit`, whoever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import distributed
import numpy as np
import pytest

from streamfeat.dask import connect, fit, stored
from streamfeat.errors import InvalidArgument
from streamfeat.featureset import write_features
from streamfeat.learn import equations
from streamfeat.learn.rls import RLS

N, D = 2000, 30
RNG = np.random.default_rng(4)
CODES = RNG.integers(0, 3, N)
X = np.clip(500 + 100 * RNG.normal(size=(N, D)) + 25 * (CODES[:, None] == np.arange(D) % 5), 0, 999).astype(np.uint16)
LABELS = [f"class {code}" for code in CODES]
GROUPS = [f"speaker {i % 40}" for i in range(N)]
CHUNKS = (300, 11)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Two workers of a cluster of its own."""
    with connect(n_workers=2) as made:
        yield made


def same(found: RLS, expected: RLS) -> None:
    """Lambda, table and scores of two fits."""
    np.testing.assert_allclose(found.lam_, expected.lam_, rtol=1e-12)
    np.testing.assert_array_equal(found.held_out_.accuracies, expected.held_out_.accuracies)
    # sums in another order, 1e-16, times a condition number of at most 1e6 (centred rows, the least lam 1e-6)
    np.testing.assert_allclose(found.held_out_.mse, expected.held_out_.mse, rtol=1e-9)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-9)
    assert found.classes_ == expected.classes_


@pytest.mark.parametrize("standardise", ["none", "centre", "z-score"])
@pytest.mark.parametrize(
    ("lam", "options"),
    [("loo", {}), ("loo", {"balance": True, "per_class": True}), ("logo", {}), ("holdout", {}), ("default", {})],
)
def test_it_is_the_fit_of_this_process(standardise: str, lam: Any, options: dict[str, Any]) -> None:
    """Every way of choosing lambda and of scaling, on chunks that cut rows and columns."""
    grid = np.logspace(-6, 0, 7)
    groups = GROUPS if lam == "logo" else None

    def rls() -> RLS:
        return RLS(lam, standardise=standardise, grid=grid, **options)

    found = fit(rls(), dask.array.from_array(X, chunks=CHUNKS), LABELS, groups)
    same(found, rls().fit(X, LABELS, groups))


def test_the_rows_that_are_tried_are_those_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over `N_SCORED` rows, one in turn is left out of as many, drawn with the seed: as `RLS.fit` of many rows does."""
    monkeypatch.setattr(equations, "N_SCORED", 500)
    monkeypatch.setattr("streamfeat.learn.solution.LARGE_SIZE", 0)
    weights = RNG.uniform(0.5, 2.0, N)
    found = fit(RLS(seed=3), dask.array.from_array(X, chunks=CHUNKS), LABELS, sample_weight=weights)
    expected = RLS(seed=3).fit(X, LABELS, sample_weight=weights)
    np.testing.assert_array_equal(found.held_out_.accuracies, expected.held_out_.accuracies)
    np.testing.assert_allclose(found.lam_, expected.lam_, rtol=1e-12)


def test_a_dead_worker_changes_nothing(client: distributed.Client, tmp_path: Path) -> None:
    """A worker killed after the first leaf: every row is counted once, the weights are the same to the bit."""
    none = np.full(N, "")
    write_features(tmp_path, [X], X[:0], {"names": none, "labels": none, "speakers": none}, {"bank": "b"})
    undisturbed = fit(RLS(), stored(tmp_path), LABELS, client=client)
    counted: list[int] = []

    def finished(n: int) -> None:
        if not counted:
            [pid, *_] = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
        counted.append(n)

    found = fit(RLS(), stored(tmp_path, send=True), LABELS, client=client, finished=finished)
    assert sum(counted) == N
    assert found.coef_.tobytes() == undisturbed.coef_.tobytes()
    assert found.lam_ == undisturbed.lam_
    same(found, RLS().fit(X, LABELS))


def test_few_rows_are_fitted_here() -> None:
    """No more rows than columns are smaller than their sums: to the bit `RLS.fit`."""
    found = fit(RLS(), dask.array.from_array(X[:D], chunks=(7, D)), LABELS[:D])
    assert found.coef_.tobytes() == RLS().fit(X[:D], LABELS[:D]).coef_.tobytes()


def test_what_cannot_be_summed_is_refused() -> None:
    """By name: no dask array, options that need rows, a row that is no number, with where it is."""
    with pytest.raises(InvalidArgument, match=r"a dask array \(n, D\) is needed"):
        fit(RLS(), X, LABELS)
    rows = dask.array.from_array(X, chunks=CHUNKS)
    with pytest.raises(InvalidArgument, match="no unit_norm"):
        fit(RLS(unit_norm=True), rows, LABELS)
    with pytest.raises(InvalidArgument, match="no rank=3"):
        fit(RLS(rank=3), rows, LABELS)
    wrong = X.astype(np.float32)
    wrong[701, 4] = np.nan
    with pytest.raises(InvalidArgument, match=r"rows from 600 on.*row 101, column 4"):
        fit(RLS(), dask.array.from_array(wrong, chunks=(300, D)), LABELS)
