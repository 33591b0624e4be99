"""Labelled pictures: one entry a picture from files, folders, IDX and NumPy files; labels match or all is refused."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.signals import open_images
from tests.files import idx, png, shared

IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 3, 4)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)


def test_files_and_folders_become_entries(tmp_path: Path) -> None:
    """A folder per class gives labels, loose files none; what is no picture by name is listed."""
    for name in ("cat/b.png", "cat/a.png", "dog/c.PNG", "loose.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(png(IMAGES[0]))
    (tmp_path / "notes.txt").write_text("x")
    opened = open_images(tmp_path)
    assert [(p.name, p.label) for p in opened.entries] == [
        ("cat/a.png", "cat"),
        ("cat/b.png", "cat"),
        ("dog/c.PNG", "dog"),
        ("loose.png", None),
    ]
    assert [s.name for s in opened.skipped] == ["notes.txt"]
    assert opened.labels == ("cat", "dog")
    np.testing.assert_array_equal(opened.entries[0].read().samples, IMAGES[0])
    several = open_images([tmp_path / "loose.png", tmp_path / "cat" / "a.png"])
    assert [p.name for p in several.entries] == [str(tmp_path / "loose.png"), str(tmp_path / "cat" / "a.png")]


@pytest.mark.parametrize("packed", [(False, False), (True, True), (True, False)])
def test_idx_finds_its_labels(tmp_path: Path, packed: tuple[bool, bool]) -> None:
    """Images and labels pair by name, gzipped or not, from the file and from its folder."""
    for name, data, gz in (
        ("train-images-idx3-ubyte", idx(IMAGES, 8), packed[0]),
        ("train-labels-idx1-ubyte", idx(LABELS, 8), packed[1]),
    ):
        (tmp_path / (name + ".gz" * gz)).write_bytes(gzip.compress(data) if gz else data)
    images = next(tmp_path.glob("*images*"))
    for opened in (open_images(images), open_images(tmp_path)):
        assert [p.label for p in opened.entries] == ["3", "1", "4", "1", "5"]
        assert opened.entries[2].name == f"{images.name}[2]"
        assert opened.skipped == ()
        np.testing.assert_array_equal(opened.entries[2].read().samples, IMAGES[2])


def test_idx_without_labels_has_none(tmp_path: Path) -> None:
    """Any name will do for an IDX file that the caller names."""
    (tmp_path / "digits").write_bytes(idx(IMAGES, 8))
    assert [p.label for p in open_images(tmp_path / "digits").entries] == [None] * 5


def test_labels_of_another_number_are_refused(tmp_path: Path) -> None:
    """4 labels beside 5 images: both numbers are named, nothing is paired."""
    (tmp_path / "images-idx3-ubyte").write_bytes(idx(IMAGES, 8))
    (tmp_path / "labels-idx1-ubyte").write_bytes(idx(LABELS[:4], 8))
    with pytest.raises(InvalidArgument, match="5 pictures, but labels-idx1-ubyte has 4 labels; give one"):
        open_images(tmp_path / "images-idx3-ubyte")
    np.save(tmp_path / "x.npy", IMAGES)
    with pytest.raises(InvalidArgument, match="5 pictures, but labels has 4 labels; give one label a picture"):
        open_images(tmp_path / "x.npy", labels=[1, 2, 3, 4])
    np.savez(tmp_path / "a.npz", x=IMAGES, y=LABELS[:4])
    with pytest.raises(InvalidArgument, match=r"5 pictures, but a\.npz:y has 4 labels"):
        open_images(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("array", "n", "shape"),
    [
        (IMAGES, 5, (3, 4)),
        (IMAGES[0], 1, (3, 4)),
        (IMAGES[..., None], 5, (3, 4)),
        (np.stack([IMAGES] * 3, axis=3), 5, (3, 4, 3)),
        (np.stack([IMAGES[0]] * 3, axis=2), 1, (3, 4, 3)),
        (IMAGES.astype(">f4"), 5, (3, 4)),
        (IMAGES > 9, 5, (3, 4)),
    ],
)
def test_npy_shapes(tmp_path: Path, array: Any, n: int, shape: tuple[int, ...]) -> None:
    """Batches and single pictures, grey and colour, of any byte order; truth values become 0 and 255."""
    np.save(tmp_path / "a.npy", array)
    entries = open_images(tmp_path / "a.npy").entries
    assert len(entries) == n
    samples = entries[0].read().samples
    assert samples.shape == shape
    first = array[0] if n == 5 else array
    np.testing.assert_array_equal(samples, (first * 255 if array.dtype == bool else first).reshape(shape))


def test_npz_pairs_by_name(tmp_path: Path) -> None:
    """Train and test arrays keep their split, their labels and their order."""
    np.savez(tmp_path / "m.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    entries = open_images(tmp_path / "m.npz").entries
    assert [(p.label, p.split) for p in entries] == [*((str(v), "train") for v in LABELS), ("3", "test"), ("1", "test")]
    assert entries[5].name == "m.npz:x_test[0]"
    np.savez(tmp_path / "w.npz", images=IMAGES, labels=np.array(list("abcde")))
    assert open_images(tmp_path / "w.npz").labels == tuple("abcde")


def test_labels_of_the_caller(tmp_path: Path) -> None:
    """A sequence, an array, an IDX file and an .npy file of labels give the same strings."""
    np.save(tmp_path / "x.npy", IMAGES)
    np.save(tmp_path / "y.npy", LABELS.astype(np.int64))
    (tmp_path / "y").write_bytes(idx(LABELS, 8))
    for labels in (LABELS.tolist(), [str(v) for v in LABELS], LABELS, tmp_path / "y", str(tmp_path / "y.npy")):
        assert [p.label for p in open_images(tmp_path / "x.npy", labels).entries] == list("31415")


@pytest.mark.parametrize("labels", [[1, "1", 2, 3, 4], [1.0] * 5, [True] * 5, [None] * 5, np.ones(5)])
def test_labels_of_other_types_are_refused(tmp_path: Path, labels: Any) -> None:
    """1 and '1' would be one class, 1.0 and True another question: only all str or all int are taken."""
    np.save(tmp_path / "x.npy", IMAGES)
    with pytest.raises(InvalidArgument, match="labels must be"):
        open_images(tmp_path / "x.npy", labels)


def test_one_bad_picture_is_one_failing_entry(tmp_path: Path) -> None:
    """A cut file and a row with NaN fail when they are read, by name; their neighbours do not."""
    (tmp_path / "a.png").write_bytes(png(IMAGES[0])[:50])
    (tmp_path / "b.png").write_bytes(png(IMAGES[0]))
    rows = IMAGES.astype(np.float32)
    rows[1, 0, 2] = np.nan
    np.save(tmp_path / "c.npy", rows)
    failed = []
    for picture in open_images(tmp_path).entries:
        try:
            picture.read()
        except InvalidArgument as error:
            failed.append(str(error).partition(": ")[0])
    assert failed == ["a.png", "c.npy[1]"]


def test_one_bad_array_is_one_failing_entry(tmp_path: Path) -> None:
    """A cut IDX, text for an .npy and features for pictures fail by name when read; beside them all go on."""
    (tmp_path / "a-images-idx3-ubyte").write_bytes(idx(IMAGES, 8)[:-3])
    (tmp_path / "b.npy").write_text("no array")
    np.savez(tmp_path / "c.npz", x=np.zeros(3))
    (tmp_path / "d-images-idx3-ubyte").write_bytes(idx(IMAGES, 8))
    for opened in (open_images(tmp_path), open_images(sorted(tmp_path.iterdir()))):
        bad, good = opened.entries[:3], opened.entries[3:]
        for entry in bad:
            with pytest.raises(InvalidArgument, match=f"^{entry.name}"):
                entry.read()
        assert len(good) == 5
        np.testing.assert_array_equal(good[4].read().samples, IMAGES[4])


def test_pipes_and_lost_links_fail_when_read(tmp_path: Path) -> None:
    """Neither a pipe nor a link to nothing is opened to see what it is."""
    for name in ("a.png", "b.npy", "c-images-idx3-ubyte"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "d.png").symlink_to(tmp_path / "gone")
    (tmp_path / "e.png").write_bytes(png(IMAGES[0]))
    opened = open_images(tmp_path)
    failed = []
    for picture in opened.entries:
        try:
            picture.read()
        except InvalidArgument as error:
            failed.append(str(error).partition(": ")[0])
    assert failed == ["a.png", "b.npy", "d.png"]
    assert [s.name for s in opened.skipped] == ["c-images-idx3-ubyte"]


def test_arrays_that_are_none_are_refused(tmp_path: Path) -> None:
    """Pickled objects, text, five axes, a cut file and an archive of other names: each by name, nothing executed."""
    np.save(tmp_path / "o.npy", np.array([{}], object), allow_pickle=True)
    np.save(tmp_path / "t.npy", np.array([[["a"]]]))
    np.save(tmp_path / "d.npy", np.zeros((1, 1, 1, 1, 1)))
    (tmp_path / "n.npy").write_bytes(b"\x93NUMPY\1")
    np.savez(tmp_path / "k.npz", other=IMAGES)
    np.savez(tmp_path / "p.npz", images=np.array([{}], object))
    (tmp_path / "b.npz").write_bytes((tmp_path / "d.npy").read_bytes())
    (tmp_path / "z.npz").write_bytes(b"PK\3\4 no zip")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(InvalidArgument, match=f"^{path.name}"):
            open_images(path)


def test_nothing_found_says_what_was_looked_for(tmp_path: Path) -> None:
    """No path, an empty folder, no paths at all."""
    with pytest.raises(NotFound, match="no such file"):
        open_images(tmp_path / "none")
    with pytest.raises(InvalidArgument, match=r"no pictures; looked for \.png"):
        open_images(tmp_path)
    with pytest.raises(InvalidArgument, match="no path: no pictures"):
        open_images([])


def test_awkward_labels_beside_images() -> None:
    """The shared case of 4 labels for 5 images is refused with both numbers."""
    folder = shared("cases", "files")
    with pytest.raises(InvalidArgument, match=r"5 pictures.*4 labels"):
        open_images(folder / "images-idx3-ubyte", labels=folder / "labels-idx1-ubyte_four")


def test_mnist() -> None:
    """The shared archive gives 60,000 pictures to train and 10,000 to test, each 28 x 28 with its digit."""
    entries = open_images(shared("data", "mnist", "mnist.npz")).entries
    assert [sum(p.split == s for p in entries) for s in ("train", "test")] == [60_000, 10_000]
    assert entries[0].label == "5"
    assert entries[0].read().samples.shape == (28, 28)
