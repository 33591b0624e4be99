"""What an approximate index loses: how many of the true neighbours it finds, and how far its distances are off."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.learn.approximate import ApproximateIndex
from streamfeat.learn.distances import distances, held
from streamfeat.learn.neighbours import Ids, NeighbourIndex, Neighbours
from streamfeat.learn.recipe import Recipe, faiss_package


@dataclass(frozen=True)
class Recall:
    """Figures of one index.

    Attributes
    ----------
    recall_1, recall_k : float
        Parts of the nearest, and of the k nearest, that are found; whatever is as near counts as well.
    distance_error : float
        Mean of |c d' - d| / d over what is found by the codes alone: d' is their distance, d the true one, and c makes
        their means equal (a common factor, as of directions that are fewer, changes no order).
    ms_per_query, build_s, bytes_per_entry : float
        What it takes; bytes in memory, without labels.
    """

    recall_1: float
    recall_k: float
    distance_error: float
    ms_per_query: float
    build_s: float
    bytes_per_entry: float


@dataclass(frozen=True)
class Truth:
    """The exact neighbours of queries, and what finding them takes."""

    found: Neighbours
    ms_per_query: float
    bytes_per_entry: float


def exact(X: NDArray[Any], queries: NDArray[Any], k: int, metric: str) -> Truth:
    """The k nearest of X (n, D) for each query (q, D); ids are places in X."""
    index = NeighbourIndex(X.shape[1], metric)
    index.add(X, [None] * len(X))
    started = time.perf_counter()
    found = index.search(queries, k)
    return Truth(found, 1000 * (time.perf_counter() - started) / len(queries), 4.0 * X.shape[1] + 8)


def recall(X: NDArray[Any], queries: NDArray[Any], truth: Truth, recipe: Recipe, metric: str) -> Recall:
    """Build an index of X (n, D) by a recipe and hold it to the truth.

    Raises
    ------
    ConfigError
        FAISS is not there, or does not take the recipe.
    """
    k = truth.found.ids.shape[1]
    index = ApproximateIndex(X.shape[1], recipe, metric)
    started = time.perf_counter()
    index.add(X, [None] * len(X), np.arange(1, len(X) + 1))
    index.train()
    build_s = time.perf_counter() - started
    by_codes = index.search(queries, k)

    def fetch(ids: Ids) -> NDArray[Any]:
        return X[ids - 1]

    index.fetch = fetch
    started = time.perf_counter()
    found = index.search(queries, k)
    ms = 1000 * (time.perf_counter() - started) / len(queries)
    nearest, kth = truth.found.distances[:, :1], truth.found.distances[:, -1:]
    return Recall(
        recall_1=float(np.mean(found.distances[:, :1] <= nearest)),
        recall_k=float(np.mean(found.distances <= kth)),
        distance_error=_distance_error(X, held(queries, metric), by_codes, metric),
        ms_per_query=ms,
        build_s=build_s,
        bytes_per_entry=len(faiss_package().serialize_index(index.faiss)) / len(X) + 8,
    )


def _distance_error(X: NDArray[Any], queries: NDArray[np.float32], found: Neighbours, metric: str) -> float:
    there = found.ids > 0
    true = np.concatenate(
        [
            distances(query, held(X[ids[some] - 1], metric), metric)
            for query, ids, some in zip(queries, found.ids, there, strict=True)
        ]
    )
    apart = true > 0
    said, true = found.distances[there][apart], true[apart]
    return float(np.mean(np.abs(said * (true.sum() / said.sum()) - true) / true)) if said.sum() > 0 else 0.0
