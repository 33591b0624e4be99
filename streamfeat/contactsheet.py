"""A picture of a bank: some of its templates, each with some of its orbit, or with the cells of patches below."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.bank import Bank, orbits, template_vectors
from streamfeat.errors import InvalidArgument
from streamfeat.pooling.cells import cells_of, weights_of
from streamfeat.streams import Stream

GAP = 3
MIN_CELL_SIDE = 56


def contact_sheet(bank: Bank, *, n_templates: int = 8, n_elements: int = 9) -> Image.Image:
    """One row a template, one column a group element spread over the group; the first column is the template itself.

    Parameters
    ----------
    bank : Bank
        Over an image, a spectrogram (frequency upwards) or a waveform (drawn as a curve).
    n_templates, n_elements : int
        Rows and columns at the most; rows of each stream, if there are several.

    Returns
    -------
    PIL.Image.Image
        Grey, or in colours if templates have them; every row is stretched to its own range, so that a row's cells
        compare. Templates of patches that no group moves stand side by side, each stretched to its own range. Below
        patches the weights of the cells, laid out as the cells are (of polar windows: zones of the radius by sectors).
    """
    if n_templates < 1 or n_elements < 1:
        raise InvalidArgument(f"a sheet needs at least one template and element, got {n_templates} x {n_elements}")
    strips = [strip for stream in bank.streams for strip in _strips(stream, n_templates, n_elements)]
    width, coloured = max(strip.shape[1] for strip in strips), any(strip.ndim == 3 for strip in strips)
    sheet = np.full((sum(map(len, strips)), width, *([3] if coloured else [])), 255, np.uint8)
    top = 0
    for strip in strips:
        grey = strip[:, :, None] if coloured and strip.ndim == 2 else strip
        sheet[top : top + len(strip), : strip.shape[1]] = grey
        top += len(strip)
    return Image.fromarray(sheet)


def _strips(stream: Stream, n_rows: int, n_columns: int) -> list[NDArray[np.uint8]]:
    """The rows of one stream."""
    names, shape = stream.axes.names, stream.template_shape
    if stream.spec.window.whole or stream.n_moves > 1:
        strips = []
        for orbit in orbits(stream, range(min(n_rows, stream.m))):
            chosen = np.unique(np.linspace(0, len(orbit) - 1, n_columns).astype(int))
            strips.append(_stretch(np.hstack([_frame(cell_pixels(orbit[g], shape, names)) for g in chosen])))
    else:
        patches = [cell_pixels(t, shape, names) for t in template_vectors(stream)[: n_rows * n_columns]]
        strips = [_line(patches[i : i + n_columns]) for i in range(0, len(patches), n_columns)]
    if cells_of(stream.spec.pooling):
        rows, columns = weights_of(stream.arrays)
        order = -1 if names[0] == "band" else 1  # low frequencies at the bottom
        by_position = columns[:, :: stream.n_moves]
        strips += [_line([cell_pixels(np.outer(r, c), stream.grid, names) for c in by_position]) for r in rows[::order]]
    return strips


def _line(pictures: Sequence[NDArray[np.float32]]) -> NDArray[np.uint8]:
    """Pictures side by side, each over its own range."""
    return np.hstack([_stretch(_frame(picture)) for picture in pictures])


def cell_pixels(vector: NDArray[np.float32], shape: tuple[int, ...], names: tuple[str, ...]) -> NDArray[np.float32]:
    """A vector as a picture (rows, columns) or (rows, columns, 3), large enough to see."""
    if len(shape) == 1:
        return _curve(vector)
    picture = vector.reshape(shape)
    if names[0] == "band":
        picture = picture[::-1]  # low frequencies at the bottom
    times = -(-MIN_CELL_SIDE // min(shape[:2]))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def _curve(
    vector: NDArray[np.float32], height: int = MIN_CELL_SIDE, width: int = 2 * MIN_CELL_SIDE
) -> NDArray[np.float32]:
    """A waveform's envelope as black on white."""
    picture = np.ones((height, width), np.float32)
    peak = float(np.abs(vector).max()) or 1.0
    for column, part in enumerate(np.array_split(vector, width)):
        if part.size:
            low, high = ((1 - value / peak) / 2 * (height - 1) for value in (part.max(), part.min()))
            picture[int(low) : int(high) + 1, column] = 0
    return picture


def _frame(cell: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(cell, [(GAP, GAP)] * 2 + [(0, 0)] * (cell.ndim - 2), constant_values=np.nan)


def _stretch(row: NDArray[np.float32]) -> NDArray[np.uint8]:
    low, high = np.nanmin(row), np.nanmax(row)
    scaled = (row - low) / (high - low or 1.0) * 255.0
    out: NDArray[np.uint8] = np.nan_to_num(scaled, nan=255.0).astype(np.uint8)
    return out
