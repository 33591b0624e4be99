"""Portable maps, PBM, PGM, PPM and PFM: headers with comments anywhere, values held to the greatest the header says.

Pillow refuses a comment right after the magic, clips values that are over the greatest without a word, and knows no
PFM in colours.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument

_MAGIC = re.compile(rb"P[1-6][\s#]")
_WORDS = {b"1": 2, b"4": 2}
"""Numbers of a header: width and height; the greatest value for all other kinds."""

_MOST_HEAD = 1 << 16


def is_map(data: bytes) -> bool:
    """Whether the bytes begin as a PBM, PGM or PPM does."""
    return _MAGIC.match(data[:3]) is not None


def plain_map(data: bytes, name: str) -> bytes:
    """The same picture with a header that has no comments; as it is where the header has no numbers.

    Raises
    ------
    InvalidArgument
        A value is over the greatest that the header says.
    """
    kind = data[1:2]
    words, start = _header(data, _WORDS.get(kind, 3))
    if not all(re.fullmatch(rb"[0-9]{1,9}", word) for word in words):
        return data
    if kind in b"56":
        _check_raster(data, start, [int(word) for word in words], name)
    return b"P%s\n%s\n" % (kind, b" ".join(words)) + data[start:]


def _header(data: bytes, n_words: int) -> tuple[list[bytes], int]:
    """Words after the magic, and where the raster begins: one white byte after the last of them.

    A comment goes from # to the end of its line, also right after a word; the line end is not part of it.
    """
    words: list[bytes] = []
    word, at = b"", 2
    while len(words) < n_words and at < min(len(data), _MOST_HEAD):
        if data[at : at + 1] == b"#":
            while at < len(data) and data[at] not in b"\r\n":
                at += 1
            continue
        if not data[at : at + 1].isspace():
            word += data[at : at + 1]
        elif word:
            words.append(word)
            word = b""
        at += 1
    return words if len(words) == n_words else [b""], at


def _check_raster(data: bytes, start: int, words: list[int], name: str) -> None:
    width, height, greatest = words
    dtype = np.dtype("u1" if greatest < 256 else ">u2")
    n_values = width * height * (3 if data[1:2] == b"6" else 1)
    n_there = min(n_values, (len(data) - start) // dtype.itemsize)
    found = int(np.frombuffer(data, dtype, n_there, start).max(initial=0))
    if found > greatest:
        raise InvalidArgument(f"{name}: a value of {found}, the header says {greatest} at most; the file is damaged")


def is_pfm(data: bytes) -> bool:
    """Whether the bytes begin as a PFM does, grey or in colours."""
    return re.match(rb"P[Ff]\s", data[:3]) is not None


def pfm_size(data: bytes, name: str) -> tuple[int, int]:
    """Width and height.

    Raises
    ------
    InvalidArgument
        The header is not that of a PFM.
    """
    (width, height, _), _ = _pfm_header(data, name)
    return width, height


def read_pfm(data: bytes, name: str) -> NDArray[np.float32]:
    """The floats of a PFM, (h, w) or (h, w, 3), its first row on top. How they are scaled is not applied.

    Raises
    ------
    InvalidArgument
        The header is not that of a PFM, or fewer values are there than it says, with both numbers.
    """
    (width, height, scale), start = _pfm_header(data, name)
    n_colours = 3 if data[1:2] == b"F" else 1
    n_needed, n_there = 4 * width * height * n_colours, len(data) - start
    if n_there < n_needed:
        raise InvalidArgument(
            f"{name}: a PFM of {width} x {height} needs {n_needed} bytes, {n_there} are there; cut short"
        )
    values: NDArray[Any] = np.frombuffer(data, "<f4" if scale < 0 else ">f4", n_needed // 4, start)
    rows = values.reshape(height, width, n_colours)[::-1]  # the first row of a PFM is the lowest
    return np.array(rows if n_colours == 3 else rows[:, :, 0], np.float32)


def _pfm_header(data: bytes, name: str) -> tuple[tuple[int, int, float], int]:
    words, start = _header(data, 3)
    if len(words) == 3 and all(re.fullmatch(rb"[0-9]{1,9}", word) for word in words[:2]):
        width, height, scale = int(words[0]), int(words[1]), _float(words[2])
        if width and height and scale and abs(scale) < float("inf"):
            return (width, height, scale), start
    raise InvalidArgument(
        f"{name}: a PFM begins with its width, height and a scale that is not 0, got {data[:40]!r}; the file is damaged"
    )


def _float(word: bytes) -> float:
    """0.0 for what is no number."""
    return (
        float(word)
        if re.fullmatch(rb"[+-]?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,3})?", word) and word.count(b".") < 2
        else 0.0
    )
