"""Features in a folder, a block of items at a time: what is finished is kept, and known again by bank, names, content.

blocks/KEY/    features.npy, about.json: one block, written whole or not at all, never changed
features.npy   (N, D), the items that have a feature, in the corpus' order; there once every block is
names.npy      (N,)
labels.npy     (N,), "" where there is none
about.json     the bank's hash, the blocks in order, what failed and why
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.delivery import Failure
from streamfeat.directory import write_directory, write_file
from streamfeat.errors import ConfigError
from streamfeat.signals.corpus import Utterance
from streamfeat.signals.pictures import Picture

Entry = Utterance | Picture


@dataclass(frozen=True)
class Block:
    """Items `first` to `last` (excluded) of a corpus, and the key that their features are kept under."""

    key: str
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True)
class Done:
    """One block's features, (n, D), of the items at `places` (counted in the block), and what failed."""

    features: NDArray[Any]
    places: tuple[int, ...]
    failed: tuple[Failure, ...]


def cut_blocks(entries: Sequence[Entry], bank: str, reading: str, size: int) -> list[Block]:
    """Blocks of `size` items; a key tells the bank's hash, how files are read, and name and content of every item."""
    marks = [_mark(entry) for entry in entries]
    blocks = []
    for first in range(0, len(entries), size):
        last = min(first + size, len(entries))
        told = json.dumps([bank, reading, marks[first:last]])
        blocks.append(Block(hashlib.sha256(told.encode()).hexdigest()[:32], first, last))
    return blocks


def _mark(entry: Entry) -> list[str | int | None]:
    """Name and content of an item: size and time of a file, CRC of a zip's member, hash of an array's row."""
    if isinstance(entry, Utterance) and entry.archive is not None and entry.member is not None:
        info = entry.archive.getinfo(entry.member)
        return [entry.name, entry.label, info.file_size, info.CRC]
    source = entry.path if isinstance(entry, Utterance) else entry.source
    if isinstance(source, Path):
        found = source.stat()
        return [entry.name, entry.label, found.st_size, found.st_mtime_ns]
    if isinstance(source, np.ndarray):
        return [entry.name, entry.label, source.dtype.str, hashlib.sha256(source.tobytes()).hexdigest()]
    return [entry.name, entry.label, str(source)]


def is_kept(folder: Path, block: Block) -> bool:
    """Whether the block was finished by an earlier run."""
    return _place(folder, block).is_dir()


def keep(folder: Path, block: Block, done: Done) -> None:
    """Write a finished block."""
    with write_directory(_place(folder, block)) as partial:
        write_file(partial / "features.npy", done.features)
        about = {"places": done.places, "failed": [failure.as_dict() for failure in done.failed]}
        write_file(partial / "about.json", json.dumps(about).encode())


def read_kept(folder: Path, block: Block) -> Done:
    """A block that was kept, its features mapped.

    Raises
    ------
    ConfigError
        It cannot be read.
    """
    place = _place(folder, block)
    try:
        about = json.loads((place / "about.json").read_bytes())
        features = np.load(place / "features.npy", mmap_mode="r", allow_pickle=False)
        return Done(features, tuple(about["places"]), tuple(Failure(**failure) for failure in about["failed"]))
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise ConfigError(f"{place}: a block that cannot be read ({error}); remove it and run again") from error


def join(
    folder: Path, entries: Sequence[Entry], blocks: Sequence[Block], bank: str, empty: NDArray[Any]
) -> list[Failure]:
    """Write features, names and labels of the blocks that are kept, each file whole by rename; give what failed.

    Parameters
    ----------
    folder, entries, blocks
    bank : str
        Its hash.
    empty : (0, D)
        Features of no item: their width and dtype.
    """
    done = [read_kept(folder, block) for block in blocks]
    kept = [entries[block.first + place] for block, one in zip(blocks, done, strict=True) for place in one.places]
    failed = [failure for one in done for failure in one.failed]
    part = folder / ".features.part.npy"
    X = np.lib.format.open_memmap(part, mode="w+", dtype=empty.dtype, shape=(len(kept), empty.shape[1]))
    first = 0
    for one in done:
        X[first : first + len(one.features)] = one.features
        first += len(one.features)
    X.flush()
    part.replace(folder / "features.npy")
    _replace(folder / "names.npy", np.array([entry.name for entry in kept], np.str_))
    _replace(folder / "labels.npy", np.array([entry.label or "" for entry in kept], np.str_))
    about = {"bank": bank, "blocks": [block.key for block in blocks], "failed": [f.as_dict() for f in failed]}
    _replace(folder / "about.json", json.dumps(about, indent=2).encode())
    return failed


def _replace(file: Path, content: bytes | NDArray[Any]) -> None:
    part = file.with_name(f".{file.name}.part")
    write_file(part, content)
    part.replace(file)


def _place(folder: Path, block: Block) -> Path:
    return folder / "blocks" / block.key
