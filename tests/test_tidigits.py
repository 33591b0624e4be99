"""The spoken digits' experiment, small, on tones in TIDIGITS' layout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.protocols.data import hash_of
from streamfeat.reproduce import tidigits
from streamfeat.reproduce.experiment import Run, reproduce
from streamfeat.reproduce.spoken import RANDOM, SPLITS
from streamfeat.signals.sphere import write_sphere
from tests.protocol_data import speech_data
from tests.test_experiment import silent

SPEAKERS = {
    "train": ("man/aa", "man/ab", "woman/ac", "woman/ad", "boy/ae"),
    "test": ("man/ba", "woman/bb", "boy/bc", "girl/bd"),
}
METHODS = ("CDF, spectrogram", "CDF, raw waveform", "CDF, raw waveform, shifts", "CDF, spectrogram, |G| = 1", "MFCC")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three words of 0.3 s, each a chirp of its own, at the speaker's pitch."""
    folder = tmp_path_factory.mktemp("tidigits")
    rng = np.random.default_rng(0)
    t = np.arange(2400) / 8000
    for split, speakers in SPEAKERS.items():
        for speaker in speakers:
            pitch = rng.uniform(0.8, 1.25)
            (folder / split / speaker).mkdir(parents=True)
            for digit in "123":
                tone = np.sin(2 * np.pi * pitch * (300 * int(digit) + 900 * t * (int(digit) - 2)) * t)
                samples = (8000 * (tone + 0.01 * rng.standard_normal(t.size))).astype(np.int16)
                write_sphere(folder / split / speaker / f"{digit}a.wav", samples, 8000)
            write_sphere(folder / split / speaker / "oa.wav", samples, 8000)
    return folder


@pytest.fixture(scope="module")
def report(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Five methods on it; claims need them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tidigits, "FAST", tidigits.Extent(2, 1, (4, 4), 16))
        patch.setattr(tidigits, "METHODS", {name: tidigits.METHODS[name] for name in METHODS})
        patch.setattr(tidigits, "_claims", lambda _rows: [])
        folder = tmp_path_factory.mktemp("out")
        return reproduce(tidigits.TIDIGITS, fast=True, folder=folder, progress=silent, data=corpus)


def test_a_corpus_of_ones_own_is_what_is_measured(report: dict[str, Any]) -> None:
    """Curve and splits of it alone, the words learned; no deviation says that something stands in."""
    assert {row["corpus"] for row in report["rows"]} == {tidigits.REAL}
    some = [row for row in report["rows"] if row["method"] == METHODS[0] and row["metric"] == "RLS accuracy"]
    assert [row["split"] for row in some if "split" in row] == [RANDOM, *SPLITS]
    assert [(row["n"], row["seeds"]) for row in some if "n" in row] == [(2, 2), (4, 2), (5, 1)]
    assert next(row["mean"] for row in some if row.get("split") == RANDOM) > 0.5  # chance is a third
    assert not any("stands in" in said or "licensed" in said for said in report["deviations"])


def test_what_stands_in_is_looked_for(tmp_path: Path) -> None:
    """A folder without the corpora is refused with what was needed, before anything is synthesised or measured."""
    asked: dict[str, Any] = {"fast": True, "folder": tmp_path / "out", "progress": silent, "data": tmp_path / "data"}
    (tmp_path / "data").mkdir()
    with pytest.raises(ConfigError, match="the Arabic digits"):
        reproduce(tidigits.TIDIGITS, **asked)
    shutil.rmtree(speech_data(tmp_path / "data") / "fsdd")
    with pytest.raises(ConfigError, match="the Free Spoken Digit Dataset"):
        reproduce(tidigits.TIDIGITS, **asked)
    assert not (tmp_path / "out").exists()


def test_a_corpus_that_was_changed_is_another(corpus: Path, tmp_path: Path) -> None:
    """Its hash is among the parameters of what is kept: a file more, or one of another content."""
    mine = tmp_path / "mine"
    shutil.copytree(corpus, mine)

    def hashes() -> dict[str, str]:
        run = Run("tidigits", fast=True, folder=tmp_path / "out", progress=silent, data=mine)
        assert list(tidigits.corpora(run, tidigits.FAST)) == [tidigits.REAL]
        return run.hashes

    before = hashes()
    assert before == {"mine": hash_of(corpus)}
    (mine / "train/man/aa/2a.wav").write_bytes((mine / "train/man/aa/3a.wav").read_bytes())
    changed = hashes()
    (mine / "train/man/aa/2a.wav").unlink()
    assert len({before["mine"], changed["mine"], hashes()["mine"]}) == 3


