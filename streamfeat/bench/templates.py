"""`streamfeat bench templates`: whether structured templates tell digits apart as well as Gaussian ones."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bench.sides import CDF, group
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.learn.rls import RLS
from streamfeat.signals.signal import Signal
from streamfeat.threads import one_blas_thread

SOURCES = ("gaussian", "hadamard")
BLOCK = 500
"""Features that are predicted at a time: RLS computes in float64."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Plan:
    """How much is compared: for each seed its own templates, training and test items, the same for both sources."""

    n_seeds: int = 10
    m: int = 1024
    elements: tuple[int, int] = (3, 9)
    labels_per_class: tuple[int, ...] = (10, 100)
    n_test: int = 2000


QUICK = Plan(n_seeds=2, m=256, n_test=1000)


@dataclass(frozen=True, eq=False)
class Digits:
    """Pictures (N, h, w) and labels (N,), to train with and to test."""

    train: tuple[Bytes, Bytes]
    test: tuple[Bytes, Bytes]

    @classmethod
    def open(cls, path: Path) -> Digits:
        """From an .npz of x_train, y_train, x_test, y_test, as MNIST is often kept.

        Raises
        ------
        ConfigError
            It has other arrays.
        """
        with np.load(path, allow_pickle=False) as file:
            missing = {"x_train", "y_train", "x_test", "y_test"} - set(file.files)
            if missing:
                raise ConfigError(f"{path}: needs arrays x_train, y_train, x_test, y_test, has {sorted(file.files)}")
            return cls((file["x_train"], file["y_train"]), (file["x_test"], file["y_test"]))


def compare_templates(digits: Digits, plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Accuracy of CDF features of a local group on templates of either source, paired by seed.

    Returns
    -------
    dict
        "rows", one for each number of labels a class: mean accuracy of each source, hadamard's minus gaussian's in
        points, and the standard error of that over seeds.
    """
    begun = time.perf_counter()
    scores: dict[tuple[int, str], list[float]] = {}
    with one_blas_thread():
        for seed in range(plan.n_seeds):
            rng = np.random.default_rng(seed)
            train = _per_class(digits.train[1], max(plan.labels_per_class), rng)
            test = rng.choice(len(digits.test[1]), min(plan.n_test, len(digits.test[1])), replace=False)
            for source in SOURCES:
                say(f"seed {seed}: {source}")
                fmap = FeatureMap.fit(_spec(digits.train[0].shape[1:], source, plan, seed))
                X, Z = _features(fmap, digits.train[0][train]), _features(fmap, digits.test[0][test])
                for n in plan.labels_per_class:
                    right = _accuracies((X, digits.train[1][train]), (Z, digits.test[1][test]), n)
                    scores.setdefault((n, source), []).append(right)
    return {
        "rows": [_row(n, *(scores[n, source] for source in SOURCES)) for n in plan.labels_per_class],
        "m": plan.m,
        "n_group": plan.elements[0] ** 2 * plan.elements[1],
        "n_seeds": plan.n_seeds,
        "n_test": plan.n_test,
        "wall_s": round(time.perf_counter() - begun, 1),
    }


def _per_class(labels: Bytes, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """n items of every class, class after class in turn, so that each run of n_classes items has one of each."""
    found, counts = np.unique(labels, return_counts=True)
    if counts.min() < n:
        rare = found[counts.argmin()]
        raise ConfigError(f"{n} training items a class are drawn; class {rare} has {counts.min()}: give more of it")
    each = [rng.choice(np.flatnonzero(labels == label), n, replace=False) for label in found]
    return np.stack(each, axis=1).ravel()


def _spec(shape: tuple[int, ...], source: str, plan: Plan, seed: int) -> BankSpec:
    return BankSpec.from_dict(
        {
            "name": f"bench-{source}",
            "seed": seed,
            "front_end": [{"stage": "array", "rows": shape[0], "columns": shape[1]}],
            "templates": {"source": source, "m": plan.m},
            "group": group(*plan.elements),
            "pooling": CDF,
        }
    )


def _features(fmap: FeatureMap, pictures: Bytes) -> NDArray[Any]:
    return fmap.transform(Signal("array", picture.astype(np.float32)) for picture in pictures)


def _accuracies(train: tuple[NDArray[Any], Bytes], test: tuple[NDArray[Any], Bytes], n: int) -> float:
    """Mean over as many training sets of n a class as the items give, at most ten."""
    n_classes = len(np.unique(train[1]))
    step = n * n_classes
    found = []
    for first in range(0, min(len(train[0]), 10 * step), step):
        some = slice(first, first + step)
        rls = RLS("loo").fit(train[0][some], train[1][some].tolist())
        blocks = (test[0][at : at + BLOCK] for at in range(0, len(test[0]), BLOCK))
        predicted = [label for block in blocks for label in rls.predict(block)]
        found.append(float(np.mean(np.array(predicted) == test[1])))
    return statistics.fmean(found)


def _row(n: int, gaussian: list[float], hadamard: list[float]) -> dict[str, Any]:
    apart = [100 * (h - g) for g, h in zip(gaussian, hadamard, strict=True)]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return {
        "labels_per_class": n,
        "gaussian": round(statistics.fmean(gaussian), 5),
        "hadamard": round(statistics.fmean(hadamard), 5),
        "points": round(statistics.fmean(apart), 3),
        "standard_error": round(error, 3) if len(apart) > 1 else None,
    }
