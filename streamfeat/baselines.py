"""What an invariant feature map is compared with, behind the same face: fit, transform, one, of_vectors, dense.

    raw            the front end's vector, and nothing else
    bag-of-words   how often each letter occurs in a one-hot sequence (Mroueh et al. 2015, X_perm)
    plain          the same bank with the identity alone: what the group is worth
    rff            random Fourier features without a group (Raj et al. 2017, "RF")
    nystrom        Nystrom features without a group
    gicdf          CDF features of Mroueh et al. 2015 as Raj et al. 2017 run them against theirs: 25 bins, same group

raw and plain take banks of any number of streams, the others of one; and `augment`, which moves training examples
instead of templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bankstore import Bank
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.frontends import FrontEnds, make_front_ends
from streamfeat.groups import Axes, apply_group
from streamfeat.pooling import read_pooling
from streamfeat.signals.signal import Signal
from streamfeat.templates import read_source

Floats = NDArray[np.float32]
Label = TypeVar("Label")

GICDF_BINS = 25
"""Raj et al. 2017, section 5, after Mroueh et al. 2015."""

MEDIAN_OF = 500
"""Signals whose distances give the width of a kernel that is not said."""


class Features(Protocol):
    """What `FeatureMap` and the baselines have in common."""

    @property
    def n_features(self) -> int:
        """D."""
        ...

    def transform(self, signals: Iterable[Signal], /) -> NDArray[Any]:
        """One feature a signal, (N, D)."""
        ...

    def one(self, signal: Signal, /) -> NDArray[Any]:
        """The feature of one signal, (D,)."""
        ...

    def of_vectors(self, vectors: Floats, /) -> NDArray[Any]:
        """Features of what the front end gave, (N, d) -> (N, D)."""
        ...

    def dense(self, features: NDArray[Any], /) -> Floats:
        """Features scaled so that inner products are the kernel, float32."""
        ...


@dataclass(frozen=True)
class Raw:
    """The front end's vectors as features: a linear kernel on what the group moves."""

    front_end: FrontEnds

    @property
    def n_features(self) -> int:
        """D = d."""
        return self.front_end.d

    def transform(self, signals: Iterable[Signal]) -> NDArray[Any]:
        """One feature a signal, (N, D) float32."""
        return self.of_vectors(_vectors(self.front_end, signals))

    def one(self, signal: Signal) -> NDArray[Any]:
        """The feature of one signal, (D,)."""
        feature: NDArray[Any] = self.of_vectors(self.front_end(signal)[None])[0]
        return feature

    def of_vectors(self, vectors: Floats) -> NDArray[Any]:
        """The vectors themselves."""
        return np.asarray(vectors, np.float32)

    def dense(self, features: NDArray[Any]) -> Floats:
        """They are that already."""
        return np.asarray(features, np.float32)


@dataclass(frozen=True)
class BagOfWords(Raw):
    """How often each letter occurs: rows of a one-hot matrix (places x letters) summed, the largest entry counting 1.

    Invariant under every permutation of places, and linear in counts: it cannot say "both of these letters".
    """

    @property
    def axes(self) -> Axes:
        """Of the one front end."""
        return self.front_end.parts[0].axes

    def __post_init__(self) -> None:
        if len(self.axes.shape) != 2:
            raise ConfigError(
                "bag-of-words counts the columns of a one-hot matrix (places x letters), the front end gives "
                f"{self.axes.shape}; begin it with the stage 'array' of rows and columns"
            )

    @property
    def n_features(self) -> int:
        """D: letters."""
        return int(self.axes.shape[1])

    def of_vectors(self, vectors: Floats) -> NDArray[Any]:
        """Sums over places, in units of the largest entry: the front end may have changed its size."""
        places = np.asarray(vectors, np.float32).reshape(len(vectors), *self.axes.shape)
        largest = places.max(axis=(1, 2))[:, None]
        return np.asarray(np.divide(places.sum(axis=1), largest, where=largest > 0, out=np.zeros_like(places[:, 0])))


def fit_baseline(
    name: str, spec: BankSpec | str, signals: Sequence[Signal] | None = None, *, sigma: float | None = None
) -> Features:
    """The baseline of that name beside the bank of a spec: same front end, same number of templates, same seed.

    Parameters
    ----------
    name : str
        "raw", "bag-of-words", "plain", "rff", "nystrom" or "gicdf".
    spec : BankSpec or the name of a preset
    signals : sequence of Signal, optional
        For landmarks, templates from data, quantile thresholds, and for a width that is not said.
    sigma : float, optional
        Width of the Gaussian kernel of "rff" and "nystrom"; the spec's own if its pooling has one, else the median
        distance between signals.

    Raises
    ------
    ConfigError
        An unknown name; signals are needed and there are none.

    Examples
    --------
    >>> rff = fit_baseline("rff", "digits-image", signals)       # doctest: +SKIP
    >>> X = rff.transform(signals)                               # doctest: +SKIP
    """
    if name not in BASELINES:
        raise ConfigError(f"a baseline is one of {', '.join(BASELINES)}, got {name!r}")
    return BASELINES[name](BankSpec.preset(spec) if isinstance(spec, str) else spec, signals, sigma)


