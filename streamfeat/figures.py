"""Figures without a window: drawn with matplotlib, which is brought in when the first is made, and saved as PNG."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from streamfeat.errors import ConfigError

MISSING = "a picture needs matplotlib: pip install 'streamfeat[quickstart]'"

DOTS_PER_INCH = 110


def may_draw() -> bool:
    """Whether there is what figures are drawn with."""
    return find_spec("matplotlib") is not None


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches, whose parts make room for each other.

    Returns
    -------
    matplotlib.figure.Figure
        Known to no `pyplot`: no window, and nothing that has to be closed.

    Raises
    ------
    ConfigError
        matplotlib is missing; tells what to install.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return Figure(figsize=(width, height), layout="constrained")


def new_panels(n: int) -> tuple[Any, Any]:
    """A figure and its n axes (n,), side by side."""
    figure = new_figure(5.5 * n, 4.5)
    return figure, figure.subplots(1, n, squeeze=False)[0]


def save_png(figure: Any, to: Path | BinaryIO) -> None:
    """The figure as PNG, whatever the file's name ends in."""
    figure.savefig(to, format="png", dpi=DOTS_PER_INCH)
