"""Everything that the README tells a reader to type is run here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamfeat.signals import open_corpus
from tests import test_cli_serve, test_reproduce
from tests.files import png, wav16
from tests.terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """Every line of the sh blocks, comments left out."""
    lines = (line.partition(" #")[0].strip() for block in blocks("sh") for line in block.splitlines())
    return [line for line in lines if line]


HERE = {
    "path/to/tidigits": "CORPUS",
    "path/to/fsdd.zip": "FSDD",
    "path/to/pictures": "PICTURES",
    "features.npz": "OUT",
}
"""Placeholders of the README, and what stands for them."""

RUN = {
    ".venv/bin/streamfeat stream path/to/tidigits",
    ".venv/bin/streamfeat stream path/to/fsdd.zip --leave-one-speaker-out",
    ".venv/bin/streamfeat push path/to/pictures --out features.npz",
    ".venv/bin/streamfeat check path/to/pictures",
    ".venv/bin/streamfeat bank build digits-audio",
    ".venv/bin/streamfeat doctor",
}
"""Run as they are, to their end, with exit status 0."""

ELSEWHERE = {
    "scripts/quickstart": "test_quickstart_from_nothing_to_classified_digits",
    "scripts/test": "test_the_gate_is_what_ci_runs",
    ".venv/bin/streamfeat serve --bank digits-audio": "test_serve_ends_when_its_broker_does",
    ".venv/bin/streamfeat status": "test_serve_ends_when_its_broker_does",
    ".venv/bin/streamfeat reproduce xperm --fast": "test_the_command_prints_and_writes",
    ".venv/bin/streamfeat reproduce kernel-error --fast": "test_the_command_prints_and_writes",
    ".venv/bin/streamfeat reproduce mnist --fast": "test_the_command_prints_and_writes",
}
"""Run by the test named."""


@pytest.fixture(scope="module")
def quickstart() -> dict[str, dict[str, float]]:
    """`scripts/quickstart`, run once from another directory; its summary."""
    report = ROOT / "quickstart" / "report.json"
    report.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [str(ROOT / "scripts" / "quickstart"), "--json", str(report)],
        capture_output=True,
        check=False,
        cwd="/",
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    summary: dict[str, dict[str, float]] = json.loads(report.read_text())
    assert summary == json.loads((ROOT / "quickstart" / "summary.json").read_text())
    return summary


def test_every_command_has_its_test() -> None:
    """A command that is new in the README must be put into the table above, and no other be left in it."""
    assert set(commands()) == RUN | set(ELSEWHERE)
    assert set(ELSEWHERE.values()) <= set(globals()) | set(vars(test_cli_serve)) | set(vars(test_reproduce))
    assert all(placeholder in README for placeholder in HERE)


@pytest.mark.parametrize("command", sorted(RUN))
def test_a_command_runs_as_it_stands(command: str, cli: Terminal, corpus: Path) -> None:
    """Placeholders are files made here; exit status 0."""
    fsdd = cli.home / "fsdd.zip"
    with zipfile.ZipFile(fsdd, "w") as archive:
        for u in open_corpus(corpus).utterances:
            if u.label.isdigit():
                name = f"{u.label}_{str(u.speaker).replace('/', '-')}_{0 if u.take == 'a' else 5}.wav"
                archive.writestr(name, wav16(u.read().samples, 20_000))
    pictures = cli.home / "pictures"
    pictures.mkdir()
    for n in range(3):
        (pictures / f"{n}.png").write_bytes(png(np.roll(np.eye(28, dtype=np.uint8) * 255, n)))
    made = {"CORPUS": corpus, "FSDD": fsdd, "PICTURES": pictures, "OUT": cli.home / "features.npz"}
    words = [str(made[HERE[word]]) if word in HERE else word for word in shlex.split(command)]
    assert words[0] == ".venv/bin/streamfeat"
    ran = cli(*words[1:])
    assert ran.status == 0, ran
    assert "--out" not in words or made["OUT"].exists()


def test_the_gate_is_what_ci_runs() -> None:
    """`scripts/test` is running now, or CI is: it calls nothing else. The gate is style, types and these tests."""
    assert "exec scripts/test" in (ROOT / ".ci" / "run").read_text()
    gate = (ROOT / "scripts" / "test").read_text()
    assert "scripts/check" in gate
    assert "-m pytest" in gate
    check = (ROOT / "scripts" / "check").read_text()
    assert all(word in check for word in ("ruff check .", "ruff format --check .", "mypy"))


def test_quickstart_from_nothing_to_classified_digits(quickstart: dict[str, dict[str, float]]) -> None:
    """Every item answered; accuracy at least 0.90 and at least that of |G| = 1; a picture."""
    for name in ("audio", "image"):
        task = quickstart[name]
        assert task["sent"] == task["answered"] > 1000
        assert task["failed"] == 0
        assert task["accuracy"] >= 0.90
        assert task["accuracy"] >= task["accuracy_plain"]
    assert {"items_per_s", "p50_ms", "p99_ms", "wall_s"} <= set(quickstart)
    with Image.open(str(quickstart["picture"])) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 500


def test_the_python_block_runs_as_it_is(quickstart: dict[str, dict[str, float]]) -> None:
    """From the root of the repository, on the corpus that the quickstart made: five words are printed."""
    assert quickstart["audio"]["sent"] > 0
    code, _ = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT, text=True)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"'\w+'", done.stdout)) == 5


def test_the_lines_for_scikit_learn_run_as_they_are() -> None:
    """Cross-validation over groups beats 0.9 in each, and the search says which preset is the best."""
    _, code = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    scores, best = done.stdout.splitlines()
    assert len(rates := re.findall(r"[\d.]+", scores)) == 4
    assert min(map(float, rates)) > 0.9
    assert "invariantfeatures__spec" in best


def test_files_the_readme_points_to_are_there() -> None:
    """Links and pictures lead somewhere."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_presets_without_pictures_of_their_own_are_said_to_need_some(cli: Terminal) -> None:
    """What the README says of `--from` is what `bank build` says."""
    told = re.search(r"`--from FOLDER`[^;]*; `(\w+)` and `(\w+)` need it", README)
    assert told is not None
    for name in told.groups():
        cli("bank", "build", name).refused(78, f"'{name}' takes its templates from pictures of your own")
