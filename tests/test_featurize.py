"""`streamfeat featurize`: a folder of features that goes on where it was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfeat import presets
from streamfeat.dask import connect
from streamfeat.featuremap import FeatureMap
from streamfeat.featureset import read_features
from streamfeat.presets import ensure_bank
from streamfeat.signals import open_corpus, open_images
from tests.files import wav16
from tests.terminal import EXECUTABLE, Terminal, terminal

PRESETS = Path(presets.__file__).parent


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with banks of its own."""
    with terminal(tmp_path, run_dir=Path(tempfile.mkdtemp(prefix="sf-"))) as made:
        yield made


def corpus_at(folder: Path) -> Path:
    """200 pictures in an array and one file that is no picture."""
    folder.mkdir()
    np.save(folder / "batch.npy", np.random.default_rng(5).integers(0, 256, (200, 20, 20), dtype=np.uint8))
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")
    return folder


def test_it_goes_on_after_a_kill_and_equals_this_process(shell: Terminal, tmp_path: Path) -> None:
    """Killed after its first block, it keeps that block, computes the rest; the third run computes nothing."""
    corpus, out = corpus_at(tmp_path / "corpus"), tmp_path / "features"
    fmap = FeatureMap.open(ensure_bank("digits-image", shell.banks))
    words = ["featurize", str(corpus), "--out", str(out), "--preset", "digits-image", "--block", "10", "--json"]
    with subprocess.Popen(
        [EXECUTABLE, *words], env=shell.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while not list(out.glob("blocks/[!.]*")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)  # looks again
        process.kill()
    ran = shell(*words)
    assert ran.status == 3, ran
    report = ran.json
    assert report["blocks"]["kept"] >= 1
    assert (report["items"], report["answered"]) == (201, 200)
    [failure] = report["failed"]
    assert failure["file"].endswith("broken.png")
    assert failure["code"] == "INVALID_ARGUMENT"
    pictures = [entry for entry in open_images([corpus]).entries if not entry.name.endswith("broken.png")]
    features = np.load(out / "features.npy")
    assert features.tobytes() == fmap.transform([entry.read() for entry in pictures]).tobytes()
    assert np.load(out / "names.npy").tolist() == [entry.name for entry in pictures]
    again = shell(*words)
    assert (again.status, again.json["computed"], again.json["failed"]) == (3, 0, report["failed"])


def test_ctrl_c_ends_it_without_a_trace(shell: Terminal, tmp_path: Path) -> None:
    """It goes to every process of a terminal: workers leave their end to the cluster, and what is done is kept."""
    out = tmp_path / "features"
    np.save(tmp_path / "many.npy", np.random.default_rng(6).integers(0, 256, (3000, 20, 20), dtype=np.uint8))
    words = ["featurize", str(tmp_path / "many.npy"), "--out", str(out), "--preset", "digits-image", "--block", "2"]
    ensure_bank("digits-image", shell.banks)
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [EXECUTABLE, *words], env=shell.environ, stdout=said, stderr=said, start_new_session=True
        )
    deadline = time.monotonic() + 120
    while not list(out.glob("blocks/[!.]*")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)  # looks again
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    text = (tmp_path / "said").read_text()
    assert "Traceback" not in text
    assert text.endswith("streamfeat: stopped\n")


def test_every_form_holds_the_same(shell: Terminal, tmp_path: Path) -> None:
    """On a scheduler that runs: the bits of this process, labels, speakers; a second run computes nothing."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in ("3_jo_0.wav", "7_jo_1.wav", "3_ann_0.wav"):
        (corpus / name).write_bytes(wav16(np.random.default_rng(int(name[0])).integers(-9000, 9000, 8000, np.int16)))
    text = (PRESETS / "global-audio.toml").read_text()
    (tmp_path / "tiny.toml").write_text(text.replace("m = 1000", "m = 10").replace('"global-audio"', '"tiny"'))
    assert shell("bank", "build", tmp_path / "tiny.toml").status == 0
    utterances = open_corpus(corpus).utterances
    expected = FeatureMap.open(ensure_bank("tiny", shell.banks)).transform([one.read() for one in utterances])
    words = ["featurize", str(corpus), "--bank", "tiny", "--block", "2", "--json"]
    with connect(n_workers=1) as client:
        for form in (".zarr", ".parquet"):
            out = tmp_path / f"features{form}"
            ran = shell(*words, "--out", out, "--scheduler", client.scheduler_info()["address"])
            assert ran.json["computed"] == 3
            assert 0 <= ran.json["start_s"] <= ran.json["wall_s"]
            found = read_features(out)
            assert found.rows[:].tobytes() == expected.tobytes()
            assert found.names.tolist() == [one.name for one in utterances]
            assert found.labels.tolist() == [one.label for one in utterances]
            assert found.speakers.tolist() == [one.speaker for one in utterances]
            assert shell(*words, "--out", out).json["computed"] == 0


def test_what_is_no_folder_of_features_is_refused(shell: Terminal, tmp_path: Path) -> None:
    """A folder that holds other things stays as it is; formats that are not written are named."""
    corpus = corpus_at(tmp_path / "corpus")
    shell("featurize", corpus, "--out", corpus).refused(64, "holds other things")
    shell("featurize", corpus, "--out", corpus / "broken.png").refused(64, "is a file")
    shell("featurize", corpus, "--out", corpus / "batch.npy").refused(64, "no earlier run left it")
    shell("featurize", corpus, "--out", tmp_path / "x.npz").refused(64, ".npy, .zarr, .parquet or a folder")
