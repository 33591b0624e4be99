"""Pictures of what was measured, beside the JSON of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamfeat.figures import new_panels, save_png

Report = dict[str, Any]

STYLES = {"p999_ms": "^:", "p99_ms": "s--", "p50_ms": "o-", "queue_ms": "x-", "compute_ms": "+-"}


def draw_kernels(file: Path, report: Report) -> None:
    """CPU time an item against each thing that grows, a panel each; dotted: in proportion to it."""
    grown = [row for row in report["rows"] if "against" in row]
    names = list(dict.fromkeys(row["against"] for row in grown))
    figure, panels = new_panels(len(names))
    for axis, name in zip(panels, names, strict=True):
        x, y = zip(*((row["value"], row["cpu_ms"]) for row in grown if row["against"] == name), strict=True)
        axis.plot(x, y, "o-", label="measured")
        axis.set(xscale="log", xlabel=name, ylabel="ms an item, one thread", title=f"against {name}")
        if name == "batch":  # an item takes as long in any
            axis.set_ylim(0, 1.5 * max(y))
        else:
            axis.set_yscale("log")
            axis.plot(x, [y[-1] * value / x[-1] for value in x], "C0:", label="in proportion")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    save_png(figure, file)


def draw_fleet(file: Path, report: Report) -> None:
    """Latency under Poisson load, a panel a kind of item: percentiles, and what of them is queue and computing."""
    kinds = [what for what in ("image", "audio") if what in report]
    figure, panels = new_panels(len(kinds))
    for axis, what in zip(panels, kinds, strict=True):
        rows = report[what]["open"]
        x = [row["offered_per_s"] for row in rows]
        for key, style in STYLES.items():
            axis.plot(x, [max(row[key], 1e-3) for row in rows], style, label=key.removesuffix("_ms"))
        axis.axvline(report[what]["fleet_items_per_s"], color="C0", linestyle=":", label="fleet, closed loop")
        axis.axvline(report[what]["inprocess_items_per_s"], color="C1", linestyle=":", label="in process")
        axis.set(yscale="log", xlabel="items a second", ylabel="ms", title=f"{what}: {report[what]['bank']}")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    save_png(figure, file)


def draw_peers(file: Path, report: Report) -> None:
    """Accuracy against milliseconds an item, a panel a column of a protocol; ours are filled."""
    columns = list(dict.fromkeys((row["protocol"], row["column"]) for row in report["rows"]))
    figure, panels = new_panels(len(columns))
    for axis, column in zip(panels, columns, strict=True):
        for row in (row for row in report["rows"] if (row["protocol"], row["column"]) == column):
            axis.plot(row["ms_per_item"], row["accuracy"], "o", mfc="C0" if row["ours"] else "none", mec="C0")
            axis.annotate(
                row["method"], (row["ms_per_item"], row["accuracy"]), (4, 4), textcoords="offset points", fontsize=8
            )
        axis.set(xscale="log", xlabel="ms an item, one thread", ylabel="accuracy", title=", ".join(column))
        axis.grid(alpha=0.3)
    save_png(figure, file)
