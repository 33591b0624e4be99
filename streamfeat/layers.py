"""Vectors -> features of a bank: the first layer pools projections, the second takes the first's Phi."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.kernels import Floats
from streamfeat.pooling import Pass, Size
from streamfeat.projections import items_at_once, projections

Features = NDArray[Any]


def size_of(bank: Bank) -> Size:
    """What poolings are told of a bank."""
    spec = bank.spec
    return Size(bank.m, bank.template_d, bank.n_group, spec.templates.epsilon, bank.grid, spec.window.cyclic)


def pooled(bank: Bank, vectors: Floats) -> Features:
    """First layer: (N, d) -> (N, D1), a few items at a time, each alone."""
    pooling = bank.spec.pooling
    features = np.empty((len(vectors), pooling.n_features(bank.m)), pooling.dtype)
    step = items_at_once(bank)
    for first in range(0, len(vectors), step):
        some = vectors[first : first + step]
        pooling.pool(Pass(bank.arrays, some, projections(bank, some)), features[first : first + step])
    return features


def phi(bank: Bank, features: Features) -> Floats:
    """First layer as float32 whose inner products estimate the pooling's kernel."""
    scaled: Floats = features.astype(np.float32)
    weight = bank.spec.pooling.weight(size_of(bank))
    if weight != 1:
        scaled *= np.float32(weight)
    return scaled


def features_of(bank: Bank, vectors: Floats) -> Features:
    """All layers: (N, d) -> (N, D)."""
    layer2, first = bank.spec.layer2, pooled(bank, vectors)
    if layer2 is None:
        return first
    features = np.empty((len(vectors), layer2.n_features), np.float32)
    layer2.apply(bank.arrays["layer2_frequencies"], phi(bank, first), features)
    return features
