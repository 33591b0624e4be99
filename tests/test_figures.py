"""figures: a PNG without a window, and a word about what is missing."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from streamfeat import figures
from streamfeat.errors import ConfigError


def test_a_figure_is_saved_as_png_whatever_its_name(tmp_path: Path) -> None:
    """To a file or to bytes, of the size that was asked for; panels stand side by side."""
    figure, panels = figures.new_panels(2)
    for axis in panels:
        axis.plot([0, 1], [0, 1])
    figures.save_png(figure, tmp_path / "drawn.part")
    figures.save_png(figure, out := io.BytesIO())
    for file in (tmp_path / "drawn.part", out):
        with Image.open(file) as picture:
            assert picture.format == "PNG"
            assert picture.size == (11 * figures.DOTS_PER_INCH, round(4.5 * figures.DOTS_PER_INCH))
    left, right = (axis.get_position() for axis in panels)
    assert left.x1 < right.x0


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """None in sys.modules is what an import that must fail looks like."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"matplotlib.*streamfeat\[quickstart\]"):
        figures.new_figure(1, 1)


def test_matplotlib_comes_with_the_first_figure() -> None:
    """Not with the module, nor with asking whether it is there; and never with pyplot."""
    code = (
        "import sys; from streamfeat import figures; figures.may_draw(); print('matplotlib.figure' in sys.modules); "
        "figures.new_figure(1, 1); print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.split() == ["False", "True", "False"]
