"""Kernel features against orbits of unlabelled things, l(x) (Pal, Kannan, Arakalgud, Savvides 2017, section 3).

Templates come as orbits: rows that show one thing under the transformations g, the thing itself never labelled. With
the base kernel k, linear <x, z> or rbf exp(-||x - z||^2 / (2 sigma^2)), and the orbit {g t_i} of template i,

    mean   l(x)_i  = mean_g k(x, g t_i)
    max    l(x)_i  = max_g k(x, g t_i)
    cdf    l(x)_ik = the part of g with k(x, g t_i) <= tau_ik, tau the quantiles 1/(n+1) .. n/(n+1) of the training rows

For a finite group that keeps lengths, and orbits that are whole, l(gx) = l(x): g only puts the values k(x, g t_i) in
another order (theorem 3.1). With k linear the mean is <x, mean_g g t_i> and keeps of x what the whole group leaves
alone: under all cyclic shifts l(x)_i = mean(x) sum(t_i), one number for every template. So mean pooling needs the rbf
kernel or a group that is not whole; max and cdf do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import check_count, check_features, check_over_zero, group_numbers

Floats = NDArray[np.float64]
Pooling = Literal["mean", "max", "cdf"]
Kernel = Literal["linear", "rbf"]

MEDIAN_OF = 1000
"""Rows whose distances give a width that is not said."""


class OrbitKernel:
    """l(x): a base kernel with every row of each orbit, pooled orbit by orbit.

    Parameters
    ----------
    pooling : "max", "mean" or "cdf"
    kernel : "linear" or "rbf"
    sigma : float, optional
        Width of "rbf"; None: the median distance of the orbits' rows.
    n_thresholds : int
        Of "cdf".

    Examples
    --------
    >>> orbits = [[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0]]
    >>> OrbitKernel().fit(orbits, ["a", "a", "b", "b"]).transform([[3.0, 1.0]])
    array([[3., 7.]])
    """

    def __init__(
        self, pooling: Pooling = "max", kernel: Kernel = "linear", sigma: float | None = None, n_thresholds: int = 10
    ) -> None:
        self.pooling, self.kernel = check_choice(pooling, Pooling, "pooling"), check_choice(kernel, Kernel, "kernel")
        if sigma is not None and kernel == "linear":
            raise InvalidArgument(f"sigma is the width of kernel = 'rbf'; leave it out with 'linear', got {sigma!r}")
        self.sigma = None if sigma is None else check_over_zero(sigma, "sigma")
        self.n_thresholds = check_count(n_thresholds, "n_thresholds")
        self._fitted: dict[str, NDArray[Any]] | None = None

    def fit(self, T: ArrayLike, orbits: Sequence[object] | NDArray[Any]) -> OrbitKernel:
        """Take the orbits.

        Parameters
        ----------
        T : array_like (p, D)
            Transformed templates g t, any number type.
        orbits : sequence of p names, int or str
            Which rows are of one template; their numbers may differ.

        Raises
        ------
        InvalidArgument
            Non-finite rows, another number of names, no row, or rows all alike where they are to give sigma.
        """
        rows = check_features(T)
        numbers, names = group_numbers(orbits, len(rows))
        if not names:
            raise InvalidArgument("an orbit kernel needs one transformed template or more, got none")
        order = np.argsort(numbers, kind="stable")
        rows = rows[order].astype(np.float64)
        fitted = {"templates": rows, "starts": np.searchsorted(numbers[order], np.arange(len(names)))}
        if self.kernel == "rbf":
            fitted["sigma"] = np.array(median_distance(rows) if self.sigma is None else self.sigma)
        self._fitted = fitted
        if self.pooling == "cdf":
            levels = np.arange(1, self.n_thresholds + 1) / (self.n_thresholds + 1)
            values = np.array([self._values(row) for row in rows[:: -(-len(rows) // MEDIAN_OF)]])
            each = [np.quantile(values[:, orbit], levels) for orbit in self._orbits()]
            fitted["thresholds"] = np.array(each)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """l(x) (n, m), or (n, m n_thresholds) of "cdf", template by template, orbits in order of appearance.

        A row's l(x) does not depend on the rows beside it, bit for bit.
        """
        rows = check_features(X, self._known()["templates"].shape[1])
        features = np.empty((len(rows), self.n_features))
        for row, feature in zip(rows, features, strict=True):
            feature[:] = self._pooled(self._values(row.astype(np.float64)))
        return features

    @property
    def n_features(self) -> int:
        """Numbers of an l(x)."""
        return len(self._known()["starts"]) * (self.n_thresholds if self.pooling == "cdf" else 1)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything `transform` needs: plain fields and arrays. `from_state` is the way back, bit-equal."""
        names = ("pooling", "kernel", "sigma", "n_thresholds")
        return {"settings": {name: getattr(self, name) for name in names}}, dict(self._known())

    @classmethod
    def from_state(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> OrbitKernel:
        """The features that `state` described."""
        features = cls(**fields["settings"])
        features._fitted = dict(arrays)
        return features

    def _values(self, x: Floats) -> Floats:
        """k(x, g t) for all rows (p,); one product of fixed shape, whatever comes beside it."""
        fitted = self._known()
        if self.kernel == "linear":
            return np.asarray(fitted["templates"] @ x)
        # differences, not squares taken from one another: near rows keep their digits
        away = fitted["templates"] - x
        return np.asarray(np.exp(np.einsum("pd,pd->p", away, away) / (-2.0 * fitted["sigma"] ** 2)))

    def _pooled(self, values: Floats) -> Floats:
        fitted = self._known()
        if self.pooling == "max":
            return np.asarray(np.maximum.reduceat(values, fitted["starts"]))
        if self.pooling == "mean":
            sizes = np.diff(fitted["starts"], append=len(values))
            return np.asarray(np.add.reduceat(values, fitted["starts"]) / sizes)
        below = [
            (values[orbit, None] <= tau).mean(axis=0)
            for orbit, tau in zip(self._orbits(), fitted["thresholds"], strict=True)
        ]
        return np.concatenate(below)

    def _orbits(self) -> list[slice]:
        """Where each orbit's rows lie."""
        fitted = self._known()
        ends = [*fitted["starts"][1:].tolist(), len(fitted["templates"])]
        return [slice(first, end) for first, end in zip(fitted["starts"].tolist(), ends, strict=True)]

    def _known(self) -> dict[str, NDArray[Any]]:
        if self._fitted is None:
            raise InvalidArgument("this orbit kernel has seen no templates; call fit first")
        return self._fitted


def check_choice(value: Any, kinds: Any, name: str) -> Any:
    """One of the texts of a Literal."""
    if value not in get_args(kinds):
        raise InvalidArgument(f"{name} must be one of {', '.join(map(repr, get_args(kinds)))}, got {value!r}")
    return value


def median_distance(rows: Floats) -> float:
    """The median distance of different rows (n, D); of many, of `MEDIAN_OF` evenly chosen ones.

    Raises
    ------
    InvalidArgument
        Most rows are alike, or there is one alone.
    """
    some = rows[:: -(-len(rows) // MEDIAN_OF)]
    squares = np.einsum("nd,nd->n", some, some)
    apart = (squares[:, None] + squares - 2.0 * some @ some.T)[np.triu_indices(len(some), 1)]
    median = float(np.sqrt(np.median(apart).clip(min=0.0))) if len(apart) else 0.0
    if median == 0:
        raise InvalidArgument(f"sigma, the median distance of rows, needs rows that differ, got {len(rows)}; say sigma")
    return median
