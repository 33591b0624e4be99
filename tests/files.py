"""Files made byte by byte, so that tests know what is in them without asking the code under test.

Recordings and pictures made by others lie beside the repository, in `../shared`; `shared()` finds them, or skips
the test with the reason.
"""

from __future__ import annotations

import json
import resource
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

SHARED = Path(__file__).resolve().parents[1].parent / "shared"


@contextmanager
def no_room() -> Iterator[None]:
    """Files of this process end at 10 bytes, as on a disk that is full; EFBIG in place of ENOSPC.

    Round one call and no more: what pytest itself writes, to a file or a captured stream, would end there too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def shared(*parts: str) -> Path:
    """A file or folder of `../shared`, or a skip that says it is not here."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no ../shared/{'/'.join(parts)}: the shared data is not on this machine")
    return path


def manifest_cases(kind: str) -> list[dict[str, Any]]:
    """The awkward cases of one kind; none when the shared data is not here."""
    path = SHARED / "cases" / "manifest.json"
    if not path.exists():
        return []
    return [case for case in json.loads(path.read_text()) if case["kind"] == kind]


def shared_cases(kind: str) -> pytest.MarkDecorator:
    """Marks a test to run on each awkward case of a kind, or once as skipped when the cases are not here."""
    cases = manifest_cases(kind)
    if not cases:
        reason = "no ../shared/cases: the shared data is not on this machine"
        return pytest.mark.parametrize("case", [pytest.param({}, marks=pytest.mark.skip(reason=reason))])
    return pytest.mark.parametrize("case", cases, ids=[case["file"] for case in cases])


def riff(fmt: bytes, data: bytes, *, data_size: int | None = None, before: bytes = b"", form: bytes = b"RIFF") -> bytes:
    """A WAV file: `fmt ` chunk, whole chunks of `before`, `data` chunk that declares `data_size`."""
    order = ">" if form == b"RIFX" else "<"
    size = len(data) if data_size is None else data_size
    body = b"WAVE" + b"fmt " + struct.pack(f"{order}I", len(fmt)) + fmt + before
    body += b"data" + struct.pack(f"{order}I", size) + data + b"\0" * (len(data) % 2)
    return form + struct.pack(f"{order}I", len(body)) + body


def pcm_format(rate_hz: int, n_channels: int = 1, n_bytes: int = 2, tag: int = 1, order: str = "<") -> bytes:
    """The 16 bytes of a `fmt ` chunk."""
    block = n_channels * n_bytes
    return struct.pack(f"{order}HHIIHH", tag, n_channels, rate_hz, rate_hz * block, block, 8 * n_bytes)


def wav16(samples: NDArray[np.int16], rate_hz: int = 8000) -> bytes:
    """A WAV file of 16-bit PCM, (n,) or (n, n_channels)."""
    n_channels = 1 if samples.ndim == 1 else samples.shape[1]
    return riff(pcm_format(rate_hz, n_channels), samples.astype("<i2").tobytes())


def sphere_header(fields: dict[str, str | int], length: int = 1024) -> bytes:
    """A SPHERE header with exactly these fields, written apart from `encode_header`."""
    lines = [f"{k} -i {v}" if isinstance(v, int) else f"{k} -s{len(v)} {v}" for k, v in fields.items()]
    return "\n".join(["NIST_1A", f"{length:>7}", *lines, "end_head", ""]).encode().ljust(length)


def png(pixels: NDArray[np.uint8], *, width: int | None = None, height: int | None = None) -> bytes:
    """An 8-bit PNG, grey (h, w) or RGB (h, w, 3); `width` and `height` are what its header claims."""
    colour = 2 if pixels.ndim == 3 else 0
    return png_of(pixels, 8, colour, size=(width or pixels.shape[1], height or pixels.shape[0]))


