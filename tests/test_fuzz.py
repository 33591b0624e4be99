"""The short form of scripts/fuzz: two thousand mutated files and messages, each read or refused in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import MOST_S, TARGETS, Target, fuzz, try_one


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.filterwarnings("ignore")  # Pillow and libsndfile remark on damaged files
def test_mutated_inputs_are_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a refusal, within the time and the memory."""
    monkeypatch.chdir(tmp_path)  # where an input that fails is saved
    assert fuzz(name, 60, seed=1, n_most=300) > 50


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_are_good(name: str) -> None:
    """What is mutated is read as it is, so that mutants get past the first check."""
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)
        assert try_one(name, seed) < MOST_S


def test_a_failure_is_saved_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another exception than a refusal stops the run; its input can be tried again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TARGETS, "broken", Target(lambda data: data[1000], [b"seed"]))
    with pytest.raises(AssertionError, match=r"broken: IndexError.*fuzz-broken-\w+\.bin"):
        fuzz("broken", 5, seed=0)
    [saved] = tmp_path.glob("fuzz-broken-*.bin")
    with pytest.raises(IndexError):
        try_one("broken", saved.read_bytes())
