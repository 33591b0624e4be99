"""The report of an evaluation as one HTML file: curves, confusion, ROC, times, the command and the hashes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from streamfeat.protocols.data import data_folder, hash_of
from streamfeat.protocols.evaluate import PROTOCOLS, Request
from streamfeat.reports.page import Page, Section, write_page
from streamfeat.reports.pictures import Panel, draw_confusion, draw_panels, draw_rocs, draw_times
from streamfeat.reports.tables import Table, tables_of

COUNTED = re.compile(r"(?P<n>\d+) (?P<what>label|take)s?, (?P<rest>.*)")
"""A column of one number of training items among several."""

SPREAD = {"seeds": "± is the deviation over seeds", "items": "± is the binomial error of the items"}


def write_evaluation(file: Path, report: Mapping[str, Any], request: Request) -> None:
    """Write the report of `evaluate` for that request. Nothing in it is fetched from elsewhere.

    Raises
    ------
    ConfigError
        matplotlib is missing; tells what to install.
    """
    about = f"{report['preset']}: {report['seeds']} {report['seeds_of']}. " + "; ".join(
        f"{name}: {SPREAD[figures['sd_over']]}" for name, figures in report["methods"].items()
    )
    hashes = hashes_of(report, request)
    page = Page(f"evaluate {report['protocol']}", about, request.command(), hashes, report["wall_s"])
    write_page(file, page, list(_sections(report)))


def hashes_of(report: Mapping[str, Any], request: Request) -> dict[str, str]:
    """SHA-256 of the report as JSON, of the methods' banks, of the protocol's data and of what was given."""
    root = data_folder(request.train_data)
    hashes = {"report": hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()}
    hashes |= {f"bank of {name}": some["bank"] for name, some in report["methods"].items() if some["bank"]}
    places = [root / name for name in PROTOCOLS[request.protocol].data]
    if request.given is not None:
        places.append(request.given)
    return hashes | {place.name: hash_of(place) for place in places if place.exists()}


def rows_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each method and column, whose metric says what was asked; how many items trained is a setting."""
    rows = []
    for method, figures in report["methods"].items():
        for column, mean in figures["accuracy"].items():
            found = COUNTED.fullmatch(column)
            setting = {f"{found['what']}s": int(found["n"])} if found else {}
            asked = found["rest"] if found else column
            rows.append({"method": method, **setting, "metric": asked, "mean": mean, "sd": figures["sd"][column]})
    return rows


def _sections(report: Mapping[str, Any]) -> Iterator[Section]:
    methods = report["methods"]
    what = "verification rate" if "roc" in report else "accuracy"
    rows, panels = panels_of(rows_of(report), what)
    yield Section(what.capitalize(), draw_panels(panels, rows))
    for table in tables_of(rows):
        yield Section(table.metric, table=table)
    if "confusion" in report:
        best = max(report["accuracy"], key=report["accuracy"].__getitem__)
        pictures = [draw_confusion(f"{name}: {best}", **some["confusion"][best]) for name, some in methods.items()]
        yield Section("Confusion, over all seeds", pictures)
    if "roc" in report:
        yield Section("ROC, means over splits", [draw_rocs(name, some["roc"]) for name, some in methods.items()])
    times = draw_times("from a signal to its feature, one by one", {m: some["ms_alone"] for m, some in methods.items()})
    cost = [[name, f"{some['ms_per_item']:.3g}", str(some["dim"])] for name, some in methods.items()]
    yield Section("Time", [times], Table("", ["method", "ms an item, 16 in one go", "numbers"], cost))
    yield Section("Notes", items=report["notes"])


def panels_of(rows: Sequence[dict[str, Any]], what: str) -> tuple[list[dict[str, Any]], list[Panel]]:
    """A curve for each kind of items that were asked after several numbers of training items; the others are bars.

    Returns
    -------
    rows : list of dict
        Their metric is `what`: of the curves with what was asked, of the bars with that in the method's name.
    panels : list of Panel
    """
    counts: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        for setting in ("labels", "takes"):
            if setting in row:
                counts.setdefault((row["metric"], setting), set()).add(row[setting])
    curves = {asked: setting for (asked, setting), some in counts.items() if len(some) > 1}
    panels = [Panel(f"{what}, {asked}", f"{what}, {asked}", setting, "x") for asked, setting in curves.items()]
    kept = [{**row, "metric": f"{what}, {row['metric']}"} for row in rows if row["metric"] in curves]
    bars = [
        {**row, "method": f"{row['method']}: {row['metric']}", "metric": what}
        for row in rows
        if row["metric"] not in curves
    ]
    return [*kept, *bars], [*panels, Panel(what, what)]
