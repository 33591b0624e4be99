"""Sufficient statistics of RLS: rows come, and may go, in any pieces; the answer is that of all rows together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.rows import add_scatter
from streamfeat.learn.scaling import parts

Floats = NDArray[np.float64]

CODE = -1.0
"""What a class is coded as in rows that are not of it."""


class Moments:
    """Weight, means, scatter of the rows and their scatter with the targets: all that RLS needs of its rows.

    If `centred`, scatters are about the means and merged by Chan's rule, S = S1 + S2 + (w1 w2 / w) d d' with d the
    difference of the means, so that features far from zero lose nothing. Memory: 8 (D^2 + D C) bytes, whatever n.

    Attributes
    ----------
    n : int
        Rows.
    weight : float
        Of all of them.
    mean (D,), target_mean (C,) : ndarray of float64
    scatter (D, D), cross (D, C) : ndarray of float64
        sum_i w_i x_i x_i' and sum_i w_i x_i y_i'; of the differences from the means if `centred`.
    """

    def __init__(self, centred: bool) -> None:
        self.centred = centred
        self.n = 0
        self.weight = 0.0
        self.mean: Floats = np.zeros(0)
        self.target_mean: Floats = np.zeros(0)
        self.scatter: Floats = np.zeros((0, 0))
        self.cross: Floats = np.zeros((0, 0))

    @property
    def width(self) -> int | None:
        """D, or None before the first row."""
        return len(self.mean) if self.n else None

    def start(self, width: int, n_columns: int) -> None:
        """Know the widths, if nothing came so far."""
        if not self.n:
            self.mean, self.scatter = np.zeros(width), np.zeros((width, width))
            self.target_mean, self.cross = np.zeros(n_columns), np.zeros((width, n_columns))

    def take(self, rows: NDArray[Any], Y: Floats, w: Floats) -> None:
        """`add` rows (k, D) of any number type, in blocks of float64."""
        for part in parts(*rows.shape):
            self.add(rows[part].astype(np.float64), Y[part], w[part])

    def add(self, X: Floats, Y: Floats, w: Floats) -> tuple[Floats, Floats]:
        """Take rows X (k, D) with targets Y (k, C) and weights w (k,); checked by the caller.

        Returns
        -------
        U (k', D), V (k', C) : ndarray of float64
            What came: scatter grew by U'U and cross by U'V.
        """
        self.start(X.shape[1], Y.shape[1])
        total = self.weight + float(w.sum())
        mean, target_mean = _means(X, Y, w)
        share = float(w.sum()) / total
        away, target_away = mean - self.mean, target_mean - self.target_mean
        U, V = self._difference(X, Y, w, away=away, target_away=target_away, pull=self.weight * share)
        add_scatter(self.scatter, U)
        self.cross += U.T @ V
        self.mean, self.target_mean = self.mean + away * share, self.target_mean + target_away * share
        self.n, self.weight = self.n + len(X), total
        return U, V

    def leaving(self, X: Floats, Y: Floats, w: Floats) -> tuple[Floats, Floats]:
        """U, V of rows that were added before: scatter is U'U less without them, cross U'V less."""
        out = float(w.sum())
        left = self.weight - out
        mean, target_mean = _means(X, Y, w)
        # the mean of the others stands on the far side: mean - others = (mean - all) weight / left
        stretch = self.weight / left
        away, target_away = (mean - self.mean) * stretch, (target_mean - self.target_mean) * stretch
        pull = left * out / self.weight
        return self._difference(X, Y, w, away=away, target_away=target_away, pull=pull)

    def remove(self, X: Floats, Y: Floats, w: Floats, U: Floats, V: Floats) -> None:
        """Let rows go, with what `leaving` said of them."""
        out = float(w.sum())
        left = self.weight - out
        mean, target_mean = _means(X, Y, w)
        self.scatter -= U.T @ U
        self.cross -= U.T @ V
        self.mean = self.mean - (mean - self.mean) * (out / left)
        self.target_mean = self.target_mean - (target_mean - self.target_mean) * (out / left)
        self.n, self.weight = self.n - len(X), left

    def _difference(
        self, X: Floats, Y: Floats, w: Floats, *, away: Floats, target_away: Floats, pull: float
    ) -> tuple[Floats, Floats]:
        """Rows whose products are the difference: each row about their mean, and their mean about that of the others.

        The others' weight and theirs, w1 w2 / (w1 + w2), is `pull`.
        """
        root = np.sqrt(w)[:, None]
        if not self.centred:
            return root * X, root * Y
        if len(X) == 1:
            return np.sqrt(pull) * away[None, :], np.sqrt(pull) * target_away[None, :]
        mean, target_mean = _means(X, Y, w)
        U = np.vstack([root * (X - mean), np.sqrt(pull) * away])
        return U, np.vstack([root * (Y - target_mean), np.sqrt(pull) * target_away])

    def decay(self, factor: float) -> None:
        """Make everything so far weigh `factor` times as much."""
        self.weight *= factor
        self.scatter *= factor
        self.cross *= factor

    def merge(self, other: Moments) -> None:
        """Take the rows that another has seen, with the same columns of targets.

        Raises
        ------
        InvalidArgument
            Another width, or one is centred and the other is not.
        """
        if other.width is None:
            return
        self.start(other.width, len(other.target_mean))
        if other.width != len(self.mean) or other.centred != self.centred:
            raise InvalidArgument(
                f"cannot merge sums of {len(self.mean)} columns (centred: {self.centred}) "
                f"and of {other.width} (centred: {other.centred})"
            )
        total = self.weight + other.weight
        share = other.weight / total
        d, e = other.mean - self.mean, other.target_mean - self.target_mean
        self.scatter += other.scatter
        self.cross += other.cross
        if self.centred:
            self.scatter += np.outer(d * (self.weight * share), d)
            self.cross += np.outer(d * (self.weight * share), e)
        self.mean, self.target_mean = self.mean + d * share, self.target_mean + e * share
        self.n, self.weight = self.n + other.n, total

    def arranged(self, columns: Sequence[int | None]) -> Moments:
        """The same rows with these of their target columns; None: one that is `CODE` in all rows."""
        new = Moments(self.centred)
        new.n, new.weight, new.mean, new.scatter = self.n, self.weight, self.mean.copy(), self.scatter.copy()
        new.target_mean = np.full(len(columns), CODE if self.n else 0.0)
        constant = 0.0 if self.centred else CODE * self.weight
        new.cross = np.repeat(constant * self.mean[:, None], len(columns), axis=1)
        for to, column in enumerate(columns):
            if column is not None:
                new.target_mean[to], new.cross[:, to] = self.target_mean[column], self.cross[:, column]
        return new


def _means(X: Floats, Y: Floats, w: Floats) -> tuple[Floats, Floats]:
    return np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
