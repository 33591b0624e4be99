"""Within-orbit whitening as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamfeat.learn import whitening
from streamfeat.sklearn.labels import checked_rows, numbers


class WithinOrbitWhitening(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """`streamfeat.learn.whitening.WithinOrbitWhitening` for scikit-learn: rows to be compared by cosine.

    Parameters
    ----------
    n_components, floor
        As there.

    Attributes
    ----------
    whitening_ : streamfeat.learn.whitening.WithinOrbitWhitening
    n_features_in_ : int
    """

    def __init__(self, n_components: int | None = None, *, floor: float = 0.1) -> None:
        self.n_components, self.floor = n_components, floor

    def fit(self, X: ArrayLike, y: ArrayLike) -> WithinOrbitWhitening:
        """Learn what differs between rows of one y: groups, in scikit-learn's second place. Of any kind that sorts."""
        checked: tuple[NDArray[Any], NDArray[Any]] = validate_data(self, X, y, ensure_min_samples=2)
        orbits = np.unique(checked[1], return_inverse=True)[1]
        self.whitening_ = whitening.WithinOrbitWhitening(**self.get_params()).fit(numbers(checked[0]), orbits)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """z (n, k), float32 of float32 rows, else float64."""
        check_is_fitted(self, "whitening_")
        rows = checked_rows(self, X)
        Z = self.whitening_.transform(rows)
        return Z.astype(np.float32) if rows.dtype == np.float32 else Z

    @property
    def _n_features_out(self) -> int:
        return int(self.whitening_.projection_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
