"""Completion of the command line in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.terminal import EXECUTABLE, Terminal


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(cli: Terminal, shell: str) -> None:
    """It asks `streamfeat` itself what may come next."""
    ran = cli("completion", shell)
    assert ran.status == 0
    assert f"_STREAMFEAT_COMPLETE={shell}_complete" in ran.out


@pytest.mark.parametrize(
    ("line", "wanted"), [("streamfeat st", {"status", "stream"}), ("streamfeat serve --no", {"--no-page"})]
)
def test_commands_and_options_are_completed(line: str, wanted: set[str]) -> None:
    """What the script of bash asks, asked by hand."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1), "_STREAMFEAT_COMPLETE": "bash_complete"}
    done = subprocess.run([EXECUTABLE], env={**os.environ, **words}, capture_output=True, check=True, text=True)
    assert {found.partition(",")[2] for found in done.stdout.split()} == wanted


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_takes_the_script(tmp_path: Path, cli: Terminal) -> None:
    """Evaluated, it registers a completion for the command."""
    script = tmp_path / "completion.bash"
    script.write_text(cli("completion", "bash").out)
    asked = f"source {script} && complete -p streamfeat"
    done = subprocess.run(["bash", "--norc", "-c", asked], capture_output=True, check=True, text=True)  # noqa: S607
    assert "streamfeat" in done.stdout
