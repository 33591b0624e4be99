"""Pictures of what was measured, beside the JSON of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamfeat.errors import ConfigError

Report = dict[str, Any]

STYLES = {"p999_ms": "^:", "p99_ms": "s--", "p50_ms": "o-", "queue_ms": "x-", "compute_ms": "+-"}


def _canvas(n_panels: int) -> tuple[Any, Any]:
    """A figure and its axes, one row of them."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("the picture needs matplotlib: pip install 'streamfeat[quickstart]'") from error
    figure = Figure(figsize=(5.5 * n_panels, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, n_panels, squeeze=False)[0]


def draw_fleet(file: Path, report: Report) -> None:
    """Latency under Poisson load, a panel a kind of item: percentiles, and what of them is queue and computing."""
    kinds = [what for what in ("image", "audio") if what in report]
    figure, panels = _canvas(len(kinds))
    for axis, what in zip(panels, kinds, strict=True):
        rows = report[what]["open"]
        x = [row["offered_per_s"] for row in rows]
        for key, style in (
            ("p999_ms", "^:"),
            ("p99_ms", "s--"),
            ("p50_ms", "o-"),
            ("queue_ms", "x-"),
            ("compute_ms", "+-"),
        ):
            axis.plot(x, [max(row[key], 1e-3) for row in rows], style, label=key.removesuffix("_ms"))
        axis.axvline(report[what]["fleet_items_per_s"], color="C0", linestyle=":", label="fleet, closed loop")
        axis.axvline(report[what]["inprocess_items_per_s"], color="C1", linestyle=":", label="in process")
        axis.set(yscale="log", xlabel="items a second", ylabel="ms", title=f"{what}: {report[what]['bank']}")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.savefig(file, dpi=110)


def draw_peers(file: Path, report: Report) -> None:
    """Accuracy against milliseconds an item, a panel a column of a protocol; ours are filled."""
    columns = list(dict.fromkeys((row["protocol"], row["column"]) for row in report["rows"]))
    figure, panels = _canvas(len(columns))
    for axis, column in zip(panels, columns, strict=True):
        for row in (row for row in report["rows"] if (row["protocol"], row["column"]) == column):
            axis.plot(row["ms_per_item"], row["accuracy"], "o", mfc="C0" if row["ours"] else "none", mec="C0")
            axis.annotate(
                row["method"], (row["ms_per_item"], row["accuracy"]), (4, 4), textcoords="offset points", fontsize=8
            )
        axis.set(xscale="log", xlabel="ms an item, one thread", ylabel="accuracy", title=", ".join(column))
        axis.grid(alpha=0.3)
    figure.savefig(file, dpi=110)
