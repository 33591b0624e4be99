"""Least squares solved: from rows at once or from the sums of a stream, checked, and ready to score.

Shared by the classifier (`rls`) and the regressor (`regression`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_flag
from streamfeat.learn.equations import LARGE_SIDE, LARGE_SIZE, Equations, scored_rows
from streamfeat.learn.lambdas import HELD_OUT_NAMES, HeldOut, LambdaChoice
from streamfeat.learn.moments import Moments
from streamfeat.learn.rows import Rows, Some, Source
from streamfeat.learn.scaling import Scaling, Standardise, check_standardise, parts
from streamfeat.learn.spectrum import Spectrum
from streamfeat.learn.training import Training

Floats = NDArray[np.float64]

AddUp = Callable[[Floats, Floats], Moments]
"""From targets (n, C) and weights (n,) to the sums of all rows."""

RESIDUAL_LIMIT = 1e-6
CONDITION_LIMIT = 1e13


class IllConditioned(UserWarning):
    """The solution is determined by rounding; a larger lambda is needed."""


@dataclass(frozen=True)
class Solution:
    """What a prediction needs, and where its lambda came from.

    Attributes
    ----------
    scaling : Scaling
    W (D, C), intercept (C,), lam (C,) : ndarray of float64
    n_items : int
    held_out : HeldOut
    """

    scaling: Scaling
    W: Floats
    intercept: Floats
    lam: Floats
    n_items: int
    held_out: HeldOut

    def scores(self, rows: NDArray[Any]) -> Floats:
        """Z W + intercept (n, C) of checked rows."""
        blocks = [linear_scores(self.scaling.apply(rows[part]), self.W, self.intercept) for part in parts(*rows.shape)]
        return np.concatenate(blocks) if blocks else np.empty((0, len(self.intercept)))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Fields (JSON values) and arrays; `of_state` is the way back, bit-equal."""
        held_out = self.held_out
        fields = {
            "n_items": self.n_items,
            "held_out": {
                "criterion": held_out.criterion,
                "accuracy": None if np.isnan(held_out.accuracy) else held_out.accuracy,
                "squared_error": None if np.isnan(held_out.squared_error) else held_out.squared_error,
            },
        }
        arrays = {
            "coef": self.W,
            "intercept": self.intercept,
            "lam": self.lam,
            "mean": self.scaling.mean,
            "scale": self.scaling.scale,
            "lams": held_out.lams,
            "accuracies": held_out.accuracies,
            "mse": held_out.mse,
            "recall": held_out.recall,
        }
        return fields, arrays

    @classmethod
    def of_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats], unit_norm: bool) -> Solution:
        """The solution that `state` described; also one that an earlier version wrote, with less to tell."""
        scaling = Scaling(arrays["mean"], arrays["scale"], unit_norm)
        tried = fields["held_out"]
        accuracy, error = (np.nan if tried.get(k) is None else tried[k] for k in ("accuracy", "squared_error"))
        recall = arrays.get("recall", np.full(len(arrays["intercept"]), np.nan))
        table = (arrays["lams"], arrays["accuracies"], arrays["mse"])
        held_out = HeldOut(tried["criterion"], accuracy, error, *table, recall)
        lam = np.broadcast_to(arrays["lam"], arrays["intercept"].shape)
        return cls(scaling, arrays["coef"], arrays["intercept"], lam, fields["n_items"], held_out)


