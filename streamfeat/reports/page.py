"""A report as one HTML file: text, tables, pictures inside it, the command and the hashes. Nothing is fetched."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamfeat
from streamfeat.directory import replace_file
from streamfeat.reports.tables import Table

STYLE = (
    "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left}"
    "code{background:#eee;overflow-wrap:anywhere}img{max-width:100%}"
)


@dataclass(frozen=True)
class Section:
    """A heading, and below it pictures (title, PNG), a table, a list."""

    title: str = ""
    pictures: Sequence[tuple[str, bytes]] = ()
    table: Table | None = None
    items: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """What a page begins and ends with.

    Attributes
    ----------
    title, about : str
    command : str
        What a figure can be had again by.
    hashes : mapping
        SHA-256 of files and banks, by name.
    wall_s : float
    """

    title: str
    about: str
    command: str
    hashes: Mapping[str, str]
    wall_s: float


def write_page(file: Path, page: Page, sections: Sequence[Section]) -> None:
    """Write the report, whole by rename."""
    body = [f"<h1>{_text(page.title)}</h1>", f"<p>{_text(page.about)}</p>"]
    body += [f"<p><code>{_text(page.command)}</code></p>"]
    body += [f"<p>streamfeat {_text(streamfeat.__version__)}, {page.wall_s} s</p>"]
    hashes = Table("", ["what", "hash"], [[name, hash_] for name, hash_ in page.hashes.items()])
    for section in (*sections, Section("SHA-256", table=hashes)):
        body += _section(section)
    title = f"streamfeat {_text(page.title)}"
    text = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>' + "\n".join(body)
    replace_file(file, text + "\n")


def _section(section: Section) -> list[str]:
    lines = [f"<h2>{_text(section.title)}</h2>"] if section.title else []
    for title, picture in section.pictures:
        data = base64.b64encode(picture).decode()
        lines.append(f'<p><img alt="{_text(title)}" src="data:image/png;base64,{data}"></p>')
    if section.table is not None:
        rows = [_cells("th", section.table.head), *(_cells("td", line) for line in section.table.lines)]
        lines.append(f"<table>{''.join(rows)}</table>")
    if section.items:
        lines.append(f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in section.items)}</ul>")
    return lines


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts) + "</tr>"


def _text(value: object) -> str:
    return html.escape(str(value))
