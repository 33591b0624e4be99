"""A picture of a head as if the head were turned: its pixels on an ellipsoid, seen from far away.

The ellipsoid has the picture's width and height and is as deep as it is wide, so that a turn to the side leaves its
outline alone. Its half that faces the viewer carries the picture. It is turned about its own vertical axis (yaw), then
about the picture's horizontal one (pitch), and drawn without perspective: pixel p of the turned picture reads where the
line through p meets the surface, bilinear. Black is what the picture does not show: what lies beside the head, and what
comes into sight from behind it.

Turns of a sphere are a group that keeps lengths. These are not quite: a turn by 40 degrees takes a part of the face out
of sight, and brings black; what is seen aslant is seen smaller. And of a grid of turns the outermost have neighbours on
one side alone. So what is invariant under the whole group is nearly so under these.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamfeat.groups import Axes, Operator
from streamfeat.groups.operators import gather

NOWHERE = -2.0
"""A row and column so far outside that nothing is read there."""


def turn(shape: tuple[int, int], yaw_deg: float, pitch_deg: float) -> Operator:
    """What turns a picture of (h, w) pixels; without a turn, pixels of the ellipse stay as they are to the bit.

    Parameters
    ----------
    shape : (h, w)
    yaw_deg : float
        The nose goes to the right, as seen.
    pitch_deg : float
        The nose goes down.
    """
    h, w = shape
    half = np.array([w / 2, h / 2, w / 2])
    from_head = _turned(math.radians(yaw_deg), math.radians(pitch_deg))
    seen = np.zeros((h, w, 3))
    seen[:, :, 0] = np.arange(w) - (w - 1) / 2
    seen[:, :, 1] = np.arange(h)[:, None] - (h - 1) / 2
    # the head's coordinates of the line through a pixel: start + t * ahead
    start, ahead = seen @ from_head, from_head[2]
    # on the surface |(start + t ahead) / half| = 1, nearest to the viewer for the larger t
    scaled, step = start / half, ahead / half
    a, b, c = step @ step, scaled @ step, (scaled * scaled).sum(axis=2) - 1.0
    inside = b * b - a * c
    t = (np.sqrt(inside.clip(min=0.0)) - b) / a
    x, y, z = np.moveaxis(start + t[:, :, None] * ahead, 2, 0)
    shown = (inside >= 0) & (z >= 0)
    axes = Axes(("row", "column"), (h, w))
    return gather(axes, np.where(shown, y + (h - 1) / 2, NOWHERE), np.where(shown, x + (w - 1) / 2, NOWHERE))


def turned(picture: NDArray[np.uint8], operator: Operator) -> NDArray[np.uint8]:
    """The picture (h, w), turned; in whole grey levels."""
    return np.rint(operator.forward(picture.ravel())).astype(np.uint8).reshape(picture.shape)


def _turned(yaw: float, pitch: float) -> NDArray[np.float64]:
    """The matrix of yaw, then pitch; axes point right, down and to the viewer."""
    sideways = [[math.cos(yaw), 0.0, math.sin(yaw)], [0.0, 1.0, 0.0], [-math.sin(yaw), 0.0, math.cos(yaw)]]
    down = [[1.0, 0.0, 0.0], [0.0, math.cos(pitch), math.sin(pitch)], [0.0, -math.sin(pitch), math.cos(pitch)]]
    matrix: NDArray[np.float64] = np.array(down) @ np.array(sideways)
    return matrix
