"""`streamfeat demo`: where it works, and what it asks for first. It runs the quickstart: tests/test_readme.py."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal, terminal


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal without banks: none of these tests comes so far."""
    with terminal(tmp_path, run_dir=Path(tempfile.mkdtemp(prefix="sf-"))) as made:
        yield made


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra were not installed: None in sys.modules is what an import that must fail looks like."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("without_matplotlib")
def test_a_missing_extra_is_named_before_the_work(cli: Terminal) -> None:
    """Status 78, the package and the extra in the message, nothing made."""
    folder = cli.home / "demo"
    ran = cli("demo", "--folder", folder)
    assert (ran.status, ran.out) == (78, "")
    assert ran.err.splitlines()[0] == f"demo in {folder}"
    assert "matplotlib" in ran.err
    assert "streamfeat[quickstart]" in ran.err
    assert not folder.exists()


@pytest.mark.usefixtures("without_matplotlib")
def test_it_works_in_the_cache_unless_told_otherwise(cli: Terminal, tmp_path: Path) -> None:
    """$XDG_CACHE_HOME/streamfeat/demo; a new temporary folder where that cannot be; named either way."""
    cache = Terminal(cli.home, cli.run_dir, {**cli.variables, "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert f"demo in {tmp_path}/cache/streamfeat/demo\n" in cache("demo").err
    (tmp_path / "file").write_text("no folder can be below it")
    elsewhere = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    said = Terminal(cli.home, cli.run_dir, {**cli.variables, **elsewhere})("demo").err.splitlines()[0]
    made = Path(said.removeprefix("demo in "))
    assert made.name.startswith("streamfeat-demo-")
    made.rmdir()
