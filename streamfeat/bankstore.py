"""A bank and its directory: templates x group, saved under a content hash, opened memory-mapped.

    <root>/<name>-<first 12 of the hash>/
        manifest.json        held to schemas/bank.schema.json
        templates.npy ...    one file an array

The hash is the SHA-256 of the canonical manifest, and the manifest holds the SHA-256 of each array's numbers. So the
hash names the content: what was built, not when, where or by which version of streamfeat.

Arrays lie in blocks of `LANES` templates, the last one filled up with zeros; d is rounded up to a multiple of four:

    form operators   templates (n_blocks, d, LANES), scale (n_blocks, G, LANES) where gt is renormalised,
                     factor<j>_indptr (n, d + 1), _indices (nnz,), _data (nnz,): the adjoints of factor j,
                     unless it acts on inputs by a rule: then its parameters are all it needs;
                     signs, gains, places and lane_scale of structured templates: see `structured`
    form dense       orbits (n_blocks, G, d, LANES): every gt
    both             what the pooling keeps: thresholds (n_blocks, n_thresholds, LANES) of a CDF, squares and whitening,
                     cell_rows (rows, n_rows) and cell_columns (columns, n_columns) of cells,
                     layer2_frequencies (n_blocks, D1, LANES) and layer2_sigma (1,) of a second layer, or layer2_signs
                     (n_matrices, 3, p) and layer2_gains (m,) of a structured one,
                     factor<j>_parameters (n, p): what makes each element,
                     outer<j>_... the same of the outer orbit, but of the elements themselves: they move inputs

A readout, a learned matrix that makes the feature, is readout_matrix (n_blocks, D, LANES) and readout_offset (D,).

With several streams the names of a stream's arrays begin with its number, "s0_", "s1_" ...; layer 2 is the bank's.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.bankspec import BankSpec, canonical_json, hold_to_schema, the_only
from streamfeat.directory import write_directory, write_file
from streamfeat.errors import ConfigError, NotFound
from streamfeat.readout import READOUT, readout_arrays
from streamfeat.signals.arrays import NPY_ERRORS
from streamfeat.spec import did_you_mean
from streamfeat.streams import Stream

FORMAT = "streamfeat-bank-1"
MANIFEST = "manifest.json"
LAYER2 = "layer2_"
"""How the names of the second layer's arrays begin."""
OWN = (LAYER2, READOUT)
"""How the names of the bank's own arrays begin, which are no stream's."""
REBUILD = "remove it, then copy it from where it is whole or build it again with `streamfeat bank build`"
"""Removed first: `save` leaves a directory of that name as it is."""

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Bank:
    """Templates, what moves them and thresholds: all that a feature depends on, besides the signal.

    Attributes
    ----------
    manifest : dict
        What the hash is taken of; see schemas/bank.schema.json.
    arrays : mapping of str to ndarray
        Read-only; mapped from their files when the bank was opened.
    path : Path or None
        Its directory, None before it is saved.
    """

    manifest: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(repr=False)
    path: Path | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> Bank:
        """A new bank: the arrays made read-only and entered in the manifest."""
        entries, kept = {}, {}
        for name, given in arrays.items():
            # A view: the caller's own array stays writable.
            kept[name] = array = np.ascontiguousarray(given).view()
            array.flags.writeable = False
            entries[name] = {
                "file": f"{name}.npy",
                "sha256": _array_sha256(array),
                "dtype": array.dtype.str,
                "shape": list(array.shape),
            }
        full = {**manifest, "format": FORMAT, "arrays": entries}
        hold_to_schema("bank", "bank manifest", full)
        return cls(full, kept)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical manifest, in hex."""
        return hashlib.sha256(canonical_json(self.manifest).encode()).hexdigest()

    @cached_property
    def spec(self) -> BankSpec:
        """What the bank was built from."""
        return BankSpec.from_dict(self.manifest["spec"])

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """What a feature is made of, in the order of its parts."""
        entries, specs = self.manifest.get("streams"), self.spec.streams
        if entries is None:
            entry = {key: self.manifest[key] for key in ("axes", "n_group", "factors", "outer") if key in self.manifest}
            arrays = {name: array for name, array in self.arrays.items() if not name.startswith(OWN)}
            return (Stream(specs[0], entry, arrays),)
        return tuple(
            Stream(spec, entry, unprefixed(self.arrays, i))
            for i, (spec, entry) in enumerate(zip(specs, entries, strict=True))
        )

    @property
    def only(self) -> Stream:
        """The one stream there is; `ConfigError`, if there are several."""
        return the_only(self.streams, self.name)

    @property
    def name(self) -> str:
        """The spec's name."""
        return str(self.manifest["spec"]["name"])

    @cached_property
    def d(self) -> int:
        """Numbers of the streams' vectors together."""
        return sum(stream.d for stream in self.streams)

    @property
    def n_outer(self) -> int:
        """Elements of the outer orbit: copies of an input whose features are pooled."""
        return math.prod(factor.n for factor in self.streams[0].outer)

    @property
    def n_features(self) -> int:
        """Numbers a feature."""
        return int(self.manifest["n_features"])

    @property
    def dtype(self) -> str:
        """Of the features: "<u2" (CDF counts) or "<f4" (all others)."""
        return str(self.manifest["dtype"])

    def with_readout(self, matrix: ArrayLike, offset: ArrayLike | None = None, *, name: str | None = None) -> Bank:
        """This bank with a readout: features are (Phi - offset) matrix (N, K), float32, under another hash.

        Parameters
        ----------
        matrix : (D, K)
            As `SubsetSVMs.projection_`, or that of a whitening, fitted on `FeatureMap.dense` of this bank's features.
        offset : (D,), optional
            As `WithinOrbitWhitening.mean_`.
        name : str, optional
            Of the new bank; None: that of this one.

        Raises
        ------
        ConfigError
            Another D, or this bank has a readout already.
        """
        if self.has_readout:
            raise ConfigError(f"bank {self.name!r} has a readout already; give one to the bank that it was made from")
        arrays = readout_arrays(matrix, offset, self.n_features)
        spec = {**self.manifest["spec"], "name": self.name if name is None else name}
        BankSpec.from_dict(spec)
        n_columns = int(np.shape(matrix)[1])
        manifest = {**self.manifest, "spec": spec, "n_features": n_columns, "dtype": "<f4"}
        return Bank.of(manifest, {**self.arrays, **arrays})

    @property
    def has_readout(self) -> bool:
        """Whether a learned matrix makes its features."""
        return f"{READOUT}offset" in self.arrays

    @property
    def base(self) -> Bank:
        """This bank without its readout; itself, if it has none. Under one name it has the hash it had before."""
        return self._base if self.has_readout else self

    @cached_property
    def _base(self) -> Bank:
        layer2 = self.spec.layer2 is not None
        manifest = {
            **self.manifest,
            "n_features": len(self.arrays[f"{READOUT}offset"]),
            "dtype": "<f4" if layer2 else self.streams[0].dtype,
            "arrays": {name: e for name, e in self.manifest["arrays"].items() if not name.startswith(READOUT)},
        }
        return Bank(manifest, {name: a for name, a in self.arrays.items() if not name.startswith(READOUT)})

    @property
    def folder(self) -> str:
        """The name of its directory."""
        return f"{self.name}-{self.hash[:12]}"

    def save(self, root: Path) -> Path:
        """Write the bank below `root` and give its directory. A bank that is there already stays as it is.

        Nobody sees half a bank: a directory beside it is filled, forced to the disk, then renamed.
        """
        final = root / self.folder
        if (final / MANIFEST).is_file():
            return final
        try:
            with write_directory(final) as partial:
                for name, array in self.arrays.items():
                    write_file(partial / f"{name}.npy", array)
                text = json.dumps(self.manifest, indent=1, sort_keys=True) + "\n"
                write_file(partial / MANIFEST, text.encode())
        except OSError:
            # Another process saved the same content first.
            if not (final / MANIFEST).is_file():
                raise
        return final


