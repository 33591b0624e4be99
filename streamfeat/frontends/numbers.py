"""The first stage of arrays, and the closing one: numbers as they are given, of a size that is kept or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.axes import Axes
from streamfeat.signals.signal import Signal

Array = NDArray[np.float32]

MOST_NUMBERS = 10_000_000


@dataclass(frozen=True, slots=True)
class Numbers:
    """First stage of arrays: the numbers themselves, of one shape.

    Parameters
    ----------
    rows : int
    columns : int
        0: a vector of `rows` numbers, axis "entry"; else a matrix, axes "row" and "column".
    """

    kind: ClassVar[Literal["array"]] = "array"
    rows: int
    columns: int = 0

    def __post_init__(self) -> None:
        if not (self.rows >= 1 and self.columns >= 0 and self.rows * max(1, self.columns) <= MOST_NUMBERS):
            raise ConfigError(
                f"rows must be at least 1, columns at least 0 (a vector), together at most {MOST_NUMBERS} numbers, "
                f"got {self.rows} and {self.columns}"
            )

    def build(self) -> tuple[Callable[[Signal], Array], Axes]:
        axes = Axes(("row", "column"), (self.rows, self.columns)) if self.columns else Axes(("entry",), (self.rows,))

        def enter(signal: Signal) -> Array:
            if signal.samples.shape != axes.shape:
                raise InvalidArgument(
                    f"{signal.name or 'signal'}: this front end takes arrays of shape {axes.shape}, got "
                    f"{signal.samples.shape}; fill up with zeros or use another bank"
                )
            return signal.unit_scale()

        return enter, axes


@dataclass(frozen=True, slots=True)
class Norm:
    """Closing stage: what becomes of a vector's size.

    "unit": norm 1, or all zeros; what a front end does that has no such stage. "none": the numbers as they are.
    "fixed": divided by `scale`, for all vectors the same, so that a Coulomb matrix keeps its size beside the others.

    Where the norm is not 1, `sigma` and `paper` thresholds (Mroueh, Voinea, Poggio 2015 live on the unit sphere) must
    be chosen with care, or `quantile` ones taken.

    Parameters
    ----------
    kind : "unit", "none" or "fixed"
    scale : float
        Of "fixed" only, 1e-6 to 1e12.
    """

    kind: Literal["unit", "none", "fixed"] = "unit"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 1e-6 <= self.scale <= 1e12:  # the loudest signal, 1e12, divided and squared still fits float32
            raise ConfigError(f"norm scale must be 1e-6 to 1e12, got scale = {self.scale:g}")
        if self.kind != "fixed" and self.scale != 1:
            raise ConfigError(f"norm kind = {self.kind!r} takes no scale, got scale = {self.scale:g}; use 'fixed'")

    def finish(self, x: Array) -> Array:
        """x as one vector. In float64, so that neither tiny nor large values are lost."""
        wide = x.ravel().astype(np.float64)
        if self.kind == "unit":
            norm = math.sqrt(float(np.sum(wide * wide)))
            return (wide / norm if norm > 0 else wide).astype(np.float32)
        return (wide / self.scale).astype(np.float32)