def png_of(
    pixels: NDArray[Any],
    depth: int,
    colour: int,
    more: Sequence[tuple[bytes, bytes]] = (),
    *,
    size: tuple[int, int] | None = None,
) -> bytes:
    """A PNG of any depth and colour type, with chunks before its pixels."""
    rows = b"".join(b"\0" + packed(row.ravel(), depth) for row in pixels)
    header = struct.pack(">IIBBBBB", *(size or pixels.shape[1::-1]), depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, body) for kind, body in chunks)


def packed(values: NDArray[Any], bits: int) -> bytes:
    """Whole numbers of so many bits each, the first bit of a byte first."""
    places = np.arange(bits - 1, -1, -1)
    return np.packbits(values.astype(np.uint32)[:, None] >> places & 1).tobytes()


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def tiff(strip: bytes, width: int, height: int, *, bits: int, photometric: int = 1) -> bytes:
    """A little-endian grey TIFF of one uncompressed strip."""
    tags = ((256, width), (257, height), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, height))
    entries = [*tags, (279, len(strip))]
    at = 8 + len(strip) + len(strip) % 2
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", t, 4, 1, v) for t, v in entries)
    return struct.pack("<2sHI", b"II", 42, at) + strip.ljust(at - 8, b"\0") + directory + bytes(4)


def idx(array: NDArray[Any], code: int) -> bytes:
    """An IDX file: two zeros, type code, number of axes, their lengths, big-endian values."""
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def shorten(channels: Sequence[Sequence[int]], *, order: int = 1, block: int = 256) -> bytes:
    """A shorten v2 stream of 16-bit channels of equal length, each block coded by differences of one order (0 to 2).

    Bits are written as a string of 0 and 1: slow and plain. Means are off, so order 0 is the sample itself.
    """
    bits = "".join(_ulong(v) for v in (5, len(channels), block, 0, 0, 0))  # type s16lh, no LPC, no mean, no skip
    length = len(channels[0])
    for start in range(0, length, block):
        n = min(block, length - start)
        if n < block:
            bits += _uvar(5, 2) + _ulong(n)
        for samples in channels:
            padded = [0, 0, *samples]
            x = np.array(padded[start : start + n + 2], np.int64)
            if order == 0:
                residual = x[2:]
            elif order == 1:
                residual = x[2:] - x[1:-1]
            else:
                residual = x[2:] - 2 * x[1:-1] + x[:-2]
            folded = [2 * int(r) if r >= 0 else -2 * int(r) - 1 for r in residual]
            energy = max(int(np.mean(folded)).bit_length() - 1, 0)
            bits += _uvar(order, 2) + _uvar(energy, 3) + "".join(_uvar(u, energy + 1) for u in folded)
    bits += _uvar(4, 2)
    bits += "0" * (-len(bits) % 8)
    return b"ajkg\x02" + int(bits, 2).to_bytes(len(bits) // 8, "big")


def endless(n_blocks: int = 16_000, block: int = 1 << 14, **fields: str | int) -> bytes:
    """A SPHERE file whose shorten stream gives blocks of zeros, five bits each; by default 262 million values."""
    coding: dict[str, str | int] = {"sample_rate": 8000, "sample_coding": "pcm,embedded-shorten-v2.00"}
    bits = "".join(_ulong(v) for v in (5, 1, block, 0, 0, 0)) + _uvar(8, 2) * n_blocks + _uvar(4, 2)
    bits += "0" * (-len(bits) % 8)
    return sphere_header({**coding, **fields}) + b"ajkg\x02" + int(bits, 2).to_bytes(len(bits) // 8, "big")


def slow() -> bytes:
    """A SPHERE file that is in order and takes seconds to unpack: an hour and a half of digital silence."""
    return endless(n_blocks=400_000, block=256)


def _uvar(value: int, k: int) -> str:
    return "0" * (value >> k) + "1" + (f"{value & ((1 << k) - 1):0{k}b}" if k else "")


def _ulong(value: int) -> str:
    k = max(value.bit_length() - 2, 0)
    return _uvar(k, 2) + _uvar(value, k)
