"""Layer 2: plain random Fourier features of the feature, for a Gaussian kernel on top of the first kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.kernels import LANES, ROWS, Floats, blocks_of, padded
from streamfeat.kernels.fourier import MAX_PROJECTION, copies_cos_sin, mean_cos_sin
from streamfeat.kernels.hadamard import transform_lanes, turn
from streamfeat.kernels.project import project
from streamfeat.spec import as_table, read_table
from streamfeat.templates.hadamard import hadamard_signs

NONE = "none"

ROWS_AT_ONCE = 16 * ROWS
"""First layers that share a pass over the frequencies."""

MAX_NUMBERS = 1 << 29
"""Of all frequencies: 2 GB in a bank, and each is read once for every few items."""

LEAST_STRUCTURED = 256
"""Numbers of a Phi from which on structured frequencies are near enough to a draw, see `templates.hadamard`."""

Source = Literal["gaussian", "hadamard"]

MEDIAN_ROWS = 1000
"""Signals whose distances the median is taken of; of more, so many at random."""


@dataclass(frozen=True)
class Layer2:
    """Features of h(mu, mu') = exp(-||mu - mu'||^2 / (2 sigma^2)), the Gaussian hyperkernel (Raj et al. 2017, sec. 4).

    mu is the first layer's Phi. sigma = "median" takes the median distance between the Phi of the bank's signals, or
    `of_median` times that. source = "gaussian" draws frequencies, each of which costs a product with mu; "hadamard"
    takes rows of H D3 H D2 H D1 (Yu et al. 2016), all of them by fast transforms.
    """

    kind: ClassVar[str] = "fourier"

    m: int
    sigma: float | Literal["median"]
    of_median: float | None = None
    source: Source | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.m <= 1_000_000:
            raise ConfigError(f"m must be from 1 to 1000000, got {self.m!r}")
        if self.sigma != "median" and self.sigma <= 0:
            raise ConfigError(f"sigma must be above 0 or 'median', got {self.sigma!r}")
        if self.of_median is not None and (self.sigma != "median" or not 1e-3 <= self.of_median <= 1e3):
            raise ConfigError(
                f"of_median, from 0.001 to 1000, goes with sigma = 'median', got {self.of_median!r} and sigma = "
                f"{self.sigma!r}"
            )
        if self.source is not None and self.source not in get_args(Source):
            raise ConfigError(f"source must be one of {', '.join(map(repr, get_args(Source)))}, got {self.source!r}")
        object.__setattr__(self, "of_median", None if self.of_median == 1 else self.of_median)
        object.__setattr__(self, "source", None if self.source == "gaussian" else self.source)

    @property
    def needs_signals(self) -> bool:
        """A median is of signals."""
        return self.sigma == "median"

    @property
    def n_features(self) -> int:
        """Columns of a feature."""
        return 2 * self.m

    def build(self, n_first: int, phi: Floats, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        """`layer2_frequencies` (n_blocks, >= n_first, LANES) ~ N(0, sigma^-2 I), and `layer2_sigma` (1,).

        Structured: `layer2_signs` (n_matrices, 3, p) and `layer2_gains` (m,) instead, as `hadamard_signs` says.

        Parameters
        ----------
        n_first : int
            Numbers of a Phi.
        phi : (N, n_first) float32
            Of the bank's signals, see `median_rows`; none, if sigma is a number.
        """
        sigma = (self.of_median or 1) * median_distance(phi) if self.sigma == "median" else self.sigma
        if self.source == "hadamard":
            return {**self._structured(n_first, sigma, rng), "layer2_sigma": np.array([sigma])}
        if self.m * n_first > MAX_NUMBERS:
            raise ConfigError(
                f"layer 2 may have {MAX_NUMBERS} numbers, got m = {self.m} frequencies of {n_first} numbers; use a "
                "smaller m, or fewer templates or cells below it"
            )
        W = rng.standard_normal((self.m, n_first))
        self._check_length(float(np.linalg.norm(W, axis=1).max()) / sigma)
        W /= sigma
        return {"layer2_frequencies": blocks_of(W, padded(n_first, 4)), "layer2_sigma": np.array([sigma])}

    def apply(self, arrays: Mapping[str, NDArray[Any]], phi: Floats, out: Floats, n_copies: int = 1) -> None:
        """cos, then sin, of <w, phi> over sqrt(m), their mean over n_copies rows: (n n_copies, n_first) -> (n, 2 m).

        What comes out depends on its own rows alone. `arrays` are the bank's, with those that `build` gave.
        """
        pairs = out.reshape(len(out), 2, self.m)
        step = max(1, ROWS_AT_ONCE // n_copies)
        for first in range(0, len(out), step):
            some = phi[first * n_copies : (first + step) * n_copies]
            if self.source == "hadamard":
                self._transform(arrays, some, pairs[first : first + step], n_copies)
            else:
                self._project(arrays["layer2_frequencies"], some, pairs[first : first + step], n_copies)

    def _project(self, frequencies: Floats, phi: Floats, pairs: Floats, n_copies: int) -> None:
        weight = 1 / math.sqrt(self.m)
        X = np.zeros((padded(len(phi), ROWS), frequencies.shape[1]), np.float32)
        X[: len(phi), : phi.shape[1]] = phi
        P = np.empty((len(X), LANES), np.float32)
        for block, W in enumerate(frequencies):
            project(X, W, P)
            t = slice(block * LANES, (block + 1) * LANES)
            for i, pair in enumerate(pairs):
                mean_cos_sin(P[i * n_copies : (i + 1) * n_copies], 1.0, weight, pair[0, t], pair[1, t])

    def _transform(self, arrays: Mapping[str, NDArray[Any]], phi: Floats, pairs: Floats, n_copies: int) -> None:
        weight = 1 / math.sqrt(self.m)
        signs, gains = arrays["layer2_signs"].astype(np.float32), arrays["layer2_gains"]
        p = signs.shape[2]
        X = np.zeros((padded(len(phi), 16), p), np.float32)
        X[: len(phi), : phi.shape[1]] = phi
        columns = np.empty((p + 1, len(X)), np.float32)
        turn(X, columns)
        for first in range(0, self.m, p):
            Y = columns[:p].copy()
            transform_lanes(signs[first // p], Y)
            t = slice(first, min(self.m, first + p))
            copies_cos_sin(Y, gains[t], n_copies, weight, pairs[:, :, t])

    def _structured(self, n_first: int, sigma: float, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        if n_first < LEAST_STRUCTURED:
            raise ConfigError(
                f"layer2.source = 'hadamard' needs a first layer of {LEAST_STRUCTURED} numbers or more, got {n_first}; "
                "take 'gaussian', or more templates or cells"
            )
        size = math.sqrt(n_first) / sigma
        self._check_length(size)
        signs, gains = hadamard_signs(self.m, n_first, rng)
        return {"layer2_signs": signs, "layer2_gains": (size * gains).astype(np.float32)}

    def _check_length(self, longest: float) -> None:
        if longest > MAX_PROJECTION / 2:
            raise ConfigError(
                f"layer 2 has frequencies of norm {longest:.3g}, beyond what cos and sin are computed to "
                f"({MAX_PROJECTION / 2:g}); use a larger layer2.sigma, got {self.sigma!r}"
            )


def median_rows(vectors: Floats, rng: np.random.Generator) -> Floats:
    """The vectors (N, d) whose Phi the median distance is taken of: `MEDIAN_ROWS` at the most."""
    if len(vectors) <= MEDIAN_ROWS:
        return vectors
    return vectors[rng.choice(len(vectors), MEDIAN_ROWS, replace=False)]


def median_distance(phi: Floats) -> float:
    """The median Euclidean distance of two different rows, of all pairs (N, N) at once.

    Raises
    ------
    ConfigError
        Fewer than two rows, or most of them equal.
    """
    X = phi.astype(np.float64)
    squares = np.square(X).sum(axis=1)
    above = np.triu_indices(len(X), 1)
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)[above])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median == 0:
        raise ConfigError(
            f"layer2.sigma = 'median' needs at least two signals that differ, got {len(phi)}; give more, or a number"
        )
    return median


def read_layer2(table: Mapping[str, Any]) -> Layer2 | None:
    """The second layer that a spec's table describes; None for kind = "none".

    Raises
    ------
    ConfigError
        An unknown kind or parameter, or a value out of range.
    """
    kind, parameters = table["kind"], {name: value for name, value in table.items() if name != "kind"}
    if kind == Layer2.kind:
        return read_table(Layer2, parameters, "bank spec: layer2")
    if kind != NONE:
        raise ConfigError(f"bank spec: layer2.kind must be one of {NONE!r}, {Layer2.kind!r}, got {kind!r}")
    if parameters:
        raise ConfigError(f"bank spec: layer2.kind = {NONE!r} has no parameter {next(iter(parameters))!r}")
    return None


def layer2_table(layer2: Layer2 | None) -> dict[str, Any]:
    """The canonical table, which `read_layer2` takes."""
    return {"kind": NONE} if layer2 is None else {"kind": Layer2.kind, **as_table(layer2)}
