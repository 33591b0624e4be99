"""Pictures of answers, rates and times: PNGs that show what they are given."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.reports.pictures import Panel, draw_confusion, draw_panels, draw_rocs, draw_times


def pixels(picture: bytes) -> NDArray[np.int64]:
    """RGB of a PNG (h, w, 3)."""
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(np.int64)


def ink(picture: bytes) -> int:
    """How many pixels have a colour, not a grey: axes, texts and grids are grey."""
    return int((np.ptp(pixels(picture), axis=2) > 20).sum())


def test_a_confusion_is_shaded_by_parts_of_rows() -> None:
    """All right is two full squares of four; the same counts a hundredfold are shaded the same."""
    title, right = draw_confusion("all right", ["a", "b"], [[5, 0], [0, 5]])
    _, halves = draw_confusion("halves", ["a", "b"], [[5, 5], [0, 0]])
    assert title == "all right"
    dark = [int((pixels(picture).sum(axis=2) < 250).sum()) for picture in (right, halves)]
    assert dark[0] > 2 * dark[1]
    _, many = draw_confusion("all right", ["a", "b"], [[500, 0], [0, 500]])
    # beside the numbers written into the squares
    assert abs(ink(many) - ink(right)) < 0.05 * ink(right)


def test_more_curves_are_more_lines() -> None:
    """A second curve, elsewhere, adds its line and its band."""
    far = [0.001, 0.01, 0.1, 1.0]
    one = {"far": far, "vr": [0.1, 0.3, 0.6, 1.0], "sd": [0.01] * 4}
    other = {"far": far, "vr": [0.6, 0.8, 0.9, 1.0], "sd": [0.1] * 4}
    assert ink(draw_rocs("roc", {"one": one, "other": other})[1]) > 1.5 * ink(draw_rocs("roc", {"one": one})[1])


def test_times_are_told_by_name_and_median() -> None:
    """One value and many; equal ones are one bin."""
    rng = np.random.default_rng(0)
    _, narrow = draw_times("t", {"a": [2.0] * 50})
    _, wide = draw_times("t", {"a": rng.uniform(1, 9, 50).tolist()})
    assert 0 < ink(narrow) < ink(wide)


def test_curves_have_error_bars() -> None:
    """The same means with a deviation are drawn with more; a method's name covers none of its points."""

    def drawn(sd: float, name: str) -> bytes:
        rows = [{"method": name, "n": 2**i, "metric": "share", "mean": i / 5, "sd": sd} for i in range(4)]
        ((_, picture),) = draw_panels([Panel("curve", "share", "n", "x")], rows)
        return picture

    assert ink(drawn(0.2, "a")) > 1.1 * ink(drawn(0.0, "a"))
    columns = np.flatnonzero((np.ptp(pixels(drawn(0.0, "a")), axis=2) > 20).any(axis=0))
    assert np.diff(columns).max() > 5  # the line ends, then comes the legend
