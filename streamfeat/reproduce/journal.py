"""What is done so far: parts of a long experiment on disk, so that a stopped run goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamfeat.bankspec import canonical_json


class Journal:
    """Parts by name, one JSON line each. A file of other parameters, or one cut short, gives what still fits.

    Parameters
    ----------
    file : Path
    parameters : dict
        Of the experiment, plain JSON values. Parts that were computed with others are not used.
    """

    def __init__(self, file: Path, parameters: dict[str, Any]) -> None:
        self._file = file
        head = {"parameters": json.loads(canonical_json(parameters))}
        lines = _lines(file)
        if lines[:1] != [head]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(head) + "\n")
            lines = []
        self._parts = {line["part"]: line["value"] for line in lines[1:]}

    def get(self, part: str) -> Any:
        """What was put under that name, None if nothing was."""
        return self._parts.get(part)

    def put(self, part: str, value: Any) -> None:
        """Keep a part; on disk when this returns."""
        self._parts[part] = value
        with self._file.open("a") as out:
            out.write(json.dumps({"part": part, "value": value}) + "\n")

    def finish(self) -> None:
        """The experiment is whole: its report takes the journal's place."""
        self._file.unlink(missing_ok=True)


def _lines(file: Path) -> list[Any]:
    lines = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            break  # the line that was being written when the run was stopped
    return lines
