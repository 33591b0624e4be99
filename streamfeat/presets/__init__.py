"""Banks that have a name: their specs lie here as TOML, and what they are built from is found here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.bank import build_bank, find_bank, list_banks, open_bank
from streamfeat.bankspec import BankSpec, presets
from streamfeat.errors import ConfigError, InvalidArgument, NotFound
from streamfeat.orbits import Orbits, takes_orbits
from streamfeat.presets.unlabelled import preset_signals
from streamfeat.signals import Signal, open_corpus, open_images, read_arrays, read_audio
from streamfeat.signals.arrays import NPY_ERRORS
from streamfeat.signals.corpus import AUDIO_SUFFIXES
from streamfeat.spec import did_you_mean

Say = Callable[[str], None]


def preset_names() -> tuple[str, ...]:
    """Names of the presets."""
    return presets()


def ensure_bank(
    name: str,
    bank_dir: Path,
    *,
    signals: Sequence[Signal] | None = None,
    plain: bool = False,
    say: Say = lambda _: None,
) -> Path:
    """The directory of a bank; a preset that is not there yet, or is of another version, is built.

    Parameters
    ----------
    name : str
        A preset, a bank's name or hash, or a bank's directory.
    bank_dir : Path
        Where banks are kept.
    signals : sequence of Signal, optional
        What a preset that is not there yet is built from; None: see `preset_signals`.
    plain : bool
        The preset's pipeline with |G| = 1.
    say : callable
        Takes one line for the user when a bank is built.

    Raises
    ------
    NotFound
        Neither a preset nor a bank.
    """
    if name not in preset_names():
        return find_bank(bank_dir, name, presets=preset_names())
    spec = _wanted(BankSpec.preset(name), plain)
    if not spec.needs_signals:
        signals = None
    try:
        found = find_bank(bank_dir, spec.name)
    except NotFound:
        return build_named(name, bank_dir, signals=signals, plain=plain, say=say)
    if _covers(open_bank(found, verify=False).spec.as_dict(), spec.as_dict()):
        return found
    return build_named(name, bank_dir, signals=signals, plain=plain, say=say)


def build_named(
    name: str,
    bank_dir: Path,
    *,
    signals: Sequence[Signal] | None = None,
    sources: Sequence[Path] = (),
    plain: bool = False,
    say: Say = lambda _: None,
) -> Path:
    """Build a preset, or the spec in a TOML file, and save it.

    Parameters
    ----------
    name : str
        A preset, or the path of a .toml file.
    bank_dir : Path
        Where banks are kept.
    signals : sequence of Signal, optional
        Unlabelled recordings or pictures for templates and thresholds; None: those of `preset_signals`.
    sources : sequence of Path
        Where such signals lie, instead; for a group of "user_orbits" where the orbits lie, see `read_orbits`.
    plain : bool
        The same pipeline with |G| = 1.

    Returns
    -------
    Path
        The bank's directory.
    """
    if name not in preset_names() and not name.endswith(".toml"):
        raise NotFound(
            f"no preset {name!r}; there are {', '.join(preset_names())}; a spec is a file ending in .toml"
            f"{did_you_mean(name, preset_names())}"
        )
    spec = _wanted(BankSpec.from_toml(Path(name)) if name.endswith(".toml") else BankSpec.preset(name), plain)
    orbits = read_orbits(sources) if sources and any(map(takes_orbits, spec.streams)) else None
    if sources and not isinstance(orbits, np.ndarray):
        arrays = spec.streams[0].front_end[0].get("stage") == "array"
        signals = read_signals(sources, arrays) if orbits is None else [signal for orbit in orbits for signal in orbit]
    if signals is None and spec.needs_signals:
        if name.endswith(".toml"):
            raise ConfigError(f"{name}: templates or thresholds come from data; name a folder of it with --from")
        signals = preset_signals(name)
    if signals is not None and not spec.needs_signals and orbits is None:
        say(f"{spec.name}: everything is drawn at random, the {len(signals)} recordings or pictures are not used")
    try:
        bank = build_bank(spec, signals, orbits=orbits)
    except ConfigError as error:
        if not name.endswith(".toml"):
            raise
        raise ConfigError(f"{name}: {error}") from None
    path = bank.save(bank_dir)
    say(f"built bank {path.name}")
    return path


def read_signals(sources: Sequence[Path], arrays: bool = False) -> list[Signal]:
    """Every recording or picture below these paths, labels left aside; or the arrays in these .npy files.

    Raises
    ------
    InvalidArgument
        A path holds neither, or one of them cannot be read.
    """
    return [signal for source in sources for signal in (read_arrays(source) if arrays else _read(source))]


def read_orbits(sources: Sequence[Path]) -> Orbits:
    """The orbits of templates: one folder an orbit, one file a transform.

    Parameters
    ----------
    sources : one Path
        A folder of folders, orbits in the order of their names; in each the recordings or pictures of one template, in
        the order of their names, the template itself first (number them 000, 001 ...). Or an .npy file,
        (m, |G|, d): what a front end gave.

    Raises
    ------
    InvalidArgument
        Not one path, no folder in it, or a file that cannot be read.
    """
    if len(sources) != 1:
        raise InvalidArgument(
            f"orbits lie in one folder (a folder in it for each) or one .npy file, got {len(sources)}"
        )
    [source] = sources
    if source.suffix == ".npy":
        try:
            return np.asarray(np.load(source, allow_pickle=False))
        except NPY_ERRORS as error:
            raise InvalidArgument(f"{source}: no array that can be read: {error}") from error
    folders = sorted(f for f in source.glob("[!.]*") if f.is_dir())
    if not folders:
        raise InvalidArgument(f"{source}: no folders in it; orbits need one for each template, its transforms as files")
    orbits = [list(_read(folder)) for folder in folders]
    for folder, orbit in zip(folders, orbits, strict=True):
        if len(orbit) != len(orbits[0]):
            raise InvalidArgument(
                f"every orbit must have as many transforms; {folders[0]} has {len(orbits[0])}, "
                f"{folder} has {len(orbit)}"
            )
    return orbits


def _read(source: Path) -> Iterator[Signal]:
    if source.suffix.lower() == ".zip":
        yield from (utterance.read() for utterance in open_corpus(source, strings=True).utterances)
        return
    files = sorted(source.rglob("*")) if source.is_dir() else [source]
    recordings = [f for f in files if f.name.lower().partition(";")[0].endswith(AUDIO_SUFFIXES) and f.is_file()]
    for file in recordings:
        yield read_audio(file)
    if not recordings:
        yield from (picture.read() for picture in open_images([source]).entries)


def _covers(stored: Any, wanted: Any) -> bool:
    """Whether a stored spec says all that is wanted; it has every default written out beside."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(k in stored and _covers(stored[k], v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(_covers(s, w) for s, w in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)


def _wanted(spec: BankSpec, plain: bool) -> BankSpec:
    return spec.plain() if plain else spec


__all__ = ["build_named", "ensure_bank", "list_banks", "preset_names", "preset_signals", "read_signals"]
