"""What several test files share, made once: a corpus, the presets' banks, a fleet that serves them, the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamfeat.presets import ensure_bank
from streamfeat.synth import synthesise_corpus
from tests.terminal import Terminal, terminal


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two speakers to train and one to test, 66 words and two strings of digits, in TIDIGITS' layout."""
    return synthesise_corpus(tmp_path_factory.mktemp("spoken") / "corpus", n_train_speakers=2, n_test_speakers=1)


@pytest.fixture(scope="session")
def audio_bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bank of digits-audio; its parent holds the image bank as well."""
    root = tmp_path_factory.mktemp("presets") / "banks"
    ensure_bank("digits-image", root)
    return ensure_bank("digits-audio", root)


@pytest.fixture
def cli(tmp_path: Path, audio_bank: Path) -> Iterator[Terminal]:
    """A terminal with its own state, beside the presets' banks."""
    with terminal(tmp_path, run_dir=Path(tempfile.mkdtemp(prefix="sf-")), banks=audio_bank.parent) as made:
        yield made


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, audio_bank: Path) -> Iterator[Terminal]:
    """A terminal beside a fleet of `streamfeat serve` with both presets' banks that no test harms."""
    home = tmp_path_factory.mktemp("served")
    with (
        terminal(home, run_dir=Path(tempfile.mkdtemp(prefix="sf-")), banks=audio_bank.parent) as made,
        made.serving("--bank", "digits-audio", "--bank", "digits-image"),
    ):
        yield made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: setuptools would put what an older build/ holds into it."""
    root = tmp_path_factory.mktemp("wheel")
    left = shutil.ignore_patterns(".*", "build", "dist", "quickstart", "*.egg-info", "__pycache__")
    shutil.copytree(Path(__file__).resolve().parent.parent, root / "checkout", ignore=left)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(root)]
    subprocess.run([*command, str(root / "checkout")], check=True, timeout=120)
    [built] = root.glob("*.whl")
    return built
