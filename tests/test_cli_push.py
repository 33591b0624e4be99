"""`streamfeat push`: pictures of every kind, decoded right, or failed by name."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from streamfeat.featuremap import FeatureMap
from streamfeat.signals import Signal, open_images
from tests.files import idx, png
from tests.terminal import Terminal


@pytest.fixture
def digits() -> NDArray[np.uint8]:
    """Twelve pictures of bright strokes, 28 x 28."""
    rng = np.random.default_rng(5)
    pictures = np.zeros((12, 28, 28), np.uint8)
    for n, picture in enumerate(pictures):
        row, column = rng.integers(5, 18, 2)
        picture[row : row + 8 + n % 3, column : column + 4 + n % 4] = 255 - 5 * n
    return pictures


@pytest.fixture
def image_map(audio_bank: Path) -> FeatureMap:
    """Of digits-image."""
    [path] = audio_bank.parent.glob("digits-image-*")
    return FeatureMap.open(path)


def push(served: Terminal, out: Path, *paths: Path) -> tuple[int, dict[str, NDArray[np.float32]]]:
    """Exit status, and the features by name."""
    ran = served("push", *paths, "--connect", served.front, "--out", out)
    with np.load(out) as saved:
        return ran.status, dict(zip(saved["names"].tolist(), saved["features"], strict=True))


def test_files_of_all_kinds_are_decoded_right(
    served: Terminal, tmp_path: Path, digits: NDArray[np.uint8], image_map: FeatureMap
) -> None:
    """Grey, 16-bit grey, RGB, CMYK JPEG: features to the bit those of the decoded picture; CMYK is near its RGB."""
    grey = Image.fromarray(digits[0])
    (tmp_path / "grey.png").write_bytes(png(digits[0]))
    Image.fromarray(digits[0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    grey.convert("RGB").save(tmp_path / "rgb.png")
    grey.convert("RGB").convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    (tmp_path / "notes.png").write_text("no picture at all")
    report = served("push", tmp_path, "--connect", served.front, "--out", tmp_path / "f.npz", "--json")
    assert report.status == 3
    assert report.json["sent"] == 5 == report.json["answered"] + 1
    [failure] = report.json["failed"]
    assert (failure["file"], failure["code"]) == ("notes.png", "INVALID_ARGUMENT")
    assert "not a picture" in failure["reason"]
    with np.load(tmp_path / "f.npz") as saved:
        features = dict(zip(saved["names"].tolist(), saved["features"], strict=True))
    for picture in open_images(tmp_path / "grey.png").entries + open_images(tmp_path / "cmyk.jpg").entries:
        np.testing.assert_array_equal(features[picture.name], image_map.one(picture.read()))
    deep = image_map.one(Signal("image", digits[0].astype(np.uint16) * 257))
    np.testing.assert_array_equal(features["deep.png"], deep)
    # the scale of a picture is its own: 16-bit grey and RGB give the grey picture's feature up to rounding
    for name in ("deep.png", "rgb.png"):
        np.testing.assert_allclose(features[name], features["grey.png"], atol=1e-5)
    # an inverted CMYK picture would be a dark figure on a bright ground: far away; JPEG itself moves it a little
    dark = image_map.one(Signal("image", 255 - digits[0]))
    near, far = (float(np.linalg.norm(features["grey.png"] - f)) for f in (features["cmyk.jpg"], dark))
    assert near < 0.2 * far


def test_arrays_give_what_their_pictures_give(
    served: Terminal, tmp_path: Path, digits: NDArray[np.uint8], image_map: FeatureMap
) -> None:
    """IDX with its labels beside, .npy and .npz: one item a picture, features equal to the bit."""
    expected = image_map.transform(Signal("image", picture) for picture in digits)
    labels = (np.arange(12) % 10).astype(np.uint8)
    (tmp_path / "t-images-idx3-ubyte").write_bytes(idx(digits, 8))
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(idx(labels, 8))
    np.save(tmp_path / "stack.npy", digits)
    np.savez(tmp_path / "batch.npz", images=digits, labels=labels)
    for name in ("t-images-idx3-ubyte", "stack.npy", "batch.npz"):
        out = tmp_path / "features.npz"
        status, features = push(served, out, tmp_path / name)
        assert status == 0
        np.testing.assert_array_equal(np.stack(list(features.values())), expected)
        with np.load(out) as saved:
            wanted = [""] * 12 if name == "stack.npy" else [str(label) for label in labels]
            assert saved["labels"].tolist() == wanted


def test_many_files_with_long_names_are_learned_and_found(
    served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]
) -> None:
    """Paths that are longer together than a name on the wire may be: learned once, inserted once, found."""
    folder = tmp_path / ("a-rather-long-name-" * 5)
    files = []
    for n, picture in enumerate(digits):
        (folder / str(n % 2)).mkdir(parents=True, exist_ok=True)
        files.append(folder / str(n % 2) / f"{'x' * 100}-{n}.png")
        files[-1].write_bytes(png(picture))
    for _ in range(2):
        ran = served("push", folder, "--connect", served.front, "--learn", "strokes", "--json")
        assert ran.status == 0, ran
        assert ran.json["fit"]["n_items"] == 12
    assert served("push", *files, "--connect", served.front, "--insert", "strokes").status == 0
    found = served("push", *files, "--connect", served.front, "--search", "strokes", "--json").json
    assert len({r["neighbours"][0]["id"] for r in found["results"]}) == 12
    assert max(r["neighbours"][0]["distance"] for r in found["results"]) < 1e-6  # each is its own nearest


def test_pictures_without_labels_are_classified_without_accuracy(
    served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]
) -> None:
    """Their classes are in the report and on the terminal; accuracy is not known."""
    np.savez(tmp_path / "train.npz", images=digits, labels=np.arange(12) % 3)
    np.save(tmp_path / "stack.npy", digits)
    assert served("push", tmp_path / "train.npz", "--connect", served.front, "--learn", "three").status == 0
    ran = served("push", tmp_path / "stack.npy", "--connect", served.front, "--classify", "three", "--json")
    assert ran.json["accuracy"] is None
    assert [r["file"] for r in ran.json["results"]] == [f"stack.npy[{n}]" for n in range(12)]
    assert {r["label"] for r in ran.json["results"]} <= {"0", "1", "2"}
    known = served("push", tmp_path / "train.npz", "--connect", served.front, "--classify", "three", "--json")
    assert known.json["accuracy"] > 0.5
    shown = served("push", tmp_path / "stack.npy", "--connect", served.front, "--classify", "three")
    assert f"stack.npy[0]{' ' * 12} {ran.json['results'][0]['label']}\n" in shown.out


def test_neighbours_without_labels_are_shown_by_number(
    served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]
) -> None:
    """An index of pictures that nobody named: what is found has the number it was entered under."""
    np.save(tmp_path / "stack.npy", digits)
    assert served("push", tmp_path / "stack.npy", "--connect", served.front, "--insert", "nameless").status == 0
    ran = served("push", tmp_path / "stack.npy", "--connect", served.front, "--search", "nameless", "--json")
    nearest = ran.json["results"][0]["neighbours"]
    assert {n["label"] for n in nearest} == {None}
    shown = served("push", tmp_path / "stack.npy", "--connect", served.front, "--search", "nameless")
    assert f"stack.npy[0]{' ' * 12} {' '.join('#' + str(n['id']) for n in nearest)}\n" in shown.out


def test_learning_needs_labels(served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]) -> None:
    """Pictures without labels cannot be learned: each fails and says so, exit 3."""
    np.save(tmp_path / "stack.npy", digits)
    ran = served("push", tmp_path / "stack.npy", "--connect", served.front, "--learn", "unlabelled", "--json")
    assert ran.status == 3
    assert len(ran.json["failed"]) == 12
    assert "label" in ran.json["failed"][0]["reason"]


def test_damaged_arrays_are_refused_whole(served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]) -> None:
    """A cut .npy, labels of another number: one line, 64."""
    np.save(tmp_path / "stack.npy", digits)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "stack.npy").read_bytes()[:-100])
    served("push", tmp_path / "cut.npy", "--connect", served.front).refused(64, "cut.npy")
    buffer = io.BytesIO()
    np.savez(buffer, images=digits, labels=np.arange(11))
    (tmp_path / "odd.npz").write_bytes(buffer.getvalue())
    served("push", tmp_path / "odd.npz", "--connect", served.front).refused(64, "12 pictures, but")


def test_frames_are_chosen_or_refused(served: Terminal, tmp_path: Path, digits: NDArray[np.uint8]) -> None:
    """Of three pages the first, one by its number, or none."""
    pages = [Image.fromarray(digit) for digit in digits[:3]]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    words = ("push", tmp_path / "pages.tif", "--connect", served.front, "--json")
    assert [served(*words, *choice).status for choice in ((), ("--frames", "2"), ("--frames", "refuse"))] == [0, 0, 3]
    assert "3 frames" in served(*words, "--frames", "refuse").json["failed"][0]["reason"]
