"""Regularised least squares as scikit-learn estimators, on rows or on kernels of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from streamfeat.errors import InvalidArgument
from streamfeat.learn.gram import Kernel
from streamfeat.learn.kernelrls import KernelRegressor, KernelRLS
from streamfeat.learn.lambdas import Lambda
from streamfeat.learn.regression import RLSRegressor as Regressor
from streamfeat.learn.rls import RLS
from streamfeat.sklearn.labels import checked, checked_rows, coded

Array = NDArray[Any]
Weights = NDArray[np.float64] | None


def _streams(estimator: Any) -> bool:
    """Whether rows may come in parts."""
    if isinstance(estimator.lam, str) and estimator.lam != "default":
        raise InvalidArgument(
            f'partial_fit needs lam as a number or "default", got {estimator.lam!r}: it holds out rows'
        )
    return True


def _kept(sample_weight: ArrayLike | None, X: Array) -> tuple[slice | NDArray[np.intp], Weights]:
    """The rows that weigh something, and their weights."""
    if sample_weight is None:
        return slice(None), None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    kept = np.flatnonzero(weight)
    return kept, weight[kept]


def _some(groups: ArrayLike | None, kept: slice | NDArray[np.intp]) -> Any:
    return None if groups is None else np.asarray(groups)[kept]


class _OfLabels(ClassifierMixin, BaseEstimator):
    """Least squares on the numbers of labels."""

    classes_: Array
    rls_: Any
    _learner: ClassVar[Callable[..., Any]]
    _columns: Array

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Choose lambda and solve; rows of weight 0 are left out."""
        X, y = checked(self, X, y, reset=True)
        kept, weight = _kept(sample_weight, X)
        codes, columns = coded(y[kept], y[:0])
        _two(columns)
        learner = self._learner(**self.get_params())
        self.rls_ = learner.fit(X[kept], codes, _some(groups, kept), sample_weight=weight)
        self._columns, self.classes_ = columns, np.sort(columns)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores (n, C), columns as in `classes_`; of two classes (n,), over 0 for the second."""
        scores = self._scores(X)
        return (scores[:, 1] - scores[:, 0]) / 2 if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> Array:
        """The class with the highest score for each row."""
        best = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self, "rls_")
        _two(self._columns)
        scores: NDArray[np.float64] = self.rls_.decision_function(checked_rows(self, X))
        return scores[:, np.argsort(self._columns)]


def _two(columns: Array) -> None:
    if len(columns) < 2:
        raise InvalidArgument(f"RLS needs rows of two classes or more, got one class: {columns.tolist()}")


class _OfNumbers(RegressorMixin, BaseEstimator):
    """Least squares on one number or several."""

    rls_: Any
    _learner: ClassVar[Callable[..., Any]]

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Choose lambda and solve; targets (n,) or (n, t), rows of weight 0 are left out."""
        X, y = checked(self, X, y, reset=True, multi_output=True)
        kept, weight = _kept(sample_weight, X)
        learner = self._learner(**self.get_params())
        self.rls_ = learner.fit(X[kept], y[kept], _some(groups, kept), sample_weight=weight)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Answers (n,) or (n, t), as the targets were given."""
        check_is_fitted(self, "rls_")
        return np.asarray(self.rls_.predict(checked_rows(self, X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class RLSClassifier(_OfLabels):
    """`streamfeat.RLS` for scikit-learn: labels of any kind, lambda chosen inside `fit` by who is held out.

    Parameters
    ----------
    lam, standardise, unit_norm, per_class, balance, grid, measure, rank, seed
        As for `streamfeat.RLS`. With lam="logo" `fit` needs `groups`, routed as metadata in a pipeline:
        `RLSClassifier("logo").set_fit_request(groups=True)`.

    Attributes
    ----------
    classes_ : ndarray (C,), sorted
    rls_ : streamfeat.RLS
        Fitted on the numbers of the labels; `rls_.lam_`, `rls_.held_out_`.
    n_features_in_ : int
    """

    rls_: RLS
    _learner = RLS

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        standardise: str = "centre",
        unit_norm: bool = False,
        per_class: bool = False,
        balance: bool = False,
        grid: str | ArrayLike = "relative",
        measure: str = "accuracy",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        self.lam, self.standardise, self.unit_norm = lam, standardise, unit_norm
        self.per_class, self.balance, self.grid = per_class, balance, grid
        self.measure, self.rank, self.seed = measure, rank, seed

    @available_if(_streams)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> RLSClassifier:
        """Take more rows. `classes` may be left out, for new ones may come late; those with rows are `classes_`."""
        first = not hasattr(self, "rls_")
        X, y = checked(self, X, y, reset=first)
        kept, weight = _kept(sample_weight, X)
        codes, columns = coded(y[kept], y[:0] if first else self._columns, classes)
        rls = RLS(**self.get_params()) if first else self.rls_
        self.rls_ = rls.partial_fit(X[kept], codes, sample_weight=weight)
        self._columns, self.classes_ = columns, np.sort(columns)
        return self


class RLSRegressor(_OfNumbers):
    """`streamfeat.RLSRegressor` for scikit-learn.

    Parameters
    ----------
    lam, standardise, unit_norm, per_target, grid, rank, seed
        As for `streamfeat.RLSRegressor`; `groups` as for `RLSClassifier`.

    Attributes
    ----------
    rls_ : streamfeat.RLSRegressor
    n_features_in_ : int
    """

    rls_: Regressor
    _learner = Regressor

    def __init__(
        self,
        lam: Lambda = "loo",
        *,
        standardise: str = "centre",
        unit_norm: bool = False,
        per_target: bool = False,
        grid: str | ArrayLike = "relative",
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        self.lam, self.standardise, self.unit_norm = lam, standardise, unit_norm
        self.per_target, self.grid, self.rank, self.seed = per_target, grid, rank, seed

    @available_if(_streams)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> RLSRegressor:
        """Take more rows."""
        first = not hasattr(self, "rls_")
        X, y = checked(self, X, y, reset=first, multi_output=True)
        kept, weight = _kept(sample_weight, X)
        rls = Regressor(**self.get_params()) if first else self.rls_
        self.rls_ = rls.partial_fit(X[kept], y[kept], sample_weight=weight)
        return self


class _OnKernels(BaseEstimator):
    """What Gram matrices in place of rows mean for a search: rows and columns are divided alike."""

    kernel: Kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class KernelRLSClassifier(_OnKernels, _OfLabels):
    """`streamfeat.KernelRLS` for scikit-learn: labels of any kind, sigma and lambda chosen together inside `fit`.

    Parameters
    ----------
    lam, kernel, sigma, intercept, per_class, balance, grid, measure, rank, seed
        As for `streamfeat.KernelRLS`; `groups` as for `RLSClassifier`. With kernel="precomputed" X is a Gram matrix,
        whose rows and columns a cross-validation divides alike.

    Attributes
    ----------
    classes_ : ndarray (C,), sorted
    rls_ : streamfeat.KernelRLS
        Fitted on the numbers of the labels; `rls_.sigma_`, `rls_.lam_`, `rls_.held_out_`.
    n_features_in_ : int
    """

    rls_: KernelRLS
    _learner = KernelRLS

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
        self.lam, self.kernel, self.sigma, self.intercept = lam, kernel, sigma, intercept
        self.per_class, self.balance, self.grid = per_class, balance, grid
        self.measure, self.rank, self.seed = measure, rank, seed


class KernelRLSRegressor(_OnKernels, _OfNumbers):
    """`streamfeat.KernelRegressor` for scikit-learn: kernel ridge regression that chooses sigma and lambda.

    Parameters
    ----------
    lam, kernel, sigma, intercept, per_target, grid, rank, seed
        As for `streamfeat.KernelRegressor`; Gram matrices and `groups` as for `KernelRLSClassifier`.

    Attributes
    ----------
    rls_ : streamfeat.KernelRegressor
    n_features_in_ : int
    """

    rls_: KernelRegressor
    _learner = KernelRegressor

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
        self.lam, self.kernel, self.sigma, self.intercept = lam, kernel, sigma, intercept
        self.per_target, self.grid, self.rank, self.seed = per_target, grid, rank, seed
