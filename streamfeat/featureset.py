"""Features of a corpus in one place, beside their items' names, labels and speakers: .npy files, zarr, or parquet.

OUT/           features.npy (N, D), names.npy, labels.npy, speakers.npy (N,), about.json
OUT.npy        the same rows; beside it OUT.names.npy, OUT.labels.npy, OUT.speakers.npy, OUT.about.json
OUT.zarr       a group of the same four arrays, with what about.json holds as its attributes. Extra `dask`
OUT.parquet    four columns, features as lists of fixed length; the same as metadata `streamfeat`. Extra `dask`

Texts are "" where there is none. `about` tells the bank's hash. Whatever the form, the numbers are the same to the bit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamfeat.directory import write_file
from streamfeat.errors import ConfigError, InvalidArgument, NotFound
from streamfeat.signals.arrays import NPY_ERRORS

TEXTS = ("names", "labels", "speakers")
SUFFIXES = (".npy", ".zarr", ".parquet")
"""What a place may end in that is no folder of .npy files."""

Which = slice | NDArray[np.intp]
Texts = Mapping[str, NDArray[np.str_]]


class Rows(Protocol):
    """Rows (N, D) that are read when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def __getitem__(self, which: Which, /) -> NDArray[Any]: ...


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """Rows (N, D), the texts of each (N,), and the bank's hash."""

    rows: Rows
    names: NDArray[np.str_]
    labels: NDArray[np.str_]
    speakers: NDArray[np.str_]
    bank: str


def write_features(
    out: Path,
    parts: Iterable[NDArray[Any]],
    empty: NDArray[Any],
    texts: Texts,
    about: Mapping[str, Any],
) -> None:
    """Write rows that come in parts, in the form that the place's suffix names; what was there is replaced when whole.

    Parameters
    ----------
    out : Path
    parts : iterable of ndarray (k, D)
        N rows together.
    empty : ndarray (0, D)
        Rows of no item: their width and dtype.
    texts : mapping of `TEXTS` to ndarray of str (N,)
    about : mapping
        JSON values, with `bank`.

    Raises
    ------
    ConfigError
        What writes that form is not installed.
    """
    write = {".zarr": _write_zarr, ".parquet": _write_parquet}.get(out.suffix, _write_npy)
    write(out, _Content(_placed(parts), empty, texts, about))


def read_features(place: Path) -> FeatureSet:
    """What `write_features` wrote; rows are read when they are asked for.

    Raises
    ------
    NotFound
        Nothing of that kind there.
    ConfigError
        It cannot be read, or what reads it is not installed.
    """
    read = {".zarr": _read_zarr, ".parquet": _read_parquet}.get(place.suffix, _read_npy)
    try:
        rows, texts, about = read(place)
        bank = str(about["bank"])
    except FileNotFoundError as error:
        raise NotFound(f"{place}: no features that `streamfeat featurize` wrote ({error})") from error
    except NPY_ERRORS as error:
        raise ConfigError(f"{place}: features that cannot be read ({error}); run featurize again") from error
    lengths = {len(text) for text in texts.values()} | {rows.shape[0]}
    if len(rows.shape) != 2 or len(lengths) != 1:
        raise ConfigError(f"{place}: rows {rows.shape} and texts {sorted(lengths)} differ; run featurize again")
    return FeatureSet(rows, texts["names"], texts["labels"], texts["speakers"], bank)


def check_form(out: Path) -> None:
    """Refuse a form that cannot be written here, before the work.

    Raises
    ------
    InvalidArgument
        Another suffix of a format.
    ConfigError
        What writes that form is not installed.
    """
    if out.suffix in (".npz", ".csv", ".h5", ".hdf5"):
        raise InvalidArgument(f"{out}: {', '.join(SUFFIXES)} or a folder are written, not {out.suffix}")
    if out.suffix == ".zarr":
        _zarr()
    elif out.suffix == ".parquet":
        _parquet()


@dataclass(frozen=True)
class _Content:
    """What is written, whatever the form."""

    placed: Iterable[tuple[slice, NDArray[Any]]]
    empty: NDArray[Any]
    texts: Texts
    about: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, int]:
        """N, D."""
        return len(self.texts["names"]), self.empty.shape[1]


def _placed(parts: Iterable[NDArray[Any]]) -> Iterator[tuple[slice, NDArray[Any]]]:
    first = 0
    for part in parts:
        yield slice(first, first + len(part)), part
        first += len(part)


def _beside(out: Path, word: str) -> Path:
    """The file of that name in a folder, or beside an .npy."""
    return out.with_suffix(f".{word}") if out.suffix == ".npy" else out / word


