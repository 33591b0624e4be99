"""k nearest neighbours as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from streamfeat.learn.knn import KNN
from streamfeat.sklearn.labels import checked, checked_rows, coded

Array = NDArray[Any]


class KNNClassifier(ClassifierMixin, BaseEstimator):
    """`streamfeat.KNN` for scikit-learn: labels of any kind. Among classes of equal votes the nearer wins.

    Parameters
    ----------
    k, votes, metric, backend
        As for `streamfeat.KNN`.

    Attributes
    ----------
    classes_ : ndarray (C,), sorted
    knn_ : streamfeat.KNN
        Holds the rows, under the numbers of their labels.
    n_features_in_ : int
    """

    knn_: KNN
    classes_: Array
    _columns: Array

    def __init__(self, k: int = 1, *, votes: str = "uniform", metric: str = "l2", backend: str = "exact") -> None:
        self.k, self.votes, self.metric, self.backend = k, votes, metric, backend

    def fit(self, X: ArrayLike, y: ArrayLike) -> KNNClassifier:
        """Forget all rows and take these."""
        return self._take(X, y, None, first=True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> KNNClassifier:
        """Take more rows. `classes` may be left out, for new ones may come late; those with rows are `classes_`."""
        return self._take(X, y, classes, first=not hasattr(self, "knn_"))

    def predict(self, X: ArrayLike) -> Array:
        """The class with the most votes for each row."""
        check_is_fitted(self, "knn_")
        return np.asarray(self._columns[np.array(self.knn_.predict(checked_rows(self, X)), dtype=np.intp)])

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Each class's part of the votes (n, C), columns as in `classes_`."""
        check_is_fitted(self, "knn_")
        return self.knn_.scores(checked_rows(self, X))[:, np.argsort(self._columns)]

    def _take(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, *, first: bool) -> KNNClassifier:
        X, y = checked(self, X, y, reset=first)
        codes, columns = coded(y, y[:0] if first else self._columns, classes)
        knn = KNN(**self.get_params()) if first else self.knn_
        knn.add(X, codes)
        self.knn_, self._columns, self.classes_ = knn, columns, np.sort(columns)
        return self
