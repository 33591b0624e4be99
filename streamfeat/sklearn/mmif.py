"""Max-margin invariant features as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn import mmif
from streamfeat.sklearn.orbits import OfOrbits


class MMIF(OfOrbits):
    """`streamfeat.MMIF` for scikit-learn: features whose cosine says whether two rows show one thing.

    Parameters
    ----------
    n_svms, n_positive, n_classes, C, seed, pooling, kernel, sigma, n_thresholds
        As for `streamfeat.MMIF`.
    template_part : float, optional
        The part of the things whose rows are templates, and nothing else, drawn by `seed`; the others teach the SVMs,
        as in the paper. None: all are both.

    Attributes
    ----------
    mmif_ : streamfeat.MMIF
    n_features_in_ : int

    Examples
    --------
    >>> make_pipeline(MMIF(), KNNClassifier(metric="cosine"))       # doctest: +SKIP
    """

    def __init__(
        self,
        n_svms: int = 100,
        *,
        n_positive: int = 3,
        n_classes: int | None = 10,
        C: float = 1.0,
        seed: int = 0,
        pooling: str = "max",
        kernel: str = "linear",
        sigma: float | None = None,
        n_thresholds: int = 10,
        template_part: float | None = None,
    ) -> None:
        self.n_svms, self.n_positive, self.n_classes, self.C, self.seed = n_svms, n_positive, n_classes, C, seed
        self.pooling, self.kernel, self.sigma, self.n_thresholds = pooling, kernel, sigma, n_thresholds
        self.template_part = template_part

    def fit(self, X: ArrayLike, y: ArrayLike) -> MMIF:
        """Take the orbits and solve the SVMs.

        Parameters
        ----------
        X : array_like (n, D)
        y : array_like (n,)
            Which rows show one thing: groups, in scikit-learn's second place. Of any kind that can be sorted.
        """
        rows, things = self._orbits(X, y)
        settings = self.get_params()
        part = settings.pop("template_part")
        features = mmif.MMIF(**settings)
        if part is None:
            self.mmif_ = features.fit(rows, things)
            return self
        taken = self._templates(things, part)
        self.mmif_ = features.fit(rows[~taken], things[~taken], templates=rows[taken], orbits=things[taken])
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """MMIF(x) (n, K), float32 of float32 rows, else float64."""
        return self._transformed("mmif_", X)

    def _templates(self, things: NDArray[np.intp], part: float) -> NDArray[np.bool_]:
        """Which rows are templates."""
        n_things = int(things.max()) + 1
        n_taken = round(part * n_things)
        if not 1 <= n_taken <= n_things - 2:
            raise InvalidArgument(
                f"template_part must leave a thing or more for templates and two for SVMs, got {part!r} of {n_things}"
            )
        order = np.random.default_rng([self.seed, 1]).permutation(n_things)
        return np.isin(things, order[:n_taken])

    @property
    def _n_features_out(self) -> int:
        return self.mmif_.svms.n_svms
