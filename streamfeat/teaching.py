"""A bank taught by labelled signals: what is learned on its features becomes its readout, and is served with it.

    mmif        SVMs on random subsets of the labels (Pal et al. 2017): of a bank whose templates are orbits, pooled by
                "max" or "mean" of a kernel, the feature is MMIF(x)
    whitening   directions in which things of one label differ are made little of
    pca         the leading principal directions; labels are not looked at
    random      Gaussian directions, which keep distances as they are (Johnson, Lindenstrauss 1984)

Features of all four are compared by cosine; of "pca" and "random" also by distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.learn.subsetsvm import SubsetSVMs
from streamfeat.learn.whitening import WithinOrbitWhitening, principal_directions
from streamfeat.signals import Signal

By = Literal["mmif", "whitening", "pca", "random"]

AT_ONCE = 64
"""Signals whose features are computed together."""


def teach(
    bank: Bank, signals: Sequence[Signal], labels: Sequence[str], by: By, n_columns: int = 100, *, seed: int = 0
) -> Bank:
    """The bank with what was learned of its features of some signals as its readout, under the name <bank>-<by>.

    Parameters
    ----------
    bank : Bank
        Without a readout.
    signals : sequence of n Signal
    labels : sequence of n str
        Which signals show one thing.
    by : "mmif", "whitening", "pca" or "random"
    n_columns : int
        Numbers of a feature; of "whitening" and "pca" at the most, for there are no more than the signals span.
    seed : int
        Of the SVMs' subsets and of random directions.

    Raises
    ------
    ConfigError
        An unknown way, or the bank has a readout.
    InvalidArgument
        No signal, another number of labels, or what `SubsetSVMs.fit` and `WithinOrbitWhitening.fit` refuse.
    """
    if by not in get_args(By):
        raise ConfigError(f"a bank is taught by one of {', '.join(get_args(By))}, got {by!r}")
    if not signals:
        raise InvalidArgument("a bank is taught by signals, got none")
    features = FeatureMap(bank)
    parts = [signals[first : first + AT_ONCE] for first in range(0, len(signals), AT_ONCE)]
    Phi = np.concatenate([features.dense(features.transform(part)) for part in parts]).astype(np.float64)
    matrix, offset = _learned(Phi, labels, by, n_columns, seed)
    return bank.with_readout(matrix, offset, name=f"{bank.name[: 63 - len(by)]}-{by}")


def _learned(
    Phi: NDArray[np.float64], labels: Sequence[str], by: By, k: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The matrix (D, k) and what is subtracted before it."""
    if by == "mmif":
        return SubsetSVMs(k, seed=seed).fit(Phi, labels).projection_, None
    if by == "whitening":
        whitening = WithinOrbitWhitening(k).fit(Phi, labels)
        return whitening.projection_, whitening.mean_
    if by == "pca":
        mean = Phi.mean(axis=0)
        return principal_directions(Phi - mean, k), mean
    return np.random.default_rng(seed).standard_normal((Phi.shape[1], k)) / np.sqrt(k), None
