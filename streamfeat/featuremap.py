"""Signal -> feature, for one bank: front end, projections and pooling in one pass.

An item's feature depends on that item and the bank alone: not on the batch it came in, on threads or on order. On one
machine it is the same to the bit; between machines a projection may differ in its last digit, and a count by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank, open_bank
from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument
from streamfeat.frontends import make_front_end
from streamfeat.kernels import LANES, Floats
from streamfeat.kernels.cdf import count_below
from streamfeat.kernels.fourier import mean_cos_sin
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal

Features = NDArray[Any]


class FeatureMap:
    """A bank ready to compute. Stateless: threads may share one.

    Parameters
    ----------
    bank : Bank

    Examples
    --------
    >>> fmap = FeatureMap.fit(BankSpec.preset("digits-image"), signals)
    >>> X = fmap.transform(signals)          # (N, D) uint16 counts
    >>> Phi = fmap.dense(X)                  # (N, D) float32; inner products estimate the kernel
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.front_end = make_front_end(bank.spec.front_end)
        if self.front_end.axes != bank.axes:
            raise ConfigError(
                f"bank {bank.name} {bank.hash[:12]} was built on {bank.axes}, its front end now gives "
                f"{self.front_end.axes}; build the bank again"
            )

    @classmethod
    def open(cls, path: Path, verify: bool = True) -> FeatureMap:
        """The feature map of a saved bank, mapped read-only; see `open_bank`."""
        return cls(open_bank(path, verify))

    @classmethod
    def fit(cls, spec: BankSpec | str, signals: Iterable[Signal] | None = None) -> FeatureMap:
        """Build the bank of a spec, or of the preset of that name, in memory; see `build_bank`."""
        # Here only: building brings in what serving does not need.
        from streamfeat.bank import build_bank

        return cls(build_bank(BankSpec.preset(spec) if isinstance(spec, str) else spec, signals))

    @property
    def bank_hash(self) -> str:
        """SHA-256 of the bank, in hex: goes with every feature."""
        return self.bank.hash

    @property
    def n_features(self) -> int:
        """D."""
        return self.bank.n_features

    def transform(self, signals: Iterable[Signal]) -> Features:
        """One feature a signal, in order.

        Returns
        -------
        (N, D) uint16 or float32
            CDF: column t n_thresholds + k counts the g with <x, g t> <= threshold k of template t. Fourier: m means of
            cos, then m of sin, over sqrt(m) (Raj et al. 2017, eq. 7).

        Raises
        ------
        InvalidArgument
            A signal of the wrong kind; the message has its number and name.
        """
        vectors = []
        for i, signal in enumerate(signals):
            try:
                vectors.append(self.front_end(signal))
            except InvalidArgument as error:
                raise InvalidArgument(f"item {i}: {error}") from None
        return self.of_vectors(np.array(vectors, np.float32).reshape(-1, self.bank.d))

    def one(self, signal: Signal) -> Features:
        """The feature of one signal, (D,): to the bit what `transform` gives for it in any batch."""
        feature: Features = self.of_vectors(self.front_end(signal)[None])[0]
        return feature

    def of_vectors(self, vectors: Floats) -> Features:
        """Features of what the front end gave, (N, d) -> (N, D)."""
        features = np.empty((len(vectors), self.n_features), self.bank.dtype)
        step = items_at_once(self.bank)
        for first in range(0, len(vectors), step):
            self._pool(vectors[first : first + step], features[first : first + step])
        return features

    def _pool(self, vectors: Floats, out: Features) -> None:
        m, n = self.bank.m, len(vectors)
        counts = self.bank.spec.pooling.kind == "cdf"
        per_template = out.reshape(n, m, -1) if counts else out.reshape(n, 2, m)
        weight = 1 / math.sqrt(m)
        for block, P in projections(self.bank, vectors):
            t = slice(block * LANES, (block + 1) * LANES)
            for i in range(n):
                if counts:
                    count_below(P[i], self.bank.arrays["thresholds"][block], per_template[i, t])
                else:
                    mean_cos_sin(P[i], weight, per_template[i, 0, t], per_template[i, 1, t])

    def dense(self, features: Features) -> Floats:
        """Features scaled so that <Phi(x), Phi(z)> estimates the kernel.

        CDF: Phi = sqrt(w / m) counts / |G|, where w is the width of a bin: s / n for `paper` thresholds, for which
        E <Phi(x), Phi(z)> -> K_s(x, z) (Mroueh, Voinea, Poggio 2015); the step of `sigma` thresholds; 1 / n_bins for
        `quantile`, where the integral is over the distribution of projections. Fourier features are that already.

        Parameters
        ----------
        features : (N, D) or (D,), as `transform` gives

        Returns
        -------
        float32 of the same shape
        """
        features = np.asarray(features)
        if features.shape[-1:] != (self.n_features,) or features.dtype.str != self.bank.dtype:
            raise BankMismatch(
                f"bank {self.bank.name} {self.bank_hash[:12]} gives {self.bank.dtype} features of {self.n_features} "
                f"numbers, got {features.dtype.str} of shape {features.shape}"
            )
        if self.bank.dtype == "<f4":
            return features.astype(np.float32)
        phi = features.astype(np.float32)
        phi *= np.float32(math.sqrt(self._bin_width() / self.bank.m) / self.bank.n_group)
        return phi

    def _bin_width(self) -> float:
        pooling, n = self.bank.spec.pooling, self.bank.spec.pooling.n_bins or 1
        if pooling.thresholds == "paper":
            return (1 + self.bank.spec.templates.epsilon) / n
        if pooling.thresholds == "sigma":
            return 2 * (pooling.reach or 0.0) / math.sqrt(self.bank.d) / max(1, n - 1)
        return 1 / n

    def warm(self) -> None:
        """Load every page of the bank and every kernel, so that the first item is as quick as the next."""
        self.of_vectors(np.zeros((1, self.bank.d), np.float32))
