"""Sounds of a known format that is not read, so that the refusal names it and says what reads it."""

from __future__ import annotations

import shlex
from pathlib import PurePath

from streamfeat.errors import InvalidArgument

FOREIGN_SUFFIXES = (".m4a", ".m4b", ".aac", ".wma", ".amr")
"""Names of recordings all the same: in a folder they are refused one by one, not passed over."""

_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_PICTURES = (b"avif", b"avis", b"heic", b"heix", b"hevc", b"hevx", b"mif1", b"msf1")
"""Brands of what has MP4's form and is a picture."""

_HEADS = {
    _ASF: "ASF (WMA)",
    b"ADIF": "AAC",
    b"#!AMR": "AMR",
    b"\x1aE\xdf\xa3": "Matroska (WebM)",
}


def foreign_sound(data: bytes) -> str | None:
    """The format that a file of sound (or film) begins as, if it is known and not read; else None."""
    if data[4:8] == b"ftyp" and data[8:12] not in _PICTURES:
        return "MP4 (M4A: AAC or ALAC)"
    # ADTS: twelve set bits, a version, layer 0, which MPEG audio does not have; then a rate that exists
    if len(data) > 6 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0 and data[2] >> 2 & 15 < 13:
        return "AAC"
    return next((form for head, form in _HEADS.items() if data.startswith(head)), None)


def refuse_foreign(data: bytes, name: str) -> None:
    """Raise `InvalidArgument` for such a file, with its format and what to do."""
    form = foreign_sound(data)
    if form is not None:
        file = PurePath(name)
        command = shlex.join(["ffmpeg", "-i", file.name, f"{file.stem}.flac"])
        raise InvalidArgument(f"{name}: {form} is not read; convert it to WAV or FLAC: {command}")
