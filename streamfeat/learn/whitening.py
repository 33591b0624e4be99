"""Within-orbit whitening: a metric that makes little of the directions in which views of one thing differ.

Rows are views and orbits say which of them show one thing; nothing is said of what it is. With the rows about their
mean m, V (D, k) their leading principal directions and C_o the covariance of orbit o in them,

    C = mean over orbits of C_o = E diag(w) E',    z = diag(w + floor mean(w))^-1/2 E' V' (x - m),

and rows are compared by the cosine of their z. It is the within-class covariance of linear discriminant analysis, met
with orbits instead of classes, so that new things need no new fit.

Cost: n D min(n, D) for the Gram matrix and 9 min(n, D)^3 for its directions; a row of `transform` 2 D k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_count, check_features, check_over_zero, group_numbers
from streamfeat.learn.folds import members
from streamfeat.learn.solution import linear_scores
from streamfeat.learn.spectrum import RANK_FLOOR

Floats = NDArray[np.float64]


class WithinOrbitWhitening:
    """Principal directions of the rows, each scaled by how much views of one thing differ along it.

    Parameters
    ----------
    n_components : int, optional
        Leading principal directions kept, k; None, or more than the rows span: all that they span.
    floor : float
        Added to every variance inside orbits, as a part of their mean; over 0, or a direction in which no orbit
        varies would decide alone.

    Attributes
    ----------
    mean_ : ndarray of float64 (D,)
    projection_ : ndarray of float64 (D, k)
        V E diag(w + floor mean(w))^-1/2.

    Examples
    --------
    >>> views = [[0.0, 1.0], [2.0, 1.1], [0.1, 2.0], [2.1, 2.1]]
    >>> whitening = WithinOrbitWhitening().fit(views, ["ann", "ann", "bob", "bob"])
    >>> bool(whitening.transform(views)[0] @ whitening.transform(views)[1] > 0)
    True
    """

    def __init__(self, n_components: int | None = None, floor: float = 0.1) -> None:
        self.n_components = None if n_components is None else check_count(n_components, "n_components")
        self.floor = check_over_zero(floor, "floor")
        self._fitted: tuple[Floats, Floats] | None = None

    def fit(self, X: ArrayLike, orbits: Sequence[object] | NDArray[Any]) -> WithinOrbitWhitening:
        """Learn the metric.

        Parameters
        ----------
        X : array_like (n, D)
            Any number type; computed in float64.
        orbits : sequence of n names, int or str
            Which rows show one thing. A row that is alone in its orbit counts for the principal directions only.

        Raises
        ------
        InvalidArgument
            Non-finite rows, another number of orbits, no orbit of two rows, or views that do not differ.
        """
        rows = check_features(X)
        numbers, _ = group_numbers(orbits, len(rows))
        seen = [views for views in members(numbers) if len(views) > 1] if len(rows) else []
        if not seen:
            raise InvalidArgument(f"whitening needs an orbit of two rows or more, got {len(rows)} rows, each alone")
        mean = rows.mean(axis=0, dtype=np.float64)
        Z = rows.astype(np.float64) - mean
        V = principal_directions(Z, self.n_components)
        w, E = np.linalg.eigh(covariance_inside(Z @ V, seen))
        w = w.clip(min=0.0)
        if w.sum() <= RANK_FLOOR * float(np.einsum("nd,nd->", Z, Z)) / len(Z):
            raise InvalidArgument("the rows of each orbit are all alike; whitening needs views that differ")
        self._fitted = mean, V @ (E / np.sqrt(w + self.floor * w.mean()))
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Rows z (n, k), to be compared by cosine. A row's z does not depend on the rows beside it, bit for bit."""
        mean, projection = self._known()
        Z = check_features(X, len(mean)).astype(np.float64) - mean
        return linear_scores(Z, projection, np.zeros(projection.shape[1]))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Everything `transform` needs: plain fields and arrays. `from_state` is the way back, bit-equal."""
        mean, projection = self._known()
        fields = {"settings": {"n_components": self.n_components, "floor": self.floor}}
        return fields, {"mean": mean, "projection": projection}

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, Floats]) -> WithinOrbitWhitening:
        """The whitening that `state` described."""
        whitening = cls(**fields["settings"])
        whitening._fitted = arrays["mean"], arrays["projection"]
        return whitening

    @property
    def mean_(self) -> Floats:
        """Subtracted first (D,)."""
        return self._known()[0]

    @property
    def projection_(self) -> Floats:
        """What rows are multiplied by (D, k)."""
        return self._known()[1]

    def _known(self) -> tuple[Floats, Floats]:
        if self._fitted is None:
            raise InvalidArgument("this whitening has seen no rows; call fit first")
        return self._fitted


def principal_directions(Z: Floats, k: int | None) -> Floats:
    """An orthonormal basis (D, at most k) of the leading (or all) principal directions of centred rows Z (n, D).

    Directions with less than `RANK_FLOOR` of the largest variance are rounding, and left out.
    """
    dual = Z.shape[0] <= Z.shape[1]
    eigenvalues, vectors = np.linalg.eigh(Z @ Z.T if dual else Z.T @ Z)
    eigenvalues, vectors = eigenvalues[::-1][:k], vectors[:, ::-1][:, :k]
    kept = eigenvalues > RANK_FLOOR * eigenvalues[0]
    if not dual:
        return np.asarray(vectors[:, kept])
    # again orthonormal: lengths by square roots of small eigenvalues are not exact
    return np.asarray(np.linalg.qr(Z.T @ vectors[:, kept])[0])


def covariance_inside(Z: Floats, orbits: Sequence[NDArray[np.intp]]) -> Floats:
    """The mean over orbits of the covariance (k, k) of their rows, each about its own mean, over n_o - 1."""
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for views in orbits:
        away = Z[views] - Z[views].mean(axis=0)
        total += away.T @ away / (len(views) - 1)
    return total / len(orbits)
