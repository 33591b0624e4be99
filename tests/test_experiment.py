"""The frame of the papers' experiments: rows, claims, resuming, and the report as one file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streamfeat.errors import ConfigError
from streamfeat.reports.pictures import Panel
from streamfeat.reports.tables import settings_of, tables_of
from streamfeat.reproduce import experiment
from streamfeat.reproduce.experiment import (
    Experiment,
    Findings,
    Run,
    claim,
    closeness,
    mean_of,
    report_name,
    reproduce,
    row,
)


@contextmanager
def silent(description: str, total: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001 - as the bar of the commands
    """A progress bar that nobody sees."""
    yield lambda _n: None


def counting(computed: list[int], stop_at: int | None = None) -> Experiment:
    """An experiment of four parts, which notes what it computes and may be stopped by hand."""

    def square(part: str) -> list[float]:
        if int(part) == stop_at:
            raise KeyboardInterrupt
        computed.append(int(part))
        return [int(part) ** 2 / 10, int(part) ** 2 / 10 + 0.2]

    def measure(run: Run) -> Findings:
        run.begin({"fast": run.fast})
        squares = run.parts(map(str, range(1, 5)), square)
        rows = [row("ours", "squares", values, n=int(part)) for part, values in squares.items()]
        rows.append(row("<theirs>", "squares", 0.5, n=1))
        claims = [claim("Squares grow.", rows[3]["mean"] > rows[0]["mean"], "1.7 > 0.2"), claim("Both.", None, "?")]
        panels = [Panel("all of them", "squares", "n", "x"), Panel("none", "cubes")]
        return Findings(rows, claims, ["tenths"], panels)

    return Experiment("squares", "Squares of whole numbers.", measure)


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """Stopped in its third part, it computes that and the next only; the report is that of one run, of both's time."""
    computed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        reproduce(counting(computed, stop_at=3), fast=True, folder=tmp_path / "a", progress=silent)
    (journal,) = tmp_path.glob("a/*.journal")
    spent = [json.loads(line)["value"] for line in journal.read_text().splitlines()[1:] if "wall_s" in line][-1]
    journal.write_text(journal.read_text().replace(f'"wall_s", "value": {spent}', '"wall_s", "value": 1000.0'))
    again = reproduce(counting(computed), fast=True, folder=tmp_path / "a", progress=silent)
    assert computed == [1, 2, 3, 4]
    assert 1000 <= again["wall_s"] < 2000
    whole = reproduce(counting([]), fast=True, folder=tmp_path / "b", progress=silent)
    assert {**again, "wall_s": 0} == {**whole, "wall_s": 0}
    assert not list(tmp_path.glob("*/*.journal"))


def test_the_small_form_leaves_a_stopped_run_alone(tmp_path: Path) -> None:
    """What a run of the full form has done is there after a look at the small one."""
    computed: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        reproduce(counting(computed, stop_at=3), fast=False, folder=tmp_path, progress=silent)
    reproduce(counting([]), fast=True, folder=tmp_path, progress=silent)
    reproduce(counting(computed), fast=False, folder=tmp_path, progress=silent)
    assert computed == [1, 2, 3, 4]


def test_each_form_has_a_report_of_its_own(tmp_path: Path) -> None:
    """A look at the small one replaces no report of hours, nor does one width another."""
    reproduce(counting([]), fast=False, folder=tmp_path, progress=silent)
    before = (tmp_path / "squares.html").read_bytes()
    reproduce(counting([]), fast=True, folder=tmp_path, progress=silent)
    assert (tmp_path / "squares.html").read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {
        f"squares{form}.{kind}" for form in ("", "-fast") for kind in ("html", "json")
    }
    assert report_name("squares", False, 8) == "squares-8"


