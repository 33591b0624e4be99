"""The synthetic corpus: TIDIGITS' layout, the same bytes for the same parameters, never half a corpus."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.signals import open_corpus, parse_header
from streamfeat.synth import KINDS, cast, synthesise_corpus


def small(out: Path, *, seed: int = 0, progress: Callable[[int], None] | None = None) -> Path:
    """Eight speakers, one of each kind in either split."""
    return synthesise_corpus(out, n_train_speakers=4, n_test_speakers=4, seed=seed, progress=progress)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight speakers, made once for this file."""
    return small(tmp_path_factory.mktemp("synth") / "digits")


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_it_reads_as_tidigits(made: Path) -> None:
    """Eleven words, both takes, every kind in both splits; strings are skipped, or read when asked for."""
    corpus = open_corpus(made)
    assert corpus.layout == "tidigits"
    assert corpus.labels == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "oh", "zero")
    assert corpus.speakers == tuple(sorted(f"{split}/{kind}/aa" for split in ("train", "test") for kind in KINDS))
    assert len(corpus.utterances) == 8 * 22
    assert len(corpus.skipped) == 4  # speakers 0 and 5 of 0 to 7 say two each
    assert len(open_corpus(made, strings=True).utterances) == 8 * 22 + 4


def test_every_file_is_speech_at_20_khz(made: Path) -> None:
    """Every file passes its checksum and holds a word of plausible length, loud in the middle and quiet at the ends."""
    for utterance in open_corpus(made).utterances:
        signal = utterance.read()
        assert signal.rate_hz == 20_000
        assert 0.2 < len(signal.samples) / 20_000 < 2.0
        x = np.abs(signal.unit_scale())
        assert x.max() > 0.2
        assert max(x[:600].max(), x[-600:].max()) < 0.01


def test_both_byte_orders_are_there(made: Path) -> None:
    """About half of the files are big-endian; all carry the usual fields."""
    headers = [parse_header(data) for name, data in contents(made).items() if name.endswith(".wav")]
    assert {h["sample_byte_format"] for h in headers} == {"01", "10"}
    assert all(h["sample_coding"] == "pcm" and "sample_checksum" in h and "speaker_id" in h for h in headers)


def test_takes_and_speakers_differ(made: Path) -> None:
    """No two recordings of a word are alike."""
    ones = [u.read().samples.tobytes() for u in open_corpus(made).utterances if u.label == "1"]
    assert len(set(ones)) == len(ones) == 16


def test_the_same_parameters_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    """A second corpus is equal byte for byte; another seed is not; progress counts every speaker."""
    steps: list[int] = []
    again = small(tmp_path / "again", progress=steps.append)
    assert contents(again) == contents(made)
    assert steps == [1] * 8
    other = synthesise_corpus(
        tmp_path / "other", n_train_speakers=1, n_test_speakers=0, takes="a", strings=False, seed=1
    )
    assert len(contents(other)) == 11 + 1
    assert not set(contents(other).values()) & set(contents(made).values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "other"]  # nothing partial is left


def test_what_is_made_is_not_made_again(made: Path) -> None:
    """A second call with the same parameters touches nothing; with others it is refused."""
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert small(made) == made
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    with pytest.raises(InvalidArgument, match=r"a corpus made with.*'seed': 0"):
        small(made, seed=1)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Files of others are neither mixed in nor removed; a file in the way is refused too."""
    (tmp_path / "notes.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InvalidArgument, match="something else"):
            synthesise_corpus(out)
    assert contents(tmp_path) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("wrong", [{"n_train_speakers": 0}, {"n_test_speakers": -1}, {"takes": ""}, {"takes": "abc"}])
def test_parameters_out_of_range_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """Before anything is spoken."""
    with pytest.raises(InvalidArgument, match=r"needed|takes"):
        synthesise_corpus(tmp_path / "x", **wrong)


def test_the_missing_engine_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without espeak-ng the extra to install is named, and nothing is left behind."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "espeakng_loader", raising=False)
    with pytest.raises(ConfigError, match=r"pip install streamfeat\[synth\]"):
        synthesise_corpus(tmp_path / "x")
    assert contents(tmp_path) == {}


def test_speakers_are_distinct_and_splits_share_no_variant() -> None:
    """For many speakers no two have the same voice; what is heard in training is not heard in test."""
    speakers = cast({"seed": 3, "n_train_speakers": 400, "n_test_speakers": 200})
    voices = {(s.variant, s.pitch, s.liveliness, s.words_a_minute, s.formants) for s in speakers}
    assert len(voices) == 600
    assert len({(s.split, s.kind, s.id) for s in speakers}) == 600
    train, test = ({s.variant for s in speakers if s.split == split} for split in ("train", "test"))
    assert train
    assert test
    assert not train & test


def test_the_marker_lists_the_speakers(made: Path) -> None:
    """corpus.json says who spoke with which voice."""
    marker = json.loads((made / "corpus.json").read_text())
    assert [s["kind"] for s in marker["speakers"]] == [*KINDS, *KINDS]