@dataclass(frozen=True)
class Recipe:
    """How rows become weights: checked options of the classifier and the regressor."""

    choice: LambdaChoice
    standardise: Standardise
    unit_norm: bool
    rank: int | None
    seed: int

    @classmethod
    def of(cls, choice: LambdaChoice, standardise: Any, unit_norm: Any, rank: Any, seed: Any) -> Recipe:
        """The same, checked.

        Raises
        ------
        InvalidArgument
            Naming the option.
        """
        flag = check_flag(unit_norm, "unit_norm")
        return cls(choice, check_standardise(standardise), flag, check_rank(rank), check_seed(seed))

    def fields(self) -> dict[str, Any]:
        """The options as JSON values."""
        grid = self.choice.grid
        return {
            "lam": self.choice.lam,
            "grid": grid if isinstance(grid, str) else grid.tolist(),
            "standardise": self.standardise,
            "unit_norm": self.unit_norm,
            "rank": self.rank,
            "seed": self.seed,
        }

    @property
    def centred(self) -> bool:
        """Whether there is an intercept."""
        return self.standardise != "none"

    def fit(self, rows: NDArray[Any], training: Training) -> Solution:
        """Choose lambda and solve for all rows (n, D) at once."""
        n, Y, weight = len(rows), training.Y, training.weight
        if weight is not None:
            weight = weight * (n / weight.sum())
        Z = Rows.of(rows, self.standardise, self.unit_norm, weight)
        target_mean = np.average(Y, axis=0, weights=weight) if self.centred else np.zeros(Y.shape[1])
        T = Y - target_mean
        if Z.root is not None:
            T *= Z.root[:, None]
        system = self._decomposed(Z, T, training)
        lam, held_out = self.choice.choose(system, training)
        W = system.weights(n * lam)
        warn_if_unsolved(*system.gradient(W, n * lam), system.condition(n * lam))
        return Solution(Z.scaling, W, target_mean - Z.mean @ W, lam, n, held_out)

    def fit_sums(self, features: Source, training: Training, add_up: AddUp) -> Solution:
        """The same from sums of the rows that are made elsewhere; `features` is asked for those that are held out.

        Raises
        ------
        InvalidArgument
            Options that need all rows at once.
        """
        if self.unit_norm or self.rank is not None:
            asked = "unit_norm" if self.unit_norm else f"rank={self.rank}"
            raise InvalidArgument(f"sums of rows know no {asked}; leave it out, or fit rows that fit in memory")
        n, Y = features.shape[0], training.Y
        weight = np.ones(n) if training.weight is None else training.weight * (n / training.weight.sum())
        moments = add_up(Y, weight)
        scaling, gram, cross = self._scaled(moments)
        root = np.sqrt(weight)
        target_mean = moments.target_mean if self.centred else np.zeros(Y.shape[1])
        fold = training.folds.of_row
        scored = scored_rows(n, fold is None, np.random.default_rng(self.seed))
        # one row left out needs that row alone; folds need every row, once for each penalty
        held = Some.of(features, np.flatnonzero(scored)) if fold is None else features[:]
        rows = Rows(held, scaling, np.zeros_like(scaling.mean), root)
        T = (Y - target_mean) * root[:, None]
        system = Equations.of_sums(rows, T, self.centred, scored=scored, matrix=gram, right=cross)
        lam, held_out = self.choice.choose(system, training)
        W = system.weights(n * lam)
        warn_if_unsolved(*system.gradient(W, n * lam), system.condition(n * lam))
        return Solution(scaling, W, target_mean, lam, n, held_out)

    def _scaled(self, moments: Moments) -> tuple[Scaling, Floats, Floats]:
        """How rows are scaled, and the sums (D, D), (D, C) of the scaled ones."""
        variance = np.diag(moments.scatter) / moments.weight
        mean = moments.mean if self.centred else np.zeros_like(moments.mean)
        scaling = Scaling.of_moments(mean, variance, self.standardise)
        return scaling, moments.scatter * scaling.scale * scaling.scale[:, None], moments.cross * scaling.scale[:, None]

    def _decomposed(self, rows: Rows, T: Floats, training: Training) -> Spectrum | Equations:
        """What solves for any penalty: a spectrum, or for many rows the equations themselves."""
        rng = np.random.default_rng(self.seed)
        n, d = rows.shape
        if self.rank is not None and self.rank < min(n, d):
            return Spectrum.of_rank(rows.all(), T, self.centred, root=rows.root, rank=self.rank, rng=rng)
        if n * d <= LARGE_SIZE and min(n, d) <= LARGE_SIDE:
            return Spectrum.of(rows.all(), T, self.centred, rows.root)
        return Equations.of(rows, T, self.centred, sample=training.folds.of_row is None, rng=rng)

    def stream(self) -> Moments:
        """Empty sums for rows to come.

        Raises
        ------
        InvalidArgument
            Options that need all rows at once.
        """
        if self.choice.lam in HELD_OUT_NAMES:
            raise InvalidArgument(
                f'partial_fit keeps no rows to hold out, so lam must be a number or "default", got {self.choice.lam!r}'
            )
        if self.unit_norm:
            raise InvalidArgument("partial_fit takes no unit_norm: the means that come before it are not known yet")
        return Moments(self.centred)

    def solve(self, moments: Moments, order: list[int]) -> Solution:
        """The solution for the rows of a stream, targets in this order of their columns."""
        scaling, gram, cross = self._scaled(moments)
        cross = cross[:, order]
        trace = float(np.trace(gram))
        lam = self.choice.fixed(trace / moments.weight or 1.0)
        penalty = moments.weight * lam
        gram[np.diag_indices_from(gram)] += penalty
        W = np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)
        # a bound: the trace is never less than the largest eigenvalue
        warn_if_unsolved(gram @ W - cross, cross, trace / penalty + 1.0)
        intercept = moments.target_mean[order] if self.centred else np.zeros(len(order))
        held_out = HeldOut.nothing("none", len(order))
        return Solution(scaling, W, intercept, np.full(len(order), lam), moments.n, held_out)


def linear_scores(Z: Floats, W: Floats, intercept: Floats) -> Floats:
    """Z W + intercept (n, C); a row's scores do not depend on the rows beside it, bit for bit."""
    across = np.ascontiguousarray(W.T)
    scores = np.empty((len(Z), len(across)))
    # one product of fixed shape a row: BLAS sums in another order for another number of rows
    for z, score in zip(Z, scores, strict=True):
        np.add(across @ z, intercept, out=score)
    return scores


def warn_if_unsolved(gradient: Floats, right_hand_side: Floats, condition: float) -> None:
    """Warn where the normal equations do not hold, or hold for many other weights as well."""
    size = float(np.linalg.norm(right_hand_side))
    residual = float(np.linalg.norm(gradient)) / size if size else 0.0
    if residual > RESIDUAL_LIMIT or condition > CONDITION_LIMIT or not np.isfinite(residual):
        found = f"condition number {condition:.1e}, relative residual {residual:.1e}"
        message = f"RLS is ill-conditioned: {found}; raise lam or the penalty"
        warnings.warn(message, IllConditioned, stacklevel=4)


def check_rank(rank: Any) -> int | None:
    """None (all directions) or an int over 0."""
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 1):
        raise InvalidArgument(f"rank must be None or an int over 0, got {rank!r}")
    return None if rank is None else int(rank)


def check_seed(seed: Any) -> int:
    """An int, 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidArgument(f"seed must be an int, 0 or more, got {seed!r}")
    return int(seed)
