"""Labelled pictures from files, folders, IDX and NumPy files: one entry a picture, read one by one.

    a picture file    one entry without a label
    a folder          its pictures and arrays; those in a folder below it have that folder's name as label
    IDX               (n, h, w) with the labels of the `labels-idx1` file beside an `images-idx3` one
    .npy              (n, h, w) or (n, h, w, 3); also one picture, (h, w) or (h, w, 3)
    .npz              `images` + `labels`, `x` + `y`, `x_train` + `y_train`, `x_test` + `y_test`: whichever are there

A label is a string: whole numbers become their decimal digits, anything else is refused. A picture or an array file
that cannot be read is one failing entry; labels that do not match their pictures in number fail the whole, for then
none can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import CallerError, InvalidArgument, NotFound
from streamfeat.signals.arrays import open_npy, read_npz
from streamfeat.signals.corpus import Skipped
from streamfeat.signals.idx import GZIP, is_idx, labels_beside, read_idx
from streamfeat.signals.image import read_image
from streamfeat.signals.signal import Signal, printable

PICTURE_SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".jpe", ".mpo", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp", ".ppm", ".pgm",
    ".pbm", ".pnm", ".ico", ".jp2", ".pcx",
)  # fmt: skip
"""What is taken for a picture in a folder; a file named by the caller may have any name."""

ARRAY_KEYS = (
    ("images", "labels", None),
    ("x", "y", None),
    ("x_train", "y_train", "train"),
    ("x_test", "y_test", "test"),
)
"""Names in an .npz of pictures, of their labels, and the split they are."""

Labels = Path | str | Sequence[str] | Sequence[int] | NDArray[Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture, not yet read: a file, or one row of an array that is held already; or why an array is not held."""

    name: str
    label: str | None
    split: str | None
    source: Path | NDArray[Any] | CallerError = field(repr=False)

    def read(self) -> Signal:
        """The picture, read now; errors begin with `name`."""
        if isinstance(self.source, CallerError):
            raise self.source
        if isinstance(self.source, Path):
            return read_image(self.source, name=self.name)
        pixels = np.array(self.source, dtype=self.source.dtype.newbyteorder("<"))
        if pixels.dtype == np.bool_:
            pixels = pixels.astype(np.uint8) * np.uint8(255)
        if pixels.ndim == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        return Signal("image", pixels, name=self.name)


@dataclass(frozen=True, slots=True)
class _Batch:
    """An array of pictures, (n, h, w) or (n, h, w, 1 or 3), and its labels; (h, w) and (h, w, 3) are one picture."""

    name: str
    array: NDArray[Any]
    labels: NDArray[Any] | None = None
    split: str | None = None
    labels_name: str = "its labels"

    def __post_init__(self) -> None:
        array = self.array
        if array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 3 and self.labels is None):
            object.__setattr__(self, "array", array[None])
        if self.array.ndim not in (3, 4) or array.dtype.kind not in "buif":
            raise InvalidArgument(
                f"{self.name}: pictures must be numbers of shape (n, h, w) or (n, h, w, 3), "
                f"got {array.dtype} {array.shape}"
            )


@dataclass(frozen=True, slots=True)
class Pictures:
    """The pictures of some paths, in an order that depends on their names alone, and what was left out."""

    entries: tuple[Picture, ...]
    skipped: tuple[Skipped, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({p.label for p in self.entries if p.label is not None}))


def open_images(paths: Path | str | Sequence[Path | str], labels: Labels | None = None) -> Pictures:
    """List the pictures at some paths, with their labels.

    Parameters
    ----------
    paths : path, or several
        Picture files, folders, IDX, .npy and .npz files.
    labels : path, array or sequence, optional
        One label a picture, in the order of the entries: strings, whole numbers, or the path of an IDX or .npy file
        of them. In place of those that folders and files give.

    Raises
    ------
    NotFound
        No such path.
    InvalidArgument
        No picture there; nothing but array files that cannot be read (the first one's reason); labels of another
        number than the pictures (with both).
    """
    roots = [Path(paths)] if isinstance(paths, Path | str) else [Path(p) for p in paths]
    found: list[Picture | Skipped] = []
    for root in roots:
        if not root.exists():
            raise NotFound(f"{root}: no such file or folder; give pictures, folders, IDX, .npy or .npz files")
        found += _folder(root) if root.is_dir() else _file(root, printable(str(root) if len(roots) > 1 else root.name))
    entries = [f for f in found if isinstance(f, Picture)]
    if not entries:
        looked = ", ".join(map(str, roots)) or "no path"
        raise InvalidArgument(
            f"{looked}: no pictures; looked for {', '.join(PICTURE_SUFFIXES)}, images-idx3, .npy and .npz, also in a "
            "folder per class"
        )
    broken = [entry.source for entry in entries if isinstance(entry.source, CallerError)]
    if len(broken) == len(entries):
        raise broken[0]
    if labels is not None:
        given = _given_labels(labels, len(entries))
        entries = [replace(entry, label=label) for entry, label in zip(entries, given, strict=True)]
    return Pictures(tuple(entries), tuple(f for f in found if isinstance(f, Skipped)))


