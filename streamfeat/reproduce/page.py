"""The report of an experiment as one HTML file: tables, claims, pictures inside it, the command and the hashes."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamfeat
from streamfeat.reproduce.tables import tables_of

STYLE = (
    "body{font:15px sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left}"
    "code{background:#eee;overflow-wrap:anywhere}img{max-width:100%}"
)
HOLDS = {True: "holds", False: "does not hold here", None: "not told by this run"}


@dataclass(frozen=True)
class Page:
    """What a figure can be had again by: the command, and the SHA-256 of files and banks by name."""

    command: str
    hashes: Mapping[str, str]


def write_page(file: Path, report: Mapping[str, Any], page: Page, pictures: Sequence[tuple[str, bytes]]) -> None:
    """Write the report, whole by rename. Nothing in it is fetched from elsewhere."""
    body = [f"<h1>{_text(report['name'])}</h1>", f"<p>{_text(report['protocol'])}</p>"]
    body += [f"<p><code>{_text(page.command)}</code></p>", f"<p>streamfeat {_text(streamfeat.__version__)}, "]
    body += [f"{report['wall_s']} s</p>"]
    for title, picture in pictures:
        data = base64.b64encode(picture).decode()
        body.append(f'<p><img alt="{_text(title)}" src="data:image/png;base64,{data}"></p>')
    for table in tables_of(report["rows"]):
        body += [f"<h2>{_text(table.metric)}</h2>", _table(table.head, table.lines)]
    claims = [[claim["text"], HOLDS[claim["holds"]], claim["why"]] for claim in report["claims"]]
    body += ["<h2>What the paper says</h2>", _table(["claim", "here", "why"], claims)]
    items = "".join(f"<li>{_text(deviation)}</li>" for deviation in report["deviations"])
    body += ["<h2>Where this is not what the paper did</h2>", f"<ul>{items}</ul>"]
    body += ["<h2>SHA-256</h2>", _table(["what", "hash"], [[name, hash_] for name, hash_ in page.hashes.items()])]
    title = f"streamfeat reproduce {_text(report['name'])}"
    text = f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>' + "\n".join(body)
    part = file.with_name(f".{file.name}.part")
    part.write_text(text + "\n")
    part.replace(file)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [_cells("th", head), *(_cells("td", line) for line in lines)]
    return f"<table>{''.join(rows)}</table>"


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(text)}</{tag}>" for text in texts) + "</tr>"


def _text(value: object) -> str:
    return html.escape(str(value))
