"""IDX files: every type, packed or not, exactly as long as they say."""

from __future__ import annotations

import gzip
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from streamfeat.errors import CallerError, InvalidArgument
from streamfeat.signals import read_idx
from tests.files import idx, shared, shared_cases

CODES = {0x08: np.uint8, 0x09: np.int8, 0x0B: np.int16, 0x0C: np.int32, 0x0D: np.float32, 0x0E: np.float64}
IMAGES = np.arange(5 * 4 * 3, dtype=np.uint8).reshape(5, 4, 3)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), code=st.sampled_from(sorted(CODES)), packed=st.booleans())
def test_every_type_is_read_back(data: st.DataObject, code: int, packed: bool) -> None:
    """Values, type and shape survive, gzipped or not; the array is little-endian."""
    array: NDArray[Any] = data.draw(hnp.arrays(CODES[code], hnp.array_shapes(max_dims=3, max_side=6)))
    file = idx(array, code)
    got = read_idx(gzip.compress(file) if packed else file)
    np.testing.assert_array_equal(got, array)
    assert got.dtype == np.dtype(CODES[code])


def test_every_prefix_is_refused(tmp_path: Path) -> None:
    """A file cut anywhere is refused by name, packed or not; one that is longer is, too."""
    file = idx(IMAGES, 0x08)
    packed = gzip.compress(file)
    for n in range(len(file)):
        with pytest.raises(InvalidArgument, match=r"^x: "):
            read_idx(file[:n], name="x")
    for n in range(len(packed)):
        with pytest.raises(InvalidArgument, match=r"^x: "):
            read_idx(packed[:n], name="x")
    for longer in (file + b"\0", gzip.compress(file + b"\0")):
        with pytest.raises(InvalidArgument, match="60 bytes, more are there"):
            read_idx(longer)
    (tmp_path / "i").write_bytes(file)
    np.testing.assert_array_equal(read_idx(tmp_path / "i"), IMAGES)


def test_both_numbers_are_named() -> None:
    """5 x 4 x 3 with 50 of 60 bytes names both; sizes beyond any memory are refused without asking for it."""
    with pytest.raises(InvalidArgument, match="5 x 4 x 3 values need 60 bytes, 50 are there"):
        read_idx(idx(IMAGES, 0x08)[:-10])
    with pytest.raises(InvalidArgument, match="no place in memory"):
        read_idx(struct.pack(">BBBB4I", 0, 0, 8, 4, 0, *[0xFFFFFFFF] * 3))
    huge = struct.pack(">BBBB4I", 0, 0, 0x0E, 4, *[0xFFFFFFFF] * 4)
    for data in (huge, gzip.compress(huge)):
        with pytest.raises(CallerError, match="4294967295"):
            read_idx(data)


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=60), head=st.sampled_from([b"", b"\0\0\x08\x01", b"\x1f\x8b\x08\0"]))
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    """Nothing but a refusal comes out of bytes that are no file."""
    with suppress(CallerError):
        read_idx(head + data)


@shared_cases("idx")
def test_awkward_idx_files(case: dict[str, Any]) -> None:
    """Files from public bug reports are read exactly, or refused, as their manifest says."""
    path = shared("cases", "files", case["file"])
    if case["file"] == "labels-idx1-ubyte_four":  # wrong only beside its images: see test_pictures
        assert len(read_idx(path)) == 4
        return
    if case["outcome"] == "reject":
        with pytest.raises(InvalidArgument, match="3920 bytes, 3820 are there"):
            read_idx(path)
        return
    got = read_idx(path)
    assert list(got.shape) == case["shape"]
    np.testing.assert_array_equal(got.ravel()[:8], case["head"])
    assert got.sum(dtype=np.int64) == case["total"]
