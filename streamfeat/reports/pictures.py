"""Pictures of rows: a line a method against a setting, or a bar a method."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamfeat.figures import new_figure, save_png
from streamfeat.reports.tables import settings_of

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes
    ----------
    title, metric : str
    against : str, optional
        The setting that is the horizontal axis; None: a bar a method.
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    where : mapping
        Settings that a row must have to be in it.
    slope : float, optional
        A dotted line of that slope through the first point, on logarithmic axes: a theorem's rate.
    """

    title: str
    metric: str
    against: str | None = None
    log: str = ""
    where: Mapping[str, Any] = field(default_factory=dict)
    slope: float | None = None

    def rows(self, rows: Rows) -> list[Mapping[str, Any]]:
        """Those that are in it; of lines those that have no settings beside the axis and `where`."""
        wanted = {"metric": self.metric, **self.where}
        some = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
        if self.against is None:
            return some
        settings = {self.against, *self.where}
        return [row for row in some if set(settings_of(row)) == settings]


def draw_panels(panels: Sequence[Panel], rows: Rows) -> list[tuple[str, bytes]]:
    """Title and PNG of each panel that has rows.

    Raises
    ------
    ConfigError
        matplotlib is missing; tells what to install.
    """
    return [(panel.title, _png(panel, some)) for panel in panels if (some := panel.rows(rows))]


def _png(panel: Panel, rows: Rows) -> bytes:
    figure = new_figure(8, 4.5)
    axis = figure.subplots()
    if panel.against is None:
        _bars(axis, rows)
        axis.set_xlabel(panel.metric)
    else:
        _lines(axis, panel, panel.against, rows)
    axis.set_title(panel.title)
    axis.grid(alpha=0.3)
    out = io.BytesIO()
    save_png(figure, out)
    return out.getvalue()


def _bars(axis: Any, rows: Rows) -> None:
    names = [str(row["method"]) for row in rows]
    axis.barh(names, [row["mean"] for row in rows], xerr=[row["sd"] or 0.0 for row in rows], color="C0", alpha=0.7)
    axis.invert_yaxis()


def _lines(axis: Any, panel: Panel, against: str, rows: Rows) -> None:
    for i, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        some = sorted((row for row in rows if row["method"] == method), key=lambda row: float(row[against]))
        x, y = [float(row[against]) for row in some], [row["mean"] for row in some]
        spread = [row["sd"] or 0.0 for row in some]
        axis.errorbar(x, y, spread, marker="osd^v"[i // 10 % 5], color=f"C{i % 10}", label=method, capsize=2)
        if panel.slope is not None and i == 0:
            line = [y[0] * (at / x[0]) ** panel.slope for at in x]
            axis.plot(x, line, ":", color="black", label=f"{against}^{panel.slope:g}")
    axis.set(xlabel=against, ylabel=panel.metric)
    if "x" in panel.log:
        axis.set_xscale("log")
    if "y" in panel.log:
        axis.set_yscale("log")
    axis.legend(fontsize=8)
