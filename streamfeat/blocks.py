"""Features a block of items at a time: what is finished is kept in a folder, known again by bank, names and content.

FOLDER/KEY/    features.npy, about.json: one block, written whole or not at all, never changed

Joined they are a feature set, `featureset`: the items that have a feature, in the corpus' order.
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
from streamfeat.featureset import SUFFIXES, write_features
from streamfeat.signals.arrays import NPY_ERRORS
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


def blocks_folder(out: Path) -> Path:
    """Where the blocks of a feature set are kept: in its folder, or beside what is no folder of .npy files."""
    return out.with_name(f"{out.name}.blocks") if out.suffix in SUFFIXES else out / "blocks"


def is_kept(folder: Path, block: Block) -> bool:
    """Whether the block was finished by an earlier run."""
    return (folder / block.key).is_dir()


def keep(folder: Path, block: Block, done: Done) -> None:
    """Write a finished block."""
    with write_directory(folder / block.key) as partial:
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
    place = folder / block.key
    try:
        about = json.loads((place / "about.json").read_bytes())
        features = np.load(place / "features.npy", mmap_mode="r", allow_pickle=False)
        return Done(features, tuple(about["places"]), tuple(Failure(**failure) for failure in about["failed"]))
    except NPY_ERRORS as error:
        raise ConfigError(f"{place}: a block that cannot be read ({error}); remove it and run again") from error


def join(out: Path, entries: Sequence[Entry], blocks: Sequence[Block], bank: str, empty: NDArray[Any]) -> list[Failure]:
    """Write the feature set of the blocks that are kept; give what failed.

    Parameters
    ----------
    out : Path
        Of the feature set; its blocks are in `blocks_folder`.
    entries, blocks
    bank : str
        Its hash.
    empty : (0, D)
        Features of no item: their width and dtype.
    """
    done = [read_kept(blocks_folder(out), block) for block in blocks]
    kept = [entries[block.first + place] for block, one in zip(blocks, done, strict=True) for place in one.places]
    failed = [failure for one in done for failure in one.failed]
    texts = {
        "names": np.array([entry.name for entry in kept], np.str_),
        "labels": np.array([entry.label or "" for entry in kept], np.str_),
        "speakers": np.array([_speaker(entry) for entry in kept], np.str_),
    }
    about = {"bank": bank, "blocks": [block.key for block in blocks], "failed": [f.as_dict() for f in failed]}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_features(out, (one.features for one in done), empty, texts, about)
    return failed


def _speaker(entry: Entry) -> str:
    return entry.speaker or "" if isinstance(entry, Utterance) else ""
