"""Kernel ridge regression in folds: sigma and penalty by cross-validation inside the training folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Gram = Callable[[Ints, Ints], Floats]
"""Numbers of some items and of others -> kernel between their copies, item by item."""

PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Tried; in parts of the kernel's mean diagonal, the same for any number of rows, as noise would be."""


@dataclass(frozen=True)
class Ridge:
    """f = K (K + p I)^-1 (y - mean) + mean on the copies of items; an item's answer is the mean over its copies."""

    alpha: Floats
    mean: float
    train: Ints
    n_copies: int

    @classmethod
    def fit(cls, K: Floats, y: Floats, train: Ints, penalty: float) -> Ridge | None:
        """Solve for the training items' Gram matrix K; None where it is singular with that penalty."""
        n_copies = len(K) // len(train)
        mean = float(y[train].mean())
        G = K.copy()
        G[np.diag_indices(len(G))] += penalty * float(np.trace(K)) / len(K)
        try:
            factor = cho_factor(G, overwrite_a=True)
        except LinAlgError:
            return None
        return cls(np.asarray(cho_solve(factor, np.repeat(y[train] - mean, n_copies))), mean, train, n_copies)

    def predict(self, K: Floats) -> Floats:
        """Answers from the kernel of asked items' copies with the training copies."""
        answers: Floats = (K @ self.alpha).reshape(-1, self.n_copies).mean(axis=1) + self.mean
        return answers


@dataclass(frozen=True)
class Split:
    """Folds (n,), the one that is held out, and how many of the others are held out in turn to choose by."""

    fold: Ints
    held: int
    n_inner: int

    def inner(self) -> list[int]:
        """Those that are held out to choose by: the next ones, and after the last the first."""
        folds = np.unique(self.fold).tolist()
        after = folds.index(self.held) + 1
        return [*folds[after:], *folds[: after - 1]][: self.n_inner]


def choose_penalty(gram: Gram, y: Floats, split: Split) -> tuple[float, float]:
    """The penalty of least mean absolute error on the inner folds, each asked of all others but the one held out."""
    items = np.flatnonzero(split.fold != split.held)
    K = gram(items, items)
    n_copies, inner = len(K) // len(items), split.fold[items]
    errors = np.zeros(len(PENALTIES))
    n_asked = np.isin(inner, split.inner()).sum()
    for asked in split.inner():
        taught = inner != asked
        rows = np.repeat(taught, n_copies)
        among, to = K[np.ix_(rows, rows)], K[np.ix_(~rows, rows)]
        for i, penalty in enumerate(PENALTIES):
            ridge = Ridge.fit(among, y, items[taught], penalty)
            if ridge is None:
                errors[i] = np.inf
            else:
                errors[i] += float(np.abs(ridge.predict(to) - y[items[~taught]]).sum()) / n_asked
    best = int(np.argmin(errors))
    return PENALTIES[best], float(errors[best])


def outer_errors(
    grams: Callable[[float, Ints], Gram], sigmas: Sequence[float], y: Floats, split: Split
) -> tuple[Floats, float, float]:
    """Errors (n,) on the fold held out, and the sigma and penalty that the other folds chose among themselves.

    Parameters
    ----------
    grams : callable
        sigma and the training items -> the kernel.
    """
    train, test = np.flatnonzero(split.fold != split.held), np.flatnonzero(split.fold == split.held)
    tried = []
    for sigma in sigmas:
        penalty, error = choose_penalty(grams(sigma, train), y, split)
        tried.append((error, sigma, penalty))
    _, sigma, penalty = min(tried)
    gram = grams(sigma, train)
    K = gram(train, train)
    # what was regular among fewer items may be singular among all
    stronger = [p for p in PENALTIES if p >= penalty]
    ridge = next(fitted for p in stronger if (fitted := Ridge.fit(K, y, train, p)) is not None)
    del K
    return ridge.predict(gram(test, train)) - y[test], sigma, penalty
