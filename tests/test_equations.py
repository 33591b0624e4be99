"""The table of the papers' equations leads to code that is there and documented."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

TABLE = (Path(__file__).resolve().parents[1] / "docs" / "equations.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(streamfeat\.[\w.]+)`", TABLE)))


def resolve(name: str) -> Any:
    """The object of a dotted name: the longest importable module, then attributes."""
    pieces = name.split(".")
    for n in range(len(pieces), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(pieces[:n]))
        except ModuleNotFoundError:
            continue
        for piece in pieces[n:]:
            found = getattr(found, piece)
        return found
    raise AssertionError(f"nothing of {name} can be imported")


@pytest.mark.parametrize("name", NAMES)
def test_every_equation_leads_to_documented_code(name: str) -> None:
    """The name is there, is no module, and has a docstring."""
    found = resolve(name)
    assert callable(found)
    assert found.__doc__
    assert len(found.__doc__.strip()) > 20


def test_no_numbered_equation_is_left_out() -> None:
    """Equations (1) of paper A and (1) to (7) of paper B, the lemma and the theorems."""
    first, second = TABLE.split("## B.")
    for wanted in ("(1)", "Theorem 1", "Theorem 2"):
        assert wanted in first
    for wanted in (*(f"({n})" for n in range(1, 8)), "Lemma 2.1", "Theorem 3.1"):
        assert wanted in second
