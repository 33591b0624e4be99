"""What a template sees at once: the whole signal, or a patch of it at every position.

    window = {kind = "whole"}
    window = {kind = "patches", height = 7, width = 7, stride_rows = 1, stride_columns = 1, pad = 3, contrast = 0.2}

Positions are to a patch what group elements are to the whole: <patch at p, t> = <x, t moved to p>, an orbit of
translations, and pooling does not know which of the two it is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.kernels import ROWS, Floats, padded
from streamfeat.kernels.patches import cut_patches
from streamfeat.spec import as_table, read_kind

Shape = tuple[int, ...]

MAX_POSITIONS = 1 << 18
"""An item's patches and their projections on a block of templates are in memory at once: 64 MB for the latter."""


@dataclass(frozen=True)
class Whole:
    """A template is as large as what the front end gives."""

    kind: ClassVar[str] = "whole"

    def template_shape(self, shape: Shape) -> Shape:
        """All of it."""
        return shape

    def grid(self, _shape: Shape) -> tuple[int, int]:
        """One position."""
        return 1, 1


@dataclass(frozen=True)
class Patches:
    """Patches of height x width (bands x frames, rows x columns) at every position, each minus its mean.

    With `contrast` = c a patch v is also divided by ||v|| + c, so that the size of what it shows counts less and flat
    patches stay small. Outside the plane, `pad` wide on all sides, everything is zero.

    The front end's closing stage `norm` decides what c is beside: of pixels from 0 to 1 take `kind = "none"` and c from
    0.1 to 1 (with unit norm of the whole picture patches are a tenth of that).
    """

    kind: ClassVar[str] = "patches"

    height: int
    width: int
    stride_rows: int = 1
    stride_columns: int = 1
    pad: int = 0
    contrast: float | None = None

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height * self.width < 2:
            raise ConfigError(f"a patch minus its mean needs at least two numbers, got {self.height} x {self.width}")
        if self.stride_rows < 1 or self.stride_columns < 1:
            raise ConfigError(f"strides must be at least 1, got {self.stride_rows!r} and {self.stride_columns!r}")
        if not 0 <= self.pad < max(self.height, self.width):
            raise ConfigError(f"pad must be from 0 to less than the patch is long, got {self.pad!r}")
        if self.contrast is not None and not 0 < self.contrast <= 1e6:
            raise ConfigError(f"contrast must be above 0 and at most 1e6, got {self.contrast!r}; leave it out for none")

    def template_shape(self, _shape: Shape) -> Shape:
        """A patch."""
        return self.height, self.width

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of positions.

        Raises
        ------
        ConfigError
            The front end gives no plane, one that is smaller than a patch, or one with too many positions.
        """
        if len(shape) != 2:
            raise ConfigError(
                f"window.kind = 'patches' needs a spectrogram (band, frame) or a grey picture (row, column), the front "
                f"end gives {shape}; use another front end or window.kind = 'whole'"
            )
        room = (shape[0] + 2 * self.pad - self.height, shape[1] + 2 * self.pad - self.width)
        if min(room) < 0:
            raise ConfigError(
                f"window: patches of {self.height} x {self.width} do not fit into {shape[0]} x {shape[1]} with "
                f"pad = {self.pad}; use smaller ones"
            )
        grid = room[0] // self.stride_rows + 1, room[1] // self.stride_columns + 1
        if math.prod(grid) > MAX_POSITIONS:
            raise ConfigError(
                f"window: patches have at most {MAX_POSITIONS} positions, got {grid[0]} x {grid[1]}; use larger "
                "strides or a front end that gives less"
            )
        return grid

    def cut(self, x: Floats, shape: Shape) -> Floats:
        """Every patch of one vector, centred and normalised.

        Parameters
        ----------
        x : (d,) float32
            In C order of `shape`.

        Returns
        -------
        (R, D) float32
            Row r n_columns + c is the patch at position (r, c); zeros fill rows up to a multiple of `ROWS` and columns
            up to one of four.
        """
        rows, columns = self.grid(shape)
        out = np.zeros((padded(rows * columns, ROWS), padded(self.height * self.width, 4)), np.float32)
        plane = np.zeros((shape[0] + 2 * self.pad, shape[1] + 2 * self.pad), np.float32)
        plane[self.pad : self.pad + shape[0], self.pad : self.pad + shape[1]] = x.reshape(shape)
        sizes = np.array([rows, columns, self.height, self.width, self.stride_rows, self.stride_columns], np.int64)
        cut_patches(plane, sizes, -1.0 if self.contrast is None else self.contrast, out)
        return out

    def sample(self, vectors: Floats, shape: Shape, n: int, rng: np.random.Generator) -> Floats:
        """About n patches at random that are not flat, as many from each signal; fewer if there are no more.

        Parameters
        ----------
        vectors : (N, d) float32
        n : int
            If it is smaller than N, as many signals give one patch each.

        Returns
        -------
        (<= n, height * width) float32
        """
        chosen = rng.permutation(len(vectors))[:n]
        each = math.ceil(n / max(1, len(chosen)))
        found = [np.empty((0, self.height * self.width), np.float32)]
        for i in chosen:
            patches = self.cut(vectors[i], shape)[:, : self.height * self.width]
            seen = np.flatnonzero(patches.any(axis=1))
            found.append(patches[rng.choice(seen, min(each, len(seen)), replace=False)])
        return np.concatenate(found)[:n]


Window = Whole | Patches

WINDOWS: dict[str, type[Window]] = {"whole": Whole, "patches": Patches}
"""Name in a spec -> kind of window."""


def read_window(table: Mapping[str, Any]) -> Window:
    """The window that a spec's table describes.

    Raises
    ------
    ConfigError
        An unknown kind or parameter, or a value out of range.
    """
    return read_kind(WINDOWS, table, "window")


def window_table(window: Window) -> dict[str, Any]:
    """The canonical table, which `read_window` takes."""
    return {"kind": window.kind, **as_table(window)}