def augment(
    bank: Bank, vectors: Floats, labels: Sequence[Label], n_copies: int, rng: np.random.Generator
) -> tuple[Floats, list[Label]]:
    """A training set that is moved instead of the templates: each vector and n_copies of it, g drawn from the bank.

    Parameters
    ----------
    bank : Bank
        Whose group elements are used, evenly, each at most once a vector; one stream, form "operators", no patches.
    vectors : (N, d) float32
        Of the bank's front end.
    labels : sequence of N
    n_copies : int
        At most |G|.
    rng : Generator

    Returns
    -------
    vectors : (N (1 + n_copies), d) float32
        Each vector, followed by its copies g x.
    labels : list
    """
    stream = bank.only
    if not stream.spec.window.whole:
        raise InvalidArgument(f"bank {bank.name!r} has patches, whose positions move no vector; use one without")
    if stream.form != "operators" or not 0 <= n_copies <= stream.n_group:
        raise InvalidArgument(
            f"augmenting takes a bank of form 'operators' and at most |G| = {stream.n_group} copies, got form "
            f"{stream.form!r} and {n_copies} copies"
        )
    if len(labels) != len(vectors):
        raise InvalidArgument(f"{len(vectors)} vectors need {len(vectors)} labels, got {len(labels)}")
    out = np.empty((len(vectors), 1 + n_copies, stream.d), np.float32)
    out[:, 0] = vectors
    for x, copies in zip(np.asarray(vectors, np.float32), out[:, 1:], strict=True):
        chosen = rng.choice(stream.n_group, n_copies, replace=False)
        copies[:] = apply_group(stream.factors, x[None])[0, chosen]
    return out.reshape(-1, stream.d), [label for label in labels for _ in range(1 + n_copies)]


def _raw(spec: BankSpec, _signals: Sequence[Signal] | None, _sigma: float | None) -> Features:
    return Raw(make_front_ends([stream.front_end for stream in spec.streams]))


def _bag_of_words(spec: BankSpec, _signals: Sequence[Signal] | None, _sigma: float | None) -> Features:
    return BagOfWords(make_front_ends([spec.only.front_end]))


def _plain(spec: BankSpec, signals: Sequence[Signal] | None, _sigma: float | None) -> Features:
    return FeatureMap.fit(spec.plain(), signals)


def _rff(spec: BankSpec, signals: Sequence[Signal] | None, sigma: float | None) -> Features:
    width = _width(spec, signals, sigma)
    return FeatureMap.fit(
        spec.plain().of_one(
            f"{spec.name}-rff",
            templates=read_source({"source": "fourier", "m": spec.only.templates.m}),
            pooling=read_pooling({"kind": "fourier", "sigma": width}),
        )
    )


def _nystrom(spec: BankSpec, signals: Sequence[Signal] | None, sigma: float | None) -> Features:
    width = _width(spec, signals, sigma)
    return FeatureMap.fit(
        spec.plain().of_one(
            f"{spec.name}-nystrom",
            templates=read_source({"source": "data", "m": spec.only.templates.m}),
            pooling=read_pooling({"kind": "nystrom", "kernel": {"kind": "rbf", "sigma": width}}),
        ),
        signals,
    )


def _gicdf(spec: BankSpec, signals: Sequence[Signal] | None, _sigma: float | None) -> Features:
    return FeatureMap.fit(
        spec.of_one(
            f"{spec.name}-gicdf",
            templates=read_source({"source": "gaussian", "m": spec.only.templates.m}),
            pooling=read_pooling({"kind": "cdf", "thresholds": "paper", "n_bins": GICDF_BINS}),
        ),
        signals,
    )


BASELINES: dict[str, Callable[[BankSpec, Sequence[Signal] | None, float | None], Features]] = {
    "raw": _raw,
    "bag-of-words": _bag_of_words,
    "plain": _plain,
    "rff": _rff,
    "nystrom": _nystrom,
    "gicdf": _gicdf,
}
"""Name -> what makes it from a spec, signals and a width."""


def _width(spec: BankSpec, signals: Sequence[Signal] | None, sigma: float | None) -> float:
    said = getattr(spec.only.pooling, "sigma", None) if sigma is None else sigma
    if said is not None:
        return float(said)
    if not signals or len(signals) < 2:
        raise ConfigError(f"baselines of {spec.name!r} need sigma, or two signals whose distance gives it")
    some = _vectors(make_front_ends([spec.only.front_end]), signals[:MEDIAN_OF]).astype(np.float64)
    squares = np.square(some).sum(axis=1)
    apart = squares[:, None] + squares - 2.0 * some @ some.T
    median = float(np.sqrt(np.median(apart[np.triu_indices(len(some), 1)]).clip(min=0.0)))
    if median <= 0:
        raise ConfigError(f"most signals are the same to the front end of {spec.name!r}; say sigma")
    return median


def _vectors(front_end: FrontEnds, signals: Iterable[Signal]) -> Floats:
    rows = []
    for i, signal in enumerate(signals):
        try:
            rows.append(front_end(signal))
        except InvalidArgument as error:
            raise InvalidArgument(f"item {i}: {error}") from None
    return np.array(rows, np.float32).reshape(-1, front_end.d)
