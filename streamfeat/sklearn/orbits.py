"""What transformers have in common that learn from rows with the names of their orbits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamfeat.sklearn.labels import checked_rows, numbers

Array = NDArray[Any]


class OfOrbits(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """fit(X, y): y says which rows show one thing, in scikit-learn's second place. float32 rows give float32."""

    def _orbits(self, X: ArrayLike, y: ArrayLike, least: int = 1) -> tuple[Array, NDArray[np.intp]]:
        """At least so many rows, and the numbers of their orbits, whose names may be of any kind that sorts."""
        checked: tuple[Array, Array] = validate_data(self, X, y, ensure_min_samples=least)
        return numbers(checked[0]), np.unique(checked[1], return_inverse=True)[1]

    def _transformed(self, fitted: str, X: ArrayLike) -> Array:
        """What the attribute of that name makes of X."""
        check_is_fitted(self, fitted)
        rows = checked_rows(self, X)
        Z: Array = getattr(self, fitted).transform(rows)
        return Z.astype(np.float32) if rows.dtype == np.float32 else Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
