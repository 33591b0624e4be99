"""How far a feature map's inner products are from the kernel they estimate, beside what the theorems promise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.errors import InvalidArgument
from streamfeat.exact.bounds import cdf_bound, cdf_group_bound, debiased, group_bound, rff_pairs_bound
from streamfeat.exact.cdf import truncated_kernel
from streamfeat.exact.orbits import base_mean, distance, gaussian, orbit_mean
from streamfeat.featuremap import FeatureMap
from streamfeat.pooling import Cdf, Fourier
from streamfeat.projections import move
from streamfeat.signals.signal import Signal
from streamfeat.streams import Stream
from streamfeat.templates import source_table

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KernelError:
    """Estimate against kernel, on one set of items.

    Attributes
    ----------
    spectral, frobenius : float
        ||K_hat - K|| / ||K|| in the two norms.
    largest : float
        max |K_hat - K|.
    debiased_spectral, debiased_frobenius : float
        The same once the share of equal pairs of elements is taken off; that of the estimate itself where |G| = 1.
    bound : float
        With probability 1 - delta, `largest` is below: Mroueh et al. 2015, Theorem 2; Raj et al. 2017, Theorem 3.1.
    n_items, m, r : int
        Items, templates, group elements.
    """

    spectral: float
    frobenius: float
    largest: float
    debiased_spectral: float
    debiased_frobenius: float
    bound: float
    n_items: int
    m: int
    r: int


def kernel_error(
    feature_map: FeatureMap,
    items: Sequence[Signal] | NDArray[Any],
    exact: NDArray[Any] | None = None,
    *,
    delta: float = 0.05,
) -> KernelError:
    """Compare the Gram matrix of a feature map with the exact one.

    Parameters
    ----------
    feature_map : FeatureMap
    items : signals, or vectors (n, d) as the front end gives them
    exact : (n, n), optional
        The kernel of the law that the bank's elements were drawn from (`streamfeat.exact`). Without it, the kernel of
        the bank's own elements: what is left is then the error of the templates alone.
    delta : float
        How often the bound may fail.

    Raises
    ------
    InvalidArgument
        The bank estimates no kernel that is known exactly; see `own_kernel`.

    Examples
    --------
    >>> error = kernel_error(FeatureMap.fit("digits-image"), signals)          # doctest: +SKIP
    >>> error.largest < error.bound                                            # doctest: +SKIP
    True
    """
    vectors = _vectors(feature_map, items)
    bank = feature_map.bank
    n, stream = len(vectors), _known(bank)
    r, base = stream.n_group, base_kernel(bank, vectors)
    Phi = feature_map.dense(feature_map.of_vectors(vectors)).astype(np.float64)
    estimate = Phi @ Phi.T
    K = own_kernel(bank, vectors) if exact is None else np.asarray(exact, np.float64)
    if K.shape != (n, n):
        raise InvalidArgument(f"the exact kernel of {n} items must have the shape {(n, n)}, got {K.shape}")
    better, target = estimate, K
    if r > 1:
        better = debiased(estimate, base, r)
        target = debiased(K, base, r) if exact is None else K
    return KernelError(
        spectral=relative_error(estimate, K, 2),
        frobenius=relative_error(estimate, K, "fro"),
        largest=float(np.abs(estimate - K).max()),
        debiased_spectral=relative_error(better, target, 2),
        debiased_frobenius=relative_error(better, target, "fro"),
        bound=_bound(stream, n, exact is not None, delta),
        n_items=n,
        m=stream.m,
        r=r,
    )


def own_kernel(bank: Bank, vectors: NDArray[Any]) -> Floats:
    """What inner products of features estimate, given the bank's group elements: the mean over its templates' law.

    Fourier, Gaussian frequencies: mean over i, j of k(g_i* x, g_j* z) (Raj et al. 2017, equation 6). CDF, `paper`
    thresholds: s - c d_G over the same pairs (Mroueh et al. 2015, Theorem 1). All of a group: its Haar kernel.

    Parameters
    ----------
    vectors : (n, d)

    Returns
    -------
    (n, n) float64

    Raises
    ------
    InvalidArgument
        Another pooling, template source or form; templates that are renormalised, so that the action on the input is
        not the whole of it; a second layer.
    """
    stream = _known(bank)
    n, r = len(vectors), stream.n_group
    orbits = move(stream, np.asarray(vectors, np.float32))[: n * r, : stream.d].reshape(n, r, -1)
    pooling = stream.spec.pooling
    if isinstance(pooling, Fourier):
        return orbit_mean(orbits, orbits, gaussian(pooling.sigma or math.nan))
    return truncated_kernel(orbit_mean(orbits, orbits, distance), stream.d, stream.spec.templates.epsilon)


def base_kernel(bank: Bank, vectors: NDArray[Any]) -> Floats:
    """The kernel without the group, k(x, z): what two equal elements give where the action is unitary."""
    stream = _known(bank)
    pooling = stream.spec.pooling
    if isinstance(pooling, Fourier):
        return base_mean(vectors, vectors, gaussian(pooling.sigma or math.nan))
    return truncated_kernel(base_mean(vectors, vectors, distance), stream.d, stream.spec.templates.epsilon)


def _known(bank: Bank) -> Stream:
    """The one stream of a bank whose kernel is known; `InvalidArgument` for all others."""
    if len(bank.streams) > 1:
        raise InvalidArgument(f"bank {bank.name!r} has {len(bank.streams)} streams; compare each as a bank of its own")
    stream = bank.only
    spec, pooling = stream.spec, stream.spec.pooling
    source = source_table(spec.templates)
    gaussian_kind = source["source"] in ("gaussian", "fourier", "hadamard", "user") and "kernel" not in source
    known = (isinstance(pooling, Fourier) and pooling.sigma is not None) or (
        isinstance(pooling, Cdf) and pooling.thresholds == "paper"
    )
    known = known and spec.window.whole
    if not (
        known and gaussian_kind and bank.spec.layer2 is None and not bank.spec.outer and stream.form == "operators"
    ):
        raise InvalidArgument(
            f"bank {bank.name!r} estimates no kernel that is known exactly: that takes Gaussian templates with 'paper' "
            "thresholds or Gaussian frequencies, form 'operators', no patches, no second layer and no outer orbit"
        )
    # float32 norms of gt over those of t
    scale = stream.arrays.get("scale")
    if scale is not None and np.abs(scale[scale > 0] - 1).max() > 1e-5:
        raise InvalidArgument(
            f"bank {bank.name!r} scales moved templates back to their norm, and its kernel is not known exactly; "
            "build it with renormalise = false"
        )
    return stream


def _bound(stream: Stream, n: int, sampled: bool, delta: float) -> float:
    each = delta / 2 if sampled else delta
    pooling = stream.spec.pooling
    if isinstance(pooling, Fourier):
        return rff_pairs_bound(n, stream.m, each) + (group_bound(stream.n_group, n, each) if sampled else 0.0)
    assert isinstance(pooling, Cdf)  # `_known`
    s = 1 + stream.spec.templates.epsilon
    group = cdf_group_bound(n, s, stream.m, stream.n_group, each) if sampled else 0.0
    return cdf_bound(n, s, stream.m, pooling.n_bins, each) + group


def relative_error(estimate: Floats, K: Floats, norm: Any) -> float:
    """||K_hat - K|| / ||K||; `norm` is 2 (spectral) or "fro"."""
    return float(np.linalg.norm(estimate - K, norm) / np.linalg.norm(K, norm))


def _vectors(feature_map: FeatureMap, items: Sequence[Signal] | NDArray[Any]) -> NDArray[np.float32]:
    if isinstance(items, np.ndarray):
        if items.ndim != 2 or items.shape[1] != feature_map.bank.d or len(items) == 0:
            raise InvalidArgument(f"vectors must have the shape (n, {feature_map.bank.d}), got {items.shape}")
        return np.asarray(items, np.float32)
    if not items:
        raise InvalidArgument("a kernel is compared on at least one item, got none")
    return np.stack([feature_map.front_end(signal) for signal in items])