def test_what_the_pictures_need_is_missed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib nothing is computed, and the message says what to install."""
    monkeypatch.setattr(experiment, "may_draw", lambda: False)
    computed: list[int] = []
    with pytest.raises(ConfigError, match="pip install"):
        reproduce(counting(computed), fast=True, folder=tmp_path, progress=silent)
    assert computed == []


def test_the_report_is_one_file(tmp_path: Path) -> None:
    """Tables, claims, the picture inside, the command, the hash of the JSON beside it; names are text, never markup."""
    report = reproduce(counting([]), fast=True, folder=tmp_path, progress=silent)
    assert list(report) == ["name", "protocol", "rows", "claims", "deviations", "wall_s"]
    text = (tmp_path / "squares-fast.html").read_text()
    assert json.loads((tmp_path / "squares-fast.json").read_text()) == report
    assert hashlib.sha256((tmp_path / "squares-fast.json").read_bytes()).hexdigest() in text
    assert text.count("data:image/png;base64,iVBORw0KGgo") == 1
    for said in ("streamfeat reproduce squares --fast --out", "not told by this run", "tenths", "&lt;theirs&gt;"):
        assert said in text
    assert "<theirs>" not in text
    assert "http" not in text


def test_what_is_read_has_a_name_and_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, and the folder that one works in, by its own name."""
    (tmp_path / "some").write_bytes(b"123")
    monkeypatch.chdir(tmp_path)
    run = Run("squares", fast=True, folder=tmp_path / "out", progress=silent)
    assert [run.read(place) for place in (tmp_path / "some", Path())] == [tmp_path / "some", Path()]
    assert run.hashes["some"] == hashlib.sha256(b"123").hexdigest()
    assert set(run.hashes) == {"some", tmp_path.name}


def test_rows() -> None:
    """Mean and deviation over seeds; of one seed the binomial error, or none where nothing is a share of items."""
    assert row("a", "accuracy", [0.5, 0.7], n=3) == {
        "method": "a", "n": 3, "metric": "accuracy", "mean": 0.6, "sd": 0.1414, "seeds": 2,
    }  # fmt: skip
    assert row("a", "accuracy", 0.5, n_items=100)["sd"] == 0.05
    assert row("a", "MAE", 0.5)["sd"] is None
    several, single = (row("a", "error, %", some, n_items=100, percent=True) for some in ([0.5, 0.7], 0.5))
    assert (several["mean"], several["sd"], single["mean"], single["sd"]) == (60.0, 14.14, 50.0, 5.0)
    rows = [row("a", "accuracy", 0.5, n=1), row("a", "accuracy", 0.75, n=2)]
    assert mean_of(rows, "a", "accuracy", n=2) == 0.75
    near, far = {"mean": 0.6, "sd": 0.03}, {"mean": 0.66, "sd": 0.04}
    assert closeness(near, near) == ", within the deviation"
    assert closeness(near, far) == closeness(far, near) == ""
    with pytest.raises(LookupError, match="'n': 7"):
        mean_of(rows, "a", "accuracy", n=7)


def test_a_table_has_the_setting_that_varies_most_across() -> None:
    """Two settings: sizes across in order, the other beside the method; what stands behind the seeds is no setting."""
    rows: list[dict[str, Any]] = [
        {**row("a", "accuracy", 0.5, m=m, r=4), "spectral": 0.1} for m in (100, 10, 1000)
    ]  # fmt: skip
    assert settings_of(rows[0]) == ["m", "r"]
    (table,) = tables_of(rows)
    assert table.head == ["method", "m = 10", "m = 100", "m = 1000"]
    assert table.lines == [["a (r 4)", "0.5", "0.5", "0.5"]]
    (table,) = tables_of(rows[:1])
    assert table.lines == [["a (m 100, r 4)", "0.5"]]
    split = row("a", "accuracy", 0.25, split="girl")
    assert [len(table.lines) for table in tables_of([*rows, split])] == [1, 1]


def test_a_panel_has_the_rows_of_its_settings() -> None:
    """A curve against n has no rows that vary something else at one n; bars have whatever `where` lets in."""
    curve = [row("a", "accuracy", 0.5, n=n) for n in (1, 10)]
    sweep = [row("a by m", "accuracy", 0.5, n=10, m=m) for m in (5, 7)]
    rows = [*curve, *sweep]
    assert Panel("", "accuracy", "n").rows(rows) == curve
    assert Panel("", "accuracy", "m", where={"n": 10}).rows(rows) == sweep
    assert Panel("", "accuracy", where={"n": 10}).rows(rows) == [curve[1], *sweep]
    assert Panel("", "error", "n").rows(rows) == []
