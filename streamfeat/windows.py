"""What a template sees at once: the whole signal, or a patch of it at every position of a grid or on circles.

    window = {kind = "whole"}
    window = {kind = "patches", height = 7, width = 7, stride_rows = 1, stride_columns = 1, pad = 3, contrast = 0.2}
    window = {kind = "polar", height = 7, width = 7, rings = 10, angles = 24, inner = 1, outer = 13, contrast = 0.2}

Positions are to a patch what group elements are to the whole: <patch at p, t> = <x, t moved to p>, an orbit of
translations (of turns and radii, if it is polar), and pooling does not know which of them it is given. Of a colour
picture (row, column, channel) a patch has all channels, interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from streamfeat.errors import ConfigError
from streamfeat.kernels import ROWS, Floats, padded
from streamfeat.kernels.patches import cut_patches, cut_polar
from streamfeat.spec import as_table, read_kind

Shape = tuple[int, ...]

MAX_POSITIONS = 1 << 18
"""An item's patches and their projections on a block of templates are in memory at once: 64 MB for the latter."""


class Window(Protocol):
    """What a template sees of a vector whose axes have the lengths `shape`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    """Its name in a spec."""
    whole: ClassVar[bool]
    """Whether that is all of it, so that positions are no orbit."""
    cyclic: ClassVar[bool]
    """Whether the last column of positions is beside the first."""

    def check(self, names: tuple[str, ...]) -> None:
        """Raise `ConfigError` unless it goes with axes of these names."""
        ...

    def template_shape(self, shape: Shape) -> Shape:
        """That of a template."""
        ...

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of positions, or `ConfigError` if it does not go with that shape."""
        ...

    def cut(self, x: Floats, shape: Shape) -> Floats:
        """What is seen of one vector (d,) in C order of `shape`, one row a position in C order of the grid.

        Zeros fill rows up to a multiple of `ROWS` and columns up to one of four.
        """
        ...

    def sample(self, vectors: Floats, shape: Shape, n: int, rng: np.random.Generator) -> Floats:
        """What templates are taken from: about n parts of the vectors (N, d) at random, or all there is."""
        ...


@dataclass(frozen=True)
class Whole:
    """A template is as large as what the front end gives."""

    kind: ClassVar[str] = "whole"
    whole: ClassVar[bool] = True
    cyclic: ClassVar[bool] = False

    def check(self, _names: tuple[str, ...]) -> None:
        """Any axes do."""

    def template_shape(self, shape: Shape) -> Shape:
        """All of it."""
        return shape

    def grid(self, _shape: Shape) -> tuple[int, int]:
        """One position."""
        return 1, 1

    def cut(self, x: Floats, _shape: Shape) -> Floats:
        """The vector itself."""
        out = np.zeros((ROWS, padded(len(x), 4)), np.float32)
        out[0, : len(x)] = x
        return out

    def sample(self, vectors: Floats, _shape: Shape, _n: int, _rng: np.random.Generator) -> Floats:
        """The vectors themselves."""
        return vectors


