"""Slow twins of whitening and verification: one pair, one number at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """The cosine of two rows; 0 where one is zero."""
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def all_pairs(rows: Sequence[Sequence[float]], labels: Sequence[object]) -> tuple[list[float], list[float]]:
    """Scores of genuine pairs and of impostors."""
    genuine: list[float] = []
    impostor: list[float] = []
    for i in range(len(rows)):
        for j in range(i):
            (genuine if labels[i] == labels[j] else impostor).append(cosine(rows[i], rows[j]))
    return genuine, impostor


def accepted(scores: Sequence[float], threshold: float) -> Fraction:
    """The part that scores as much or more."""
    return Fraction(sum(score >= threshold for score in scores), len(scores))


def verification_rate(genuine: Sequence[float], impostor: Sequence[float], far: Fraction) -> Fraction:
    """The largest part of genuine pairs accepted at a threshold that accepts no more impostors than that."""
    thresholds = [*genuine, *impostor, math.inf]
    return max(accepted(genuine, t) for t in thresholds if accepted(impostor, t) <= far)


def equal_error_rate(genuine: Sequence[float], impostor: Sequence[float]) -> Fraction:
    """Where the line through (false accepts, misses) of all thresholds meets the diagonal."""
    points = [(accepted(impostor, t), 1 - accepted(genuine, t)) for t in [*sorted({*genuine, *impostor}), math.inf]]
    for (far, missed), (next_far, next_missed) in itertools.pairwise(points):
        if next_missed >= next_far:
            gap, next_gap = missed - far, next_missed - next_far
            return missed + (next_missed - missed) * gap / (gap - next_gap)
    raise ValueError("the highest threshold accepts nothing")


def whitened_cosines(
    X: NDArray[Any], orbits: Sequence[object], queries: NDArray[Any], n_components: int, floor: float
) -> NDArray[np.float64]:
    """Cosines of all queries (q, q) in the metric of within-orbit whitening, by singular and inverse matrices."""
    Z = X - X.mean(axis=0)
    V = np.linalg.svd(Z, full_matrices=False)[2][:n_components].T
    covariances = []
    for orbit in dict.fromkeys(orbits):
        views = np.array([row for row, of in zip(Z @ V, orbits, strict=True) if of == orbit])
        if len(views) > 1:
            covariances.append(np.cov(views.T).reshape(V.shape[1], V.shape[1]))
    C = np.mean(covariances, axis=0)
    metric = np.linalg.inv(C + floor * np.trace(C) / len(C) * np.eye(len(C)))
    Q = (queries - X.mean(axis=0)) @ V
    products = Q @ metric @ Q.T
    lengths = np.sqrt(np.diag(products))
    return np.asarray(products / lengths[:, None] / lengths)
