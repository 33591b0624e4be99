"""What the other containers of audio declare, held against what is there: libsndfile reads them short without a word.

AIFF, AIFF-C   big-endian chunks; samples in SSND, their number in COMM, which libsndfile does not look at
AU             offset and length in the header
Wave64         chunks named by GUIDs, 64-bit lengths that count their own 24 bytes
CAF            chunks of 64-bit lengths; -1 is unknown
Ogg            pages; the last one is marked as such
FLAC           samples counted in its first block; 0 is unknown: see `flac`
"""

from __future__ import annotations

import struct

from streamfeat.errors import InvalidArgument
from streamfeat.signals.flac import MAGIC, plain_flac
from streamfeat.signals.riff import names_chunk

W64_MAGIC = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"

_AU_UNKNOWN = 0xFFFFFFFF
_AU_HEADER = 24
_PIPED_BYTES = 0x7F000000
"""AIFF lengths, of bytes or of frames, from here up are those of programs that wrote into a pipe; so is 0."""

_WIDTHS = {b"fl32": 4, b"FL32": 4, b"fl64": 8, b"FL64": 8, b"ulaw": 1, b"ULAW": 1, b"alaw": 1, b"ALAW": 1}
"""Bytes a sample of the AIFF-C codings whose bits in COMM are those of what is decoded."""

_WHOLE_BITS = (None, b"NONE", b"twos", b"sowt", b"raw ", b"in24", b"in32")
_PIPED = ("the length was not filled in (a piped file): read to the end",)

_OGG_LAST = 0x04


def plain_container(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """The recording for libsndfile to read, with lengths that are true, and what was odd about it.

    Formats not listed above are given back as they are.

    Raises
    ------
    InvalidArgument
        The file is cut short, with both lengths, or says nothing of its samples.
    """
    if data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"):
        return _plain_aiff(data, name)
    if data[:4] in (b".snd", b"dns."):
        return _plain_au(data, name)
    if data.startswith(MAGIC):
        return plain_flac(data, name)
    if data.startswith(W64_MAGIC):
        _check_w64(data, name)
    elif data[:4] == b"caff":
        _check_caf(data, name)
    elif data[:4] == b"OggS":
        _check_ogg(data, name)
    return data, ()


def _plain_aiff(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """COMM and SSND alone, in that order."""
    chunks, piped = _aiff_chunks(data, name)
    for kind, what in ((b"SSND", "an SSND"), (b"COMM", "a COMM")):
        if kind not in chunks:
            raise InvalidArgument(f"{name}: AIFF without {what} chunk; the file is cut short or holds no samples")
    head, body = chunks[b"COMM"], chunks[b"SSND"]
    n_least = 18 if data[8:12] == b"AIFF" else 22
    if len(head) < n_least or len(body) < 8:
        raise InvalidArgument(
            f"{name}: AIFF with a COMM chunk of {len(head)} and an SSND chunk of {len(body)} bytes, {n_least} and 8 "
            "are needed; the file is cut short"
        )
    odd = list(_PIPED) if piped else []
    block = _aiff_block(head)
    if block:
        body, more = _counted(head, body, block, name)
        odd += [each for each in more if each not in odd]
        (offset,) = struct.unpack_from(">I", body)
        n_frames = (len(body) - 8 - offset) // block
        head = head[:2] + struct.pack(">I", max(0, n_frames)) + head[6:]
    inside = data[8:12] + b"".join(_chunk(kind, chunk) for kind, chunk in ((b"COMM", head), (b"SSND", body)))
    return _chunk(b"FORM", inside), tuple(odd)


def _aiff_chunks(data: bytes, name: str) -> tuple[dict[bytes, bytes], bool]:
    """The first chunk of each kind, whole, and whether the samples go on to the end of the file."""
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(">4sI", data, at)
        start, end = at + 8, at + 8 + size
        (form_bytes,) = struct.unpack_from(">I", data, 4)
        if kind == b"SSND" and (size >= _PIPED_BYTES or (size == 0 and form_bytes + 8 <= start < len(data))):
            chunks.setdefault(kind, data[start:])
            return chunks, True
        if kind in (b"COMM", b"SSND") and kind not in chunks:
            _hold(f"the {kind.decode()} chunk", size, len(data) - start, name)
            chunks[kind] = data[start:end]
        at = end if size % 2 and names_chunk(data, end) else end + size % 2
    return chunks, False


def _aiff_block(head: bytes) -> int:
    """Bytes a frame; 0 for a coding whose frames are not of one length."""
    n_channels, bits = struct.unpack_from(">H4xH", head)
    coding = head[18:22] or None
    if coding in _WIDTHS:
        return int(n_channels) * _WIDTHS[coding]
    return int(n_channels) * -(-int(bits) // 8) if coding in _WHOLE_BITS else 0


def _counted(head: bytes, body: bytes, block: int, name: str) -> tuple[bytes, tuple[str, ...]]:
    """As many frames of SSND as COMM says there are."""
    (said,), (offset,) = struct.unpack_from(">2xI", head), struct.unpack_from(">I", body)
    there = max(0, len(body) - 8 - offset) // block
    if (said == 0 and there) or said * block >= _PIPED_BYTES:
        return body, _PIPED
    if said > there:
        raise InvalidArgument(
            f"{name}: the COMM chunk says {said} frames, {there} are in the SSND chunk; the file is cut short, copy it "
            "again"
        )
    if said < there:
        return body[: 8 + offset + said * block], (f"{there - said} frames after the {said} of the header: left out",)
    return body, ()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body)) + body + b"\0" * (len(body) % 2)


def _plain_au(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """With the length that is there, where it was not known."""
    if len(data) < 12:
        raise InvalidArgument(f"{name}: an AU header of {len(data)} bytes, 24 are needed; the file is cut short")
    order = ">" if data[:4] == b".snd" else "<"
    offset, size = struct.unpack_from(f"{order}II", data, 4)
    if offset < _AU_HEADER:
        raise InvalidArgument(f"{name}: an AU header says that it has {offset} bytes, the least are 24; it is damaged")
    there = len(data) - offset
    if size == _AU_UNKNOWN or (size == 0 and there > 0):
        return data[:8] + struct.pack(f"{order}I", max(0, there)) + data[12:], _PIPED
    _hold("the AU header", size, there, name)
    return data, ()


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
