"""The invariant non-linear SVM (Pal, Kannan, Arakalgud, Savvides 2017, section 2, objective 1), for small data.

Psi averages over the group in the kernel's space. With Psi phi(x_i) known by the orbit {g x_i} of each training row,

    K_ij = <Psi phi(x_i), Psi phi(x_j)> = mean_g,g' k(g x_i, g' x_j)
    min_a  -sum_i a_i + 1/2 sum_ij y_i y_j a_i a_j K_ij,    sum_i a_i y_i = 0,  0 <= a_i <= C
    f(x) = sum_i a_i y_i mean_g k(x, g x_i) + b

Where k is unitary under a whole group Psi is a projection, so that f needs no orbit of x, and f(gx) = f(x).

Cost: (n G)^2 D for K, an answer n G D; libsvm (scikit-learn's SVC) solves the dual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.learn.checks import Label, check_features, check_labels, check_over_zero, group_numbers
from streamfeat.learn.classes import code, sorted_classes
from streamfeat.learn.orbitkernel import Kernel, OrbitKernel

Floats = NDArray[np.float64]

TOLERANCE = 1e-6
"""Of libsvm: violation of the optimality conditions at which it stops."""


class OrbitSVM:
    """Two classes told apart by a kernel that is averaged over each training row's orbit.

    Parameters
    ----------
    kernel, sigma
        As for `OrbitKernel`.
    C : float, optional
        Largest a_i; None: 1 / n, the paper's.

    Attributes
    ----------
    classes_ : list of two labels, sorted; the first is the negative one
    alpha_ : ndarray of float64 (n,)
        a, orbit by orbit.
    intercept_ : float
        b.
    """

    classes_: list[Label]

    def __init__(self, kernel: Kernel = "linear", sigma: float | None = None, C: float | None = None) -> None:
        OrbitKernel("mean", kernel, sigma)
        self.kernel, self.sigma = kernel, sigma
        self.C = None if C is None else check_over_zero(C, "C")
        self._fitted: tuple[OrbitKernel, Floats] | None = None

    def fit(
        self, X: ArrayLike, labels: Sequence[object] | NDArray[Any], orbits: Sequence[object] | NDArray[Any]
    ) -> OrbitSVM:
        """Solve the dual.

        Parameters
        ----------
        X : array_like (p, D)
            The training rows and what the group makes of them, g x_i.
        labels : sequence of p names, of two kinds
        orbits : sequence of p names
            Which rows are of one x_i; these have one label.

        Raises
        ------
        InvalidArgument
            Not two labels, an orbit of both, or what `OrbitKernel.fit` refuses.
        ConfigError
            scikit-learn is not installed.
        """
        try:
            from sklearn.svm import SVC
        except ImportError as error:
            raise ConfigError("SVMs need scikit-learn: pip install 'streamfeat[sklearn]'") from error
        rows = check_features(X)
        sides = check_labels(labels, len(rows))
        numbers, names = group_numbers(orbits, len(rows))
        self.classes_ = sorted_classes(sides)
        if len(self.classes_) != 2:
            raise InvalidArgument(f"this SVM tells two labels apart, got {len(self.classes_)}: {self.classes_[:5]}")
        side = code(sides, self.classes_)
        first = np.unique(numbers, return_index=True)[1]
        mixed = np.flatnonzero(side != side[first][numbers])
        if len(mixed):
            name = names[int(numbers[mixed[0]])]
            raise InvalidArgument(f"the orbit {name!r} has both labels; all that shows one thing has one")
        y = side[first] * 2.0 - 1.0
        embedded = OrbitKernel("mean", self.kernel, self.sigma).fit(rows, numbers)
        K = np.zeros((len(names), len(names)))
        np.add.at(K, numbers, embedded.transform(rows))
        K /= np.bincount(numbers)[:, None]
        svm = SVC(kernel="precomputed", C=self.C or 1.0 / len(names), tol=TOLERANCE)
        svm.fit((K + K.T) / 2.0, y)
        self.alpha_ = np.zeros(len(names))
        self.alpha_[svm.support_] = np.abs(svm.dual_coef_[0])
        self.intercept_ = float(svm.intercept_[0])
        self._fitted = embedded, self.alpha_ * y
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """f(x) (n,), over 0 for the second class."""
        if self._fitted is None:
            raise InvalidArgument("this SVM has seen no rows; call fit first")
        embedded, weights = self._fitted
        return np.asarray(embedded.transform(X) @ weights + self.intercept_)

    def predict(self, X: ArrayLike) -> list[Label]:
        """The label of each row."""
        return [self.classes_[int(score > 0)] for score in self.decision_function(X)]