def prefixed(arrays: Mapping[str, Array], i: int) -> dict[str, Array]:
    """The arrays of stream i under the names they have in a bank of several."""
    return {f"s{i}_{name}": array for name, array in arrays.items()}


def unprefixed(arrays: Mapping[str, Array], i: int) -> dict[str, Array]:
    """Those of the arrays of a bank of several streams that are stream i's."""
    start = f"s{i}_"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def open_bank(path: Path, verify: bool = True) -> Bank:
    """Open a bank's directory, arrays mapped read-only.

    Parameters
    ----------
    path : Path
    verify : bool
        Also read every array and compare its hash (about 1 s a GB).

    Raises
    ------
    ConfigError
        A file is missing, cut, changed or renamed; the message names it and the way out.
    """
    path = Path(path)
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"no bank at {path}: it has no {MANIFEST}; `streamfeat bank list` shows those there are"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"bank {path}: {MANIFEST} cannot be read ({error}); {REBUILD}") from error
    if isinstance(manifest, dict) and manifest.get("format") != FORMAT:
        raise ConfigError(
            f"bank {path} has the format {manifest.get('format')!r}, this version reads {FORMAT!r}; build it again"
        )
    hold_to_schema("bank", f"bank {path}: {MANIFEST}", manifest)
    arrays = {name: _open_array(path, entry) for name, entry in manifest["arrays"].items()}
    bank = Bank(manifest, arrays, path)
    if path.resolve().name != bank.folder:
        raise ConfigError(
            f"bank {path}: the content of {MANIFEST} belongs to a directory called {bank.folder}; it was edited or "
            f"the directory was renamed: give it that name back, or {REBUILD}"
        )
    if verify:
        for name, entry in manifest["arrays"].items():
            if _array_sha256(arrays[name]) != entry["sha256"]:
                raise ConfigError(f"bank {path}: {entry['file']} is not what was saved (its hash differs); {REBUILD}")
    return bank


