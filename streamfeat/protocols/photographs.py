"""Photographs in ten classes: cifar10, and cifar10-few with a few labels a class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.protocols.data import arrays_in, need
from streamfeat.protocols.drawn import Drawn, with_given
from streamfeat.protocols.plan import Plan, Rows, Source, Trial
from streamfeat.signals import Signal, read_image

FOLDER, LABELS = "cifar10", "cifar10/labels.npz"
SIDE = 32
PER_CLASS = (10, 100)


def plan_cifar10(source: Source) -> Plan:
    """The 50,000 photographs train, the first 1,000 test ones are asked. The seeds are the banks'."""
    drawn, tests, note = _read(source)
    return drawn.plan((Trial(0, np.arange(drawn.n_train), tests),), (note,))


def plan_cifar10_few(source: Source) -> Plan:
    """A few labelled photographs a class, the same 1,000 asked. The seeds are the draws of the labelled ones."""
    drawn, tests, note = _read(source)
    plan = drawn.few(tests, source.n_seeds, PER_CLASS)
    return replace(plan, notes=(note, *plan.notes))


def _read(source: Source) -> tuple[Drawn, dict[str, Rows], str]:
    """The photographs, those that are asked, and what goes with every figure."""
    folder = need(source.data, FOLDER, "CIFAR-10 as sheets of 32 x 32 tiles, train_00.webp ... and test_00.webp")
    path = need(source.data, LABELS, "the labels of CIFAR-10")
    (taught,), (asked,) = (arrays_in(path, {name: 1}) for name in ("train", "test_first1000"))
    sheets = [*sorted(folder.glob("train_*.webp")), *sorted(folder.glob("test_*.webp"))]
    with source.progress("cifar10: reading", len(sheets)) as advance:
        tiles = []
        for sheet in sheets:
            tiles.append(tiles_of(sheet))
            advance(1)
    images = np.concatenate(tiles) if tiles else np.empty((0, SIDE, SIDE, 3), np.uint8)
    if len(images) != len(taught) + len(asked):
        raise InvalidArgument(
            f"{folder}: {len(images)} pictures on {len(sheets)} sheets, but {len(taught) + len(asked)} labels; "
            "copy what is missing"
        )
    labels = [str(label) for label in (*taught.tolist(), *asked.tolist())]
    n = len(taught)
    drawn = Drawn(labels, lambda row: Signal("image", images[row], name=f"photograph {row}"), n, None)
    drawn = with_given(source, drawn)
    tests = drawn.tests({f"first {len(asked)}": np.arange(n, len(images))})
    return drawn, tests, f"tested on {len(asked)} of the 10,000 test photographs"


def tiles_of(sheet: Path) -> NDArray[np.uint8]:
    """The pictures of a sheet, row by row, (n, 32, 32, 3)."""
    pixels = read_image(sheet).samples
    rows, columns = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    if pixels.shape != (rows * SIDE, columns * SIDE, 3):
        raise InvalidArgument(f"{sheet}: a sheet of {SIDE} x {SIDE} tiles in colour is needed, got {pixels.shape}")
    tiles: NDArray[np.uint8] = pixels.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)
    return tiles
