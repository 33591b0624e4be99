"""Slow twins of learners and indexes: fitting again without the rows held out, and measuring everything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ridge(
    X: NDArray[Any], Y: NDArray[Any], penalty: float, intercept: bool, weights: NDArray[Any] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W (D, C), b (C,) that minimise sum w |y - xW - b|^2 + penalty |W|^2: an SVD of the rows over sqrt(penalty) I."""
    n, d = X.shape
    root = np.sqrt(np.ones(n) if weights is None else weights)[:, None]
    ones = np.ones((n, 1)) if intercept else np.zeros((n, 1))
    rows = np.vstack([root * np.hstack([X, ones]), np.sqrt(penalty) * np.eye(d, d + 1)])
    targets = np.vstack([root * Y, np.zeros((d, Y.shape[1]))])
    solution = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return solution[:d], solution[d]


def held_out_scores(
    X: NDArray[Any],
    Y: NDArray[Any],
    penalty: float,
    intercept: bool,
    groups: Sequence[int],
    *,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float64]:
    """Each row answered by a fit on the other groups' rows, penalty held fixed."""
    scores = np.zeros(Y.shape)
    for group in sorted(set(groups)):
        out = np.array([g == group for g in groups])
        W, b = ridge(X[~out], Y[~out], penalty, intercept, None if weights is None else weights[~out])
        scores[out] = X[out] @ W + b
    return scores


def gurls_guesses(falling: Sequence[float], r: int, n: int, n_lambda: int = 20, small: float = 1e-8) -> list[float]:
    """GURLS' paramsel_lambdaguesses from the eigenvalues, largest first."""
    largest = falling[0]
    smallest = max(min(largest * small, falling[r - 1]), 200 * math.sqrt(2.0**-52))
    return [smallest * math.exp(i / (n_lambda - 1) * math.log(largest / smallest)) / n for i in range(n_lambda)]


def squared_distances(X: NDArray[Any], Z: NDArray[Any]) -> NDArray[np.float64]:
    """|x - z|^2, a pair at a time."""
    return np.array([[sum((float(a) - float(b)) ** 2 for a, b in zip(x, z, strict=True)) for z in Z] for x in X])


def gaussian_gram(X: NDArray[Any], Z: NDArray[Any], sigma: float) -> NDArray[np.float64]:
    """exp(-|x - z|^2 / (2 sigma^2))."""
    return np.array([[math.exp(-d / (2 * sigma**2)) for d in row] for row in squared_distances(X, Z)])


def gurls_sigmas(X: NDArray[Any], n_sigma: int = 25) -> list[float]:
    """GURLS' kernel_rbf: widths from the first hundredth of the distances to the largest, smallest first."""
    squared = squared_distances(X, X)
    pairs = sorted(float(squared[i, j]) for i in range(len(X)) for j in range(i))
    low, high = math.sqrt(pairs[math.floor(0.01 * len(pairs) + 1) - 1]), math.sqrt(pairs[-1])
    return [low * (high / low) ** (i / (n_sigma - 1)) for i in range(n_sigma)]


def nested_leave_one_group_out(
    X: NDArray[Any], codes: NDArray[np.intp], groups: Sequence[int], penalties: Sequence[float], intercept: bool
) -> tuple[dict[int, float], NDArray[np.intp]]:
    """For each group: the penalty that answers the other groups best (ties: less squared error), then its answers."""
    Y = np.full((len(X), int(codes.max()) + 1), -1.0)
    Y[np.arange(len(X)), codes] = 1.0
    chosen: dict[int, float] = {}
    answers = np.zeros(len(X), dtype=np.intp)
    for group in sorted(set(groups)):
        out = np.array([g == group for g in groups])
        others = [g for g in groups if g != group]
        worth = {}
        for penalty in penalties:
            scores = held_out_scores(X[~out], Y[~out], penalty, intercept, others)
            hits = np.mean(scores.argmax(axis=1) == codes[~out])
            worth[penalty] = (hits, -float(np.mean((Y[~out] - scores) ** 2)))
        chosen[group] = max(worth, key=lambda penalty: worth[penalty])
        W, b = ridge(X[~out], Y[~out], chosen[group], intercept)
        answers[out] = (X[out] @ W + b).argmax(axis=1)
    return chosen, answers


class NeighbourList:
    """An index as a list of (id, label, vector): searched by measuring everything."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.entries: list[tuple[int, Any, list[float]]] = []
        self.next_id = 0

    def add(self, vectors: Sequence[Sequence[float]], labels: Sequence[Any]) -> list[int]:
        """Ids count up and are never used again."""
        ids = []
        for vector, label in zip(vectors, labels, strict=True):
            self.entries.append((self.next_id, label, list(vector)))
            ids.append(self.next_id)
            self.next_id += 1
        return ids

    def remove(self, ids: Sequence[int]) -> None:
        """The others stay as they are."""
        self.entries = [entry for entry in self.entries if entry[0] not in ids]

    def search(self, query: Sequence[float], k: int) -> list[tuple[float, int, Any]]:
        """The k nearest (distance, id, label), or all; ties by id."""
        measured = [(self.distance(query, vector), at, label) for at, label, vector in self.entries]
        return sorted(measured, key=lambda entry: entry[:2])[:k]

    def distance(self, a: Sequence[float], b: Sequence[float]) -> float:
        """1 - cos, 1 if either is zero; or Euclidean."""
        if self.metric == "l2":
            return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
        lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
        return 1.0 - sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 1.0


def vote(neighbours: Sequence[tuple[float, int, Any]], by_distance: bool) -> Any:
    """The label of most votes among (distance, id, label), nearest first; equals go to the one met first."""
    if by_distance and neighbours[0][0] == 0:
        neighbours, by_distance = [entry for entry in neighbours if entry[0] == 0], False
    best, most = None, -1.0
    for _, _, label in neighbours:
        votes = sum(1.0 / d if by_distance else 1.0 for d, _, other in neighbours if other == label)
        if votes > most * (1 + 1e-12):
            best, most = label, votes
    return best
