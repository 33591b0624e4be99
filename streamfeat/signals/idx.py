"""IDX, the format of MNIST: two zeros, a type code, a number of axes, their lengths, then values, all big-endian."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.signals.signal import read_source

DTYPES = {0x08: "|u1", 0x09: "|i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Values of each type code, as stored."""

MAX_AXES = 32

MAX_IDX_BYTES = 1 << 30
"""Values of one file: EMNIST, the largest of its kind, has 547 million bytes."""

GZIP = b"\x1f\x8b"


def is_idx(head: bytes) -> bool:
    """Whether the first bytes, unpacked, are those of an IDX file."""
    return len(head) >= 4 and head[:2] == b"\0\0" and head[2] in DTYPES and 0 < head[3] <= MAX_AXES


def read_idx(source: Path | str | bytes, *, name: str | None = None) -> NDArray[Any]:
    """The array in an IDX file, gzipped or not, whatever its name.

    Returns
    -------
    ndarray
        Little-endian, of the type and shape that the header gives.

    Raises
    ------
    InvalidArgument
        Beginning with the name: not IDX (with its first bytes), damaged gzip, or more or fewer bytes than the shape
        needs (with both numbers).
    TooLarge
        Over `MAX_IDX_BYTES` or the limit of a file.
    """
    data, name = read_source(source, name)
    packed = data.startswith(GZIP)
    try:
        with gzip.open(io.BytesIO(data)) if packed else io.BytesIO(data) as file:
            head = file.read(4)
            if not is_idx(head):
                raise InvalidArgument(
                    f"{name}: not an IDX file: it begins with {head!r}, needed are 00 00, a type code of "
                    f"{', '.join(f'{code:02x}' for code in DTYPES)}, and 1 to {MAX_AXES} axes"
                )
            lengths = file.read(4 * head[3])
            if len(lengths) < 4 * head[3]:
                raise InvalidArgument(f"{name}: {head[3]} axes need {4 * head[3]} bytes, {len(lengths)} are there")
            shape = struct.unpack(f">{head[3]}I", lengths)
            dtype = np.dtype(DTYPES[head[2]])
            n_needed = math.prod(shape) * dtype.itemsize
            if math.prod(n or 1 for n in shape) * dtype.itemsize >= 1 << 62:  # NumPy's own bound, also for no values
                raise InvalidArgument(f"{name}: a shape of {' x '.join(map(str, shape))} has no place in memory")
            if packed and n_needed > MAX_IDX_BYTES:
                raise TooLarge(
                    f"{name}: {' x '.join(map(str, shape))} values need {n_needed} bytes, up to {MAX_IDX_BYTES} are "
                    "read; cut it in parts, or the header is damaged"
                )
            body = file.read(n_needed + 1)  # one more tells a longer file; no packed file grows beyond it
    except (EOFError, OSError, zlib.error) as error:
        raise InvalidArgument(f"{name}: the gzip data cannot be unpacked: {error}; copy the file again") from error
    if len(body) != n_needed:
        there = f"{len(body)} are there" if len(body) < n_needed else "more are there"
        raise InvalidArgument(
            f"{name}: {' x '.join(map(str, shape))} values need {n_needed} bytes, {there}; copy the file again"
        )
    return np.frombuffer(body, dtype).reshape(shape).astype(dtype.newbyteorder("<"))


def labels_beside(images: Path) -> Path | None:
    """The labels of an images file: train-images-idx3-ubyte.gz has them in train-labels-idx1-ubyte, packed or not."""
    return _beside(images, images.name.replace("images", "labels").replace("idx3", "idx1"))


def images_beside(labels: Path) -> Path | None:
    """The images that a labels file is of."""
    return _beside(labels, labels.name.replace("labels", "images").replace("idx1", "idx3"))


def _beside(path: Path, name: str) -> Path | None:
    """The file of that name in the same folder, also packed, unpacked, or without what follows `-ubyte`."""
    bare = name.removesuffix(".gz")
    plain = bare.partition("-ubyte")[0] + "-ubyte"
    names = [n for n in (name, bare, f"{bare}.gz", plain, f"{plain}.gz") if n != path.name]
    return next((path.with_name(n) for n in names if path.with_name(n).exists()), None)
