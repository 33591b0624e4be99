"""The recursive least squares solution: rows come and go, and weights are up to date after each.

    W = P sum_i w_i x_i y_i',    P = (sum_i w_i x_i x_i' + penalty I)^-1

k rows U with targets V change both by Woodbury's identity (GURLS: rls_primalrecupdate, k = 1):

    come:  G = P U' (I + U P U')^-1,   W += G (V - U W),   P -= G U P
    leave: G = P U' (I - U P U')^-1,   W -= G (V - U W),   P += G U P

With an intercept the sums are about the means, and a block of rows is those rows about their own mean and one more for
the difference of the means (`moments`); so the intercept is not penalised and the answer is exactly that of a batch.

The sums are kept beside P, and P answers to them: after every update (sum + penalty I) P v = v is tried for the last
row v, and the normal equations for one target in turn; where either is off by more than `DRIFT`, P is computed afresh.
With (I +- U P U') = L L', G U P is a matrix times its own transpose, so P stays symmetric to the bit.

Forgetting multiplies all that is known by `forgetting` a row, the penalty included, or P would not stay an inverse of
anything; where rows of zeros come, nothing fills it up again and P grows without bound. So the penalty is filled up
when half of it is gone, every ln 2 / (1 - forgetting) rows: it lies between half of what was asked for and all of it,
`penalty_now` tells, and no eigenvalue of P is ever over 2 / penalty.

Cost a row: 4 D^2 + 2 D C; afresh: 9 D^3. Memory: 16 D^2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_flag, check_over_zero
from streamfeat.learn.moments import Moments
from streamfeat.learn.solution import linear_scores, warn_if_unsolved

Floats = NDArray[np.float64]

SUMS = ("mean", "target_mean", "scatter", "cross")
DRIFT = 1e-8
NEARLY_SINGULAR = 1e-8
"""I - U P U' with a smaller eigenvalue: P would gain more rounding than digits, so it is computed afresh."""

IMPOSSIBLE = 1e-6
"""What may be missing, relatively, from sums when rows leave them; more, and they were never there."""


