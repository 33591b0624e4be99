"""Signal -> feature, for one bank: front end, projections and pooling in one pass.

An item's feature depends on that item and the bank alone: not on the batch it came in, on threads or on order. On one
machine it is the same to the bit; between machines a projection may differ in its last digit, and a count by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank, open_bank
from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument
from streamfeat.frontends import make_front_ends
from streamfeat.kernels import Floats
from streamfeat.layers import Features, dense, features_of
from streamfeat.signals.signal import Signal


class FeatureMap:
    """A bank ready to compute. Stateless: threads may share one.

    Parameters
    ----------
    bank : Bank

    Examples
    --------
    >>> fmap = FeatureMap.fit(BankSpec.preset("digits-image"), signals)
    >>> X = fmap.transform(signals)          # (N, D) float32; uint16 counts of pooling "cdf" without a second layer
    >>> Phi = fmap.dense(X)                  # (N, D) float32; inner products estimate the kernel
    """

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.front_end = make_front_ends([stream.spec.front_end for stream in bank.streams])
        for stream, front_end in zip(bank.streams, self.front_end.parts, strict=True):
            if front_end.axes != stream.axes:
                raise ConfigError(
                    f"bank {bank.name} {bank.hash[:12]} was built on {stream.axes}, its front end now gives "
                    f"{front_end.axes}; build the bank again"
                )

    def __reduce__(self) -> tuple[type[FeatureMap], tuple[Bank]]:
        # to another process goes the bank; the front end is made there
        return type(self), (self.bank,)

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
            Columns are told by the pooling: `streamfeat.pooling`, the method `pool` of each kind; of several streams
            one after the other. With a second layer m2 cosines, then m2 sines. Of an outer orbit the mean over its
            elements is kept (of counts the sum).

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
        return features_of(self.bank, vectors)

    def dense(self, features: Features) -> Floats:
        """Features scaled so that <Phi(x), Phi(z)> estimates the kernel.

        Which kernel is told by the pooling: `streamfeat.pooling`, the method `weight` of each kind; of several streams
        it is the sum of theirs. Features of a second layer are Phi already: E <Phi(x), Phi(z)> =
        exp(-||mu_x - mu_z||^2 / (2 sigma^2)), mu the first layer's Phi (Raj et al. 2017, section 4). Under an outer
        orbit it is the mean of that kernel over the copies of x and those of z. What a readout gives stays as it is.

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
        return dense(self.bank, features)

    def warm(self) -> None:
        """Load every page of the bank and every kernel, so that the first item is as quick as the next."""
        self.of_vectors(np.zeros((1, self.bank.d), np.float32))
