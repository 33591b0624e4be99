"""Face data in the layouts they are handed out in: a folder a subject, LFW's pairs, IJB-A's lists.

    subjects    <root>/<subject>/<pose>.png, also deeper: mugshots; <root>/<Name>/<Name>_0001.jpg is LFW
    LFW pairs   first line the number of folds and of pairs of a kind in a fold, or the latter alone; then by fold
                <name> <i> <j>  the same person, and  <name> <i> <other> <j>  two people
    IJB-A       a CSV with a header: TEMPLATE_ID, SUBJECT_ID, FILE and the face's box FACE_X, FACE_Y, FACE_WIDTH,
                FACE_HEIGHT; one row a face, of which several may lie in one file

Columns are found by name, in any case and order, others are left aside.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.signals.image import read_image
from streamfeat.signals.pictures import PICTURE_SUFFIXES
from streamfeat.signals.signal import Signal, printable

BOX = ("FACE_X", "FACE_Y", "FACE_WIDTH", "FACE_HEIGHT")


@dataclass(frozen=True, slots=True)
class Face:
    """One face, not yet read.

    Attributes
    ----------
    name : str
        Path below the root, or file and row of a list.
    subject : str
        Who it is.
    path : Path
    box : (x, y, width, height), optional
        Where in the picture, in pixels.
    template : str, optional
        IJB-A's: which faces are judged as one.
    """

    name: str
    subject: str
    path: Path
    box: tuple[int, int, int, int] | None = None
    template: str | None = None

    def read(self) -> Signal:
        """The face, cut out where there is a box; what of a box lies outside the picture is left away."""
        picture = read_image(self.path, name=self.name)
        if self.box is None:
            return picture
        x, y, width, height = self.box
        height_px, width_px = picture.samples.shape[:2]
        cut = picture.samples[max(y, 0) : max(y + height, 0), max(x, 0) : max(x + width, 0)]
        if cut.size == 0:
            raise InvalidArgument(
                f"{self.name}: the box {self.box} (x, y, width, height) lies outside the picture, which is "
                f"{width_px} x {height_px}"
            )
        return Signal("image", np.ascontiguousarray(cut), name=self.name)


def open_subjects(root: Path | str) -> tuple[Face, ...]:
    """The pictures in a folder a subject, in the order of their names.

    Raises
    ------
    NotFound
        No such folder.
    InvalidArgument
        No picture in a folder of it.
    """
    root = Path(root)
    if not root.is_dir():
        raise NotFound(f"{root}: no such folder; needed is one with a folder for each subject")
    faces = []
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if len(parts) < 2 or any(part.startswith(".") for part in parts):
            continue
        if path.is_file() and path.name.lower().endswith(PICTURE_SUFFIXES):
            faces.append(Face(printable("/".join(parts)), printable(parts[0]), path))
    if not faces:
        raise InvalidArgument(f"{root}: no pictures in folders of it; needed is a folder for each subject")
    return tuple(faces)


def read_pairs(file: Path | str, faces: Sequence[Face]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """LFW's list of pairs, as places in `faces` (n, 2), and whether both show one person (n,).

    Raises
    ------
    InvalidArgument
        A line that is no pair, or a picture that is not among the faces; with file and line.
    """
    place = {face.path.stem: i for i, face in enumerate(faces)}
    pairs, same = [], []
    for number, line in enumerate(_text(Path(file)).splitlines()[1:], start=2):
        words = line.split("\t") if "\t" in line else line.split()
        if not words:
            continue
        if len(words) not in (3, 4) or not all(word.strip().isdecimal() for word in (words[1], words[-1])):
            raise InvalidArgument(
                f"{file}: line {number} must be 'name i j' or 'name i other j', as in LFW's pairs.txt, got {line!r}"
            )
        stems = [
            f"{words[0]}_{int(words[1]):04d}",
            f"{words[-2] if len(words) == 4 else words[0]}_{int(words[-1]):04d}",
        ]
        for stem in stems:
            if stem not in place:
                raise InvalidArgument(
                    f"{file}: line {number} names {stem}, which is not among the {len(faces)} pictures"
                )
        pairs.append([place[stem] for stem in stems])
        same.append(len(words) == 3)
    return np.array(pairs, np.intp).reshape(-1, 2), np.array(same, np.bool_)


def read_ijba(file: Path | str, root: Path | str) -> tuple[Face, ...]:
    """The faces of one of IJB-A's lists, as train_1.csv or verify_metadata_1.csv; `root` is the folder of FILE.

    Raises
    ------
    InvalidArgument
        Columns are missing, or a box is none; with file and line.
    """
    reader = csv.DictReader(_text(Path(file)).splitlines())
    columns = {name.strip().upper(): name for name in reader.fieldnames or ()}
    missing = [name for name in ("TEMPLATE_ID", "SUBJECT_ID", "FILE", *BOX) if name not in columns]
    if missing:
        raise InvalidArgument(f"{file}: needs the column {missing[0]}, as IJB-A's lists have it; got {list(columns)}")
    faces = []
    for row in reader:
        where = f"{file}: line {reader.line_num}"
        try:
            x, y, width, height = (round(float(row[columns[name]])) for name in BOX)
        except (TypeError, ValueError):
            raise InvalidArgument(f"{where}: {', '.join(BOX)} must be numbers, got {row}") from None
        name, subject, template = (row[columns[c]].strip() for c in ("FILE", "SUBJECT_ID", "TEMPLATE_ID"))
        if not name or not subject:
            raise InvalidArgument(f"{where}: FILE and SUBJECT_ID must not be empty")
        shown = printable(f"{name} (line {reader.line_num})")
        faces.append(Face(shown, subject, Path(root) / name, (x, y, width, height), template))
    return tuple(faces)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: cannot be read as text: {error}") from error
