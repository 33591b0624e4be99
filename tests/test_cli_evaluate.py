"""`streamfeat evaluate` as a user runs it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.protocols.evaluate import Request
from streamfeat.protocols.page import write_evaluation
from tests.protocol_data import AUDIO_SPEC, IMAGE_SPEC, picture_data, pictures, speech_data
from tests.terminal import Terminal


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Speech and pictures in the protocols' layout."""
    return picture_data(speech_data(tmp_path_factory.mktemp("evaluate") / "data"))


@pytest.fixture
def specs(cli: Terminal) -> tuple[Path, Path]:
    """Two small banks' specs, of recordings and of pictures."""
    audio, image = cli.home / "audio.toml", cli.home / "image.toml"
    audio.write_text(AUDIO_SPEC)
    image.write_text(IMAGE_SPEC)
    return audio, image


def test_several_methods_in_one_table_and_one_report(cli: Terminal, data: Path, specs: tuple[Path, Path]) -> None:
    """Mean, deviation, speakers, time, width and bank of the first; all by name; losses in trouble are printed."""
    file = cli.home / "report.json"
    ran = cli(
        *("evaluate", "--preset", specs[0], "--protocol", "fsdd-loso", "--seeds", "2", "--train-data", data),
        "--method",
        "preset",
        "--method",
        "mfcc",
        "--json",
        file,
    )
    assert ran.status == 0, ran
    report = json.loads(file.read_text())
    assert (report["protocol"], report["preset"], report["method"], report["seeds"]) == (
        "fsdd-loso",
        "small-audio",
        "preset",
        2,
    )
    columns = [f"{n} takes, test {takes}" for n in (2, 10) for takes in ("40-49", "10-39")]
    assert set(columns) < set(report["accuracy"]) == set(report["sd"]) == set(report["per_speaker"])
    assert set(report["per_seed"]["10 takes, test 40-49"]) == {"0", "1"}
    assert len(report["bank"]) == 64
    assert report["ms_per_item"] > 0
    assert report["dim"] == 24 * 5
    assert report["methods"]["preset"]["accuracy"] == report["accuracy"]
    assert (report["methods"]["mfcc"]["dim"], report["methods"]["mfcc"]["bank"]) == (13 * 16, None)
    # no bank, no seed: one run of mfcc stands for all
    assert set(report["methods"]["mfcc"]["per_seed"]["10 takes, test 40-49"]) == {"0"}
    assert report["methods"]["mfcc"]["sd_over"] == "items"
    told = "± over 2 seeds (banks), mfcc: of the items (binomial)"
    assert all(line in ran.out for line in (*columns, "loss, 10 takes, silence 1 s", told))


def test_own_pictures_and_the_environment(cli: Terminal, data: Path, specs: tuple[Path, Path]) -> None:
    """--data asks an .npz; STREAMFEAT_DATA names the training data; JSON alone on standard output."""
    images, labels = pictures(12, 9)
    np.savez(cli.home / "mine.npz", images=images, labels=labels)
    cli = Terminal(cli.home, cli.run_dir, {**cli.variables, "STREAMFEAT_DATA": str(data)})
    words = ("evaluate", "--preset", specs[1], "--protocol", "mnist-few", "--seeds", "2")
    report = cli(*words, "--data", cli.home / "mine.npz", "--json").json
    assert set(report["accuracy"]) == {f"{n}, given items" for n in ("1 label", "5 labels", "10 labels", "30 labels")}
    assert set(report["n_test"].values()) == {12}
    assert "per_speaker" not in report
    assert report["sd_over"] == "seeds"
    assert cli("doctor").status in (0, 3)  # the variable is no setting of a fleet, and none is missed