def _write_npy(out: Path, content: _Content) -> None:
    file = out if out.suffix == ".npy" else out / "features.npy"
    part = _part(file)
    X = np.lib.format.open_memmap(part, mode="w+", dtype=content.empty.dtype, shape=content.shape)
    for where, rows in content.placed:
        X[where] = rows
    X.flush()
    part.replace(file)
    beside: dict[str, bytes | NDArray[Any]] = {f"{word}.npy": content.texts[word] for word in TEXTS}
    beside["about.json"] = json.dumps(content.about, indent=2).encode()
    for name, one in beside.items():
        file = _beside(out, name)
        write_file(_part(file), one)
        _part(file).replace(file)


def _read_npy(place: Path) -> tuple[Rows, Texts, dict[str, Any]]:
    file = place if place.suffix == ".npy" else place / "features.npy"
    rows = np.load(file, mmap_mode="r", allow_pickle=False)
    texts = {word: np.load(_beside(place, f"{word}.npy"), allow_pickle=False) for word in TEXTS}
    return rows, texts, json.loads(_beside(place, "about.json").read_bytes())


def _write_zarr(out: Path, content: _Content) -> None:
    part = _part(out)
    shutil.rmtree(part, ignore_errors=True)
    group = _zarr().open_group(part, mode="w")
    n, width = content.shape
    X = group.create_array("features", shape=(n, width), chunks=(256, width), dtype=content.empty.dtype)
    for where, rows in content.placed:
        X[where] = rows
    for word in TEXTS:
        column = group.create_array(word, shape=(n,), chunks=(max(1, n),), dtype=str)
        column[:] = content.texts[word].astype(object)
    group.attrs.update(content.about)
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)


def _read_zarr(place: Path) -> tuple[Rows, Texts, dict[str, Any]]:
    group = _zarr().open_group(place, mode="r")
    # zarr gives texts as objects or as NumPy's StringDType, by version
    texts = {word: np.array(group[word][:].tolist(), np.str_) for word in TEXTS}
    return _ZarrRows(group["features"]), texts, dict(group.attrs)


class _ZarrRows:
    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype

    def __getitem__(self, which: Which, /) -> NDArray[Any]:
        return np.asarray(self.array[which] if isinstance(which, slice) else self.array.oindex[which])


def _write_parquet(out: Path, content: _Content) -> None:
    """A group of rows for each part."""
    import pyarrow as pa

    parquet = _parquet()
    width = content.shape[1]
    kind = pa.list_(pa.from_numpy_dtype(content.empty.dtype), width)
    fields = [*((word, pa.string()) for word in TEXTS), ("features", kind)]
    schema = pa.schema(fields, metadata={"streamfeat": json.dumps(content.about)})
    part = _part(out)
    with parquet.ParquetWriter(part, schema) as writer:
        for where, rows in content.placed:
            columns = [pa.array(content.texts[word][where].tolist(), pa.string()) for word in TEXTS]
            columns.append(pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), width))
            writer.write_table(pa.table(columns, schema=schema))
    part.replace(out)


def _read_parquet(place: Path) -> tuple[Rows, Texts, dict[str, Any]]:
    file = _parquet().ParquetFile(place)
    table = file.read(columns=list(TEXTS))
    texts = {word: np.array(table[word].to_pylist(), np.str_) for word in TEXTS}
    return _ParquetRows(file), texts, json.loads(file.schema_arrow.metadata[b"streamfeat"])


class _ParquetRows:
    """Read by whole groups of rows: of each group no more than what is asked for stays."""

    def __init__(self, file: Any) -> None:
        self.file = file
        kind = file.schema_arrow.field("features").type
        lengths = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        self.starts = np.cumsum([0, *lengths])
        self.shape = (int(self.starts[-1]), kind.list_size)
        self.dtype: np.dtype[Any] = np.dtype(kind.value_type.to_pandas_dtype())

    def __getitem__(self, which: Which, /) -> NDArray[Any]:
        wanted = np.arange(self.shape[0])[which]
        group = np.searchsorted(self.starts, wanted, side="right") - 1
        out = np.empty((len(wanted), self.shape[1]), self.dtype)
        for number in np.unique(group):
            column = self.file.read_row_group(int(number), columns=["features"])["features"].combine_chunks()
            rows = column.flatten().to_numpy().reshape(-1, self.shape[1])
            out[group == number] = rows[wanted[group == number] - self.starts[number]]
        return out


def _part(file: Path) -> Path:
    return file.with_name(f".{file.name}.part")


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ConfigError("zarr is needed for .zarr: pip install 'streamfeat[dask]'") from error
    return zarr


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ConfigError("pyarrow is needed for .parquet: pip install 'streamfeat[dask]'") from error
    return pyarrow.parquet