class Recursion:
    """Sums, P and W.

    Parameters
    ----------
    penalty : float
        Of all rows together: not per row, it does not grow with their number.
    forgetting : float
        1 remembers everything.
    intercept : bool

    Attributes
    ----------
    moments : Moments
    penalty_now : float
    """

    def __init__(self, penalty: float, forgetting: float, intercept: bool) -> None:
        self.penalty = check_over_zero(penalty, "penalty")
        self.forgetting = check_over_zero(forgetting, "forgetting")
        if self.forgetting > 1:
            raise InvalidArgument(f"forgetting must be over 0 and at most 1, got {forgetting!r}")
        self.moments = Moments(check_flag(intercept, "intercept"))
        self.penalty_now = self.penalty
        self._P: Floats = np.zeros((0, 0))
        self._W: Floats = np.zeros((0, 0))
        self._stale = True
        self._turn = 0

    @property
    def inverse(self) -> Floats:
        """P (D, D), symmetric."""
        self._refresh()
        return self._P

    @property
    def weights(self) -> Floats:
        """W (D, C)."""
        self._refresh()
        return self._W

    def scores(self, X: Floats) -> Floats:
        """Answers (n, C) for checked rows; a row's do not depend on the rows beside it."""
        if not self.moments.centred:
            return linear_scores(X, self.weights, np.zeros(self.weights.shape[1]))
        return linear_scores(X - self.moments.mean, self.weights, self.moments.target_mean)

    def widen(self, n_columns: int) -> None:
        """More columns of targets, which were -1 in all rows so far."""
        known = len(self.moments.target_mean)
        self.moments = self.moments.arranged([*range(known), *[None] * (n_columns - known)])
        if not self._stale:
            self._W = np.hstack([self._W, self._P @ self.moments.cross[:, known:]])

    def add(self, X: Floats, Y: Floats, w: Floats) -> None:
        """Take rows (k, D), targets (k, C) and weights (k,), oldest first; checked by the caller."""
        k = len(X)
        if self.forgetting < 1:
            w = w * self.forgetting ** np.arange(k - 1, -1, -1)
            self._forget(self.forgetting**k)
        U, V = self.moments.add(X, Y, w)
        if self._stale or 2 * len(U) > X.shape[1]:
            self._stale = True  # one decomposition costs less than so many updates
            return
        self._update(U, V, 1.0)

    def remove(self, X: Floats, Y: Floats, w: Floats) -> None:
        """Let go of rows that were added, with the same targets and weights.

        Raises
        ------
        InvalidArgument
            More rows than there are, or rows that cannot have been among them; nothing is removed then.
        """
        moments = self.moments
        if self.forgetting < 1:
            raise InvalidArgument("what a row still weighs is forgotten with it; remove needs forgetting=1")
        if len(X) > moments.n:
            raise InvalidArgument(f"cannot remove {len(X)} rows of {moments.n}")
        left = moments.weight - float(w.sum())
        if len(X) == moments.n or left <= 0:
            if abs(left) > IMPOSSIBLE * moments.weight or len(X) != moments.n:
                raise InvalidArgument(
                    "these rows weigh other than those that were learned; pass the same sample_weight"
                )
            self.moments = Moments(moments.centred)
            self.moments.start(*moments.cross.shape)
            self._stale = True
            return
        U, V = moments.leaving(X, Y, w)
        variances = np.diag(moments.scatter)
        if (variances - np.square(U).sum(axis=0) < -IMPOSSIBLE * variances.max()).any():
            raise InvalidArgument("these rows were not learned: their squares are more than all rows have together")
        lowest = float(np.linalg.eigvalsh(np.eye(len(U)) - U @ self.inverse @ U.T)[0])
        if lowest < -IMPOSSIBLE:
            raise InvalidArgument("these rows were not learned: without them the sums are those of no rows")
        moments.remove(X, Y, w, U, V)
        if lowest < NEARLY_SINGULAR:
            self._stale = True
        else:
            self._update(U, V, -1.0)

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Fields (JSON values) and arrays to go on from; `from_state` is the way back, bit-equal."""
        moments = self.moments
        options = {"penalty": self.penalty, "forgetting": self.forgetting, "intercept": moments.centred}
        fields = {"settings": options, "n": moments.n, "weight": moments.weight, "penalty_now": self.penalty_now}
        arrays = {"inverse": self.inverse, "weights": self.weights}
        arrays |= {name: getattr(moments, name) for name in SUMS}
        return fields, {name: array.copy() for name, array in arrays.items()}  # the next row changes them in place

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> Recursion:
        """The recursion that `state` described; it has arrays of its own."""
        recursion = cls(**fields["settings"])
        moments = recursion.moments
        moments.n, moments.weight, recursion.penalty_now = fields["n"], fields["weight"], fields["penalty_now"]
        for name in SUMS:
            setattr(moments, name, arrays[name].copy())
        recursion._P, recursion._W = arrays["inverse"].copy(), arrays["weights"].copy()
        recursion._stale = False
        return recursion

    def _forget(self, factor: float) -> None:
        self.moments.decay(factor)
        self.penalty_now *= factor
        if 2 * self.penalty_now < self.penalty:
            self.penalty_now, self._stale = self.penalty, True
        elif not self._stale:
            self._P /= factor

    def _update(self, U: Floats, V: Floats, sign: float) -> None:
        """Woodbury: rows come (sign 1) or leave (-1)."""
        PU = self._P @ U.T
        triangle = np.linalg.cholesky(np.eye(len(U)) + sign * (U @ PU))
        half = np.linalg.solve(triangle, PU.T).T  # G U P = half half', symmetric to the bit
        innovation = np.linalg.solve(triangle, V - U @ self._W)
        self._W += sign * (half @ innovation)
        self._P -= sign * (half @ half.T)
        self._stale = self._drifted(U[-1])

    def _drifted(self, v: Floats) -> bool:
        """Whether P is no inverse for v any more, or W does not solve the next target's equations."""
        self._turn = (self._turn + 1) % self._W.shape[1]
        w, right = self._W[:, self._turn], self.moments.cross[:, self._turn]
        off = np.linalg.norm(self._known(self._P @ v) - v) > DRIFT * np.linalg.norm(v)
        return bool(off or np.linalg.norm(self._known(w) - right) > DRIFT * np.linalg.norm(right))

    def _known(self, v: Floats) -> Floats:
        return self.moments.scatter @ v + self.penalty_now * v

    def _refresh(self) -> None:
        """P and W from the sums."""
        if not self._stale:
            return
        cross = self.moments.cross
        eigenvalues, vectors = np.linalg.eigh(self.moments.scatter)
        penalised = eigenvalues.clip(min=0.0) + self.penalty_now
        half = vectors / np.sqrt(penalised)
        self._P = half @ half.T
        self._W = vectors @ ((vectors.T @ cross) / penalised[:, None])
        gradient = self.moments.scatter @ self._W + self.penalty_now * self._W - cross
        warn_if_unsolved(gradient, cross, float(penalised.max() / penalised.min()))
        self._stale = False
