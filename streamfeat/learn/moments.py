"""Sufficient statistics of RLS: rows come once, in any pieces, and the answer is that of all rows together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_labels

Floats = NDArray[np.float64]


class Moments:
    """n, mean, scatter about the mean, and each class's count and mean: all that RLS needs of its rows.

    The scatter is merged by Chan's rule, S = S1 + S2 + (n1 n2 / n) d d' with d the difference of the means, so that
    features far from zero lose nothing. Class codes are +1 and -1: a class's targets follow from its count and mean, so
    a class may come late and is as if it had been there from the start. Memory: 8 D^2 bytes, whatever n.
    """

    def __init__(self) -> None:
        self.n = 0
        self.mean: Floats = np.zeros(0)
        self.scatter: Floats = np.zeros((0, 0))
        self.class_n: dict[Label, int] = {}
        self.class_mean: dict[Label, Floats] = {}

    @property
    def width(self) -> int | None:
        """D, or None before the first row."""
        return len(self.mean) if self.n else None

    def add(self, X: ArrayLike, labels: Sequence[object] | NDArray[Any]) -> None:
        """Take rows X (n, D) and their labels. Refused rows leave the state as it was.

        Raises
        ------
        InvalidArgument
            Another width, NaN, a label of another type.
        """
        rows = check_features(X, self.width)
        checked = check_labels(labels, len(rows), next(iter(self.class_n), None))
        if len(rows) == 0:
            return
        new = Moments()
        new.n = len(rows)
        exact = rows.astype(np.float64)
        new.mean = exact.mean(axis=0)
        by_class: dict[Label, list[int]] = {}
        for i, label in enumerate(checked):
            by_class.setdefault(label, []).append(i)
        new.class_n = {label: len(of_class) for label, of_class in by_class.items()}
        new.class_mean = {label: exact[of_class].mean(axis=0) for label, of_class in by_class.items()}
        exact -= new.mean
        new.scatter = exact.T @ exact
        self.merge(new)

    def merge(self, other: Moments) -> None:
        """Take the rows that another has seen.

        Raises
        ------
        InvalidArgument
            Another width, or labels of the other type.
        """
        if other.width is None:
            return
        if self.width is None:
            self.n, self.mean, self.scatter = other.n, other.mean.copy(), other.scatter.copy()
            self.class_n, self.class_mean = dict(other.class_n), dict(other.class_mean)
            return
        if other.width != self.width:
            raise InvalidArgument(f"cannot merge features of {self.width} and of {other.width} columns")
        check_labels(list(other.class_n), len(other.class_n), next(iter(self.class_n)))
        n = self.n + other.n
        difference = other.mean - self.mean
        self.scatter += other.scatter
        self.scatter += np.outer(difference * (self.n * other.n / n), difference)
        self.mean = self.mean + difference * (other.n / n)
        self.n = n
        for label, count in other.class_n.items():
            total = self.class_n.get(label, 0) + count
            before = self.class_mean.get(label, other.class_mean[label])
            self.class_mean[label] = before + (other.class_mean[label] - before) * (count / total)
            self.class_n[label] = total

    def normal_equations(self, classes: Sequence[Label], centred: bool) -> tuple[Floats, Floats, Floats]:
        """Gram matrix X'X (D, D), X'Y (D, C) for codes +1 and -1, and the mean target (C,), zero if not `centred`."""
        counts = np.array([self.class_n[label] for label in classes], dtype=np.float64)
        # about the mean, the part of the codes that is constant drops out: X'Y is twice the sum over the class
        offsets = np.stack([self.class_mean[label] - self.mean for label in classes], axis=1)
        cross = 2.0 * offsets * counts
        target_mean = 2.0 * counts / self.n - 1.0
        if centred:
            return self.scatter, cross, target_mean
        gram = self.scatter + np.outer(self.n * self.mean, self.mean)
        cross += np.outer(self.n * self.mean, target_mean)
        return gram, cross, np.zeros(len(classes))
