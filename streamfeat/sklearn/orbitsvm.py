"""The invariant SVM as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from streamfeat.errors import InvalidArgument
from streamfeat.learn import orbitsvm
from streamfeat.learn.orbitkernel import Kernel
from streamfeat.sklearn.labels import checked, checked_rows, coded


class OrbitSVM(ClassifierMixin, BaseEstimator):
    """`streamfeat.learn.orbitsvm.OrbitSVM` for scikit-learn: two labels of any kind.

    Parameters
    ----------
    kernel, sigma, C
        As there.

    Attributes
    ----------
    classes_ : ndarray (2,), sorted
    svm_ : streamfeat.learn.orbitsvm.OrbitSVM
        Fitted on 0 and 1.
    n_features_in_ : int
    """

    def __init__(self, kernel: Kernel = "linear", sigma: float | None = None, C: float | None = None) -> None:
        self.kernel, self.sigma, self.C = kernel, sigma, C

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> OrbitSVM:
        """Solve the dual.

        Parameters
        ----------
        X : array_like (n, D)
            Rows and what the group makes of them.
        y : array_like (n,)
        groups : array_like (n,), optional
            Which rows are of one orbit, routed as metadata: `OrbitSVM().set_fit_request(groups=True)`. Without them
            each row is an orbit of its own.
        """
        X, y = checked(self, X, y, reset=True)
        codes, classes = coded(y, y[:0])
        if len(classes) > 2:
            raise InvalidArgument(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"got {len(classes)} classes; use OneVsRestClassifier or RLSClassifier"
            )
        if len(classes) < 2:
            raise InvalidArgument(f"an SVM needs rows of two classes, got one class: {classes.tolist()}")
        orbits = np.arange(len(X)) if groups is None else np.asarray(groups)
        self.svm_ = orbitsvm.OrbitSVM(**self.get_params()).fit(X, codes, orbits)
        self.classes_ = classes
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """f(x) (n,), over 0 for the second class."""
        check_is_fitted(self, "svm_")
        return self.svm_.decision_function(checked_rows(self, X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        second = (self.decision_function(X) > 0).astype(np.intp)
        return np.asarray(self.classes_[second])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
