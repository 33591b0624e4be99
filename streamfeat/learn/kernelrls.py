"""Kernel RLS: a Gram matrix in place of rows, for labels and for numbers; sigma and lambda searched together.

    f(x) = sum_i alpha_i k(x, x_i) + b,    alpha = (K + n lam I)^-1 Y    (GURLS: rls_dual, paramsel_siglam)

With an intercept the kernel's own feature space is centred: K becomes (I - 1 m') K (I - m 1') with m the rows' shares
of the weight, Y loses its mean, and b is not penalised. Weights, held-out choices and lambda's meaning are those of
`RLS`, and with kernel="linear" so is the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_flag, check_labels
from streamfeat.learn.classes import decode
from streamfeat.learn.gram import Kernel, check_sigma, gaussian, gram, sigma_grid, squared_distances, values
from streamfeat.learn.lambdas import HeldOut, Lambda, LambdaChoice
from streamfeat.learn.solution import check_rank, check_seed, linear_scores, warn_if_unsolved
from streamfeat.learn.spectrum import Spectrum
from streamfeat.learn.training import Training

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KernelSolution:
    """What a prediction needs, and where its sigma and lambda came from.

    Attributes
    ----------
    kernel : str or callable; sigma : float
    rows : ndarray of float64 (n, D) or None
        None where Gram matrices are given.
    alpha (n, C), intercept (C,), lam (C,) : ndarray of float64
    held_out : HeldOut
        Of the chosen sigma.
    tried : mapping of float to HeldOut
        Of each sigma.
    """

    kernel: Kernel
    sigma: float
    rows: Floats | None
    alpha: Floats
    intercept: Floats
    lam: Floats
    held_out: HeldOut
    tried: Mapping[float, HeldOut]

    def scores(self, X: ArrayLike) -> Floats:
        """k(x, x_i) alpha + b (q, C)."""
        width = len(self.alpha) if self.rows is None else self.rows.shape[1]
        K = check_features(X, width).astype(np.float64)
        if self.rows is not None:
            K = values(self.kernel, K, self.rows, self.sigma)
        return linear_scores(K, self.alpha, self.intercept)


@dataclass(frozen=True)
class _Recipe:
    """Checked options of both."""

    choice: LambdaChoice
    kernel: Kernel
    sigma: str | Floats
    centred: bool
    rank: int | None
    seed: int

    @classmethod
    def of(cls, choice: LambdaChoice, *, kernel: Any, sigma: Any, intercept: Any, rank: Any, seed: Any) -> _Recipe:
        if not (callable(kernel) or kernel in ("rbf", "linear", "precomputed")):
            raise InvalidArgument(f'kernel must be "rbf", "linear", "precomputed" or a function, got {kernel!r}')
        centred = check_flag(intercept, "intercept")
        return cls(choice, kernel, check_sigma(sigma), centred, check_rank(rank), check_seed(seed))

    def fit(self, X: Floats, training: Training) -> KernelSolution:
        """Every sigma with every lambda; the best of all, as `LambdaChoice.choose` compares."""
        if self.kernel != "rbf":
            return self._solve(gram(self.kernel, X), 1.0, X, training)
        squared = squared_distances(X)
        sigmas = np.sort(sigma_grid(squared) if isinstance(self.sigma, str) else self.sigma)[::-1]
        if not training.folds.judged(len(X), training.codes).any():
            sigmas = sigmas[[len(sigmas) // 2]]
        solutions = [self._solve(gaussian(squared, float(sigma)), float(sigma), X, training) for sigma in sigmas]
        best = max(solutions, key=lambda solution: self._worth(solution.held_out))  # the first of equals
        return replace(best, tried={solution.sigma: solution.held_out for solution in solutions})

    def _worth(self, held_out: HeldOut) -> tuple[float, float]:
        by_accuracy = self.choice.measure == "accuracy"
        return held_out.accuracy if by_accuracy else 0.0, -held_out.squared_error

    def _solve(self, K: Floats, sigma: float, X: Floats, training: Training) -> KernelSolution:
        n, Y, weight = len(K), training.Y, training.weight
        share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
        root = np.sqrt(n * share)
        mean, target_mean = np.zeros(n), np.zeros(Y.shape[1])
        if self.centred:
            mean, target_mean = K @ share, share @ Y
        G = (K - mean - mean[:, None] + share @ mean) * root * root[:, None]
        T = (Y - target_mean) * root[:, None]
        if self.rank is None or self.rank >= n:
            spectrum = Spectrum.of_gram(G, T, self.centred, root)
        else:
            rng = np.random.default_rng(self.seed)
            spectrum = Spectrum.of_gram_rank(G, T, self.centred, root=root, rank=self.rank, rng=rng)
        lam, held_out = self.choice.choose(spectrum, training)
        weights = spectrum.weights(n * lam)
        gradient, right = G @ weights + n * lam * weights - T, T
        if spectrum.V is not None:  # a rank solves the equations in its own directions
            gradient, right = spectrum.V.T @ (G @ gradient), spectrum.V.T @ (G @ right)
        warn_if_unsolved(gradient, right, spectrum.condition(n * lam))
        alpha = root[:, None] * weights  # sums to 0 if centred: what is left of centring k(x, .) is the intercept
        rows = None if self.kernel == "precomputed" else X
        return KernelSolution(
            self.kernel, sigma, rows, alpha, target_mean - mean @ alpha, lam, held_out, {sigma: held_out}
        )


class KernelRLS:
    """Kernel RLS on class codes.

    Parameters
    ----------
    lam, per_class, balance, grid, measure
        As for `RLS`; lambda is relative to the mean of the (centred) diagonal of K.
    kernel : "rbf", "linear", "precomputed" or callable
        "rbf" is exp(-|x - z|^2 / (2 sigma^2)). "precomputed" takes Gram matrices in place of rows: (n, n) to fit,
        (q, n) to predict. A function gets X (q, D), Z (n, D) and gives (q, n).
    sigma : "search", float or array_like (S,)
        Of "rbf". "search" tries 25 values between the first hundredth of the distances and the largest, as GURLS does,
        each with every lambda; the larger of equals. Where nothing can be held out, the middle one is taken.
    intercept : bool
        Whether there is one; it is not penalised.
    rank : int, optional
        Keep so many directions of K, found by a randomised SVD with this `seed`.

    Attributes
    ----------
    classes_ : list of str or of int, sorted, as they were given
    solution_ : KernelSolution
        alpha (n, C), intercept (C,), and the table of each sigma that was tried.
    sigma_ : float
    lam_ : float, or ndarray (C,) with `per_class`
    held_out_ : HeldOut

    Examples
    --------
    >>> rls = KernelRLS().fit([[-1.0], [-0.9], [0.0], [0.1], [1.0], [1.1]], ["out", "out", "in", "in", "out", "out"])
    >>> rls.predict([[0.05], [-1.2]])
    ['in', 'out']
    """

    classes_: list[Label]

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        kernel: Kernel = "rbf",
        sigma: str | float | ArrayLike = "search",
        intercept: bool = True,
        per_class: bool = False,
        balance: bool = False,
        grid: str | ArrayLike = "relative",
        measure: str = "accuracy",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        choice = LambdaChoice.of(lam, grid, measure, check_flag(per_class, "per_class"))
        self._recipe = _Recipe.of(choice, kernel=kernel, sigma=sigma, intercept=intercept, rank=rank, seed=seed)
        self._balance = check_flag(balance, "balance")
        self._solution: KernelSolution | None = None

    def fit(
        self,
        X: ArrayLike,
        y: Sequence[object] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        holdout: ArrayLike | None = None,
    ) -> KernelRLS:
        """Choose sigma and lambda, and solve.

        Parameters
        ----------
        X : array_like (n, D), or a Gram matrix (n, n)
        y, groups, sample_weight, holdout
            As for `RLS.fit`.

        Raises
        ------
        InvalidArgument
            As `RLS.fit`; a Gram matrix that is not square, not symmetric or has negative eigenvalues.
        """
        rows = check_features(X).astype(np.float64)
        training = Training.of_labels(
            y,
            len(rows),
            self._recipe.choice.lam,
            groups=groups,
            sample_weight=sample_weight,
            holdout=holdout,
            balance=self._balance,
        )
        self._solution, self.classes_ = self._recipe.fit(rows, training), training.classes
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores (q, C) of rows (q, D), or of their kernel values with the rows learned (q, n)."""
        return self.solution_.scores(X)

    def predict(self, X: ArrayLike) -> list[Label]:
        """The class with the highest score for each row, as the label was given."""
        scores = self.decision_function(X)
        return decode(scores, self.classes_)

    def score(self, X: ArrayLike, y: Sequence[object] | NDArray[Any]) -> float:
        """Part of the rows whose predicted label is that in y."""
        predicted = self.predict(X)
        return float(np.mean([a == b for a, b in zip(predicted, check_labels(y, len(predicted)), strict=True)]))

    @property
    def solution_(self) -> KernelSolution:
        """All that was found."""
        if self._solution is None:
            raise InvalidArgument("nothing was fitted yet; call fit first")
        return self._solution

    @property
    def sigma_(self) -> float:
        """As it was chosen."""
        return self.solution_.sigma

    @property
    def lam_(self) -> float | Floats:
        """As it was chosen."""
        lam = self.solution_.lam
        return lam if self._recipe.choice.per_column else float(lam[0])

    @property
    def held_out_(self) -> HeldOut:
        """How lambda was chosen, at this sigma."""
        return self.solution_.held_out


