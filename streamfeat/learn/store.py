"""Fields and arrays in a directory that is whole or not there: written beside, forced to disk, renamed, never changed.

    <path>/<NAME>.json     the fields, the dtype, shape and SHA-256 of each array's file, and the SHA-256 of all that
    <path>/<array>.npy     one file an array
    <path>/<file>          one that another library writes, its SHA-256 with the others

Nothing is used before its hash is right, so a changed count, dimension or offset is refused, not followed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.directory import force_file, write_directory, write_file
from streamfeat.errors import ConfigError, InvalidArgument, NotFound

Arrays = Mapping[str, NDArray[Any]]


def save_directory(
    path: Path,
    name: str,
    fields: Mapping[str, Any],
    arrays: Arrays,
    files: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Write `fields` (JSON values) and `arrays` as the directory `path`, and `files`, by name who writes each.

    Raises
    ------
    InvalidArgument
        Something is there already: saved things do not change, choose another name.
    """
    path = Path(path)
    if path.exists():
        raise InvalidArgument(f"{path} is there already and saved things do not change; save under another name")
    with write_directory(path) as partial:
        entries = {key: _write_array(partial / f"{key}.npy", array) for key, array in arrays.items()}
        manifest = {**fields, "arrays": entries}
        for file, write in (files or {}).items():
            write(partial / file)
            force_file(partial / file)
            manifest.setdefault("files", {})[file] = _file_digest(partial / file)
        manifest["sha256"] = _digest(manifest)
        write_file(partial / f"{name}.json", _text(manifest))


def open_directory(path: Path, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The fields and arrays that `save_directory` wrote; files of others are as they were, and are left to them.

    Raises
    ------
    NotFound
        Nothing of that kind there.
    ConfigError
        A file is missing, cut or changed.
    """
    path = Path(path)
    try:
        text = (path / f"{name}.json").read_bytes()
        manifest = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no {name} at {path}: it has no {name}.json") from None
    except ValueError as error:
        raise ConfigError(f"{path / name}.json cannot be read ({error}); {_way_out(name)}") from error
    # the text as well: not even a space is another one
    if not isinstance(manifest, dict) or text != _text(manifest) or manifest.pop("sha256", None) != _digest(manifest):
        raise ConfigError(f"{path / name}.json is not what was saved (its hash differs); {_way_out(name)}")
    for file, digest in manifest.pop("files", {}).items():
        _check_file(path / file, digest, name)
    arrays = {key: _read_array(path / f"{key}.npy", entry, name) for key, entry in manifest.pop("arrays").items()}
    return manifest, arrays


def _way_out(name: str) -> str:
    return f"copy the {name} again from where it is whole, or make it again"


def _text(manifest: Any) -> bytes:
    return json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n"


def _digest(manifest: Any) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _write_array(file: Path, array: NDArray[Any]) -> dict[str, Any]:
    write_file(file, np.ascontiguousarray(array))
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": _file_digest(file)}


def _read_array(file: Path, entry: Mapping[str, Any], name: str) -> NDArray[Any]:
    _check_file(file, entry["sha256"], name)
    array: NDArray[Any] = np.load(file, allow_pickle=False)
    return array


def _check_file(file: Path, digest: str, name: str) -> None:
    try:
        found = _file_digest(file)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read ({error}); {_way_out(name)}") from error
    if found != digest:
        raise ConfigError(f"{file} is not what was saved (its hash differs); {_way_out(name)}")


def _file_digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
