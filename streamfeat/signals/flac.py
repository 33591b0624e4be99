"""FLAC that an encoder wrote into a pipe: its length, left 0 in the first block, counted from its frames.

libsndfile reads such a file to its end and then fails. Each frame begins with a header that has its number, the samples
in it and a checksum; the last one ends, with a checksum of all of it, where the file does.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from streamfeat.errors import InvalidArgument

MAGIC = b"fLaC"

_COUNT = (1 << 36) - 1
"""Samples of a channel, the last bits before the MD5 of STREAMINFO, which is always the first block."""

_SYNC = re.compile(rb"\xff[\xf8\xf9]")
_MOST_FALSE = 4096
"""Places that look like the beginning of a frame before the next one: one of 32768 does by chance."""

_MOST_FRAME = 1 << 22
"""Bytes: 65535 samples of eight channels of 32 bits have half of it."""

_MOST_HEADER = 16
_BLOCKS = (0, 192, 576, 1152, 2304, 4608, 0, 0, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
"""Samples by their code; 6 and 7: written at the end of the header."""

_RATE_BYTES = {12: 1, 13: 2, 14: 2}


class _Frame(NamedTuple):
    """Where a frame begins, its number or that of its first sample, its samples, and the number of the next one."""

    start: int
    number: int
    n_samples: int
    next_number: int


def plain_flac(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """The file with its length filled in, if it has none; and that it was so.

    Raises
    ------
    InvalidArgument
        It has no length, and its frames do not go on whole to the end.
    """
    if len(data) < 42:  # the magic and STREAMINFO: libsndfile has the word for less
        return data, ()
    (word,) = struct.unpack_from(">Q", data, 18)
    if word & _COUNT:
        return data, ()
    frames = _frames(data, _first_frame(data))
    last = data[frames[-1].start :] if frames else b""
    if not frames or len(last) > _MOST_FRAME or _crc16(last):
        raise InvalidArgument(
            f"{name}: FLAC without its length (a piped file), whose {len(frames)} frames do not go on to the end: cut "
            "short or damaged, copy it again"
        )
    n_samples = sum(frame.n_samples for frame in frames)
    filled = data[:18] + struct.pack(">Q", word | n_samples & _COUNT) + data[26:]
    return filled, ("the length was not filled in (a piped file): counted from the frames",)


def _first_frame(data: bytes) -> int:
    """Where the blocks of metadata end."""
    at, last = 4, False
    while not last and at + 4 <= len(data):
        (head,) = struct.unpack_from(">I", data, at)
        at, last = at + 4 + (head & 0xFFFFFF), bool(head >> 31)
    return at


def _frames(data: bytes, start: int) -> list[_Frame]:
    """Frames numbered one after the other from 0; what looks like one within another has not the next number."""
    frames: list[_Frame] = []
    expected = n_false = 0
    for sync in _SYNC.finditer(data, start):
        frame = _frame(data, sync.start())
        if frame is not None and frame.number == expected:
            frames.append(frame)
            expected, n_false = frame.next_number, 0
        elif n_false < _MOST_FALSE:
            n_false += 1
        else:
            break
    return frames


def _frame(data: bytes, start: int) -> _Frame | None:
    """The frame whose header begins there; None where none does."""
    head = data[start : start + _MOST_HEADER]
    if len(head) < 6 or head[3] & 1:
        return None
    size, rate = head[2] >> 4, head[2] & 15
    number, at = _number(head)
    n_size, n_rate = {6: 1, 7: 2}.get(size, 0), _RATE_BYTES.get(rate, 0)
    end = at + n_size + n_rate
    if number is None or size == 0 or rate == 15 or end >= len(head) or _crc8(head[: end + 1]):
        return None
    n_samples = _BLOCKS[size] or int.from_bytes(head[at : at + n_size], "big") + 1
    is_variable = head[1] & 1
    return _Frame(start, number, n_samples, number + (n_samples if is_variable else 1))


def _number(head: bytes) -> tuple[int | None, int]:
    """What is written from the fourth byte on as UTF-8 writes characters, of up to seven bytes, and where it ends."""
    first = head[4]
    n_ones = 8 - (~first & 0xFF).bit_length()
    if n_ones == 0:
        return first, 5
    more = head[5 : 4 + n_ones]
    if n_ones in (1, 8) or len(more) < n_ones - 1 or any(byte >> 6 != 2 for byte in more):
        return None, 5
    value = first & (0x7F >> n_ones)
    for byte in more:
        value = value << 6 | byte & 0x3F
    return value, 4 + n_ones


def _crc8(data: bytes) -> int:
    """x^8 + x^2 + x + 1; of bytes with their checksum: 0."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
    return crc


def _crc16(data: bytes) -> int:
    """x^16 + x^15 + x^2 + 1; of bytes with their checksum: 0."""
    crc = 0
    for byte in data:
        crc = crc << 8 & 0xFFFF ^ _CRC16[crc >> 8 ^ byte]
    return crc


def _crc16_of(byte: int) -> int:
    crc = byte << 8
    for _ in range(8):
        crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


_CRC16 = [_crc16_of(byte) for byte in range(256)]
