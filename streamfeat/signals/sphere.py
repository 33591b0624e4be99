"""NIST SPHERE: an ASCII header of named fields, then samples; what TIDIGITS comes in, under the name .wav.

    NIST_1A\\n            magic
       1024\\n            length of the header, this line and padding included
    sample_rate -i 20000\\n   name, type, value: -i integer, -r real, -sN string of N bytes
    end_head\\n           the rest of the header is undefined

Fields are found by name, never by position. A file that says one thing and holds another is refused with both
numbers: noise and silence look like speech to everything downstream.

Read: linear PCM of 1 to 4 bytes in either byte order, mu-law, A-law, and each of them behind
`embedded-shorten-v2.00`, the form of the LDC's discs, which libsndfile does not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import desphere
import numpy as np
from desphere import g711, shorten
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals.recording import Channels, Recording
from streamfeat.signals.signal import Signal

Field = str | int | float
ByteOrder = Literal["little", "big"]

MAGIC = b"NIST_1A"
HEADER_BYTES = 1024
MAX_HEADER_BYTES = 1 << 20

_LENGTH = re.compile(rb"NIST_1A\n[ \t]*([0-9]{1,9})[ \t]*\n")
_LINE = re.compile(rb"(\w+)[ \t]+-(i|r|s([0-9]{1,6}))(?:[ \t](.*))?", re.ASCII | re.DOTALL)
_VALUE = {
    b"i": re.compile(r"[+-]?[0-9]{1,18}"),
    b"r": re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?"),
}

_ORDER = {"01": "<", "10": ">", "012": "<", "210": ">", "0123": "<", "3210": ">"}
_BYTE_FORMAT = {"little": "01", "big": "10"}
_G711 = {
    "ulaw": np.array(g711.ULAW_TABLE, np.int16),
    "mu-law": np.array(g711.ULAW_TABLE, np.int16),
    "alaw": np.array(g711.ALAW_TABLE, np.int16),
}
_SHORTEN = "embedded-shorten-v2.00"

MAX_BLOCK = 1 << 14
"""Values of a block of a shorten stream; usual are 256."""

VALUES_A_BYTE = 1024
"""Most that a byte of a shorten stream may stand for: a block of 256 zeros takes five bits."""


def is_sphere(data: bytes) -> bool:
    """Whether the bytes begin as a SPHERE file does, whatever its name."""
    return data.startswith(MAGIC)


def parse_header(data: bytes, name: str = "<bytes>") -> dict[str, Field]:
    """The header's fields by name: -i as int, -r as float, -sN as str.

    Raises
    ------
    InvalidArgument
        No SPHERE header, a damaged one (line ends changed by a transfer in text mode, cut short, no `end_head`),
        or a line that is no field, with that line.
    """
    fields: dict[str, Field] = {}
    for line in _header_lines(data, name):
        key, value = _parse_line(line, name)
        if key in fields:
            raise InvalidArgument(f"{name}: SPHERE header gives {key} twice: {fields[key]!r} and {value!r}")
        fields[key] = value
    return fields


def read_sphere(data: bytes, name: str = "<bytes>", *, channels: Channels = "refuse") -> Signal:
    """The recording in a SPHERE file.

    Parameters
    ----------
    data : bytes
        The whole file. Bytes after the last of `sample_count` samples are ignored.
    channels : "refuse", "mix" or int
        See `one_channel`.

    Returns
    -------
    Signal
        int16 for PCM of 1 or 2 bytes, mu-law and A-law; float32 for PCM of 3 or 4 bytes.

    Raises
    ------
    InvalidArgument
        Header damaged; no `sample_rate`; unknown coding, with the field; fewer samples than `sample_count`, or a
        sum of samples other than `sample_checksum` (16-bit PCM), with both numbers.
    """
    return decode_sphere(data, name).signal(channels)


def decode_sphere(data: bytes, name: str = "<bytes>") -> Recording:
    """All channels of the recording in a SPHERE file, with what was odd about it; see `read_sphere`."""
    fields = parse_header(data, name)
    rate_hz = _whole(fields, "sample_rate", name)
    n_channels = _whole(fields, "channel_count", name, default=1)
    n_samples = _whole(fields, "sample_count", name, default=-1)
    body = data[_header_length(data, name) :]
    base, _, packing = str(fields.get("sample_coding", "pcm")).lower().partition(",")
    if base not in ("pcm", *_G711) or packing not in ("", _SHORTEN):
        raise InvalidArgument(
            f"{name}: sample_coding {fields.get('sample_coding')!r} is not read; unpack it first with sph2pipe "
            f"or w_decode. Read are pcm, {', '.join(_G711)}, each also with ',{_SHORTEN}'"
        )
    if packing:
        values = _unshorten(body, n_channels, n_samples * n_channels, fields, name)
    else:
        values = _decode(body, base, fields, name)
    n_there = len(values) // n_channels
    if n_samples > n_there:
        raise InvalidArgument(
            f"{name}: sample_count says {n_samples} samples, {n_there} are there; the file is cut short, copy it again"
        )
    warnings = []
    if 0 <= n_samples < n_there:
        warnings.append(f"sample_count says {n_samples} samples, {n_there} are there: the rest is left out")
    if n_samples < 0:  # not given: all there is
        n_samples = n_there
    frames = _interleaved(values[: n_samples * n_channels], n_samples, n_channels, fields, name)
    if base == "pcm" and fields.get("sample_n_bytes", 2) == 2:
        _verify_checksum(frames, fields, name)
    return Recording(frames, rate_hz, name, tuple(warnings))


def encode_sphere(
    samples: ArrayLike,
    rate_hz: int,
    *,
    byte_order: ByteOrder = "little",
    fields: Mapping[str, Field] | None = None,
) -> bytes:
    """A SPHERE file of 16-bit PCM with its checksum, as bytes.

    Parameters
    ----------
    samples : array of int16, shape (n_samples,) or (n_samples, n_channels)
    byte_order : "little" or "big"
        Of the samples in the file; `sample_byte_format` says which.
    fields : mapping, optional
        Further header fields, such as `speaker_id`; they come first and may not repeat the ones made here.

    Raises
    ------
    InvalidArgument
        Samples that are not int16, a repeated field, or more header than 1024 bytes hold.
    """
    x = np.asarray(samples)
    if x.dtype != np.int16 or x.ndim not in (1, 2):
        raise InvalidArgument(f"SPHERE samples must be int16, (n,) or (n, n_channels), got {x.dtype} {x.shape}")
    stored = x.astype(np.dtype(np.int16).newbyteorder(byte_order))
    made: dict[str, Field] = {
        "channel_count": 1 if x.ndim == 1 else x.shape[1],
        "sample_count": len(x),
        "sample_rate": rate_hz,
        "sample_min": int(x.min(initial=0)),
        "sample_max": int(x.max(initial=0)),
        "sample_n_bytes": 2,
        "sample_byte_format": _BYTE_FORMAT[byte_order],
        "sample_sig_bits": 16,
        "sample_checksum": _checksum(x),
        "sample_coding": "pcm",
    }
    return encode_header({**_unmade(fields or {}, made), **made}) + stored.tobytes()


def write_sphere(
    path: Path,
    samples: ArrayLike,
    rate_hz: int,
    *,
    byte_order: ByteOrder = "little",
    fields: Mapping[str, Field] | None = None,
) -> None:
    """Write what `encode_sphere` gives to `path`."""
    path.write_bytes(encode_sphere(samples, rate_hz, byte_order=byte_order, fields=fields))


def encode_header(fields: Mapping[str, Field]) -> bytes:
    """A header of 1024 bytes with these fields, in this order; the way back is `parse_header`."""
    lines = ["NIST_1A", f"{HEADER_BYTES:>7}"]
    for key, value in fields.items():
        kind = "i" if isinstance(value, int) else "r" if isinstance(value, float) else f"s{len(value)}"
        lines.append(f"{key} -{kind} {value}")
    text = "\n".join([*lines, "end_head", ""]).encode("ascii")
    if len(text) > HEADER_BYTES:
        raise InvalidArgument(f"SPHERE header of {len(text)} bytes does not fit in {HEADER_BYTES}; give fewer fields")
    return text.ljust(HEADER_BYTES)


def _header_length(data: bytes, name: str) -> int:
    if not is_sphere(data):
        raise InvalidArgument(f"{name}: not a SPHERE file: it begins with {data[:16]!r}, not {MAGIC!r}")
    if data[len(MAGIC) : len(MAGIC) + 1] == b"\r":
        raise InvalidArgument(
            f"{name}: line ends of the SPHERE header are CR LF: the file went through a transfer in text mode, which "
            "damages the samples too; copy it again in binary mode"
        )
    found = _LENGTH.match(data)
    if not found:
        raise InvalidArgument(f"{name}: line 2 of a SPHERE header is its length, got {data[8:24]!r}")
    length = int(found[1])
    if not found.end() <= length <= min(len(data), MAX_HEADER_BYTES):
        raise InvalidArgument(
            f"{name}: the SPHERE header says it has {length} bytes, {len(data)} are there; copy the file again"
        )
    return length


def _header_lines(data: bytes, name: str) -> list[bytes]:
    """The lines between the length and `end_head`, without comments and empty ones."""
    lines = data[: _header_length(data, name)].split(b"\n")[2:]
    stripped = [line.strip() for line in lines]
    if b"end_head" not in stripped:
        raise InvalidArgument(f"{name}: the SPHERE header has no end_head line; copy the file again")
    kept = stripped[: stripped.index(b"end_head")]
    return [line for line in kept if line and not line.startswith(b";")]


def _parse_line(line: bytes, name: str) -> tuple[str, Field]:
    found = _LINE.fullmatch(line)
    if not found:
        raise InvalidArgument(f"{name}: no field of a SPHERE header: {line[:60]!r}; needed is 'name -type value'")
    key, kind, size, raw = found.groups()
    field, text = key.decode("ascii"), (raw or b"").strip().decode("latin-1")
    if size is not None:
        if len(text) > int(size):  # cutting it could turn 'pcm,embedded-shorten' into 'pcm'
            raise InvalidArgument(f"{name}: {field} is declared with {int(size)} characters, got {text!r}")
        return field, text
    if not _VALUE[kind].fullmatch(text):
        raise InvalidArgument(f"{name}: {field} is declared -{kind.decode()}, got {text!r}")
    return field, int(text) if kind == b"i" else float(text)


def _whole(fields: Mapping[str, Field], key: str, name: str, default: int | None = None) -> int:
    """A field that must be a positive whole number, however it is typed; `default` when it is not there."""
    value = fields.get(key, default)
    if value is None:
        raise InvalidArgument(
            f"{name}: the SPHERE header has no {key}, and none is assumed; add it or convert the file"
        )
    if key not in fields:
        return int(value)
    text = str(value).removesuffix(".0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18 and (int(text) > 0 or key == "sample_count")):
        raise InvalidArgument(f"{name}: {key} must be a whole number over 0, got {value!r}")
    return int(text)


def _interleaved(
    values: NDArray[Any], n_samples: int, n_channels: int, fields: Mapping[str, Field], name: str
) -> NDArray[Any]:
    """Frames (n_samples, n_channels), from either of the two orders that `channels_interleaved` tells apart."""
    said = str(fields.get("channels_interleaved", "TRUE")).upper()
    if said in ("TRUE", "1") or n_channels == 1:
        return values.reshape(n_samples, n_channels)
    if said in ("FALSE", "0"):
        return np.ascontiguousarray(values.reshape(n_channels, n_samples).T)
    raise InvalidArgument(f"{name}: channels_interleaved must be TRUE or FALSE, got {said!r}")


def _decode(body: bytes, base: str, fields: Mapping[str, Field], name: str) -> NDArray[Any]:
    """The values of unpacked samples, as they lie; bytes after the last whole one are left out."""
    width = _whole(fields, "sample_n_bytes", name, default=1 if base in _G711 else None)
    if width > 4 or (base in _G711 and width != 1):
        raise InvalidArgument(f"{name}: {base} samples of sample_n_bytes {width} are not read; convert the file")
    body = body[: len(body) // width * width]
    if base in _G711:
        return _G711[base][np.frombuffer(body, np.uint8)]
    if width == 1:
        return np.frombuffer(body, np.int8).astype(np.int16) << 8
    order = _ORDER.get(str(fields.get("sample_byte_format")))
    if order is None:
        raise InvalidArgument(
            f"{name}: sample_byte_format must be '01' or '10' (or its like for more bytes) to know the byte order, got "
            f"{fields.get('sample_byte_format')!r}"
        )
    if width == 2:
        return np.frombuffer(body, f"{order}i2").astype(np.int16)
    raw = np.frombuffer(body, np.uint8).reshape(-1, width)
    top = np.zeros((len(raw), 4), np.uint8)  # the sample in the upper bytes of a 32-bit one
    top[:, 4 - width :] = raw if order == "<" else raw[:, ::-1]
    return (top.view("<i4")[:, 0] / 2.0**31).astype(np.float32)


def _unshorten(
    body: bytes, n_channels: int, n_values: int, fields: Mapping[str, Field], name: str
) -> NDArray[np.int16]:
    """The values in an embedded shorten stream, channels interleaved; `n_values` as declared, negative if not."""
    most = VALUES_A_BYTE * len(body) if n_values < 0 else min(n_values, VALUES_A_BYTE * len(body))
    # desphere takes up to 2^30 values out of a few bytes, for minutes: its decoder with narrower bounds
    bounds = {"_MAX_TOTAL_SAMPLES": most + MAX_BLOCK, "_MAX_BLOCKSIZE": MAX_BLOCK}
    decode = FunctionType(shorten.decode.__code__, {**vars(shorten), **bounds})
    try:
        values, kind, n_packed = decode(body)
    except (desphere.DesphereError, IndexError, OverflowError) as error:
        raise InvalidArgument(
            f"{name}: sample_coding says {fields['sample_coding']!r}, and the shorten stream cannot be unpacked: "
            f"{error}; copy the file again, or unpack it with sph2pipe"
        ) from error
    if n_packed != n_channels:
        raise InvalidArgument(f"{name}: channel_count says {n_channels}, the shorten stream holds {n_packed}")
    if kind == "ulaw":
        return _G711["ulaw"][np.array(values, np.uint8)]
    if values and not -32768 <= min(values) <= max(values) <= 32767:
        raise InvalidArgument(
            f"{name}: the shorten stream gives {min(values)} to {max(values)}, more than 16 bits; it is damaged"
        )
    return np.array(values, np.int16)


def _checksum(samples: NDArray[Any]) -> int:
    """Sum of all samples modulo 2^16, as SPHERE keeps it."""
    return int(samples.sum(dtype=np.int64)) & 0xFFFF


def _verify_checksum(samples: NDArray[np.int16], fields: Mapping[str, Field], name: str) -> None:
    said = fields.get("sample_checksum")
    if isinstance(said, int) and said & 0xFFFF != _checksum(samples):
        there = _checksum(samples)
        raise InvalidArgument(
            f"{name}: sample_checksum says {said & 0xFFFF}, the samples sum to {there}; the copy is damaged"
        )


def _unmade(fields: Mapping[str, Field], made: Mapping[str, Field]) -> Mapping[str, Field]:
    repeated = sorted(set(fields) & set(made))
    if repeated:
        raise InvalidArgument(f"SPHERE fields made from the samples cannot be given: {', '.join(repeated)}")
    return fields
