"""Within-orbit whitening as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike, NDArray

from streamfeat.learn import whitening
from streamfeat.sklearn.orbits import OfOrbits


class WithinOrbitWhitening(OfOrbits):
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
        rows, orbits = self._orbits(X, y, least=2)
        self.whitening_ = whitening.WithinOrbitWhitening(**self.get_params()).fit(rows, orbits)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """z (n, k), float32 of float32 rows, else float64."""
        return self._transformed("whitening_", X)

    @property
    def _n_features_out(self) -> int:
        return int(self.whitening_.projection_.shape[1])
