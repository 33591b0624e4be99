"""What is kept of the projections of one template over the group: one file a kind.

    pooling = {kind = "cdf", thresholds = "sigma", n_bins = 25}      # or "paper", "quantile"
    pooling = {kind = "fourier", sigma = 0.5}
    pooling = {kind = "fourier", gain = 1.2, cells = {rows = 4, columns = 4, overlap = 0.5}}  # patches, see `cells`
    pooling = {kind = "nystrom", kernel = {kind = "rbf", sigma = 0.7}, gram = "orbit", floor = 1e-6}
    pooling = {kind = "mean", kernel = {kind = "rbf", sigma = 0.7}}
    pooling = {kind = "max", kernel = {kind = "linear"}}
    pooling = {kind = "moments", kernel = {kind = "polynomial", degree = 2, offset = 1.0}, n = 3}
    pooling = {kind = "quantiles", kernel = {kind = "linear"}, n = 5}

A kind is a frozen dataclass whose fields are its parameters in a spec, with the methods of `Pooling`; one line in
`POOLINGS` makes it known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from streamfeat.pooling.cdf import Cdf
from streamfeat.pooling.cells import Cells, cells_of
from streamfeat.pooling.fourier import Fourier
from streamfeat.pooling.kernel import BaseKernel
from streamfeat.pooling.lanes import LanePool, along_lanes
from streamfeat.pooling.material import Array, Material, Pass, Size
from streamfeat.pooling.nystrom import Nystrom
from streamfeat.pooling.statistics import Max, Mean, Moments, Quantiles
from streamfeat.spec import as_table, read_kind

__all__ = [
    "POOLINGS",
    "BaseKernel",
    "Cdf",
    "Cells",
    "Fourier",
    "LanePool",
    "Material",
    "Max",
    "Mean",
    "Moments",
    "Nystrom",
    "Pass",
    "Pooling",
    "Quantiles",
    "Size",
    "along_lanes",
    "cells_of",
    "pooling_table",
    "read_pooling",
]


class Pooling(Protocol):
    """Arrays at build, features at serving, and what their inner products estimate."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    """Its name in a spec."""
    dtype: ClassVar[str]
    """Of features: "<u2" counts or "<f4"."""

    @property
    def takes(self) -> str:
        """What its templates are: "vectors" of the size of inputs, or "frequencies"."""
        ...

    @property
    def needs_signals(self) -> bool:
        """Whether `build` looks at signals."""
        ...

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        ...

    def build(self, material: Material, /) -> dict[str, Array]:
        """The arrays that a bank keeps beside its templates."""
        ...

    def pool(self, some: Pass, out: Array) -> None:
        """Features of a few items into `out` (n, D); each depends on its item and the bank alone."""
        ...

    def weight(self, size: Size, /) -> float:
        """Phi = weight * feature, so that <Phi(x), Phi(z)> estimates the kernel told here."""
        ...


POOLINGS: dict[str, type[Pooling]] = {
    kind.kind: kind for kind in (Cdf, Fourier, Nystrom, Mean, Max, Moments, Quantiles)
}
"""Name in a spec -> kind of pooling."""


def read_pooling(table: Mapping[str, Any]) -> Pooling:
    """The pooling that a spec's table describes.

    Raises
    ------
    ConfigError
        An unknown kind or parameter, or a value out of range.
    """
    return read_kind(POOLINGS, table, "pooling")


def pooling_table(pooling: Pooling) -> dict[str, Any]:
    """The canonical table, which `read_pooling` takes."""
    return {"kind": pooling.kind, **as_table(pooling)}
