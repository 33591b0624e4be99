"""An experiment of a paper: what it is, one run of it, and the report that comes of it."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import streamfeat
from streamfeat.bankspec import canonical_json
from streamfeat.directory import replace_file
from streamfeat.errors import ConfigError
from streamfeat.figures import MISSING, may_draw
from streamfeat.protocols.data import hash_of
from streamfeat.protocols.scores import sd_of
from streamfeat.reports.page import Page, Section, write_page
from streamfeat.reports.pictures import Panel, draw_panels
from streamfeat.reports.tables import Table, tables_of
from streamfeat.reproduce.journal import Journal

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
HOLDS = {True: "holds", False: "does not hold here", None: "not told by this run"}
"""Of a claim."""

SPENT = "wall_s"
"""The part of a journal that tells how long earlier runs took."""


class Run:
    """One run of an experiment, which goes on where an earlier one was stopped.

    Attributes
    ----------
    fast : bool
        The small form.
    data : Path, optional
        Where the user's data are; None: the usual places.
    folder : Path
        Where reports, and until then what is done so far, are kept.
    width : int, optional
        Numbers of a feature, where an experiment lets them be chosen; None: its own.
    hashes : dict
        What the figures depend on: files that were read and banks, by name.
    """

    def __init__(
        self,
        name: str,
        *,
        fast: bool,
        folder: Path,
        progress: Progress,
        data: Path | None = None,
        width: int | None = None,
    ) -> None:
        self.name, self.fast, self.folder, self.data, self.progress = name, fast, folder, data, progress
        self.width = width
        self.hashes: dict[str, str] = {}
        self._began, self._before = time.monotonic(), 0.0
        self._journal: Journal | None = None

    def begin(self, parameters: Mapping[str, Any]) -> Run:
        """Take up what an earlier run of this version with the same parameters left. Before the first part.

        Each set of parameters has a journal of its own: a look at the small form, or at another width, costs no stopped
        run of hours.
        """
        head = {"experiment": self.name, "version": streamfeat.__version__, **parameters}
        digest = hashlib.sha256(canonical_json(head).encode()).hexdigest()[:12]
        self._journal = Journal(self.folder / f"{self.name}-{digest}.journal", head)
        self._before = self._journal.get(SPENT) or 0.0
        return self

    @property
    def wall_s(self) -> float:
        """How long this run and those before it took."""
        return self._before + time.monotonic() - self._began

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """A part, plain JSON values: from disk, if it was done before; else computed and on disk when this returns."""
        kept = self.kept(name)
        return self.keep(name, compute()) if kept is None else kept

    def parts(self, names: Iterable[str], compute: Callable[[str], Any]) -> dict[str, Any]:
        """Parts by name, in order, with a progress bar."""
        names = list(names)
        done = {}
        with self.progress(self.name, len(names)) as advance:
            for name in names:
                done[name] = self.part(name, lambda name=name: compute(name))  # type: ignore[misc]
                advance(1)
        return done

    def kept(self, name: str) -> Any:
        """What was kept under that name, None if nothing was."""
        return self._parts.get(name)

    def keep(self, name: str, value: Any) -> Any:
        """Keep a part that was computed; gives it as it will be read again."""
        value = json.loads(json.dumps(value))
        self._parts.put(name, value)
        self._parts.put(SPENT, round(self.wall_s, 1))
        return value

    def read(self, place: Path) -> Path:
        """The file or folder, whose hash goes into the report."""
        self.hashes[place.name or place.resolve().name] = hash_of(place)  # "." has no name
        return place

    def finish(self) -> None:
        """The report is written and takes the parts' place."""
        self._parts.finish()

    def close(self) -> None:
        """Another run may go on with what is kept."""
        if self._journal is not None:
            self._journal.close()

    @property
    def _parts(self) -> Journal:
        assert self._journal is not None, "begin() comes before the first part"
        return self._journal


