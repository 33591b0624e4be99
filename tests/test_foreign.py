"""Sounds of other formats: refused with the format's name and a command, and never passed over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.errors import InvalidArgument
from streamfeat.inspection import check_bytes
from streamfeat.signals import read_audio, read_image
from streamfeat.signals.corpus import open_corpus
from streamfeat.signals.foreign import foreign_sound
from tests.files import png, wav16

SOUNDS = {
    "a.m4a": (b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom\0\0\0\0", "MP4"),
    "a.mp4": (b"\0\0\0\x18ftypisom\0\0\2\0isommp41", "MP4"),
    "a.aac": (bytes([0xFF, 0xF1, 0x50, 0x80, 0x02, 0x9F, 0xFC]), "AAC"),
    "old.aac": (b"ADIF" + bytes(20), "AAC"),
    "a.wma": (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + bytes(20), "WMA"),
    "a.amr": (b"#!AMR\n" + bytes(20), "AMR"),
    "a.webm": (b"\x1aE\xdf\xa3" + bytes(20), "WebM"),
}


@pytest.mark.parametrize("name", SOUNDS)
def test_the_format_and_the_way_out_are_told(name: str) -> None:
    """Whoever reads it: as a recording, as a picture (`push` takes any file that is named), or `check`."""
    data, form = SOUNDS[name]
    said = f"^x/{name}: .*{form}.* is not read; convert .* ffmpeg -i {name} {name[:-4].rstrip('.')}.flac$"
    for read in (read_audio, read_image):
        with pytest.raises(InvalidArgument, match=said):
            read(data, name=f"x/{name}")
    check = check_bytes(data, "no name")
    assert (check.kind, check.accepted) == ("audio", False)
    assert form in str(check.error)


def test_what_is_read_is_not_foreign() -> None:
    """A recording, a picture, an MP3's frame, a picture in MP4's form."""
    mp3 = bytes([0xFF, 0xFB, 0x90, 0x00]) + bytes(20)
    heads = (wav16(np.zeros(8, np.int16)), png(np.zeros((2, 2), np.uint8)), mp3, b"\0\0\0\x20ftypavif\0\0\0\0", b"")
    assert [foreign_sound(head) for head in heads] == [None] * len(heads)


def test_in_a_folder_they_are_found(tmp_path: Path) -> None:
    """Beside others, and alone: refused by name when they are read."""
    for place, data in (("one/a.wav", wav16(np.arange(8, dtype=np.int16))), ("two/b.M4A", SOUNDS["a.m4a"][0])):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).write_bytes(data)
    first, second = open_corpus(tmp_path).utterances
    assert (first.name, second.name) == ("one/a.wav", "two/b.M4A")
    with pytest.raises(InvalidArgument, match=r"^two/b\.M4A: MP4"):
        second.read()
