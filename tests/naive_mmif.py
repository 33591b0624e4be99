"""Slow twins of MMIF: one kernel value, one SVM step at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = Sequence[Sequence[float]]


def kernel(x: Sequence[float], z: Sequence[float], sigma: float | None) -> float:
    """<x, z>, or with a width exp(-||x - z||^2 / (2 sigma^2))."""
    if sigma is None:
        return sum(a * b for a, b in zip(x, z, strict=True))
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * sigma**2))


def orbit_features(
    x: Sequence[float],
    orbits: Sequence[Rows],
    pooling: str,
    sigma: float | None = None,
    thresholds: Rows = (),
) -> list[float]:
    """l(x) of one row."""
    features: list[float] = []
    for i, orbit in enumerate(orbits):
        values = [kernel(x, gt, sigma) for gt in orbit]
        if pooling == "mean":
            features.append(sum(values) / len(values))
        elif pooling == "max":
            features.append(max(values))
        else:
            features += [sum(value <= tau for value in values) / len(values) for tau in thresholds[i]]
    return features


def linear_svm(X: Floats, y: Floats, C: float, n_passes: int = 500) -> tuple[Floats, Floats]:
    """Dual coordinate descent with hinge loss, a constant column for the intercept: a (n,) and w (D + 1,)."""
    Z = np.column_stack([X, np.ones(len(X))])
    a, w = np.zeros(len(Z)), np.zeros(Z.shape[1])
    for _ in range(n_passes):
        for i, z in enumerate(Z):
            step = (y[i] * (w @ z) - 1.0) / (z @ z)
            new = min(max(a[i] - step, 0.0), C)
            w += (new - a[i]) * y[i] * z
            a[i] = new
    return a, w


def duality_gap(K: Floats, y: Floats, a: Floats, b: float, C: float) -> float:
    """Primal minus dual objective of an SVM with Gram matrix K (n, n) and multipliers a; the scale is theirs."""
    scores = [sum(a[j] * y[j] * K[i, j] for j in range(len(y))) + b for i in range(len(y))]
    square = sum(a[i] * a[j] * y[i] * y[j] * K[i, j] for i in range(len(y)) for j in range(len(y)))
    hinges = sum(max(0.0, 1.0 - y[i] * scores[i]) for i in range(len(y)))
    return float((square / 2 + C * hinges) - (sum(a) - square / 2))
