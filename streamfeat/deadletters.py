"""The dead-letter folder: items that ended too many workers, each whole or not there, in a bounded space.

    DIR/20260101T120000-000001-1a2b3c4d/letter.json     route, item and reason
    DIR/20260101T120000-000001-1a2b3c4d/payload-0.bin   its arrays, as they came

Names sort by age. When there is no room for a letter the oldest give way.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamfeat.directory import write_directory, write_file
from streamfeat.errors import ConfigError, NotFound
from streamfeat.wire.letter import Letter
from streamfeat.wire.messages import ITEM_SIZE, Array, Item

FORMAT = "streamfeat-letter-1"
NAME = re.compile(r"\d{8}T\d{6}-\d{6}-[0-9a-f]{8}")

MOST_LETTERS = 1000
MOST_BYTES = 1 << 30
"""A thousand letters of a megabyte; a poison item is one letter, however often it is sent."""


@dataclass(frozen=True, slots=True)
class Filed:
    """A letter in the folder: its name there, when it was written (Unix time), and what its payload weighs."""

    name: str
    written: float
    n_bytes: int
    letter: Letter

    def as_dict(self) -> dict[str, Any]:
        """For JSON; without the payload."""
        letter = self.letter
        return {
            "name": self.name,
            "written": self.written,
            "bytes": self.n_bytes,
            "reason": letter.reason,
            "route": list(letter.route),
            "bank": letter.bank,
            "options": letter.options,
            "client": letter.client,
            "id": letter.id,
            "attempt": letter.attempt,
            "lost_with": list(letter.lost_with),
            "item": letter.item.fields,
            "arrays": [{"dtype": array.dtype, "shape": list(array.shape)} for array in letter.item.arrays],
        }


class DeadLetters:
    """The letters in a folder.

    Parameters
    ----------
    folder : Path
        Made with the first letter.
    most_letters, most_bytes : int
        Bounds of what is kept.
    """

    def __init__(self, folder: Path, most_letters: int = MOST_LETTERS, most_bytes: int = MOST_BYTES) -> None:
        self.folder, self._most_letters, self._most_bytes = folder, most_letters, most_bytes
        self._n_put = 0

    def put(self, letter: Letter, now: float) -> str:
        """File a letter; its name. The oldest give way to it.

        Parameters
        ----------
        letter : Letter
        now : float
            Unix time.

        Raises
        ------
        OSError
            The folder cannot be written; nothing of the letter is there then.
        """
        self._make_room(letter.item.n_bytes)
        self._n_put += 1
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        name = f"{moment}-{self._n_put % 1_000_000:06d}-{secrets.token_hex(4)}"
        filed = Filed(name, now, letter.item.n_bytes, letter)
        with write_directory(self.folder / name) as folder:
            for n, array in enumerate(letter.item.arrays):
                write_file(folder / f"payload-{n}.bin", bytes(array.data))
            text = json.dumps({"format": FORMAT, **filed.as_dict()}, indent=1)
            write_file(folder / "letter.json", text.encode())
        return name

    def names(self) -> list[str]:
        """Of all letters, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if NAME.fullmatch(path.name))

    def open(self, name: str) -> Filed:
        """The letter of that name.

        Raises
        ------
        NotFound
            There is none, or no more.
        ConfigError
            It was changed by hand, or another version wrote it.
        """
        folder = self.folder / name
        if not NAME.fullmatch(name) or not folder.is_dir():
            raise NotFound(
                f"no dead letter {name!r} in {self.folder}; `streamfeat deadletter list` names those there are"
            )
        try:
            return _read(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{folder} is no letter that this version wrote: {error!r}; drop it") from error

    def drop(self, name: str) -> None:
        """Remove a letter, readable or not.

        Raises
        ------
        NotFound
            There is none, or no more.
        """
        if name not in self.names():
            raise NotFound(f"no dead letter {name!r} in {self.folder}")
        shutil.rmtree(self.folder / name)

    def _make_room(self, n_bytes: int) -> None:
        sizes = {name: sum(self._payload_sizes(name)) for name in self.names()}
        while sizes and (len(sizes) >= self._most_letters or sum(sizes.values()) + n_bytes > self._most_bytes):
            oldest = min(sizes)
            del sizes[oldest]
            shutil.rmtree(self.folder / oldest, ignore_errors=True)

    def _payload_sizes(self, name: str) -> Iterator[int]:
        return (file.stat().st_size for file in (self.folder / name).glob("payload-*.bin"))


def _read(folder: Path) -> Filed:
    told = json.loads((folder / "letter.json").read_text(encoding="utf-8"))
    if told["format"] != FORMAT:
        raise ValueError(f"format {told['format']!r}")
    arrays = []
    for n, about in enumerate(told["arrays"]):
        array = Array(about["dtype"], tuple(about["shape"]), (folder / f"payload-{n}.bin").read_bytes())
        n_numbers = 1
        for extent in array.shape:
            n_numbers *= extent
        if n_numbers * ITEM_SIZE[array.dtype] != array.n_bytes:
            raise ValueError(f"payload-{n}.bin has {array.n_bytes} bytes, not {n_numbers} {array.dtype}")
        arrays.append(array)
    letter = Letter(
        route=tuple(told["route"]),
        bank=told["bank"],
        options=told["options"],
        client=told["client"],
        id=told["id"],
        attempt=told["attempt"],
        lost_with=tuple(told["lost_with"]),
        reason=told["reason"],
        item=Item(told["item"], tuple(arrays)),
    )
    return Filed(folder.name, told["written"], told["bytes"], letter)
