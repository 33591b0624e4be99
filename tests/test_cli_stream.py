"""`streamfeat stream`: every recording answered or failed by name; features as in process; routes, what they keep."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from streamfeat.client import Client
from streamfeat.featuremap import FeatureMap
from streamfeat.signals import open_corpus, write_sphere
from tests.files import pcm_format, riff, slow, wav16
from tests.terminal import Terminal


@pytest.fixture(scope="module")
def fsdd(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The words of the three speakers under names of the Free Spoken Digit Dataset: takes 0 and 5."""
    folder = tmp_path_factory.mktemp("named") / "recordings"
    folder.mkdir()
    digits = {word: str(n) for n, word in enumerate(["zero", *"123456789"])}
    for u in open_corpus(corpus).utterances:
        if u.label in digits:
            samples = u.read().samples
            speaker = f"{u.split}-{str(u.speaker).split('/')[1]}"
            (folder / f"{digits[u.label]}_{speaker}_{0 if u.take == 'a' else 5}.wav").write_bytes(
                wav16(samples, 20_000)
            )
    return folder


def zipped(folder: Path, out: Path) -> Path:
    """The files of a folder in a zip."""
    with zipfile.ZipFile(out, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{folder.name}/{file.name}")
    return out


def nan_wav(n: int = 4000) -> bytes:
    """32-bit float WAV with one sample that is no number."""
    samples = np.zeros(n, "<f4")
    samples[100] = np.nan
    return riff(pcm_format(8000, n_bytes=4, tag=3), samples.tobytes())


def test_tidigits_is_streamed_and_scored(served: Terminal, corpus: Path) -> None:
    """66 words answered, the strings of digits listed as skipped, accuracy on the test speaker."""
    report = served("stream", corpus, "--connect", served.front, "--json").json
    assert (report["layout"], report["sent"], report["answered"], report["failed"]) == ("tidigits", 66, 66, [])
    assert 0.5 < report["accuracy"] <= 1
    assert len(report["skipped"]) == 2
    assert all("a string of" in skipped["reason"] for skipped in report["skipped"])
    assert report["items_per_s"] > 0
    assert 0 < report["p50_ms"] <= report["p99_ms"]


def test_strings_and_ten_way(served: Terminal, corpus: Path, tmp_path: Path) -> None:
    """--strings sends strings of digits, labelled as spelt; --ten-way counts oh as zero."""
    out = tmp_path / "features.npz"
    report = served("stream", corpus, "--connect", served.front, "--strings", "--ten-way", "--out", out, "--json").json
    assert (report["sent"], report["answered"], report["skipped"]) == (68, 68, [])
    with np.load(out) as saved:
        labels = set(saved["labels"].tolist())
    assert "oh" not in labels
    assert labels > {"zero", *"123456789"}
    assert sum(len(label) > 1 and label != "zero" for label in labels) == 2


def test_saved_features_are_those_of_the_feature_map(
    served: Terminal, corpus: Path, tmp_path: Path, audio_bank: Path
) -> None:
    """--out: features equal to the bit, with labels, names and the bank's hash."""
    out = tmp_path / "features.npz"
    assert served("stream", corpus, "--connect", served.front, "--out", out).status == 0
    utterances = open_corpus(corpus).utterances
    feature_map = FeatureMap.open(audio_bank)
    with np.load(out) as saved:
        np.testing.assert_array_equal(saved["features"], feature_map.transform(u.read() for u in utterances))
        assert saved["features"].dtype == np.float32
        assert saved["labels"].tolist() == [u.label for u in utterances]
        assert saved["names"].tolist() == [u.name for u in utterances]
        assert str(saved["bank"]) == feature_map.bank_hash


def test_bad_recordings_fail_by_name_and_the_others_are_answered(
    served: Terminal, corpus: Path, tmp_path: Path
) -> None:
    """Cut SPHERE, empty WAV, NaN, text, two channels, in the middle of a corpus: each with its reason; exit 3."""
    copy = tmp_path / "corpus"
    shutil.copytree(corpus, copy)
    speaker = copy / "train" / "woman" / "aa"
    whole = (speaker / "1a.wav").read_bytes()
    (speaker / "1a.wav").write_bytes(whole[: len(whole) // 2])
    (speaker / "2a.wav").write_bytes(b"")
    (speaker / "3a.wav").write_bytes(nan_wav())
    (speaker / "4a.wav").write_text("This is no recording.\n" * 100)
    (speaker / "5a.wav").write_bytes(wav16(np.zeros((4000, 2), np.int16)))
    (speaker / "6a.wav").write_bytes(wav16(np.zeros(0, np.int16)))
    ran = served("stream", copy, "--connect", served.front, "--json")
    report = ran.json
    assert ran.status == 3
    failed = {failure["file"]: failure for failure in report["failed"]}
    reasons = {
        "1a": "samples", "2a": "empty", "3a": "NaN", "4a": "not audio that can be read", "5a": "--channels mix",
        "6a": "",
    }  # fmt: skip
    assert set(failed) == {f"train/woman/aa/{name}.wav" for name in reasons}
    for name, said in reasons.items():
        failure = failed[f"train/woman/aa/{name}.wav"]
        assert failure["code"] == "INVALID_ARGUMENT"
        assert said.lower() in failure["reason"].lower(), failure
    assert report["sent"] == 66 == report["answered"] + len(report["failed"])
    shown = served("stream", copy, "--connect", served.front, "--failures-shown", "2")
    assert shown.status == 3
    assert "60 of 66 answered" in shown.out
    assert shown.err.count("failed train/woman/aa/") == 2
    assert "and 4 more" in shown.err


def test_nothing_answered_is_no_accident(served: Terminal, tmp_path: Path) -> None:
    """A corpus of which nothing can be read: all failed, no rate, no accuracy, exit 3."""
    for label in "ab":
        (tmp_path / label).mkdir()
        (tmp_path / label / "x.wav").write_text("text")
    ran = served(
        "stream",
        tmp_path,
        "--connect",
        served.front,
        "--json",
    )
    assert ran.status == 3
    assert (ran.json["sent"], ran.json["answered"], ran.json["accuracy"], ran.json["p50_ms"]) == (2, 0, None, None)


def test_free_spoken_digits_in_folder_and_zip(served: Terminal, fsdd: Path, tmp_path: Path) -> None:
    """Found by their names, in a folder and in a zip with the same features; each speaker left out in turn."""
    saved = []
    for path in (fsdd, zipped(fsdd, tmp_path / "named.zip")):
        out = tmp_path / f"{path.stem}.npz"
        report = served(
            "stream", path, "--connect", served.front, "--leave-one-speaker-out", "--out", out, "--json"
        ).json
        assert (report["layout"], report["sent"], report["answered"]) == ("fsdd", 60, 60)
        assert set(report["per_speaker"]) == {"test-man", "train-man", "train-woman"}
        assert report["accuracy"] == pytest.approx(np.mean(list(report["per_speaker"].values())))
        assert report["measured"] == "mean over speakers, each asked of a model of the others"
        with np.load(out) as arrays:
            saved.append((arrays["features"], arrays["labels"]))
    np.testing.assert_array_equal(saved[0][0], saved[1][0])
    assert saved[0][1].tolist() == saved[1][1].tolist()


def test_takes_choose_what_is_fitted_and_tested(served: Terminal, fsdd: Path, corpus: Path) -> None:
    """Takes asked for are the parts, whatever the data set's own; refused at once where there are none."""

    def accuracy(*words: str) -> float | None:
        value = served("stream", fsdd, "--connect", served.front, *words, "--json").json["accuracy"]
        return None if value is None else float(value)

    own = accuracy()  # tested on takes below 5, fitted on the others: 5 -> 0
    assert own is not None
    shown = served("stream", fsdd, "--connect", served.front).out
    assert f"accuracy {own:.4f} (RLS of 30 recordings, 30 others asked)" in shown
    assert accuracy("--train-takes", "5-9", "--test-takes", "0-4") == own
    assert accuracy("--train-takes", "0", "--test-takes", "5") is not None
    assert accuracy("--train-takes", "5") == own
    assert accuracy("--train-takes", "7", "--test-takes", "8") is None
    assert accuracy("--leave-one-speaker-out", "--train-takes", "0-4", "--test-takes", "5") is not None
    served("stream", corpus, "--connect", served.front, "--train-takes", "0").refused(64, "numbered takes (FSDD)")
    pair = corpus / "train"
    served("stream", pair, "--connect", served.front, "--leave-one-speaker-out").refused(64, "needs 3 known speakers")


def test_a_folder_per_class_streams_on_a_fleet_of_its_own(cli: Terminal, corpus: Path, tmp_path: Path) -> None:
    """Without --connect: a fleet is started, used and gone."""
    for u in open_corpus(corpus / "test").utterances[:8]:
        (tmp_path / "classes" / u.label).mkdir(parents=True, exist_ok=True)
        shutil.copy(u.path, tmp_path / "classes" / u.label / f"{u.take}.wav")
    report = cli("stream", tmp_path / "classes", "--workers", "1", "--json").json
    assert (report["layout"], report["sent"], report["answered"], report["accuracy"]) == ("folders", 8, 8, None)


# --- routes -----------------------------------------------------------------------------------------------------------


def test_learning_then_classifying_over_two_runs(cli: Terminal, corpus: Path, tmp_path: Path) -> None:
    """What is learned stays in the state directory; learned again it is the same; one file more is one item more."""
    some = tmp_path / "some"
    shutil.copytree(corpus, some)
    last = some / "train" / "man" / "aa" / "5b.wav"
    held_back = last.read_bytes()
    last.unlink()
    fleet = ("--workers", "1", "--state-dir", tmp_path / "kept", "--json")
    first = cli("stream", some, "--learn", "digits", *fleet)
    assert first.status == 0
    fit = first.json["fit"]
    assert (fit["n_items"], fit["n_classes"], fit["criterion"]) == (65, 11, "logo")
    last.write_bytes(held_back)
    assert cli("stream", some, "--learn", "digits", *fleet).json["fit"]["n_items"] == 66
    classified = cli("stream", some / "test", "--classify", "digits", *fleet).json
    assert classified["accuracy"] > 0.9  # they were learned
    assert [r["file"] for r in classified["results"]] == [u.name for u in open_corpus(some / "test").utterances]
    assert {r["label"] for r in classified["results"]} <= set(open_corpus(corpus).labels)


def test_the_same_again_adds_nothing(served: Terminal, corpus: Path) -> None:
    """--learn twice, by another way of writing the path: n_items and lambda stay."""
    fits = []
    for path in (corpus, corpus / ".." / corpus.name):
        ran = served("stream", path, "--connect", served.front, "--learn", "twice", "--json")
        assert ran.status == 0
        fits.append(ran.json["fit"])
    assert fits[0] == fits[1]
    assert fits[0]["n_items"] == 66


def test_inserting_then_searching(served: Terminal, corpus: Path) -> None:
    """The nearest of an item that was inserted is itself, at distance 0; what was found is printed by name."""
    assert served("stream", corpus, "--connect", served.front, "--insert", "words").status == 0
    assert served("stream", corpus, "--connect", served.front, "--insert", "words").status == 0
    report = served("stream", corpus, "--connect", served.front, "--search", "words", "--json").json
    labels = {u.name: u.label for u in open_corpus(corpus).utterances}
    assert len(report["results"]) == 66
    for result in report["results"]:
        nearest = result["neighbours"][0]
        assert nearest["label"] == labels[result["file"]]
        assert nearest["distance"] == pytest.approx(0, abs=1e-6)  # cosine of a float32 vector with itself
        ids = [n["id"] for n in result["neighbours"]]
        assert len(set(ids)) == len(ids)
    shown = served("stream", corpus, "--connect", served.front, "--search", "words")
    assert "train/man/aa/1a.wav" in shown.out


def test_a_model_that_cannot_be_fitted_leaves_the_account(served: Terminal, corpus: Path, tmp_path: Path) -> None:
    """One class only: the items' account is given in full, why it is not fitted beside it, with that error's status."""
    for place in ("one/a.wav", "one/b\udcff.wav"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(next(corpus.rglob("1a.wav")), tmp_path / place)
    ran = served("stream", tmp_path, "--connect", served.front, "--learn", "single", "--json")
    assert (ran.status, ran.json["sent"], ran.json["answered"]) == (64, 2, 2)
    assert "two classes" in ran.json["unfitted"]["reason"]
    told = served("stream", tmp_path, "--connect", served.front, "--learn", "single")
    assert "2 of 2 answered" in told.out
    assert "not fitted: RLS needs" in told.err


def test_a_model_that_is_not_there_fails_each_item(served: Terminal, corpus: Path) -> None:
    """--classify of an unknown model: every item says so, exit 3."""
    ran = served("stream", corpus / "test", "--connect", served.front, "--classify", "nobody", "--json")
    assert ran.status == 3
    assert {f["code"] for f in ran.json["failed"]} == {"NOT_FOUND"}
    assert "no model 'nobody'" in ran.json["failed"][0]["reason"]


def test_a_bank_that_is_not_served_is_said_with_those_that_are(served: Terminal, corpus: Path) -> None:
    """--bank of another name on a running fleet: each item fails with the names of the banks served."""
    ran = served("stream", corpus / "test", "--connect", served.front, "--bank", "other", "--json")
    assert ran.status == 3
    assert "digits-audio" in ran.json["failed"][0]["reason"]


# --- a worker that dies -----------------------------------------------------------------------------------------------


def test_a_worker_killed_in_the_middle_costs_nothing(cli: Terminal, audio_bank: Path, tmp_path: Path) -> None:
    """SIGKILL of one of two workers once a tenth is answered: all answered, features equal to the bit."""
    folder = tmp_path / "many"
    rng = np.random.default_rng(3)
    for n in range(600):
        (folder / str(n % 3)).mkdir(parents=True, exist_ok=True)
        samples = np.round(3000 * rng.standard_normal(8000)).astype(np.int16)
        write_sphere(folder / str(n % 3) / f"{n:03}.wav", samples, 8000)

    def kill_when_under_way(pid: int) -> None:
        with Client(cli.front) as client:
            deadline = time.monotonic() + 30
            while (n_answered := client.status()["answered"]) < 60:
                assert time.monotonic() < deadline
            assert n_answered < 500
            os.kill(pid, signal.SIGKILL)

    with cli.serving("--bank", "digits-audio"):
        workers = {w["name"]: w["pid"] for w in cli("status", "--json").json["workers"]}
        with ThreadPoolExecutor(1) as aside:
            killed = aside.submit(kill_when_under_way, workers["features-1"])
            out = tmp_path / "features.npz"
            report = cli("stream", folder, "--connect", cli.front, "--out", out, "--json").json
            killed.result()
        assert (report["sent"], report["answered"], report["failed"]) == (600, 600, [])
        status = cli("status", "--json").json
        assert {w["name"] for w in status["workers"]} == {"features-2", "learner", "index"}
    with np.load(out) as saved:
        expected = FeatureMap.open(audio_bank).transform(u.read() for u in open_corpus(folder).utterances)
        np.testing.assert_array_equal(saved["features"], expected)


def test_channels_are_mixed_picked_or_refused(served: Terminal, tmp_path: Path) -> None:
    """Two channels fail by name unless the option says what becomes of them."""
    (tmp_path / "one").mkdir()
    frames = np.stack([np.arange(-2000, 2000), np.zeros(4000)], axis=1).astype(np.int16)
    (tmp_path / "one" / "a.wav").write_bytes(wav16(frames, 8000))
    words = ("stream", tmp_path, "--connect", served.front, "--json")
    refused = served(*words)
    assert refused.status == 3
    assert "there are 2" in refused.json["failed"][0]["reason"]
    for choice in ("mix", "0"):
        assert served(*words, "--channels", choice).json["answered"] == 1
    assert served(*words, "--channels", "2").json["failed"][0]["code"] == "INVALID_ARGUMENT"


def test_a_failure_skips_or_stops(served: Terminal, fsdd: Path, tmp_path: Path) -> None:
    """--on-error stop sends nothing after the first failure; --failures has a line for each file that is not there."""
    folder = tmp_path / "recordings"
    shutil.copytree(fsdd, folder)
    first = min(folder.iterdir())
    first.write_bytes(nan_wav())
    (folder / "odd name.wav").write_bytes(nan_wav())
    lines = tmp_path / "failures.jsonl"
    words = ("stream", folder, "--connect", served.front, "--json", "--failures", lines)
    skipped = served(*words)
    assert (skipped.status, skipped.json["unsent"], skipped.json["answered"]) == (3, 0, 59)
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(line["file"], line["code"]) for line in written] == [
        (first.name, "INVALID_ARGUMENT"),
        ("odd name.wav", "SKIPPED"),
    ]
    stopped = served(*words, "--on-error", "stop")
    assert (stopped.status, stopped.json["sent"], stopped.json["unsent"]) == (3, 1, 59)
    assert len(stopped.json["failed"]) == 1


def test_a_file_that_hangs_costs_itself(served: Terminal, tmp_path: Path) -> None:
    """A recording that takes long fails by name within its time; the one after it is answered."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.sph").write_bytes(slow())
    (tmp_path / "one" / "b.wav").write_bytes(wav16(np.arange(-2000, 2000, dtype=np.int16)))
    ran = served("stream", tmp_path, "--connect", served.front, "--decode-seconds", "0.5", "--json")
    assert (ran.status, ran.json["answered"]) == (3, 1)
    [failure] = ran.json["failed"]
    assert (failure["file"], failure["code"]) == ("one/a.sph", "ITEM_FAILED")
    assert "stopped after 0.5 s" in failure["reason"]
