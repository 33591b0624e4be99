"""Files of numbers -> signals of kind "array": one vector or matrix for each index of the first axis."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from streamfeat.errors import InvalidArgument
from streamfeat.signals.signal import Signal


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
    try:
        stored = np.lib.format.open_memmap(Path(source), mode="r")  # a cut file is found before memory is taken
    except (OSError, ValueError, EOFError) as error:
        raise InvalidArgument(f"{source}: not a readable .npy file: {error}") from error
    if stored.ndim not in (2, 3) or stored.dtype.kind not in "fiu":
        raise InvalidArgument(
            f"{source}: an array (N, n) or (N, r, c) of real numbers is needed, got {stored.dtype} {stored.shape}"
        )
    dtype = "<f8" if stored.dtype.kind == "f" and stored.dtype.itemsize == 8 else "<f4"
    return [Signal("array", x, name=f"{source}[{i}]") for i, x in enumerate(stored.astype(dtype))]
