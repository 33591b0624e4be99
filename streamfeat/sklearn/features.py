"""Feature maps of banks, and the baselines beside them, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamfeat.bankspec import BankSpec, StreamSpec
from streamfeat.baselines import fit_baseline
from streamfeat.errors import InvalidArgument, StreamfeatError
from streamfeat.featuremap import FeatureMap
from streamfeat.frontends import ENTRIES
from streamfeat.signals import Signal
from streamfeat.signals.signal import Kind
from streamfeat.threads import in_threads, n_cores

AT_ONCE = 64
"""Items that one thread computes together."""

LAYOUTS = {
    "image": "pictures, (N, h, w) or (N, h, w, 3)",
    "audio": "recordings, (N, samples)",
    "array": "arrays, (N, n) or (N, r, c)",
}


class InvariantFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features that do not change under a bank's group, which is built from the unlabelled X of `fit`.

    Parameters
    ----------
    spec : str or BankSpec
        A preset (`streamfeat bank list`), or a spec. An "array" stage that says no `rows` takes arrays of X's shape.
    n_jobs : int, optional
        Threads for items; None: one, -1: as many as cores.
    rate_hz : int, optional
        Of recordings that are given as arrays.
    baseline : str, optional
        What to compute in place of the spec's features, beside which it stands: "raw", "bag-of-words", "plain",
        "rff" (random Fourier features), "nystrom" or "gicdf", see `streamfeat.baselines`.
    sigma : float, optional
        Width of the kernel of "rff" and "nystrom", as there.

    Attributes
    ----------
    feature_map_ : FeatureMap, or what `streamfeat.baselines` makes
        The `bank` of a FeatureMap can be saved and served.

    Examples
    --------
    >>> pipeline = make_pipeline(InvariantFeatures("digits-image"), RLSClassifier())
    >>> pipeline.fit(pictures, labels).predict(others)     # (N, 28, 28) uint8
    """

    feature_map_: Any

    def __init__(
        self,
        spec: str | BankSpec = "digits-image",
        n_jobs: int | None = None,
        *,
        rate_hz: int | None = None,
        baseline: str | None = None,
        sigma: float | None = None,
    ) -> None:
        self.spec, self.n_jobs, self.rate_hz, self.baseline, self.sigma = spec, n_jobs, rate_hz, baseline, sigma

    def fit(self, X: Any, y: object = None) -> InvariantFeatures:  # noqa: ARG002 - scikit-learn's signature
        """Build the bank.

        Parameters
        ----------
        X : sequence of Signal or of arrays, or ndarray
            Pictures (N, h, w) or (N, h, w, 3), recordings (N, samples) at `rate_hz`, arrays (N, n) or (N, r, c); of a
            list each item may have its own size.
        y : ignored

        Raises
        ------
        InvalidArgument
            Items of another kind or shape than the bank's; values that are not finite.
        """
        signals = self._signals(X, reset=True)
        spec = _of_shape(self._bank_spec, signals[0].samples.shape)
        self.feature_map_ = (
            FeatureMap.fit(spec, signals)
            if self.baseline is None
            else fit_baseline(self.baseline, spec, signals, sigma=self.sigma)
        )
        self.feature_map_.transform(signals[:1])  # what the front end does not take is refused now
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Phi (N, D), whose inner products estimate the kernel: `FeatureMap.dense` of its features."""
        check_is_fitted(self, "feature_map_")
        signals = self._signals(X, reset=False)
        parts = [signals[first : first + AT_ONCE] for first in range(0, len(signals), AT_ONCE)]
        blocks = in_threads(self._features, parts, n_cores() if self.n_jobs == -1 else self.n_jobs or 1)
        return np.concatenate([*blocks, np.empty((0, self._n_features_out), np.float32)])

    def _features(self, signals: Sequence[Signal]) -> NDArray[np.float32]:
        phi: NDArray[np.float32] = self.feature_map_.dense(self.feature_map_.transform(signals))
        return phi

    @property
    def _bank_spec(self) -> BankSpec:
        return BankSpec.preset(self.spec) if isinstance(self.spec, str) else self.spec

    @property
    def _kind(self) -> Kind:
        """What the bank takes."""
        return ENTRIES[self._bank_spec.streams[0].front_end[0]["stage"]].kind

    @property
    def _n_features_out(self) -> int:
        return int(self.feature_map_.n_features)

    def _signals(self, X: Any, *, reset: bool) -> list[Signal]:
        """Items as signals, checked."""
        kind = self._kind
        if kind == "array" and _of_vectors(X):
            X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        elif isinstance(X, np.ndarray) and X.dtype.kind != "O":
            self._check_layout(kind, X, reset)
        rate = self.rate_hz if kind == "audio" else None
        given = list(X)
        if kind == "audio" and rate is None and not all(isinstance(x, Signal) for x in given):
            raise InvalidArgument(
                "recordings given as arrays do not say their rate: pass it, InvariantFeatures(spec, rate_hz=8000), or "
                "give a list of Signal, as streamfeat.signals.read_audio makes them"
            )
        items = [
            x if isinstance(x, Signal) else Signal(kind, np.asarray(x), rate, f"item {i}") for i, x in enumerate(given)
        ]
        if not items:
            raise InvalidArgument(f"InvariantFeatures needs items: {LAYOUTS[kind]} or a list of Signal, got none")
        return items

    def _check_layout(self, kind: Kind, X: NDArray[Any], reset: bool) -> None:
        if X.ndim not in {"image": (3, 4), "audio": (2,), "array": (2, 3)}[kind]:
            raise InvalidArgument(f"this bank takes {LAYOUTS[kind]} or a list of Signal, got shape {X.shape}")
        if reset:
            self.n_features_in_ = int(np.prod(X.shape[1:]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        try:
            kind = self._kind
        except StreamfeatError:  # `fit` says what is wrong with the spec
            return tags
        tags.input_tags.two_d_array = kind != "image"
        tags.input_tags.three_d_array = kind != "audio"
        return tags


def _of_shape(spec: BankSpec, shape: tuple[int, ...]) -> BankSpec:
    """The spec with arrays of that shape where it says none."""

    def sized(stream: StreamSpec) -> StreamSpec:
        first, *rest = stream.front_end
        if first["stage"] != "array" or "rows" in first:
            return stream
        return replace(stream, front_end=({**first, **dict(zip(("rows", "columns"), shape, strict=False))}, *rest))

    return replace(spec, streams=tuple(sized(stream) for stream in spec.streams))


def _of_vectors(X: Any) -> bool:
    """Whether it is a table, as far as one can see: no matrices and no signals."""
    if isinstance(X, list | tuple):
        return not any(isinstance(x, Signal) or getattr(x, "ndim", 1) == 2 for x in X)
    return getattr(X, "ndim", 2) != 3
