"""The banks of a feature worker: opened, kept within a budget, exchanged for newer ones without a pause.

A reload has two phases. First every bank that has a newer one under its name is opened, verified, warmed and tried with
a canary, all of them beside the old ones; whatever goes wrong there, the old ones go on as if nothing had been asked.
Then, between two items, the new ones are announced. The one before is still served, for items that are on their way
to it, until the next reload.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from streamfeat.bankstore import find_bank
from streamfeat.errors import ConfigError, InternalError, NotFound
from streamfeat.featuremap import FeatureMap

log = logging.getLogger("streamfeat.worker")


class Banks:
    """Feature maps by stage, the least recently used of them closed while they are over the budget.

    Parameters
    ----------
    paths : sequence of Path
        Bank directories.
    max_bytes : int
        What the open ones may take together; one is open whatever it takes.
    pinned : bool
        Stay with these very banks when told to reload.
    """

    def __init__(self, paths: Sequence[Path], max_bytes: int, *, pinned: bool = False) -> None:
        self._max_bytes, self._pinned = max_bytes, pinned
        self._paths = tuple(paths)
        self._open: OrderedDict[str, FeatureMap] = OrderedDict()
        self._at: dict[str, Path] = {}
        self.names: dict[str, str] = {}
        """Names and hashes of what is served now."""
        self.work: dict[str, int] = {}
        """By hash, how many templates a sample meets in a bank, moved ones counted each."""
        self.sizes: dict[str, int] = {}
        """By hash, bytes of a bank's arrays."""
        self.earlier: tuple[str, ...] = ()
        """Stages of the banks before the last reload."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the open ones."""
        return sum(size_of(feature_map) for feature_map in self._open.values())

    def warm(self) -> None:
        """Open and try each once.

        Raises
        ------
        ConfigError
            Two of them have one name, or one is not whole.
        InternalError
            A canary failed.
        """
        self._take(self._paths, [tried(path) for path in self._paths])

    def get(self, stage: str) -> FeatureMap:
        """The feature map of a stage that is served, opened again if it was closed for room."""
        feature_map = self._open.get(stage)
        if feature_map is None:
            feature_map = self._open[stage] = FeatureMap.open(self._at[stage], verify=False)
        self._open.move_to_end(stage)
        self._make_room()
        return feature_map

    def reload(self) -> bool:
        """Take up newer banks of the same names; whether there were any.

        Raises
        ------
        StreamfeatError
            As `warm`; nothing has changed then.
        """
        if self._pinned:
            return False
        newest = tuple(_newest(path) for path in self._paths)
        if newest == self._paths:
            return False
        fresh = [tried(path) for path in newest]
        before = tuple(f"features:{digest}" for digest in self.names.values())
        self._take(newest, fresh)
        now = {f"features:{digest}" for digest in self.names.values()}
        self.earlier = tuple(stage for stage in before if stage not in now)
        for stage in set(self._at) - now - set(self.earlier):
            self._open.pop(stage, None)
            del self._at[stage]
        log.info("reloaded: %s", ", ".join(f"{name} {digest[:12]}" for name, digest in self.names.items()))
        return True

    def close(self) -> None:
        """Let go of all."""
        self._open.clear()

    def _take(self, paths: tuple[Path, ...], maps: Sequence[FeatureMap]) -> None:
        names: dict[str, str] = {}
        for feature_map in maps:
            name, digest = feature_map.bank.name, feature_map.bank_hash
            if names.setdefault(name, digest) != digest:
                raise ConfigError(f"two banks are called {name!r}: {names[name][:12]} and {digest[:12]}")
        self._paths, self.names = paths, names
        self.work = {feature_map.bank_hash: work_in(feature_map) for feature_map in maps}
        self.sizes = {feature_map.bank_hash: size_of(feature_map) for feature_map in maps}
        for path, feature_map in zip(paths, maps, strict=True):
            stage = f"features:{feature_map.bank_hash}"
            self._open[stage], self._at[stage] = feature_map, path
        self._make_room()

    def _make_room(self) -> None:
        while len(self._open) > 1 and self.n_bytes > self._max_bytes:
            self._open.popitem(last=False)


def size_of(feature_map: FeatureMap) -> int:
    """Bytes of a bank's arrays."""
    return sum(array.nbytes for array in feature_map.bank.arrays.values())


def work_in(feature_map: FeatureMap) -> int:
    """Templates that a sample meets, moved ones counted each: of patches, at those positions that it lies in."""
    bank = feature_map.bank
    # |G| counts every position, of which a number of the front end sees template_d / d on average
    met = sum(stream.m * stream.n_group * stream.template_d / stream.d for stream in bank.streams)
    return max(1, round(bank.n_outer * met))


def tried(path: Path) -> FeatureMap:
    """A bank opened, verified, with its kernels loaded or compiled, and its canary computed."""
    feature_map = FeatureMap.open(path)
    feature_map.warm()
    check_canary(feature_map)
    return feature_map


def check_canary(feature_map: FeatureMap) -> None:
    """Compute one feature twice, from the same made-up vector.

    Raises
    ------
    InternalError
        They differ, or are not finite: a miscompiled kernel must not answer anybody.
    """
    vector = np.cos(np.arange(feature_map.bank.d)).astype(np.float32)[None]
    vector /= np.linalg.norm(vector)
    first, second = feature_map.of_vectors(vector), feature_map.of_vectors(vector)
    if not np.isfinite(first).all() or not np.array_equal(first, second):
        raise InternalError(f"bank {feature_map.bank.name}: the canary's feature is not finite or not the same twice")


def _newest(path: Path) -> Path:
    """The bank saved last under the name of this one, beside it."""
    try:
        return find_bank(path.parent, path.name[:-13])
    except NotFound:
        return path
