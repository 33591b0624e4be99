"""What moves: m vectors of d numbers, drawn at random, taken from data, or the user's own.

All are float32 and bounded: ||t||^2 < 1 + epsilon, so that |<x, gt>| stays below s = 1 + epsilon for a unit x and
a g that keeps norms (Mroueh, Voinea, Poggio 2015, section 3).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError

MAX_DRAWS = 1000
"""Times that a Gaussian template may be drawn again; at epsilon = 0.01 and d = 20000 six in ten are kept."""


def gaussian_templates(m: int, d: int, epsilon: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Gaussian templates: n ~ N(0, I/d), drawn again until ||n||^2 < 1 + epsilon.

    Returns
    -------
    (m, d) float32

    Raises
    ------
    ConfigError
        When hardly a draw is short enough (a very negative epsilon).
    """
    T = np.empty((m, d), np.float32)
    waiting = np.arange(m)
    for _ in range(MAX_DRAWS):
        T[waiting] = rng.standard_normal((len(waiting), d)) / math.sqrt(d)
        norms = np.einsum("td,td->t", T[waiting], T[waiting], dtype=np.float64)
        waiting = waiting[norms >= 1 + epsilon]
        if len(waiting) == 0:
            return T
    raise ConfigError(
        f"templates.epsilon = {epsilon!r} refused every one of {MAX_DRAWS} draws of a template of {d} numbers; "
        "use a larger epsilon, such as 0.5"
    )


def choose_rows(vectors: NDArray[np.float32], m: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The numbers of m rows that are not blank, at random, each at most once."""
    seen = np.flatnonzero(vectors.any(axis=1))
    if len(seen) < m:
        raise ConfigError(
            f"templates.source = 'data' with m = {m} needs at least {m} signals that are not blank, got {len(seen)}; "
            "give more signals or a smaller m"
        )
    return rng.choice(seen, size=m, replace=False)


def data_templates(vectors: NDArray[np.float32], m: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """m of the given front-end vectors, at random without replacement, at unit norm; blank ones are left out.

    Parameters
    ----------
    vectors : (N, d) float32

    Returns
    -------
    (m, d) float32
    """
    T = vectors[choose_rows(vectors, m, rng)].astype(np.float64)
    return np.asarray(T / np.linalg.norm(T, axis=1, keepdims=True), np.float32)


def fourier_templates(m: int, d: int, sigma: float, rng: np.random.Generator) -> NDArray[np.float32]:
    """Frequencies of the Gaussian kernel exp(-||x - z||^2 / (2 sigma^2)): w ~ N(0, sigma^-2 I).

    Returns
    -------
    (m, d) float32
    """
    return np.asarray(rng.standard_normal((m, d)) / sigma, np.float32)


def user_templates(templates: ArrayLike, m: int, d: int) -> NDArray[np.float32]:
    """The given templates, checked: m rows of d finite numbers."""
    T = np.asarray(templates, np.float32)
    if T.shape != (m, d):
        raise ConfigError(f"user templates must have the shape (m, d) = {(m, d)}, got {T.shape}")
    if not np.isfinite(T).all():
        raise ConfigError(f"user templates must be finite, row {int(np.argmin(np.isfinite(T).all(axis=1)))} is not")
    return T
