"""NumPy's files, .npy and .npz, held to a size before memory is taken; and the signals of kind "array" in them.

Pickles are never loaded: an array of objects is refused by its header.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.signals.signal import Signal

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
MAX_ARRAY_BYTES = 1 << 31
"""Of one array in an .npz, which is unpacked into memory; an .npy is mapped and may be larger."""

NPY_ERRORS = (OSError, ValueError, EOFError, TypeError, KeyError, OverflowError, SyntaxError, tokenize.TokenError)
"""What NumPy raises for a damaged .npy: it reads the header as Python, and a broken one twice."""

_NPZ_ERRORS = (*NPY_ERRORS, RuntimeError, zipfile.BadZipFile, zlib.error)
"""And zipfile, for an archive; RuntimeError for an encrypted member."""


def read_arrays(source: Path | str) -> list[Signal]:
    """The vectors or matrices of an .npy file.

    Parameters
    ----------
    source : Path or str
        An array of N vectors (N, n) or N matrices (N, r, c) of real numbers; whole numbers become float32.

    Returns
    -------
    list of Signal
        Called file[0], file[1] ...

    Raises
    ------
    InvalidArgument
        The file cannot be read, is of another shape or of other things than real numbers; or, by its name, an array
        that is not finite.
    """
    stored = open_npy(Path(source), str(source))  # a cut file is found before memory is taken
    if stored.ndim not in (2, 3) or stored.dtype.kind not in "fiu":
        raise InvalidArgument(
            f"{source}: an array (N, n) or (N, r, c) of real numbers is needed, got {stored.dtype} {stored.shape}"
        )
    dtype = "<f8" if stored.dtype.kind == "f" and stored.dtype.itemsize == 8 else "<f4"
    return [Signal("array", x, name=f"{source}[{i}]") for i, x in enumerate(stored.astype(dtype))]


def open_npy(path: Path, name: str) -> NDArray[Any]:
    """The array in an .npy file, mapped and not read.

    Raises
    ------
    InvalidArgument
        Not an .npy file, cut short, or an array of objects.
    """
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except NPY_ERRORS as error:
        if "Python objects" in str(error):  # NumPy's own words; it has no error of its own for them
            raise InvalidArgument(
                f"{name}: an array of Python objects (a pickle) is never loaded; save numbers, or texts as dtype str"
            ) from error
        raise InvalidArgument(f"{name}: not a readable .npy file: {error}") from error
    return array


def read_npz(path: Path, name: str, wanted: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an .npz, by name, read whole; of `wanted` (in lower case) only those, where given.

    Raises
    ------
    InvalidArgument
        Not an .npz, damaged, a member that is no array or an array of objects, or fewer bytes than its shape needs
        (with both numbers).
    TooLarge
        An array over `MAX_ARRAY_BYTES`.
    """
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if not info.is_dir()}
            if wanted is not None and not any(key.lower() in wanted for key in members):
                there = ", ".join(members) or "nothing"
                raise InvalidArgument(f"{name}: needed is an array named one of {', '.join(wanted)}; there is {there}")
            arrays = {}
            for key, info in members.items():
                if wanted is None or key.lower() in wanted:
                    with archive.open(info) as member:
                        arrays[key] = _read_member(member, info.file_size, f"{name}:{key}")  # type: ignore[arg-type]
    except (InvalidArgument, TooLarge):
        raise
    except _NPZ_ERRORS as error:
        raise InvalidArgument(f"{name}: cannot be read as a NumPy archive: {error}") from error
    return arrays


def _read_member(file: BinaryIO, n_bytes: int, name: str) -> NDArray[Any]:
    """One array of an archive; nothing is allocated for a shape that its bytes cannot fill."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise InvalidArgument(f"{name}: an array of named fields; save each as an array of its own")
    shape, in_columns, dtype = read_header[version](file)
    if dtype.hasobject:
        raise InvalidArgument(f"{name}: an array of Python objects (a pickle) is never loaded; save numbers")
    n_needed = math.prod(shape) * dtype.itemsize
    if n_needed > MAX_ARRAY_BYTES:
        raise TooLarge(f"{name}: {dtype} {shape} needs {n_needed} bytes, the limit is {MAX_ARRAY_BYTES}")
    if n_needed > n_bytes:
        raise InvalidArgument(f"{name}: {dtype} {shape} needs {n_needed} bytes, {n_bytes} are there; copy it again")
    body = file.read(n_needed)
    if len(body) < n_needed:
        raise InvalidArgument(f"{name}: {dtype} {shape} needs {n_needed} bytes, {len(body)} are there; copy it again")
    return np.frombuffer(body, dtype, count=math.prod(shape)).reshape(shape, order="F" if in_columns else "C")
