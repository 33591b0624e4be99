"""What the other containers of audio declare, held against what is there: libsndfile reads them short without a word.

AIFF, AIFF-C   big-endian chunks; samples in SSND
AU             offset and length in the header
Wave64         chunks named by GUIDs, 64-bit lengths that count their own 24 bytes
CAF            chunks of 64-bit lengths; -1 is unknown
Ogg            pages; the last one is marked as such
"""

from __future__ import annotations

import struct

from streamfeat.errors import InvalidArgument

W64_MAGIC = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"

_AU_UNKNOWN = 0xFFFFFFFF
_PIPED_BYTES = 0x7F000000
"""AIFF lengths from here up are those of programs that wrote into a pipe."""

_OGG_LAST = 0x04


def check_container(data: bytes, name: str) -> None:
    """Raise `InvalidArgument`, with both lengths, if the file is cut short; formats not listed above pass."""
    if data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"):
        _check_aiff(data, name)
    elif data[:4] in (b".snd", b"dns."):
        _check_au(data, name)
    elif data.startswith(W64_MAGIC):
        _check_w64(data, name)
    elif data[:4] == b"caff":
        _check_caf(data, name)
    elif data[:4] == b"OggS":
        _check_ogg(data, name)


def _check_aiff(data: bytes, name: str) -> None:
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(">4sI", data, at)
        if kind == b"SSND":
            if size < _PIPED_BYTES:
                _hold("the SSND chunk", size, len(data) - at - 8, name)
            return
        at += 8 + size + size % 2
    raise InvalidArgument(f"{name}: AIFF without an SSND chunk; the file is cut short or holds no samples")


def _check_au(data: bytes, name: str) -> None:
    if len(data) < 12:
        raise InvalidArgument(f"{name}: an AU header of {len(data)} bytes, 24 are needed; the file is cut short")
    offset, size = struct.unpack_from(">II" if data[:4] == b".snd" else "<II", data, 4)
    if size != _AU_UNKNOWN:
        _hold("the AU header", size, len(data) - offset, name)


def _check_w64(data: bytes, name: str) -> None:
    at = 40
    while at + 24 <= len(data):
        kind, size = struct.unpack_from("<4s12xQ", data, at)
        if kind == b"data":
            _hold("the data chunk", size, len(data) - at, name)
            return
        at += max(24, size + -size % 8)
    raise InvalidArgument(f"{name}: Wave64 without a data chunk; the file is cut short or holds no samples")


def _check_caf(data: bytes, name: str) -> None:
    at = 8
    while at + 12 <= len(data):
        kind, size = struct.unpack_from(">4sq", data, at)
        if kind == b"data":
            if size >= 0:
                _hold("the data chunk", size, len(data) - at - 12, name)
            return
        at += 12 + max(0, size)
    raise InvalidArgument(f"{name}: CAF without a data chunk; the file is cut short or holds no samples")


def _check_ogg(data: bytes, name: str) -> None:
    """Walk the pages of the file; what comes after the last page, such as a tag, is not looked at."""
    at, last, n_pages = 0, False, 0
    while data[at : at + 4] == b"OggS" and at + 27 <= len(data):
        flags, n_segments = data[at + 5], data[at + 26]
        end = at + 27 + n_segments
        end += sum(data[at + 27 : end])
        if end > len(data):
            break
        at, last, n_pages = end, bool(flags & _OGG_LAST), n_pages + 1
    if not last:
        raise InvalidArgument(
            f"{name}: the Ogg stream has no last page: {len(data)} bytes, {n_pages} whole pages are there; the file "
            "is cut short, copy it again"
        )


def _hold(what: str, said: int, there: int, name: str) -> None:
    if there < said:
        raise InvalidArgument(
            f"{name}: {what} says {said} bytes, {there} are there; the file is cut short, copy it again"
        )
