"""Max-margin invariant features (Pal, Kannan, Arakalgud, Savvides 2017): from unlabelled orbits, for things never seen.

    MMIF(x)_k = <l(x), omega_k>,    k = 1 .. K

l(x) are kernel features against orbits (`orbitkernel`), omega_k the directions of linear SVMs on random subsets of
other things (`subsetsvm`). Rows are compared by cosine: `verification.verify`, or `KNN(metric="cosine")`. Where g keeps
lengths and the orbits are whole, MMIF(gx) = MMIF(x) (theorem 3.1).

Rows are any descriptors: pixels, features of a bank, the output of a network. Without the orbit kernel, pooling =
"none", the same SVMs take x itself: what is left when the invariance is taken away, and what MMIF has to beat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.orbitkernel import Kernel, OrbitKernel
from streamfeat.learn.subsetsvm import SubsetSVMs

Floats = NDArray[np.float64]


class MMIF:
    """Features whose cosine says whether two rows show one thing.

    Parameters
    ----------
    n_svms, n_positive, n_classes, C, seed
        As for `SubsetSVMs`.
    pooling : "max", "mean", "cdf" or "none"
        As for `OrbitKernel`; "none": no orbit kernel, l(x) = x.
    kernel, sigma, n_thresholds
        As for `OrbitKernel`.

    Attributes
    ----------
    svms : SubsetSVMs
    orbit_kernel : OrbitKernel or None

    Examples
    --------
    >>> mmif = MMIF(n_svms=50).fit(X, subjects, templates=T, orbits=others)     # doctest: +SKIP
    >>> verify(mmif.transform(asked), who)                                      # doctest: +SKIP
    """

    def __init__(
        self,
        n_svms: int = 100,
        n_positive: int = 3,
        n_classes: int | None = 10,
        C: float = 1.0,
        seed: int = 0,
        *,
        pooling: Literal["max", "mean", "cdf", "none"] = "max",
        kernel: Kernel = "linear",
        sigma: float | None = None,
        n_thresholds: int = 10,
    ) -> None:
        self.svms = SubsetSVMs(n_svms, n_positive, n_classes, C, seed)
        self.orbit_kernel = None if pooling == "none" else OrbitKernel(pooling, kernel, sigma, n_thresholds)

    def fit(
        self,
        X: ArrayLike,
        things: Sequence[object] | NDArray[Any],
        *,
        templates: ArrayLike | None = None,
        orbits: Sequence[object] | NDArray[Any] | None = None,
    ) -> MMIF:
        """Take the orbits, then solve the SVMs on l(X).

        Parameters
        ----------
        X : array_like (n, D)
            Views of some things.
        things : sequence of n names, int or str
            Which rows show one thing.
        templates : array_like (p, D), optional
            Transformed templates, of other things than X in the paper; None: X itself, an orbit a thing.
        orbits : sequence of p names
            Which templates show one thing; goes with `templates`.

        Raises
        ------
        InvalidArgument
            What `OrbitKernel.fit` and `SubsetSVMs.fit` refuse; templates without orbits or the other way round.
        """
        if (templates is None) != (orbits is None):
            raise InvalidArgument("templates and orbits go together: rows, and which of them show one thing")
        if self.orbit_kernel is not None:
            T, names = (X, things) if templates is None or orbits is None else (templates, orbits)
            self.orbit_kernel.fit(T, names)
        self.svms.fit(self._lifted(X), things)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """MMIF(x) (n, K), to be compared by cosine; linear in l(x). Bit for bit the same whatever rows come beside."""
        return self.svms.transform(self._lifted(X))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything `transform` needs: plain fields and arrays. `from_state` is the way back, bit-equal."""
        fields, arrays = self.svms.state()
        if self.orbit_kernel is None:
            return {"svms": fields, "orbit_kernel": None}, arrays
        of_kernel, more = self.orbit_kernel.state()
        return {"svms": fields, "orbit_kernel": of_kernel}, arrays | more

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> MMIF:
        """The features that `state` described."""
        mmif, of_kernel = cls(pooling="none"), fields["orbit_kernel"]
        mmif.svms = SubsetSVMs.from_state(fields["svms"], {"projection": arrays["projection"]})
        if of_kernel is not None:
            kept = {name: array for name, array in arrays.items() if name != "projection"}
            mmif.orbit_kernel = OrbitKernel.from_state(of_kernel, kept)
        return mmif

    def _lifted(self, X: ArrayLike) -> ArrayLike:
        return X if self.orbit_kernel is None else self.orbit_kernel.transform(X)
