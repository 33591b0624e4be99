"""Pictures of rows: a line a method against a setting, or a bar a method; of answers, rates and times."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamfeat.figures import new_figure, save_png
from streamfeat.reports.tables import settings_of

Rows = Sequence[Mapping[str, Any]]

MOST_WRITTEN = 20
"""Labels up to which counts are written into a confusion matrix."""


MOST_PLACES = 12
"""Of points that are told along a logarithmic axis by their numbers."""


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


def draw_confusion(title: str, labels: Sequence[str], counts: Sequence[Sequence[int]]) -> tuple[str, bytes]:
    """Title and PNG of counts (C, C), a row a label and a column an answer, each shaded by its part of the row."""
    table = np.asarray(counts, np.float64)
    side = min(12.0, 3.0 + 0.4 * len(labels))
    figure = new_figure(side, side)
    axis = figure.subplots()
    axis.imshow(table / np.maximum(table.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
    places = range(len(labels))
    axis.set(title=title, xlabel="answer", ylabel="label")
    axis.set_xticks(places, labels, rotation=90 if max(map(len, labels), default=0) > 2 else 0)
    axis.set_yticks(places, labels)
    for i, j in np.argwhere(table > 0) if len(labels) <= MOST_WRITTEN else ():
        dark = table[i, j] > table[i].sum() / 2
        axis.text(j, i, int(table[i, j]), ha="center", va="center", fontsize=7, color="white" if dark else "black")
    return title, _bytes(figure)


def draw_rocs(title: str, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> tuple[str, bytes]:
    """Title and PNG of curves {"far", "vr", "sd"} by name, on a logarithmic axis, each with a band of a deviation."""
    figure = new_figure(8, 5)
    axis = figure.subplots()
    for name, curve in curves.items():
        [line] = axis.plot(curve["far"], curve["vr"], label=name)
        pairs = list(zip(curve["vr"], curve["sd"], strict=True))
        low, high = [max(0.0, vr - sd) for vr, sd in pairs], [min(1.0, vr + sd) for vr, sd in pairs]
        axis.fill_between(curve["far"], low, high, color=line.get_color(), alpha=0.15)
    axis.set(title=title, xscale="log", xlabel="false accept rate", ylabel="verification rate", ylim=(0, 1.01))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return title, _bytes(figure)


def draw_times(title: str, ms: Mapping[str, Sequence[float]]) -> tuple[str, bytes]:
    """Title and PNG of histograms of times by name, in bins of equal ratio, the medians in the legend."""
    figure = new_figure(8, 4)
    axis = figure.subplots()
    every = [value for some in ms.values() for value in some]
    edges = np.geomspace(min(every) * 0.95, max(every) * 1.05, 41)
    for name, some in ms.items():
        axis.hist(some, edges, alpha=0.6, label=f"{name}, median {np.median(some):.3g} ms")
    axis.set(title=title, xscale="log", xlabel="ms", ylabel="items")
    axis.legend(fontsize=8)
    return title, _bytes(figure)


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
    return _bytes(figure)


def _bytes(figure: Any) -> bytes:
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
        places = sorted({float(row[against]) for row in rows})
        if len(places) <= MOST_PLACES:
            axis.set_xticks(places, [f"{place:g}" for place in places])
            axis.minorticks_off()
    if "y" in panel.log:
        axis.set_yscale("log")
    # beside the lines: of ten methods it would cover some
    axis.figure.legend(loc="outside right center", fontsize=8)