class KernelRegressor:
    """Kernel RLS on numbers: kernel ridge regression.

    Parameters
    ----------
    lam, kernel, sigma, intercept, grid, rank, seed
        As for `KernelRLS`; squared error chooses.
    per_target : bool
        Each target has its own chosen lambda; sigma is one for all.

    Attributes
    ----------
    solution_, sigma_, lam_, held_out_
        As for `KernelRLS`.
    """

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        kernel: Kernel = "rbf",
        sigma: str | float | ArrayLike = "search",
        intercept: bool = True,
        per_target: bool = False,
        grid: str | ArrayLike = "relative",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        choice = LambdaChoice.of(lam, grid, "squared-error", check_flag(per_target, "per_target"))
        self._recipe = _Recipe.of(choice, kernel=kernel, sigma=sigma, intercept=intercept, rank=rank, seed=seed)
        self._solution: KernelSolution | None = None
        self._flat = True

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        groups: Sequence[object] | NDArray[Any] | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        holdout: ArrayLike | None = None,
    ) -> KernelRegressor:
        """Choose sigma and lambda, and solve, for targets (n,) or (n, t); see `KernelRLS.fit`."""
        rows = check_features(X).astype(np.float64)
        training = Training.of_numbers(
            y, len(rows), self._recipe.choice.lam, groups=groups, sample_weight=sample_weight, holdout=holdout
        )
        self._solution = self._recipe.fit(rows, training)
        self._flat = np.ndim(y) == 1
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Answers (q,) or (q, t), as the targets were given."""
        answers = self.solution_.scores(X)
        return answers[:, 0] if self._flat else answers

    @property
    def solution_(self) -> KernelSolution:
        """All that was found."""
        if self._solution is None:
            raise InvalidArgument("nothing was fitted yet; call fit first")
        return self._solution

    @property
    def sigma_(self) -> float:
        """As it was chosen."""
        return self.solution_.sigma

    @property
    def lam_(self) -> float | Floats:
        """As it was chosen."""
        lam = self.solution_.lam
        return lam if self._recipe.choice.per_column else float(lam[0])

    @property
    def held_out_(self) -> HeldOut:
        """How lambda was chosen, at this sigma."""
        return self.solution_.held_out
