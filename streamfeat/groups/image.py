"""How pictures move: rotation, translation, scale. Bilinear; what comes from outside is zero."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.groups.axes import Axes
from streamfeat.groups.operators import Border, Operator, gather
from streamfeat.groups.space import Space

PLANE = ("row", "column")


def rotation(axes: Axes, angle_rad: float) -> Operator:
    """Turn counter-clockwise, as seen, about the middle ((h - 1) / 2, (w - 1) / 2).

    Quarter turns of a square picture are exact copies, `numpy.rot90`.
    """
    axes.need(*PLANE, by="rotation")
    y, x = _from_middle(axes)
    cos, sin = math.cos(angle_rad), math.sin(angle_rad)
    return _gather_about_middle(axes, cos * y + sin * x, cos * x - sin * y)


def translation(axes: Axes, dy: float, dx: float, border: Border = "zero") -> Operator:
    """Move dy pixels down and dx pixels right: (R t)[r, c] = t[r - dy, c - dx]; whole pixels are exact copies."""
    axes.need(*PLANE, by="translation")
    h, w = axes.plane
    return gather(axes, np.arange(h)[:, None] - dy, np.arange(w) - dx, border)


def scaling(axes: Axes, scale: float, unitary: bool = False) -> Operator:
    """Enlarge by `scale` about the middle: (R t)(p) = t(p / scale).

    With `unitary` times |det A|^(-1/2) = 1 / scale, so that norms are kept but for interpolation and what leaves the
    picture (Raj et al. 2017, Lemma 2.1).
    """
    axes.need(*PLANE, by="scale")
    if not 1 / 16 <= scale <= 16:
        raise InvalidArgument(f"a scale must be 1/16 to 16, got {scale}")
    y, x = _from_middle(axes)
    moved = _gather_about_middle(axes, y / scale, x / scale)
    return moved._replace(weight=moved.weight / np.float32(scale)) if unitary else moved


@dataclass(frozen=True, slots=True)
class Rotation:
    """Factor "rotation": counter-clockwise, in degrees."""

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("angle_deg",), (0.0,), turns=True)

    def operator(self, axes: Axes, angle_deg: float) -> Operator:
        return rotation(axes, math.radians(angle_deg))


@dataclass(frozen=True, slots=True)
class Translation:
    """Factor "translation": pixels down and right."""

    border: Border = "zero"

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("dy_px", "dx_px"), (0.0, 0.0))

    def operator(self, axes: Axes, dy: float, dx: float) -> Operator:
        return translation(axes, dy, dx, self.border)


@dataclass(frozen=True, slots=True)
class Scale:
    """Factor "scale": above 1 enlarges.

    Parameters
    ----------
    unitary : bool
        Keep norms, as `scaling` tells; left out of a canonical spec when false.
    """

    unitary: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unitary", self.unitary or None)

    def space(self, axes: Axes) -> Space:  # noqa: ARG002
        return Space(("scale",), (1.0,))

    def operator(self, axes: Axes, scale: float) -> Operator:
        return scaling(axes, scale, bool(self.unitary))


def _from_middle(axes: Axes) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows (h, 1) and columns (1, w) counted from the middle."""
    h, w = axes.plane
    return np.arange(h)[:, None] - (h - 1) / 2, np.arange(w)[None, :] - (w - 1) / 2


def _gather_about_middle(axes: Axes, y: NDArray[Any], x: NDArray[Any]) -> Operator:
    h, w = axes.plane
    return gather(axes, y + (h - 1) / 2, x + (w - 1) / 2)
