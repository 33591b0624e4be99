"""Templates from whitened signals or patches: what is rare in them counts as much as what is common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.templates.data import choose_rows
from streamfeat.templates.request import Drawn, Floats, Request, check_numbers


@dataclass(frozen=True)
class WhitenedData:
    """m of the signals (or patches) at random, whitened; each template's projections on them have variance 1.

    With C = V'V / N the second moment of the signals V, eigenvalues w and eigenvectors U, and
    Z = diag(w + floor mean(w))^(-1/2) U': a template is Z' Zv / ||Zv|| of a signal v, at unit norm, then divided by the
    standard deviation of its projections on V. A small `floor` weighs all directions alike, a large one leaves v as it
    is. Norms follow from the data: take `gain` (Fourier) or `quantile` thresholds (CDF) with it.
    """

    source: ClassVar[str] = "whitened-data"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors"})
    needs_signals: ClassVar[bool] = True

    m: int
    epsilon: float = 0.5
    floor: float = 1.0

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)
        if not 0 < self.floor <= 1e6:
            raise ConfigError(f"floor must be above 0 and at most 1e6, got {self.floor!r}")

    def draw(self, request: Request) -> Drawn:
        """Blank signals are left out as templates."""
        return Drawn(whitened_templates(request.vectors, self.m, self.floor, request.rng))


def whitened_templates(vectors: Floats, m: int, floor: float, rng: np.random.Generator) -> Floats:
    """m templates from the rows of `vectors`, (N, d) -> (m, d); see `WhitenedData`."""
    chosen = choose_rows(vectors, m, rng)
    V = vectors.astype(np.float64)
    w, U = np.linalg.eigh(V.T @ V / len(V))
    w = np.maximum(w, 0)
    Z = (U / np.sqrt(w + floor * w.mean())).T
    white = V[chosen] @ Z.T
    T = (white / np.linalg.norm(white, axis=1, keepdims=True)) @ Z
    T /= np.linalg.norm(T, axis=1, keepdims=True)
    P = V @ T.T
    deviation = P.std(axis=0)
    if (deviation <= 1e-6 * np.abs(P).max()).any():
        raise ConfigError(
            f"templates from whitened data need signals that differ; the {len(V)} given are alike to template "
            f"{int(deviation.argmin())}: give others, or use source = 'data'"
        )
    return np.asarray(T / deviation[:, None], np.float32)