@dataclass(frozen=True)
class Patches:
    """Patches of height x width (bands x frames, rows x columns) at every position, each minus its mean.

    With `contrast` = c a patch v is also divided by ||v|| + c, so that the size of what it shows counts less and flat
    patches stay small. Outside the plane, `pad` wide on all sides, everything is zero. A colour patch has one mean and
    one norm, so that its colours stay apart.

    The front end's closing stage `norm` decides what c is beside: of pixels from 0 to 1 take `kind = "none"` and c from
    0.1 to 1 (with unit norm of the whole picture patches are a tenth of that).
    """

    kind: ClassVar[str] = "patches"
    whole: ClassVar[bool] = False
    cyclic: ClassVar[bool] = False

    height: int
    width: int
    stride_rows: int = 1
    stride_columns: int = 1
    pad: int = 0
    contrast: float | None = None

    def __post_init__(self) -> None:
        _check_patch(self.height, self.width, self.contrast)
        if self.stride_rows < 1 or self.stride_columns < 1:
            raise ConfigError(f"strides must be at least 1, got {self.stride_rows!r} and {self.stride_columns!r}")
        if not 0 <= self.pad < max(self.height, self.width):
            raise ConfigError(f"pad must be from 0 to less than the patch is long, got {self.pad!r}")

    def check(self, _names: tuple[str, ...]) -> None:
        """Any two axes make a plane; `grid` counts them."""

    def template_shape(self, shape: Shape) -> Shape:
        """A patch, with the channels there are."""
        return self.height, self.width, *shape[2:]

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rows and columns of positions.

        Raises
        ------
        ConfigError
            The front end gives no plane, one that is smaller than a patch, or one with too many positions.
        """
        _need_plane(self.kind, shape)
        room = (shape[0] + 2 * self.pad - self.height, shape[1] + 2 * self.pad - self.width)
        if min(room) < 0:
            raise ConfigError(
                f"window: patches of {self.height} x {self.width} do not fit into {shape[0]} x {shape[1]} with "
                f"pad = {self.pad}; use smaller ones"
            )
        return _few((room[0] // self.stride_rows + 1, room[1] // self.stride_columns + 1))

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
        grid, n_channels = self.grid(shape), math.prod(shape[2:])
        out = _rows(grid, self.template_shape(shape))
        # Channels are interleaved in a row, so that colour is a plane whose columns come n_channels at a time.
        plane = _framed(x, shape, self.pad, self.pad)
        across = self.width * n_channels, self.stride_columns * n_channels
        sizes = np.array([*grid, self.height, across[0], self.stride_rows, across[1]], np.int64)
        cut_patches(plane, sizes, -1.0 if self.contrast is None else self.contrast, out)
        return out

    def sample(self, vectors: Floats, shape: Shape, n: int, rng: np.random.Generator) -> Floats:
        """About n patches; see `sample_patches`."""
        return sample_patches(self, vectors, shape, n, rng)


@dataclass(frozen=True)
class Polar:
    """Patches on circles about the middle ((h - 1) / 2, (w - 1) / 2) of a picture, each turned to look outwards.

    Positions lie on `rings` circles of radii evenly from `inner` to `outer` pixels, `angles` of them on each, evenly
    and counter-clockwise as seen from the right-hand side; the grid is (rings, angles). A patch is sampled a pixel
    apart, bilinear, zero outside the picture: its rows go outwards along the radius, its columns counter-clockwise
    along the tangent. Then mean and `contrast` as of `Patches`.

    So turning the picture by 2 pi k / angles shifts the columns of positions by k round the circle, exactly for
    quarter turns, and what is pooled over whole rings (one column of cells) does not change. Rows of cells are zones
    of the radius, columns sectors whose weights go round the circle.
    """

    kind: ClassVar[str] = "polar"
    whole: ClassVar[bool] = False
    cyclic: ClassVar[bool] = True

    height: int
    width: int
    rings: int
    angles: int
    outer: float
    inner: float = 0.0
    contrast: float | None = None

    def __post_init__(self) -> None:
        _check_patch(self.height, self.width, self.contrast)
        if self.rings < 1 or self.angles < 1:
            raise ConfigError(f"rings and angles must be at least 1, got {self.rings!r} and {self.angles!r}")
        if not 0 <= self.inner <= self.outer or (self.rings == 1) != (self.inner == self.outer):
            raise ConfigError(
                "radii go up from inner, at least 0, to outer, and one ring has one radius, inner = outer; got "
                f"inner = {self.inner!r}, outer = {self.outer!r} and rings = {self.rings}"
            )

    def check(self, names: tuple[str, ...]) -> None:
        """A picture or a matrix: there is no turning a spectrogram."""
        if names[:2] != ("row", "column"):
            raise ConfigError(
                f"window.kind = 'polar' turns with a picture (row, column), the front end gives {', '.join(names)}; "
                "use window.kind = 'patches' or 'whole'"
            )

    def template_shape(self, shape: Shape) -> Shape:
        """A patch, with the channels there are."""
        return self.height, self.width, *shape[2:]

    def grid(self, shape: Shape) -> tuple[int, int]:
        """Rings and angles.

        Raises
        ------
        ConfigError
            The front end gives no plane, one that is smaller than a patch or whose corners lie within `outer`, or
            there are too many positions.
        """
        _need_plane(self.kind, shape)
        if self.height > shape[0] or self.width > shape[1]:
            raise ConfigError(
                f"window: patches of {self.height} x {self.width} do not fit into {shape[0]} x {shape[1]}; use smaller "
                "ones"
            )
        corner = math.hypot(shape[0] - 1, shape[1] - 1) / 2
        if self.outer > corner:
            raise ConfigError(
                f"window: the corners of {shape[0]} x {shape[1]} are {corner:.4g} from the middle, circles go no "
                f"farther, got outer = {self.outer!r}; use a smaller one"
            )
        return _few((self.rings, self.angles))

    def cut(self, x: Floats, shape: Shape) -> Floats:
        """Every patch of one vector, centred and normalised: row r n_angles + a is that on ring r at angle a."""
        out = _rows(self.grid(shape), self.template_shape(shape))
        radii = np.repeat(np.linspace(self.inner, self.outer, self.rings), self.angles)
        angles = np.tile(np.arange(self.angles) * (2 * math.pi / self.angles), self.rings)
        places = np.stack([radii, -np.sin(angles), np.cos(angles)], axis=1)
        sizes = np.array([self.height, self.width, math.prod(shape[2:])], np.int64)
        contrast = -1.0 if self.contrast is None else self.contrast
        cut_polar(_framed(x, shape, 1, 2), sizes, places, contrast, out)
        return out

    def sample(self, vectors: Floats, shape: Shape, n: int, rng: np.random.Generator) -> Floats:
        """About n patches; see `sample_patches`."""
        return sample_patches(self, vectors, shape, n, rng)


def sample_patches(window: Window, vectors: Floats, shape: Shape, n: int, rng: np.random.Generator) -> Floats:
    """About n patches at random that are not flat, as many from each signal; fewer if there are no more.

    Parameters
    ----------
    vectors : (N, d) float32
    n : int
        If it is smaller than N, as many signals give one patch each.

    Returns
    -------
    (<= n, numbers of a patch) float32
    """
    chosen = rng.permutation(len(vectors))[:n]
    each = math.ceil(n / max(1, len(chosen)))
    n_positions, d = math.prod(window.grid(shape)), math.prod(window.template_shape(shape))
    found = [np.empty((0, d), np.float32)]
    for i in chosen:
        patches = window.cut(vectors[i], shape)[:n_positions, :d]
        seen = np.flatnonzero(patches.any(axis=1))
        found.append(patches[rng.choice(seen, min(each, len(seen)), replace=False)])
    return np.concatenate(found)[:n]


WINDOWS: dict[str, type[Whole | Patches | Polar]] = {"whole": Whole, "patches": Patches, "polar": Polar}
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


def _check_patch(height: int, width: int, contrast: float | None) -> None:
    if height < 1 or width < 1 or height * width < 2:
        raise ConfigError(f"a patch minus its mean needs at least two numbers, got {height} x {width}")
    if contrast is not None and not 0 < contrast <= 1e6:
        raise ConfigError(f"contrast must be above 0 and at most 1e6, got {contrast!r}; leave it out for none")


def _need_plane(kind: str, shape: Shape) -> None:
    if len(shape) not in (2, 3):
        raise ConfigError(
            f"window.kind = {kind!r} needs a plane: a spectrogram (band, frame), a matrix or a picture (row, column), "
            f"in colours or not; the front end gives {shape}: use another front end or window.kind = 'whole'"
        )


def _few(grid: tuple[int, int]) -> tuple[int, int]:
    if math.prod(grid) > MAX_POSITIONS:
        raise ConfigError(
            f"window: patches have at most {MAX_POSITIONS} positions, got {grid[0]} x {grid[1]}; use larger "
            "strides, fewer rings and angles or a front end that gives less"
        )
    return grid


def _rows(grid: tuple[int, int], template_shape: Shape) -> Floats:
    return np.zeros((padded(math.prod(grid), ROWS), padded(math.prod(template_shape), 4)), np.float32)


def _framed(x: Floats, shape: Shape, before: int, after: int) -> Floats:
    """The plane with so many zeros round it, (h + before + after, (w + before + after) n_channels)."""
    h, w = shape[:2]
    plane = np.zeros((h + before + after, w + before + after, math.prod(shape[2:])), np.float32)
    plane[before : before + h, before : before + w] = x.reshape(h, w, -1)
    return plane.reshape(len(plane), -1)