def _folder(root: Path) -> Iterator[Picture | Skipped]:
    """The pictures in a folder and, labelled with its name, in each folder below."""
    for path in sorted(root.rglob("*")):
        parts = [printable(part) for part in path.relative_to(root).parts]
        name = "/".join(parts)
        if path.is_dir():
            continue
        if not _is_array(path) and not path.name.lower().endswith(PICTURE_SUFFIXES):
            if not _holds_labels(path):
                yield Skipped(name, "neither a picture's name nor an array's")
        elif any(part.startswith(".") for part in parts):
            yield Skipped(name, "hidden file")
        elif len(parts) > 2:
            yield Skipped(name, "not directly in the folder of a class")
        else:
            for found in _file(path, name):
                yield replace(found, label=parts[0]) if len(parts) == 2 else found


def _file(path: Path, name: str) -> Iterator[Picture]:
    """The pictures in one file: as many as its array holds, otherwise one, whether it can be read or not."""
    suffix = path.suffix.lower()
    try:
        if not path.is_file():
            arrays = None
        elif suffix == ".npy":
            arrays = [_Batch(name, open_npy(path, name))]
        elif suffix == ".npz":
            arrays = _archive(path, name)
        else:
            arrays = [_idx(path, name)] if _is_idx(path) else None
    except CallerError as error:
        yield Picture(name, None, None, error)
        return
    if arrays is None:
        yield Picture(name, None, None, path)
    else:
        for array in arrays:
            yield from _rows(array)


def _rows(batch: _Batch) -> Iterator[Picture]:
    """One entry a row, with its label."""
    texts: Sequence[str | None] = [None] * len(batch.array)
    if batch.labels is not None:
        texts = _texts(batch.labels, batch.labels_name)
        _check_number(len(batch.array), len(texts), batch.labels_name, f"{batch.name}: ")
    for i, (row, label) in enumerate(zip(batch.array, texts, strict=True)):
        yield Picture(f"{batch.name}[{i}]", label, batch.split, row)


def _idx(path: Path, name: str) -> _Batch:
    beside = labels_beside(path)
    labels = None if beside is None else read_idx(beside)
    return _Batch(name, read_idx(path, name=name), labels, None, beside.name if beside else "")


def _archive(path: Path, name: str) -> list[_Batch]:
    """The pictures in an .npz, under the names of `ARRAY_KEYS`."""
    wanted = [key for pair in ARRAY_KEYS for key in pair[:2]]
    members = read_npz(path, name, wanted)
    keys = {key.lower(): key for key in members}
    known = [(keys[x], keys.get(y), split) for x, y, split in ARRAY_KEYS if x in keys]
    if not known:
        raise InvalidArgument(f"{name}: labels without pictures; needed is an array named one of {', '.join(wanted)}")
    return [_Batch(f"{name}:{x}", members[x], members[y] if y else None, split, f"{name}:{y}") for x, y, split in known]


def _given_labels(labels: Labels, n_pictures: int) -> list[str]:
    """The caller's labels as strings, one a picture."""
    if isinstance(labels, Path | str):
        path = Path(labels)
        if not path.exists():
            raise NotFound(f"{path}: no such file; labels are an IDX or .npy file")
        array = open_npy(path, str(path)) if path.suffix.lower() == ".npy" else read_idx(path)
        texts, name = _texts(array, str(path)), str(path)
    elif isinstance(labels, np.ndarray):
        texts, name = _texts(labels, "labels"), "labels"
    else:
        kinds = {type(label) for label in labels}
        if len(kinds) > 1 or not kinds <= {str, int}:
            shown = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InvalidArgument(f"labels must be all str or all int, got {shown}; 1 and '1' would be one class")
        texts, name = [str(label) for label in labels], "labels"
    _check_number(n_pictures, len(texts), name)
    return texts


def _check_number(n_pictures: int, n_labels: int, labels_name: str, before: str = "") -> None:
    if n_labels != n_pictures:
        raise InvalidArgument(
            f"{before}{n_pictures} pictures, but {labels_name} has {n_labels} labels; "
            "give one label a picture, in the order of the pictures"
        )


def _texts(labels: NDArray[Any], name: str) -> list[str]:
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise InvalidArgument(
            f"{name}: labels must be whole numbers or text of shape (n,), got {labels.dtype} {labels.shape}"
        )
    return [str(label) for label in labels.tolist()]


def _is_array(path: Path) -> bool:
    return path.suffix.lower() in (".npy", ".npz") or ("idx3" in path.name.lower() and _is_idx(path))


def _is_idx(path: Path) -> bool:
    """By content; of a packed file the name must say it, for unpacking all to look inside is dear."""
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError:  # who reads the picture says why
        return False
    return is_idx(head) or (head.startswith(GZIP) and "idx" in path.name.lower())


def _holds_labels(path: Path) -> bool:
    return "idx1" in path.name.lower() and _is_idx(path)
