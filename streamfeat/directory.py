"""A directory that is whole or not there: filled beside its place, forced to the disk, renamed, never changed."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


@contextmanager
def write_directory(path: Path) -> Iterator[Path]:
    """A folder to fill with `write_file`, which becomes `path` at the end of the block, or is gone if the block fails.

    Raises
    ------
    OSError
        Something that is not an empty directory is at `path` by then; it stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield partial
        partial.chmod(0o755)
        force_folder(partial)
        partial.rename(path)
        force_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_file(file: Path, content: bytes | NDArray[Any]) -> None:
    """Bytes as they are, or an array as .npy, forced to the disk.

    Raises
    ------
    OSError
        With the file's name and a reason, where NumPy gives neither: the disk is full, say.
    """
    with naming(file), file.open("wb") as out:
        if isinstance(content, bytes):
            out.write(content)
        else:
            import numpy as np  # every command writes reports, few write arrays

            np.save(out, content, allow_pickle=False)
        out.flush()
        os.fsync(out.fileno())


def replace_file(file: Path, text: str) -> None:
    """Text in the place of what the file held, whole by rename: on a full disk the file stays as it was.

    Raises
    ------
    OSError
        With the file's name.
    """
    part = file.with_name(f".{file.name}.part")
    try:
        with naming(file):
            part.write_text(text, encoding="utf-8")
            part.replace(file)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """An OSError of the block that names no file, as that of a full disk, names this one and has a reason."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        number = error.errno or errno.ENOSPC  # NumPy gives no number when less was written than it asked for
        raise OSError(number, os.strerror(number), str(file)) from error


def force_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    force_file(folder)


def force_file(file: Path) -> None:
    """Force a file to the disk that somebody else wrote."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
