"""Many linear SVMs, each on some classes against some others: a projection that keeps what tells things apart.

Pal, Kannan, Arakalgud and Savvides (2017, section 4) draw K subsets of classes, some of which count as positive. An SVM
each gives a direction omega_k, and rows are compared by the cosine of (<x, omega_1>, ..., <x, omega_K>). Labels of the
classes are used, but never those of the things that are compared later. Their two rules:

    n_positive = 3, n_classes = 10      ten classes at random, three of them positive
    n_positive = 5, n_classes = None    five at random positive, all the rest negative

With few classes subsets come again: ten classes have 120 choices of three. The intercept of an SVM tells which side is
which, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.learn.checks import check_count, check_features, check_over_zero, group_numbers
from streamfeat.learn.solution import check_seed, linear_scores

Floats = NDArray[np.float64]

TOLERANCE = 1e-3
"""Of liblinear: violation of the optimality conditions at which it stops."""

MAX_PASSES = 20_000


class SubsetSVMs:
    """K directions of linear SVMs on random subsets of classes; scikit-learn's liblinear solves them.

    Parameters
    ----------
    n_svms : int
        K.
    n_positive : int
        Classes of a subset that count as positive; all but one at the most.
    n_classes : int, optional
        Classes of a subset; None, or more than there are: all.
    C : float
        Cost of a row on the wrong side of its margin, rows being scaled to a mean square length of one.
    seed : int
        Draws the subsets. Of one seed the first K of more SVMs are the K of fewer.

    Attributes
    ----------
    projection_ : ndarray of float64 (D, K)
    """

    def __init__(
        self, n_svms: int = 100, n_positive: int = 3, n_classes: int | None = 10, C: float = 1.0, seed: int = 0
    ) -> None:
        self.n_svms, self.n_positive = check_count(n_svms, "n_svms"), check_count(n_positive, "n_positive")
        self.n_classes = None if n_classes is None else check_count(n_classes, "n_classes")
        if n_classes is not None and n_positive >= n_classes:
            raise InvalidArgument(
                f"n_positive must be less than n_classes, the rest are negative; got {n_positive} of {n_classes}"
            )
        self.C, self.seed = check_over_zero(C, "C"), check_seed(seed)
        self._projection: Floats | None = None

    def fit(self, X: ArrayLike, classes: Sequence[object] | NDArray[Any]) -> SubsetSVMs:
        """Solve every SVM.

        Parameters
        ----------
        X : array_like (n, D)
            Any number type; computed in float64.
        classes : sequence of n names, int or str

        Raises
        ------
        InvalidArgument
            Non-finite rows, another number of names, one class alone, or rows of zeros only.
        ConfigError
            scikit-learn is not installed.
        """
        try:
            from sklearn.svm import LinearSVC
        except ImportError as error:
            raise ConfigError("SVMs need scikit-learn: pip install 'streamfeat[sklearn]'") from error
        rows = check_features(X)
        numbers, names = group_numbers(classes, len(rows))
        if len(names) < 2:
            raise InvalidArgument(
                f"SVMs tell classes apart and need two of them or more, got {len(names)} class"
                + "es" * (len(names) != 1)
            )
        Z, basis = coordinates(rows.astype(np.float64))
        length = float(np.sqrt(np.einsum("nd,nd->", Z, Z) / len(Z)))
        if length == 0:
            raise InvalidArgument(f"all {len(Z)} rows are zero; SVMs need rows that differ")
        Z /= length
        directions = np.empty((self.n_svms, Z.shape[1]))
        for direction, sides in zip(directions, self.subsets(len(names)), strict=True):
            side = sides[numbers]
            svm = LinearSVC(C=self.C, loss="hinge", dual=True, tol=TOLERANCE, max_iter=MAX_PASSES, random_state=0)
            direction[:] = svm.fit(Z[side != 0], side[side != 0]).coef_[0]
        # <x, omega> = <x / length, omega length>
        self._projection = basis @ directions.T / length
        return self

    def subsets(self, n_classes: int) -> NDArray[np.int8]:
        """Which classes are positive (1), negative (-1) or left out (0), an SVM a row (K, n_classes)."""
        rng = np.random.default_rng(self.seed)
        n_chosen = n_classes if self.n_classes is None else min(self.n_classes, n_classes)
        sides = np.zeros((self.n_svms, n_classes), np.int8)
        for side in sides:
            chosen = rng.permutation(n_classes)[:n_chosen]
            side[chosen] = -1
            side[chosen[: min(self.n_positive, n_chosen - 1)]] = 1
        return sides

    def transform(self, X: ArrayLike) -> Floats:
        """Rows (n, K), to be compared by cosine. A row's do not depend on the rows beside it, bit for bit."""
        projection = self.projection_
        rows = check_features(X, len(projection)).astype(np.float64)
        return linear_scores(rows, projection, np.zeros(projection.shape[1]))

    @property
    def projection_(self) -> Floats:
        """omega_1 .. omega_K, the columns."""
        if self._projection is None:
            raise InvalidArgument("these SVMs have seen no rows; call fit first")
        return self._projection

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything `transform` needs: plain fields and arrays. `from_state` is the way back, bit-equal."""
        names = ("n_svms", "n_positive", "n_classes", "C", "seed")
        return {"settings": {name: getattr(self, name) for name in names}}, {"projection": self.projection_}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> SubsetSVMs:
        """The SVMs that `state` described."""
        svms = cls(**fields["settings"])
        svms._projection = arrays["projection"]
        return svms


def coordinates(X: Floats) -> tuple[Floats, Floats]:
    """Rows (n, min(n, D)) in an orthonormal basis (D, min(n, D)) of what they span.

    A direction that is a sum of rows lies in it, so an SVM on the coordinates is the SVM on the rows.
    """
    if len(X) >= X.shape[1]:
        return X.copy(), np.eye(X.shape[1])
    basis, triangle = np.linalg.qr(X.T)
    return np.ascontiguousarray(triangle.T), basis
