"""Vectors -> features of a bank: each stream pools its projections, then layer 2 takes the Phi of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.groups import n_elements
from streamfeat.kernels import Floats
from streamfeat.pooling import Pass, Size, along_lanes
from streamfeat.projections import items_at_once, move, projections
from streamfeat.streams import Stream, split
from streamfeat.structured import Transforms, n_moved_first

Features = NDArray[Any]


def size_of(stream: Stream) -> Size:
    """What poolings are told of a stream."""
    spec = stream.spec
    return Size(stream.m, stream.template_d, stream.n_group, spec.templates.epsilon, stream.grid, spec.window.cyclic)


def pooled(stream: Stream, vectors: Floats) -> Features:
    """The first layer of one stream: (N, d) -> (N, D), a few items at a time, each alone."""
    pooling = stream.spec.pooling
    features = np.empty((len(vectors), stream.n_features), stream.dtype)
    if _pooled_by_transforms(stream, vectors, features):
        return features
    step = items_at_once(stream)
    for first in range(0, len(vectors), step):
        some = vectors[first : first + step]
        pooling.pool(Pass(stream.arrays, some, projections(stream, some)), features[first : first + step])
    return features


def _pooled_by_transforms(stream: Stream, vectors: Floats, features: Features) -> bool:
    """Whether templates and pooling let fast transforms do it, and if so, have it done."""
    if "places" not in stream.arrays:
        return False
    n_first = n_moved_first(stream.factors, len(stream.arrays["places"]))
    n_columns = n_elements(stream.factors[:n_first])
    transforms = Transforms(stream.arrays, stream.d, n_columns)
    step = transforms.items_at_once
    pool = along_lanes(stream.spec.pooling, stream.arrays, stream.n_group, min(step, len(vectors)))
    if pool is None:
        return False
    for first in range(0, len(vectors), step):
        some = vectors[first : first + step]
        moved = move(stream, some, n_first)[: len(some) * n_columns]
        transforms.pool(moved.reshape(len(some), n_columns, -1), pool)
        pool.write(features[first : first + step])
    return True


def first_layer(bank: Bank, vectors: Floats) -> Features:
    """The first layer of every stream, one after the other: (N, d) -> (N, D1)."""
    parts = split(vectors, [stream.d for stream in bank.streams])
    return np.concatenate([pooled(*both) for both in zip(bank.streams, parts, strict=True)], axis=1)


def phi(bank: Bank, features: Features) -> Floats:
    """First layer as float32 whose inner products estimate the sum of the streams' kernels."""
    scaled: Floats = features.astype(np.float32)
    for stream, part in zip(bank.streams, _columns(bank, scaled), strict=True):
        weight = stream.spec.pooling.weight(size_of(stream))
        if weight != 1:
            np.multiply(part, np.float32(weight), out=part)
    return scaled


def _columns(bank: Bank, features: Features) -> list[Features]:
    """Each stream's part of first layers (..., D1), as views."""
    ends = np.cumsum([stream.n_features for stream in bank.streams])[:-1]
    return np.split(features, ends, axis=-1)


def features_of(bank: Bank, vectors: Floats) -> Features:
    """All layers: (N, d) -> (N, D)."""
    layer2, first = bank.spec.layer2, first_layer(bank, vectors)
    if layer2 is None:
        return first
    features = np.empty((len(vectors), layer2.n_features), np.float32)
    layer2.apply(bank.arrays["layer2_frequencies"], phi(bank, first), features)
    return features
