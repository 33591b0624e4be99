"""Templates and landmarks that are signals themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.templates.request import Drawn, Floats, Request, check_numbers


@dataclass(frozen=True)
class Data:
    """m of the signals at random, each at most once, at unit norm."""

    source: ClassVar[str] = "data"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors"})
    needs_signals: ClassVar[bool] = True

    m: int
    epsilon: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)

    def draw(self, request: Request) -> Drawn:
        """Blank signals are left out."""
        return Drawn(data_templates(request.vectors, self.m, request.rng))


@dataclass(frozen=True)
class Landmarks:
    """m of the signals as the front end gives them: at random, or spread out by k-means++."""

    source: ClassVar[str] = "landmarks"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors"})
    needs_signals: ClassVar[bool] = True

    m: int
    epsilon: float = 0.5
    choose: Literal["random", "k-means++"] = "random"

    def __post_init__(self) -> None:
        check_numbers(self.m, self.epsilon)

    def draw(self, request: Request) -> Drawn:
        """Blank signals are left out; norms are kept."""
        choose = choose_rows if self.choose == "random" else choose_spread_rows
        return Drawn(request.vectors[choose(request.vectors, self.m, request.rng)])


def choose_rows(vectors: Floats, m: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The numbers of m rows that are not blank, at random, each at most once."""
    seen = np.flatnonzero(vectors.any(axis=1))
    _check_enough(len(seen), m, "")
    return rng.choice(seen, size=m, replace=False)


def choose_spread_rows(vectors: Floats, m: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """The numbers of m rows that are not blank, by k-means++ seeding (Arthur, Vassilvitskii 2007).

    The first at random, each following with a chance proportional to its squared distance from the nearest one chosen:
    rows that lie together give few landmarks, and equal rows give one.
    """
    seen = np.flatnonzero(vectors.any(axis=1))
    _check_enough(len(seen), m, "")
    X = vectors[seen].astype(np.float64)
    chosen = [int(rng.integers(len(X)))]
    nearest = np.full(len(X), np.inf)
    while len(chosen) < m:
        np.minimum(nearest, np.square(X - X[chosen[-1]]).sum(axis=1), out=nearest)
        total = nearest.sum()
        if total == 0:
            _check_enough(len(chosen), m, " and differ")
        chosen.append(int(rng.choice(len(X), p=nearest / total)))
    return seen[chosen]


def data_templates(vectors: Floats, m: int, rng: np.random.Generator) -> Floats:
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


def _check_enough(n: int, m: int, how: str) -> None:
    if n < m:
        raise ConfigError(
            f"m = {m} templates from signals need at least {m} signals (or patches of them) that are not blank{how}, "
            f"got {n}; give more signals or a smaller m"
        )
