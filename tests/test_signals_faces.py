"""Faces in a folder a subject, LFW's pairs, IJB-A's lists, on made ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.signals.faces import Face, open_subjects, read_ijba, read_pairs

HEADER = "TEMPLATE_ID,SUBJECT_ID,FILE,MEDIA_ID,FACE_X,FACE_Y,FACE_WIDTH,FACE_HEIGHT"


def picture(path: Path, value: int = 7) -> None:
    """8 x 6 grey pixels, the first of them one brighter."""
    pixels = np.full((8, 6), value, np.uint8)
    pixels[0, 0] += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Two people with two pictures and one with one; files that are none."""
    for name, number in (("Ann_Lee", 1), ("Ann_Lee", 2), ("Bob", 1), ("Cy", 1), ("Cy", 2)):
        picture(tmp_path / name / f"{name}_{number:04d}.png", 10 * number)
    (tmp_path / "pairs.txt").write_text("1\t1\nAnn_Lee\t1\t2\nBob\t1\tCy\t2\n")
    (tmp_path / "Bob" / "notes.txt").write_text("no picture")
    picture(tmp_path / ".hidden" / "x.png")
    picture(tmp_path / "loose.png")
    return tmp_path


def test_a_folder_is_a_subject(album: Path) -> None:
    """Pictures in it in the order of their names, deeper ones too; nothing else."""
    picture(album / "Bob" / "left" / "up.png")
    faces = open_subjects(album)
    assert [(face.subject, face.name) for face in faces] == [
        ("Ann_Lee", "Ann_Lee/Ann_Lee_0001.png"),
        ("Ann_Lee", "Ann_Lee/Ann_Lee_0002.png"),
        ("Bob", "Bob/Bob_0001.png"),
        ("Bob", "Bob/left/up.png"),
        ("Cy", "Cy/Cy_0001.png"),
        ("Cy", "Cy/Cy_0002.png"),
    ]
    signal = faces[1].read()
    assert (signal.kind, signal.samples.shape, signal.samples[1, 1]) == ("image", (8, 6), 20)
    with pytest.raises(NotFound, match="no such folder"):
        open_subjects(album / "nowhere")
    (album / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="a folder for each subject"):
        open_subjects(album / "empty")


@pytest.mark.parametrize("head", ["1\t1", "1", "10 300"])
@pytest.mark.parametrize("between", ["\t", " "])
def test_pairs_are_lfws(album: Path, head: str, between: str) -> None:
    """Three words are one person, four are two; tabs or spaces, empty lines left aside."""
    lines = [head, between.join(["Ann_Lee", "1", "2"]), "", between.join(["Bob", "1", "Cy", "2"])]
    (album / "pairs.txt").write_text("\n".join(lines))
    pairs, same = read_pairs(album / "pairs.txt", open_subjects(album))
    assert pairs.tolist() == [[0, 1], [2, 4]]
    assert same.tolist() == [True, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [("Bob 1", "line 2 must be"), ("Bob one 2", "line 2 must be"), ("Bob 1 2", "names Bob_0002, which is not among")],
)
def test_pairs_that_are_none_are_named(album: Path, line: str, message: str) -> None:
    """By file and line."""
    (album / "pairs.txt").write_text(f"1\n{line}\n")
    with pytest.raises(InvalidArgument, match=message):
        read_pairs(album / "pairs.txt", open_subjects(album))


def test_ijba_rows_are_faces_cut_out(tmp_path: Path) -> None:
    """Columns by name in any case; boxes, which may reach out of the picture; two faces of one file."""
    picture(tmp_path / "img" / "1.png")
    rows = [HEADER.lower() + ",pose", "5,12,img/1.png,3,0,0,2,3,x", "6,13,img/1.png,3,-1.0,5.4,3,30,x"]
    (tmp_path / "train_1.csv").write_text("\n".join(rows))
    faces = read_ijba(tmp_path / "train_1.csv", tmp_path)
    assert [(face.subject, face.template, face.box) for face in faces] == [
        ("12", "5", (0, 0, 2, 3)),
        ("13", "6", (-1, 5, 3, 30)),
    ]
    assert [face.read().samples.shape for face in faces] == [(3, 2), (3, 2)]
    assert faces[0].read().samples[0, 0] == 8
    assert faces[1].name == "img/1.png (line 3)"
    with pytest.raises(InvalidArgument, match=r"lies outside the picture, which is 6 x 8"):
        Face("a", "b", tmp_path / "img" / "1.png", (6, 0, 2, 2)).read()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER.replace("FACE_X,", ""), "needs the column FACE_X"),
        ("", "needs the column TEMPLATE_ID"),
        (f"{HEADER}\n5,12,img/1.png,3,a,0,2,3", r"line 2: FACE_X, .* must be numbers"),
        (f"{HEADER}\n5,12,img/1.png", r"line 2: FACE_X, .* must be numbers"),
        (f"{HEADER}\n5,,img/1.png,3,0,0,2,3", "line 2: FILE and SUBJECT_ID must not be empty"),
    ],
)
def test_lists_that_are_not_ijbas_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """With file and line."""
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        read_ijba(tmp_path / "list.csv", tmp_path)
    with pytest.raises(NotFound, match="no such file"):
        read_ijba(tmp_path / "other.csv", tmp_path)
