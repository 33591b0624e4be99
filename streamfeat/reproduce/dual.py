"""RLS and 1-NN from a Gram matrix whose rows repeat: many items, few kinds of them.

1,000 sequences of five letters have some 500 multisets, and an invariant kernel sees no more than those. Everything is
computed for kinds with their counts, and equals what the items one by one would give.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamfeat.learn.lambdas import gurls_grid

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


def rls_weights(K: Floats, y: Floats, counts: Ints) -> Floats:
    """Dual weights of RLS at the lambda of least mean squared leave-one-out error, summed over the items of a kind.

    f(x) = sum over kinds of w_u k(x, x_u); w = counts * c, c = (K_items + p I)^-1 y. Held out are single items:
    e_i = c_i / (G^-1)_ii with the penalty p = n lambda kept (GURLS' convention), lambda from GURLS' 20 guesses.

    With S the items' kinds, D the counts and M = D^1/2 K D^1/2 = V L V', K_items = S K S' has the inverse
    (K_items + p I)^-1 = S D^-1/2 V (L + p)^-1 V' D^-1/2 S' + (I - S D^-1 S') / p, so that only M is decomposed.

    Parameters
    ----------
    K : (u, u)
        Kernel between kinds, with the constant for the bias in it.
    y : (u,)
        Targets; the items of a kind share theirs.
    counts : (u,)
        Items of each kind.

    Returns
    -------
    (u,)
    """
    n, root = int(counts.sum()), np.sqrt(counts)
    eigenvalues, V = np.linalg.eigh(K * root * root[:, None])
    eigenvalues = eigenvalues.clip(min=0.0)
    seen = eigenvalues if n == len(counts) else np.append(eigenvalues, 0.0)  # of K_items: equal rows add zeros
    coordinates, squares = V.T @ (root * y), V**2
    best, least = np.zeros(len(y)), np.inf
    for penalty in n * gurls_grid(seen, n):
        c = V @ (coordinates / (eigenvalues + penalty)) / root
        diagonal = squares @ (1.0 / (eigenvalues + penalty)) / counts + (1.0 - 1.0 / counts) / penalty
        error = float(counts @ np.square(c / diagonal)) / n
        if error < least:
            best, least = counts * c, error
    return best


def nearest(K: Floats, diagonal: Floats) -> Ints:
    """The kind nearest to each row of K (q, u) in the kernel's distance, the first of those equally near, (q,)."""
    return np.asarray(np.argmin(diagonal - 2.0 * K, axis=1))


def first_seen(kinds: Ints) -> tuple[Ints, Ints]:
    """The kinds among the items in order of appearance, which decides between equally near ones, and their counts."""
    values, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    order = np.argsort(first)
    return values[order], counts[order]
