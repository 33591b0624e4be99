"""Distances: what they are, whichever rows stand beside."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.learn.distances import check_metric, distances, held


def test_by_definition() -> None:
    """1 - cos and the Euclidean distance, in float64 of rows held as float32."""
    rng = np.random.default_rng(0)
    X, q = rng.standard_normal((20, 7)), rng.standard_normal((1, 7))
    cosines = (X @ q[0]) / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
    for metric, expected in (("cosine", 1 - cosines), ("l2", np.linalg.norm(X - q, axis=1))):
        found = distances(held(q, metric)[0], held(X, metric), metric)
        np.testing.assert_allclose(found, expected, atol=1e-6)  # rows are held with 24 bits


def test_a_feature_of_zeros_is_at_1_from_all() -> None:
    """No division by its length; nor is it made of NaN."""
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    np.testing.assert_array_equal(distances(held(X, "cosine")[0], held(X, "cosine"), "cosine"), [1.0, 1.0])


def test_what_is_subtracted_first() -> None:
    """Counts under "l2" stay what they are; a centre is taken away before the length is made 1."""
    counts = np.array([[65535, 1]], np.uint16)
    np.testing.assert_array_equal(held(counts, "l2"), counts)
    np.testing.assert_allclose(held(counts, "cosine", np.array([65532.0, -3.0])), [[0.6, 0.8]], rtol=1e-7)


def test_an_unknown_metric_is_named() -> None:
    """With those there are."""
    with pytest.raises(InvalidArgument, match="cosine, l2, got 'l1'"):
        check_metric("l1")