def list_banks(root: Path) -> list[Path]:
    """The directories below `root` that hold a bank, by name."""
    return sorted(manifest.parent for manifest in root.glob(f"[!.]*/{MANIFEST}")) if root.is_dir() else []


def find_bank(root: Path, wanted: str, *, presets: Iterable[str] = ()) -> Path:
    """The directory of a bank: by its path, its name (the one saved last, if several), or the start of its hash.

    `presets` are names that may have been meant too, where there is no such bank.

    Raises
    ------
    NotFound
        Naming the nearest, and listing what there is.
    ConfigError
        The start of a hash fits several banks.
    """
    if (Path(wanted) / MANIFEST).is_file():
        return Path(wanted)
    folders = list_banks(root)
    named = [f for f in folders if wanted in (f.name, f.name[:-13])]
    if named:
        return max(named, key=lambda f: (f / MANIFEST).stat().st_mtime_ns)
    if len(wanted) >= 6:
        hashed = [f for f in folders if f.name[-12:] == wanted[:12] or f.name[-12:].startswith(wanted)]
        if len(hashed) > 1:
            raise ConfigError(f"{wanted!r} fits {', '.join(f.name for f in hashed)}; give more of the hash")
        if hashed:
            return hashed[0]
    there = ", ".join(f.name for f in folders) or "none"
    nearest = did_you_mean(wanted, [*(f.name[:-13] for f in folders), *presets])
    raise NotFound(f"no bank {wanted!r} in {root}; there are: {there}; `streamfeat bank build` makes one{nearest}")


def _open_array(path: Path, entry: Mapping[str, Any]) -> Array:
    file = path / entry["file"]
    try:
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ConfigError(f"bank {path}: {entry['file']} is missing; {REBUILD}") from None
    except NPY_ERRORS as error:
        raise ConfigError(f"bank {path}: {entry['file']} is cut or is no array ({error}); {REBUILD}") from error
    if (mapped.dtype.str, list(mapped.shape)) != (entry["dtype"], entry["shape"]) or not mapped.flags.c_contiguous:
        raise ConfigError(
            f"bank {path}: {entry['file']} should hold {entry['dtype']} {tuple(entry['shape'])}, "
            f"it holds {mapped.dtype.str} {mapped.shape}; {REBUILD}"
        )
    # A plain array over the same map: numba and slicing are quicker than with the subclass.
    plain: Array = mapped.view(np.ndarray)
    return plain


def _array_sha256(array: Array) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()