@pytest.mark.parametrize("part", ["train", "test"])
def test_half_a_corpus_is_refused(corpus: Path, tmp_path: Path, part: str) -> None:
    """Of the discs of one split alone nobody is asked, or nobody trains."""
    shutil.copytree(corpus / part, tmp_path / "half" / part)
    with pytest.raises(ConfigError, match=r"half: needs two speakers below train and one below test, got \d and \d"):
        reproduce(tidigits.TIDIGITS, fast=True, folder=tmp_path, progress=silent, data=tmp_path / "half")


def rows_of_figures(ours: float, **setting: Any) -> list[dict[str, Any]]:
    """A row each method at one point: 0.8, MFCC less, without the group more."""
    means = dict.fromkeys(tidigits.METHODS, 0.8) | {tidigits.MFCC: 0.7, tidigits.IDENTITY: 0.9}
    means[tidigits.OURS] = ours
    place = setting or {"n": 18}
    return [
        {"method": name, "corpus": "Arabic", **place, "metric": "RLS accuracy", "mean": mean, "sd": 0.01}
        for name, mean in means.items()
    ]


def test_claims_are_what_the_rows_say() -> None:
    """The preset is above all at every number of speakers and in every split, or not."""
    claims = tidigits._claims(rows_of_figures(0.95))
    assert [claim["holds"] for claim in claims] == [False, True, True, True, True]
    assert claims[1]["why"] == "RLS, Arabic, 18 training speakers: CDF, spectrogram 0.800 ±0.010, MFCC 0.700 ±0.010"
    assert "CDF, raw waveform 0.800" in claims[3]["why"]
    assert claims[4]["why"].endswith("then CDF, spectrogram, |G| = 1 0.900")
    assert [claim["holds"] for claim in tidigits._claims(rows_of_figures(0.85))] == [False, True, True, True, False]
    split = rows_of_figures(0.85, split="men to women")
    assert [claim["holds"] for claim in tidigits._claims([*rows_of_figures(0.95), *split])][4:] == [
        True, False, True, False,
    ]  # fmt: skip


def test_a_template_that_is_a_recording_needs_one() -> None:
    """Banks of a split hear fewer recordings than the preset has templates; random templates need none."""

    def n_templates(preset: str, m: int | None, n_recordings: int) -> int:
        return tidigits._spec(preset, m, n_recordings).only.templates.m

    waveform = "paper-a-tidigits-waveform"
    assert [n_templates(waveform, m, n) for m, n in ((None, 400), (None, 40), (150, 40), (30, 40))] == [200, 40, 40, 30]
    assert [n_templates(f"paper-a-tidigits-{way}", None, 40) for way in ("raw", "shift")] == [40, 40]
    assert [n_templates("paper-a-tidigits", m, 40) for m in (None, 150)] == [1000, 150]
    assert tidigits._spec("digits-audio", 150, 40) == BankSpec.preset("digits-audio")


def test_peers_that_are_not_installed_are_named(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows of them; the report says which package is lacking and what installs it."""
    monkeypatch.setattr(tidigits, "PACKAGES", {"mfcc": "streamfeat_no_such_package"})
    monkeypatch.setattr(tidigits, "FAST", tidigits.Extent(2, 1, (4, 4), 16))
    monkeypatch.setattr(tidigits, "METHODS", {name: tidigits.METHODS[name] for name in ("log-mel", tidigits.MFCC)})
    monkeypatch.setattr(tidigits, "_claims", lambda _rows: [])
    report = reproduce(tidigits.TIDIGITS, fast=True, folder=tmp_path, progress=silent, data=corpus)
    assert {row["method"] for row in report["rows"]} == {"log-mel"}
    said = "the peer MFCC was not run: streamfeat_no_such_package is not installed, scripts/peers does it"
    assert said in report["deviations"]
