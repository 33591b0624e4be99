"""Contact sheets: what is in which cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.bank import Bank, build_bank, open_bank, orbits, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.contactsheet import GAP, cell_pixels, contact_sheet
from streamfeat.errors import InvalidArgument
from streamfeat.presets import ensure_bank
from tests.test_bankspec import small


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    """Pictures and their orbits."""
    return open_bank(ensure_bank("global-image", tmp_path_factory.mktemp("pictures")))


def test_rows_are_templates_and_columns_their_orbit(bank: Bank) -> None:
    """The first column is the template itself; each row is stretched to its own range; frames are white."""
    sheet = np.asarray(contact_sheet(bank, n_templates=3, n_elements=4))
    side = 56 + 2 * GAP  # 28 x 28 enlarged twice
    assert sheet.shape == (3 * side, 4 * side)
    assert sheet.dtype == np.uint8
    for row, template in enumerate(template_vectors(bank.only)[:3]):
        strip = sheet[row * side : (row + 1) * side]
        cell = strip[GAP : side - GAP : 2, GAP : side - GAP : 2].astype(float)
        assert np.corrcoef(cell.ravel(), template)[0, 1] > 0.999  # rounded to 256 levels
        inside = np.hstack([strip[GAP:-GAP, c * side + GAP : (c + 1) * side - GAP] for c in range(4)])
        assert (inside.min(), inside.max()) == (0, 255)
        assert set(strip[:GAP].ravel().tolist()) == {255}


def test_never_more_than_there_is(bank: Bank, tmp_path: Path) -> None:
    """Rows up to m, columns up to |G|, each element once."""
    audio = open_bank(ensure_bank("global-audio", tmp_path))
    sheet = contact_sheet(audio, n_templates=1, n_elements=1000)
    narrow = contact_sheet(audio, n_templates=1, n_elements=audio.only.n_group)
    assert sheet.size == narrow.size
    first, last = orbits(bank.only, [0])[0][[0, -1]]
    two = np.asarray(contact_sheet(bank, n_templates=1, n_elements=2)).astype(float)[GAP:-GAP:2]
    for vector, start in ((first, GAP), (last, 56 + 3 * GAP)):
        assert np.corrcoef(two[:28, start : start + 56 : 2].ravel(), vector)[0, 1] > 0.999


def test_patches_stand_side_by_side_above_their_cells() -> None:
    """As many templates as asked for, each over its own range; then the weights of each cell, placed as the cell is."""
    pooling = {"kind": "fourier", "gain": 1, "cells": {"rows": 2, "columns": 3, "overlap": 0}}
    window = {"kind": "patches", "height": 7, "width": 7, "pad": 3}
    front_end = [{"stage": "pixels", "height": 28, "width": 28}]
    patches = build_bank(BankSpec.from_dict(small(front_end=front_end, window=window, pooling=pooling)))
    sheet = np.asarray(contact_sheet(patches, n_templates=2, n_elements=3)).astype(float)
    side = 56 + 2 * GAP
    assert sheet.shape == (4 * side, 3 * side)
    for i, template in enumerate(template_vectors(patches.only)[:6]):
        top, left = i // 3 * side + GAP, i % 3 * side + GAP
        drawn = sheet[top : top + 56 : 8, left : left + 56 : 8]
        assert np.corrcoef(drawn.ravel(), template)[0, 1] > 0.999  # rounded to 256 levels
        assert (drawn.min(), drawn.max()) == (0, 255)
    middle_of_lower_row = sheet[3 * side + GAP : 4 * side - GAP, side + GAP : 2 * side - GAP]
    rows, columns = np.nonzero(middle_of_lower_row)
    # hard cells: rows 14 to 27 and columns 10 to 18 of 28, enlarged twice
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (28, 55, 20, 37)


def test_colour_patches_are_drawn_in_colours_above_grey_cells() -> None:
    """Channels of a template are those of its pixels; polar windows draw rings by angles."""
    pooling = {"kind": "fourier", "gain": 1, "cells": {"rows": 2, "columns": 1, "overlap": 0}}
    window = {"kind": "polar", "height": 8, "width": 7, "rings": 4, "angles": 8, "outer": 9}
    front_end = [{"stage": "pixels", "height": 28, "width": 28, "grey": False}]
    bank = build_bank(BankSpec.from_dict(small(front_end=front_end, window=window, pooling=pooling)))
    sheet = np.asarray(contact_sheet(bank, n_templates=1, n_elements=3)).astype(float)
    assert sheet.shape == ((64 + 2 * (56)) + 6 * GAP, 3 * (56 + 2 * GAP), 3)
    drawn = sheet[GAP : GAP + 64 : 8, GAP : GAP + 56 : 8]
    assert np.corrcoef(drawn.ravel(), template_vectors(bank.only)[0])[0, 1] > 0.999  # rounded to 256 levels
    inner_zone = sheet[64 + 3 * GAP : 64 + 3 * GAP + 56]
    assert (inner_zone[:28, GAP : GAP + 112] == 255).all()
    assert not inner_zone[28:, GAP : GAP + 112].any()


def test_low_bands_are_at_the_bottom() -> None:
    """A spectrogram is drawn as people read it; small ones are enlarged."""
    vector = np.zeros(4 * 7, np.float32)
    vector[0] = 1  # lowest band, first frame
    picture = cell_pixels(vector, (4, 7), ("band", "frame"))
    assert picture.shape == (56, 98)
    assert picture[-14:, :14].all()
    assert picture.sum() == 14 * 14


def test_a_waveform_is_a_curve() -> None:
    """Dark on light, as high as the peak, through the middle where it is silent."""
    wave = np.sin(np.arange(500) / 80, dtype=np.float32)
    picture = cell_pixels(wave, (500,), ("sample",))
    assert picture.shape == (56, 112)
    assert (picture == 0).any(axis=0).all()
    assert (picture[0] == 0).any()
    silent = cell_pixels(np.zeros(500, np.float32), (500,), ("sample",))
    assert set(np.flatnonzero((silent == 0).any(axis=1)).tolist()) == {27}
    short = cell_pixels(np.ones(3, np.float32), (3,), ("sample",))
    assert (short == 0).any(axis=0).sum() == 3


@pytest.mark.parametrize("numbers", [(0, 3), (3, 0)])
def test_an_empty_sheet_is_refused(bank: Bank, numbers: tuple[int, int]) -> None:
    """At least one of each."""
    with pytest.raises(InvalidArgument, match=f"got {numbers[0]} x {numbers[1]}"):
        contact_sheet(bank, n_templates=numbers[0], n_elements=numbers[1])
