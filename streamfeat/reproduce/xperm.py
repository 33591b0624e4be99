"""X_perm: sequences that hold two letters in any places, learned from few (Mroueh, Voinea and Poggio 2015, section 5).

Sequences of five out of eight letters; positive are the 6,930 of 32,768 in which both of two letters occur. One-hot
vectors of unit norm, all 120 permutations of the places, RLS with a constant added to the kernel for the bias and
lambda by leave-one-out, and 1-NN; N different training sequences and 3,000 test sequences, any of all, drawn anew
for each seed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.exact.cdf import truncated_kernel
from streamfeat.exact.orbits import orbit_distance, orbit_kernel
from streamfeat.featuremap import FeatureMap
from streamfeat.reports.pictures import Panel
from streamfeat.reproduce.dual import first_seen, nearest, rls_weights
from streamfeat.reproduce.experiment import Experiment, Findings, Run, claim, mean_of, row
from streamfeat.signals import Signal
from streamfeat.threads import one_blas_thread

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

LENGTH, LETTERS, TARGETS = 5, 8, (0, 1)
EPSILON, SIGMA, BIAS = 0.5, 0.5, 1.0
RANDOM_SEQUENCES = "CDF(25,100), templates = random sequences"
CDF_ROWS = {
    "CDF(5,10)": (5, 10),
    "CDF(25,10)": (25, 10),
    "CDF(25,100)": (25, 100),
    "CDF(25,300)": (25, 300),
    RANDOM_SEQUENCES: (25, 100),
}
"""Name -> bins, templates."""
BY_RLS, BY_NEIGHBOUR = "RLS accuracy", "1-NN accuracy"


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    sizes: tuple[int, ...] = (20, 50, 100, 200, 500, 1000)
    n_seeds: int = 20
    n_draws: int = 10
    n_test: int = 3000


FAST = Extent(sizes=(20, 100, 500), n_seeds=5, n_draws=2)


@dataclass(frozen=True)
class Kernel:
    """A kernel on sequences that sees kinds of them: `of(a, b)` is the Gram matrix between kinds a and b."""

    kinds: Ints
    of: Callable[[Ints, Ints], Floats]

    @classmethod
    def of_gram(cls, kinds: Ints, gram: Floats) -> Kernel:
        """A kernel whose Gram matrix of all kinds is there."""
        return cls(kinds, lambda a, b: gram[np.ix_(a, b)])

    @classmethod
    def of_features(cls, kinds: Ints, features: Floats) -> Kernel:
        """Inner products of one feature a kind."""
        return cls(kinds, lambda a, b: features[a] @ features[b].T)


@dataclass(frozen=True)
class Sequences:
    """All of them, in the alphabet's order.

    Attributes
    ----------
    letters : (32768, 5); positive : (32768,) bool
    onehot : (32768, 5, 8), unit norm
    counts : (792, 8)
        The multisets: how often each letter occurs.
    kinds : (32768,)
        Each sequence's multiset.
    one_of : (792,)
        A sequence of each multiset.
    """

    letters: Ints
    positive: NDArray[np.bool_]
    onehot: Floats
    counts: Ints
    kinds: Ints
    one_of: Ints

    @classmethod
    def all(cls) -> Sequences:
        """Every sequence of `LENGTH` letters."""
        letters = np.array(list(itertools.product(range(LETTERS), repeat=LENGTH)), np.intp)
        positive = np.logical_and.reduce([(letters == target).any(axis=1) for target in TARGETS])
        counted = np.stack([(letters == letter).sum(axis=1) for letter in range(LETTERS)], axis=1)
        counts, one_of, kinds = np.unique(counted, axis=0, return_index=True, return_inverse=True)
        onehot = np.eye(LETTERS)[letters] / math.sqrt(LENGTH)
        return cls(letters, positive, onehot, counts, kinds.ravel(), one_of)


def measure_xperm(run: Run) -> Findings:
    """Accuracy of RLS and 1-NN on every kind of feature and every N.

    Rows are means over seeds, for CDF rows over template draws and seeds, with the deviation over seeds. "cells" has
    the same as one cell a size: {"features", "N", "rls", "rls_sd", "nn", "nn_sd", "sd_over", "rls_sd_seeds"}, where
    `rls_sd` and `nn_sd` are over what `sd_over` says: "seeds", or for CDF rows "template draws" (of the mean over
    seeds).
    """
    extent = FAST if run.fast else Extent()
    sequences = Sequences.all()
    run.begin(vars(extent))

    def accuracies(part: str) -> Any:
        name, _, draw = part.rpartition(" ")
        return _accuracies(kernel_of(name, sequences, int(draw)), sequences, extent).tolist()

    with one_blas_thread():
        draws = {name: range(extent.n_draws if name in CDF_ROWS else 1) for name in names()}
        done = run.parts([f"{name} {draw}" for name in names() for draw in draws[name]], accuracies)
    of = {name: np.array([done[f"{name} {draw}"] for draw in draws[name]]) for name in names()}
    rows = [some for name in names() for some in _rows(name, of[name], extent)]
    return Findings(
        rows,
        _claims(rows, extent),
        [
            f"{extent.n_seeds} random training samples a cell, the paper has 100",
            f"{extent.n_draws} draws of templates a CDF row: their number in the paper is not told",
            "epsilon .5 and the width .5 of the Haar kernel are ours: the paper's text gives neither",
        ],
        [Panel(metric, metric, "n", "x") for metric in (BY_RLS, BY_NEIGHBOUR)],
        {"cells": [cell for name in names() for cell in _cells(name, of[name], extent)]},
    )


def _rows(name: str, accuracies: Floats, extent: Extent) -> Iterator[dict[str, Any]]:
    """A row a learner and size, from accuracies (draws, sizes, seeds, 2)."""
    for learner, metric in enumerate((BY_RLS, BY_NEIGHBOUR)):
        for i, n in enumerate(extent.sizes):
            by_seed = accuracies[:, i, :, learner].mean(axis=0).tolist()
            yield row(name, metric, by_seed, n=n, n_items=extent.n_test)


def _claims(rows: list[dict[str, Any]], extent: Extent) -> list[dict[str, Any]]:
    """What figure 1 and its text say."""
    n, many = 100, max(extent.sizes)
    at = {name: mean_of(rows, name, BY_RLS, n=n) for name in names()}
    cdf, fewer, bag, raw = at["CDF(25,300)"], at["CDF(25,10)"], at["bag-of-words"], at["raw one-hot"]
    haar, raw_of_many = at[names()[-1]], mean_of(rows, "raw one-hot", BY_RLS, n=many)
    shown = f"RLS accuracy at N = {n}: "
    return [
        claim(
            "With enough templates and bins, CDF features beat raw features and bag-of-words.",
            cdf > max(bag, raw),
            f"{shown}CDF(25,300) {cdf:.3f}, bag-of-words {bag:.3f}, raw {raw:.3f}",
        ),
        claim(
            "RLS with a Haar-invariant kernel is best.",
            haar >= max(at.values()) - 0.002,
            f"{shown}Haar {haar:.3f}, best of all rows {max(at.values()):.3f} (alike to .002)",
        ),
        claim(
            "Random features come close to it as the number of templates grows.",
            fewer < at["CDF(25,100)"] < cdf and haar - cdf < 0.01,
            f"{shown}m = 10 {fewer:.3f}, 100 {at['CDF(25,100)']:.3f}, 300 {cdf:.3f}; exact {haar:.3f}",
        ),
        claim(
            "Invariance lowers the sample complexity: few labels do what many do without it.",
            cdf > raw_of_many,
            f"CDF(25,300) at N = {n} {cdf:.3f}, raw at N = {many} {raw_of_many:.3f}",
        ),
    ]


def names() -> tuple[str, ...]:
    """The rows of the table, in its order."""
    exact = ("exact K_s Gram (closed form)", "Haar Gaussian σ=.5 (exact)")  # noqa: RUF001 - sigma
    return ("raw one-hot", "bag-of-words", *CDF_ROWS, *exact)


def kernel_of(name: str, sequences: Sequences, draw: int = 0) -> Kernel:
    """The kernel that a row of the table learns with.

    Parameters
    ----------
    name : str
        One of `names()`.
    draw : int
        Which draw of templates.
    """
    kinds = sequences.kinds
    if name == "raw one-hot":
        flat = sequences.onehot.reshape(len(kinds), -1)
        return Kernel.of_features(np.arange(len(kinds)), flat)
    if name == "bag-of-words":
        return Kernel.of_features(kinds, sequences.counts.astype(np.float64))
    if name in CDF_ROWS:
        n_bins, m = CDF_ROWS[name]
        fmap = cdf_map(n_bins, m, draw, data=name == RANDOM_SEQUENCES)
        features = fmap.dense(fmap.transform(_signals(sequences.onehot[sequences.one_of])))
        Phi = features.astype(np.float64)
        return Kernel.of_gram(kinds, Phi @ Phi.T)
    points, orbits = orbits_of(sequences.onehot[sequences.one_of])
    if name.startswith("Haar"):
        return Kernel.of_gram(kinds, orbit_kernel(points, orbits, SIGMA))
    d = LENGTH * LETTERS
    return Kernel.of_gram(kinds, truncated_kernel(orbit_distance(points, orbits), d, EPSILON))


def cdf_map(n_bins: int, m: int, draw: int, data: bool = False) -> FeatureMap:
    """CDF features under all permutations of the places; templates Gaussian, or random sequences."""
    spec = BankSpec.from_dict(
        {
            "name": f"xperm-cdf-{n_bins}-{m}",
            "seed": draw,
            "front_end": [{"stage": "array", "rows": LENGTH, "columns": LETTERS}],
            "templates": {"source": "data" if data else "gaussian", "m": m, "epsilon": EPSILON},
            "group": [{"factor": "permutation", "on": "rows", "law": "all"}],
            "pooling": {"kind": "cdf", "thresholds": "paper", "n_bins": n_bins},
            "renormalise": False,
        }
    )
    letters = np.random.default_rng([draw, m]).integers(LETTERS, size=(m, LENGTH))
    return FeatureMap.fit(spec, _signals(np.eye(LETTERS)[letters]) if data else None)


def orbits_of(onehot: Floats) -> tuple[Floats, Floats]:
    """Points as orbits of one, and their orbits under all permutations: (n, 1, 40) and (n, 120, 40)."""
    orders = np.array(list(itertools.permutations(range(LENGTH))))
    return onehot.reshape(len(onehot), 1, -1), onehot[:, orders].reshape(len(onehot), len(orders), -1)


def _signals(arrays: Floats) -> list[Signal]:
    return [Signal("array", array.astype(np.float32)) for array in arrays]


def _accuracies(kernel: Kernel, sequences: Sequences, extent: Extent) -> Floats:
    """RLS and 1-NN accuracy, (sizes, seeds, 2). Every row of the table sees the same sequences."""
    out = np.empty((len(extent.sizes), extent.n_seeds, 2))
    for i, n in enumerate(extent.sizes):
        for seed in range(extent.n_seeds):
            rng = np.random.default_rng([seed, n])
            train = rng.choice(len(sequences.kinds), n, replace=False)
            test = rng.integers(len(sequences.kinds), size=extent.n_test)
            out[i, seed] = _accuracy(kernel, sequences.positive, train, test)
    return out


def _accuracy(kernel: Kernel, positive: NDArray[np.bool_], train: Ints, test: Ints) -> tuple[float, float]:
    kinds, counts = first_seen(kernel.kinds[train])
    asked, n_asked = first_seen(kernel.kinds[test])
    label_of = dict(zip(kernel.kinds[np.append(train, test)], positive[np.append(train, test)], strict=True))
    taught, truth = (np.array([label_of[kind] for kind in some]) for some in (kinds, asked))
    K, K_asked = kernel.of(kinds, kinds), kernel.of(asked, kinds)
    weights = rls_weights(K + BIAS, np.where(taught, 1.0, -1.0), counts)
    by_rls = (K_asked + BIAS) @ weights > 0
    by_neighbour = taught[nearest(K_asked, np.diag(K))]
    right = [float(n_asked @ (answer == truth)) / len(test) for answer in (by_rls, by_neighbour)]
    return right[0], right[1]


def _cells(name: str, accuracies: Floats, extent: Extent) -> Iterator[dict[str, Any]]:
    """One cell a size, from accuracies (draws, sizes, seeds, 2); means as the paper's figure can be read, to 0.001."""
    over_draws = name in CDF_ROWS
    for i, n in enumerate(extent.sizes):
        at = accuracies[:, i]
        seeds_sd = at.std(axis=1, ddof=1).mean(axis=0)
        sd = at.mean(axis=1).std(axis=0, ddof=1) if over_draws else seeds_sd
        rls, nn = at.mean(axis=(0, 1))
        yield {
            "features": name,
            "N": n,
            "rls": round(float(rls), 3),
            "rls_sd": round(float(sd[0]), 4),
            "nn": round(float(nn), 3),
            "nn_sd": round(float(sd[1]), 4),
            "sd_over": "template draws" if over_draws else "seeds",
            "rls_sd_seeds": round(float(seeds_sd[0]), 4),
        }


XPERM = Experiment(
    "xperm",
    "Sequences of 5 of 8 letters, positive where two given letters both occur (21 % of 32,768); group: all 120 "
    "permutations. RLS with lambda by leave-one-out, and 1-NN, on N training sequences; 3,000 test sequences.",
    measure_xperm,
)
