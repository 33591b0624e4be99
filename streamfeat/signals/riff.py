"""RIFF, RIFX and RF64: the chunks that matter, held against what is there, and put in the one order libsndfile reads.

libsndfile reads a WAV that is cut short without a word, loses its way after an odd chunk without a pad byte, and
calls MP3 in a RIFF file "not a regular file". So the chunks are walked here, and libsndfile gets `fmt `, `fact` and
`data` alone, with the length that is there.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from streamfeat.errors import InvalidArgument

PIPED_BYTES = 0x7FFFF000
"""Data lengths from here up were written by a program that could not know them; the data ends with the file."""

_CODECS = {1, 2, 3, 6, 7, 0x11, 0x31, 0x40}  # PCM, ADPCM, float, G.711, IMA, GSM, G.721
_EXTENSIBLE = 0xFFFE
_REFUSED = {
    0x50: "MPEG layer 1 or 2",
    0x55: "MPEG layer 3",
    0xFF: "AAC",
    0x160: "WMA 1",
    0x161: "WMA 2",
    0x162: "WMA 9",
}
_WHOLE_FRAMES = {1, 3, 6, 7}  # codecs whose block is one frame
_USUAL = (
    *(b"fmt ", b"fact", b"data", b"LIST", b"JUNK", b"PEAK", b"bext", b"cue ", b"id3 "),
    *(b"COMM", b"SSND", b"FVER", b"NAME", b"AUTH", b"ANNO", b"(c) ", b"MARK", b"INST", b"APPL", b"ID3 ", b"CHAN"),
)
"""Names of chunks, of AIFF as well."""


class _Chunks(NamedTuple):
    """Where the chunks are: (first byte, bytes) of each; None where one is missing. `piped`: to the end of the file."""

    format: tuple[int, int] | None
    fact: tuple[int, int] | None
    data: tuple[int, int] | None
    piped: bool


def is_riff(data: bytes) -> bool:
    """Whether the bytes begin as a WAV file does, of either byte order, or with 64-bit lengths."""
    return data[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64") and data[8:12] == b"WAVE"


def plain_riff(data: bytes, name: str) -> tuple[bytes, tuple[str, ...]]:
    """The same recording as a RIFF file of `fmt `, `fact` and `data`, and what was odd about it.

    Raises
    ------
    InvalidArgument
        No `fmt ` or `data` chunk, or one that is longer than what is there (with both lengths); a codec that is not
        read; no channels; nothing in `data`.
    """
    order = ">" if data[:4] == b"RIFX" else "<"
    chunks = _walk(data, order)
    if chunks.format is None:
        raise InvalidArgument(f"{name}: RIFF without a fmt chunk; the file is cut short or no recording")
    head, codec, block = _plain_format(_whole(data, chunks.format, "fmt", name), order, name)
    if chunks.data is None:
        raise InvalidArgument(f"{name}: RIFF without a data chunk; the file is cut short or no recording")
    warnings = ["the data chunk has no length (a piped file): read to the end"] if chunks.piped else []
    body = _whole(data, chunks.data, "data", name)
    if not body:
        raise InvalidArgument(f"{name}: no samples: the data chunk is empty")
    left = len(body) % block if codec in _WHOLE_FRAMES and block else 0
    if left:
        warnings.append(f"{left} bytes after the last whole frame of {block}: left out")
        body = body[:-left]
    parts = [(b"fmt ", head), (b"data", body)]
    if chunks.fact is not None and codec not in _WHOLE_FRAMES:  # where it counts; libsndfile trips over an odd one
        parts.insert(1, (b"fact", _whole(data, chunks.fact, "fact", name)[:4].ljust(4, b"\0")))
    return _joined(parts, order), tuple(warnings)


def _walk(data: bytes, order: str) -> _Chunks:
    """Find the first chunk of each kind. A chunk of odd length whose pad byte was forgotten is found as well."""
    found: dict[bytes, tuple[int, int]] = {}
    long_bytes: int | None = None
    at = 12
    while at + 8 <= len(data):
        kind, (size,) = data[at : at + 4], struct.unpack_from(f"{order}I", data, at + 4)
        start = at + 8
        if kind == b"ds64" and start + 16 <= len(data):  # RF64 keeps the length of `data` here
            (long_bytes,) = struct.unpack_from("<Q", data, start + 8)
        if kind == b"data" and b"data" not in found:
            if size == 0xFFFFFFFF and long_bytes is not None:
                size = long_bytes
            if size >= PIPED_BYTES or (size == 0 and _unfinished(data, order, start)):
                return _Chunks(found.get(b"fmt "), found.get(b"fact"), (start, len(data) - start), piped=True)
        found.setdefault(kind, (start, size))
        end = start + size
        at = end if size % 2 and names_chunk(data, end) else end + size % 2
    return _Chunks(found.get(b"fmt "), found.get(b"fact"), found.get(b"data"), piped=False)


def names_chunk(data: bytes, at: int) -> bool:
    """Whether a chunk begins here, where a pad byte is due: that should be zero, and a usual name follows it if not."""
    word = data[at : at + 4]
    is_name = len(word) == 4 and word.isascii() and word.decode("ascii").isprintable() and word[:1].isalpha()
    return is_name and data[at + 1 : at + 5] not in _USUAL


def _unfinished(data: bytes, order: str, start: int) -> bool:
    """Whether a length of 0 was never filled in: the file goes on after it, and the RIFF length does not know it."""
    (said,) = struct.unpack_from(f"{order}I", data, 4)
    return len(data) > start and (said + 8 <= start or said >= PIPED_BYTES)


def _whole(data: bytes, chunk: tuple[int, int], kind: str, name: str) -> bytes:
    start, size = chunk
    there = len(data) - start
    if there < size:
        raise InvalidArgument(
            f"{name}: the {kind} chunk says {size} bytes, {there} are there; the file is cut short, copy it again"
        )
    return data[start : start + size]


def parse_format(head: bytes, name: str, order: str = "<") -> tuple[int, int, int, int, int]:
    """What a fmt chunk says: codec (that of an extensible one looked up), channels, rate in Hz, bytes a block, bits.

    Raises
    ------
    InvalidArgument
        It is too short; no channels or no rate.
    """
    if len(head) < 16:
        raise InvalidArgument(f"{name}: the fmt chunk has {len(head)} bytes, 16 are needed; the file is damaged")
    codec, n_channels, rate_hz, _, block, n_bits = struct.unpack_from(f"{order}HHIIHH", head)
    if codec == _EXTENSIBLE:
        if len(head) < 40:
            raise InvalidArgument(f"{name}: an extensible fmt chunk has 40 bytes, got {len(head)}; the file is damaged")
        (codec,) = struct.unpack_from(f"{order}I", head, 24)
        if codec > 0xFFFF:  # a GUID in the other order: some RIFX have it so
            (codec,) = struct.unpack_from("<I" if order == ">" else ">I", head, 24)
    if codec not in _CODECS:
        known = f" ({_REFUSED[codec]})" if codec in _REFUSED else ""
        raise InvalidArgument(f"{name}: RIFF with codec 0x{codec:04x}{known} is not read; convert it to PCM")
    if not n_channels or not rate_hz:
        raise InvalidArgument(f"{name}: the fmt chunk says {n_channels} channels at {rate_hz} Hz; the file is damaged")
    return codec, n_channels, rate_hz, block, n_bits


def _plain_format(head: bytes, order: str, name: str) -> tuple[bytes, int, int]:
    """The format without its extension (which libsndfile does not read in RIFX), its codec, and bytes a frame."""
    codec, n_channels, rate_hz, block, n_bits = parse_format(head, name, order)
    if codec == 1 and n_bits > 16 and block == n_channels * (-(-n_bits // 8) + 1):
        raise InvalidArgument(
            f"{name}: the fmt chunk says {n_bits} bits, and {block // n_channels} bytes a sample: readers differ in "
            "what that is, whole numbers or Cool Edit's floats; convert it"
        )
    written, _, _, speed = struct.unpack_from(f"{order}HHII", head)
    if written == _EXTENSIBLE and codec in _WHOLE_FRAMES:
        head = struct.pack(f"{order}HHIIHHH", codec, n_channels, rate_hz, speed, block, n_bits, 0)
    # a block that does not hold one sample of each channel is not believed; libsndfile goes by the bits as well
    return head, codec, max(block, n_channels * -(-n_bits // 8))


def _joined(parts: list[tuple[bytes, bytes]], order: str) -> bytes:
    size = 4 + sum(8 + len(body) + len(body) % 2 for _, body in parts)
    pieces = [b"RIFF" if order == "<" else b"RIFX", struct.pack(f"{order}I", size), b"WAVE"]
    for kind, body in parts:
        pieces += [kind, struct.pack(f"{order}I", len(body)), body, b"\0" * (len(body) % 2)]
    return b"".join(pieces)