def test_the_page_of_few_labels(cli: Terminal, data: Path, specs: tuple[Path, Path]) -> None:
    """Two curves, a confusion matrix and a histogram inside; the command runs again; hashes of bank and data."""
    words = ("evaluate", "--preset", specs[1], "--protocol", "mnist-few", "--seeds", "2", "--train-data", data)
    page = cli.home / "page.html"
    report = cli(*words, "--html", page, "--json").json
    text = page.read_text()
    assert text.count('src="data:image/png;base64,iVBORw0KGgo') >= 3
    assert f"streamfeat evaluate --preset {specs[1]} --protocol mnist-few --method preset --seeds 2" in text
    mnist = hashlib.sha256((data / "mnist" / "mnist.npz").read_bytes()).hexdigest()
    assert all(told in text for told in (report["bank"], mnist, "labels = 10", "± is the deviation over seeds"))
    assert "http" not in text
    confusion = report["confusion"]["10 labels, first 2000"]
    assert len(confusion["counts"]) == len(confusion["labels"])
    assert len(report["ms_alone"]) >= 16
    cli(*words, "--html", data).refused(64, "name a file in a folder")


def test_the_page_of_verification(tmp_path: Path) -> None:
    """Bars, a ROC and a histogram; no confusion; names of methods are text, never markup."""
    curve = {"far": [0.001, 0.1, 1.0], "vr": [0.4, 0.8, 1.0], "sd": [0.1, 0.1, 0.0]}
    figures: dict[str, Any] = {"accuracy": {"cosine, 1 % FAR": 0.5}, "sd": {"cosine, 1 % FAR": 0.1}, "sd_over": "seeds"}
    figures |= {"roc": {"cosine": curve}, "ms_per_item": 1.5, "ms_alone": [1.0, 2.0], "dim": 7, "bank": None}
    report: dict[str, Any] = {
        "protocol": "orl-verify",
        "preset": "faces",
        "seeds": 3,
        "seeds_of": "splits",
        "notes": ["<b>"],
    }
    report |= {**figures, "methods": {"raw": figures}, "wall_s": 1.0}
    request = Request("orl-verify", "faces", ("raw",), None, None, tmp_path)
    write_evaluation(tmp_path / "page.html", report, request)
    text = (tmp_path / "page.html").read_text()
    assert text.count('src="data:image/png;base64,iVBORw0KGgo') == 3
    assert ("Confusion" in text, "&lt;b&gt;" in text, "<b>" in text) == (False, True, False)
    assert "raw: cosine, 1 % FAR</td><td>0.5 ±0.1" in text


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ("--preset no-such --protocol mnist", 78, "no preset is called 'no-such'"),
        ("--preset IMAGE --protocol mnist --train-data nowhere", 78, "nowhere: no such folder"),
        ("--preset IMAGE --protocol mnist --method mfcc", 78, "for pictures a method is one of"),
        ("--preset IMAGE --protocol arabic", 78, "image.toml' takes image, the items of arabic are audio; presets for"),
        ("--preset digits-image --protocol fsdd-loso", 78, "are audio; presets for audio: digits-audio, global-audio"),
        (
            "--preset digits-audio --protocol orl-verify",
            78,
            "are image; presets for image: colour, digits-image",
        ),
        ("--preset IMAGE --protocol chess", 64, "'chess' is none of fsdd-loso"),
        ("--preset IMAGE --protocol mnist --seeds 0", 64, "0 is not in the range"),
    ],
)
def test_what_cannot_be_run_is_one_line(words: str, status: int, said: str, cli: Terminal, data: Path) -> None:
    """Of a user's own making: settings 78, input 64."""
    spec = cli.home / "image.toml"
    spec.write_text(IMAGE_SPEC)
    train = [] if "--train-data" in words else ["--train-data", str(data)]
    cli("evaluate", *words.replace("IMAGE", str(spec)).split(), *train).refused(status, said)


def test_a_preset_for_other_signals_is_refused_before_data_are_looked_at(cli: Terminal) -> None:
    """The folder of the data is not even there."""
    words = ("--preset", "digits-image", "--protocol", "fsdd-loso", "--train-data", cli.home / "nowhere")
    cli("evaluate", *words).refused(78, "preset 'digits-image' takes image, the items of fsdd-loso are audio")
