"""Rows of a report as tables for people: methods down, the setting that varies most across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """Its metric, the names of its columns, and its lines, all text."""

    metric: str
    head: list[str]
    lines: list[list[str]]


def tables_of(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """A table for each metric and kind of setting, in order of appearance."""
    parts: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        parts.setdefault((row["metric"], *sorted(settings_of(row))), []).append(row)
    return [_table(key[0], some) for key, some in parts.items()]


def settings_of(row: Mapping[str, Any]) -> list[str]:
    """Names of what a row was measured with: they stand between its method and its metric."""
    names = list(row)
    return names[names.index("method") + 1 : names.index("metric")]


def _table(metric: str, rows: list[Mapping[str, Any]]) -> Table:
    across = _across(rows)
    values: list[Any] = list(dict.fromkeys(row.get(across) for row in rows)) if across else [None]
    if all(isinstance(value, int | float) for value in values):
        values.sort()
    cells: dict[str, dict[Any, str]] = {}
    for row in rows:
        others = ", ".join(f"{name} {row[name]}" for name in settings_of(row) if name != across)
        name = f"{row['method']} ({others})" if others else str(row["method"])
        cells.setdefault(name, {})[row.get(across) if across else None] = _cell(row)
    head = [f"{across} = {value}" if across else "mean ± sd" for value in values]
    lines = [[name, *(some.get(value, "") for value in values)] for name, some in cells.items()]
    return Table(metric, ["method", *head], lines)


def _across(rows: list[Mapping[str, Any]]) -> str | None:
    """The setting that takes most values; none, if that is one."""
    n_values = {name: len({row[name] for row in rows}) for name in settings_of(rows[0])}
    best = max(n_values, key=lambda name: n_values[name], default=None)
    return best if best is not None and n_values[best] > 1 else None


def _cell(row: Mapping[str, Any]) -> str:
    return f"{row['mean']:.4g}" if row["sd"] is None else f"{row['mean']:.4g} ±{row['sd']:.2g}"
