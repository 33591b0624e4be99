"""Vectors -> features of a bank: each stream pools its projections, layer 2 takes the Phi of all of them, and features
of the copies that an outer orbit makes are pooled last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.groups import n_elements
from streamfeat.kernels import Floats
from streamfeat.outer import moved_copies
from streamfeat.pooling import Pass, Size, along_lanes
from streamfeat.projections import items_at_once, move, projections
from streamfeat.readout import read_out
from streamfeat.streams import Stream, split
from streamfeat.structured import Transforms, n_moved_first

Features = NDArray[Any]

ROWS_AT_ONCE = 64
"""Copies of items that pass the layers together; 6,000 numbers each are 1.5 MB."""


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


def first_layer(bank: Bank, vectors: Floats, *, moved: bool = False) -> Features:
    """The first layer of every stream, one after the other: (N, d) -> (N, D1).

    With `moved` of the copies that the outer orbit makes of each vector, (N |outer|, D1).
    """
    parts = split(vectors, [stream.d for stream in bank.streams])
    both = zip(bank.streams, parts, strict=True)
    return np.concatenate([pooled(s, moved_copies(s, part) if moved else part) for s, part in both], axis=1)


def phi(bank: Bank, features: Features, n_summed: int = 1) -> Floats:
    """First layer as float32 whose inner products estimate the sum of the streams' kernels.

    `n_summed` copies of the outer orbit are in each count.
    """
    scaled: Floats = features.astype(np.float32)
    ends = np.cumsum([stream.n_features for stream in bank.streams])[:-1]
    for stream, part in zip(bank.streams, np.split(scaled, ends, axis=-1), strict=True):
        size = size_of(stream)
        weight = stream.spec.pooling.weight(replace(size, n_group=size.n_group * n_summed))
        if weight != 1:
            np.multiply(part, np.float32(weight), out=part)
    return scaled


def dense(bank: Bank, features: Features) -> Floats:
    """Features as float32 whose inner products estimate the kernel; of layer 2 and of a readout they do so already."""
    if bank.spec.layer2 is not None or bank.has_readout:
        return features.astype(np.float32)
    return phi(bank, features, bank.n_outer)


def features_of(bank: Bank, vectors: Floats) -> Features:
    """All layers, and the mean over the outer orbit: (N, d) -> (N, D).

    The mean of counts is kept as their sum. A few items at a time, so that their copies share what layer 2 reads. A
    readout takes the Phi of all that.
    """
    if bank.has_readout:
        read = np.empty((len(vectors), bank.n_features), np.float32)
        read_out(bank.arrays, dense(bank.base, features_of(bank.base, vectors)), read)
        return read
    layer2, n_outer = bank.spec.layer2, bank.n_outer
    features = np.empty((len(vectors), bank.n_features), bank.dtype)
    step = max(1, ROWS_AT_ONCE // n_outer)
    for start in range(0, len(vectors), step):
        some = slice(start, start + step)
        first = first_layer(bank, vectors[some], moved=True)
        if layer2 is not None:
            layer2.apply(bank.arrays, phi(bank, first), features[some], n_outer)
        else:
            _pool_copies(first.reshape(-1, n_outer, bank.n_features), features[some])
    return features


def _pool_copies(first: Features, out: Features) -> None:
    """The sum of counts, else the mean, over axis 1; copy by copy, so that no item depends on those beside it."""
    if first.shape[1] == 1:
        out[:] = first[:, 0]
        return
    if out.dtype.kind == "u":
        first.sum(axis=1, dtype=out.dtype, out=out)
        return
    total = np.zeros(out.shape)
    for i in range(first.shape[1]):
        total += first[:, i]
    out[:] = total / first.shape[1]