@dataclass(frozen=True)
class Findings:
    """What an experiment found.

    Attributes
    ----------
    rows : list of dict
        As `row` makes them.
    claims : list of dict
        As `claim` makes them: what the paper says, and whether it holds here.
    deviations : list of str
        Where this is not what the paper did.
    panels : sequence of Panel
        The pictures of the report.
    more : mapping
        Fields that the report has besides.
    """

    rows: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    deviations: list[str]
    panels: Sequence[Panel] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Its name, what is done in it in a sentence or two, what does it, and whether features may have any width."""

    name: str
    protocol: str
    measure: Callable[[Run], Findings]
    takes_width: bool = False


def reproduce(
    experiment: Experiment,
    *,
    fast: bool,
    folder: Path,
    progress: Progress,
    data: Path | None = None,
    width: int | None = None,
) -> dict[str, Any]:
    """Run an experiment, or go on with it, and write `folder/NAME.html` and `NAME.json`, NAME by `report_name`.

    Returns
    -------
    dict
        {"name", "protocol", "rows", "claims", "deviations", "wall_s"}. Rows are {"method", its settings, "metric",
        "mean", "sd", "seeds"}, claims {"text", "holds", "why"}; `holds` is None where this run cannot tell.

    Raises
    ------
    ConfigError
        A `width` for an experiment that takes none; data that are not there; another run with that folder; nothing to
        draw the report's pictures with.
    """
    if width is not None and not experiment.takes_width:
        raise ConfigError(f"features of {experiment.name} have the widths of its methods; leave --width {width} out")
    if not may_draw():
        raise ConfigError(MISSING)  # now, not after hours
    run = Run(experiment.name, fast=fast, folder=folder, progress=progress, data=data, width=width)
    try:
        found = experiment.measure(run)
        report = _written(experiment, run, found)
        run.finish()
    finally:
        run.close()
    return report


def _written(experiment: Experiment, run: Run, found: Findings) -> dict[str, Any]:
    """The report, which is on disk now."""
    report = {
        "name": experiment.name,
        "protocol": experiment.protocol,
        "rows": found.rows,
        "claims": found.claims,
        "deviations": found.deviations,
        "wall_s": round(run.wall_s, 1),
        **found.more,
    }
    text = json.dumps(report, indent=2, ensure_ascii=False) + "\n"
    name = report_name(run.name, run.fast, run.width)
    file = run.folder / f"{name}.json"
    replace_file(file, text)
    hashes = {**run.hashes, file.name: hashlib.sha256(text.encode()).hexdigest()}
    title = f"reproduce {experiment.name}"
    page = Page(title, experiment.protocol, command_of(run), hashes, report["wall_s"])
    write_page(run.folder / f"{name}.html", page, _sections(found))
    return report


def report_name(name: str, fast: bool, width: int | None) -> str:
    """What the files of a report are called: of each form its own, so that a small one replaces none of hours."""
    return "-".join([name, *(["fast"] if fast else []), *([str(width)] if width else [])])


def _sections(found: Findings) -> list[Section]:
    """Pictures, tables, what the paper says and whether it holds, deviations."""
    claims = [[claim["text"], HOLDS[claim["holds"]], claim["why"]] for claim in found.claims]
    return [
        Section(pictures=draw_panels(found.panels, found.rows)),
        *(Section(table.metric, table=table) for table in tables_of(found.rows)),
        Section("What the paper says", table=Table("", ["claim", "here", "why"], claims)),
        Section("Where this is not what the paper did", items=found.deviations),
    ]


def row(
    method: str,
    metric: str,
    values: float | Sequence[float],
    *,
    n_items: int | None = None,
    percent: bool = False,
    **setting: Any,
) -> dict[str, Any]:
    """A row of a report: mean and deviation of one value a seed.

    Parameters
    ----------
    n_items : int, optional
        Items behind each value, if that is a share of them: of a single seed the binomial error is then given.
    percent : bool
        Shares are told in per cent.
    setting : plain JSON values
        What the row was measured with, as n = 10.
    """
    several = np.atleast_1d(np.asarray(values, np.float64))
    sd_known = len(several) > 1 or n_items is not None
    unit = 100.0 if percent else 1.0
    return {
        "method": method,
        **setting,
        "metric": metric,
        "mean": rounded(unit * several.mean()),
        "sd": rounded(unit * sd_of(several.tolist(), n_items or 0)) if sd_known else None,
        "seeds": len(several),
    }


def claim(text: str, holds: bool | np.bool_ | None, why: str) -> dict[str, Any]:
    """What a paper says, whether it holds here (None: this run cannot tell), and the figures that show it."""
    return {"text": text, "holds": None if holds is None else bool(holds), "why": why}


def row_of(rows: Sequence[Mapping[str, Any]], method: str, metric: str, **setting: Any) -> Mapping[str, Any]:
    """The row of that method, metric and setting.

    Raises
    ------
    LookupError
        There is none.
    """
    wanted = {"method": method, "metric": metric, **setting}
    for some in rows:
        if all(some.get(key) == value for key, value in wanted.items()):
            return some
    raise LookupError(f"no row of {wanted}")


def mean_of(rows: Sequence[Mapping[str, Any]], method: str, metric: str, **setting: Any) -> float:
    """The mean in that row."""
    return float(row_of(rows, method, metric, **setting)["mean"])


def closeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What is said behind the means of two rows that differ by no more than their deviations together; else nothing."""
    apart = abs(one["mean"] - other["mean"])
    return ", within the deviation" if apart <= math.hypot(one["sd"], other["sd"]) else ""


def rounded(value: float) -> float:
    """To four figures, as it is shown."""
    return float(f"{value:.4g}")


def command_of(run: Run) -> str:
    """The command that gives the report again."""
    words = ["streamfeat", "reproduce", run.name, *(["--fast"] if run.fast else [])]
    words += ["--width", str(run.width)] if run.width else []
    return shlex.join([*words, *(["--data", str(run.data)] if run.data else []), "--out", str(run.folder)])
