"""A folder or zip of labelled recordings, found out by looking: TIDIGITS, Free Spoken Digits, a folder per class.

    tidigits   .../{train,test}/{man,woman,boy,girl}/<two letters>/<digits><take>.wav, as on NIST's discs
               (disc_4.1.1/tidigits/train/man/ae/1a.wav) and in the LDC's download (data/adults/train/man/ae/1a.wav);
               upper or lower case, with or without the ;1 of a CD master
    fsdd       {digit}_{speaker}_{index}.{wav,flac}
    folders    <label>/<anything>.{wav,flac,...}

In TIDIGITS the last letter of a name is the take, `z` is zero and `o` is oh: eleven words. The two letters name a
speaker only together with split and type: `ae` of train/man and `ae` of test/woman are two people.

Nothing is dropped in silence: what looks like a recording and is not used is listed with its reason.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from streamfeat.errors import InvalidArgument, NotFound, TooLarge
from streamfeat.signals.audio import read_audio
from streamfeat.signals.foreign import FOREIGN_SUFFIXES
from streamfeat.signals.recording import Channels
from streamfeat.signals.signal import MAX_FILE_BYTES, Signal, printable

Layout = Literal["tidigits", "fsdd", "folders"]

AUDIO_SUFFIXES = (
    ".wav",
    ".flac",
    ".sph",
    ".nist",
    ".ogg",
    ".oga",
    ".opus",
    ".mp3",
    ".aif",
    ".aiff",
    ".au",
    ".w64",
    ".caf",
    *FOREIGN_SUFFIXES,
)
"""What a recording's name ends in, whatever is in it."""

WORDS = {**{d: d for d in "123456789"}, "z": "zero", "o": "oh"}
"""Label of each character of a TIDIGITS name."""

_PLACE = re.compile(r"(train|test)/(man|woman|boy|girl)/([a-z]{2})/([^/]*)")
_DIGITS = re.compile(r"([1-9zo]+)([ab])\.wav")
_FSDD = re.compile(r"([0-9])_(.+)_([0-9]{1,9})\.[A-Za-z0-9]+")
_VERSION = re.compile(r";[0-9]+$")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One labelled recording, not yet read.

    `name` is its path below the corpus; `speaker`, `split` ("train" or "test") and `take` are None where the layout
    does not tell.
    """

    name: str
    label: str
    speaker: str | None
    split: str | None
    take: str | None
    path: Path
    archive: zipfile.ZipFile | None = field(default=None, repr=False, compare=False)
    member: str | None = None

    def read(self, channels: Channels = "refuse") -> Signal:
        """The recording, read now; from a zip without unpacking it.

        Raises
        ------
        InvalidArgument
            As `read_audio`, beginning with `name`; also a zip member that cannot be unpacked.
        TooLarge
            As `read_audio`; also a zip member over its limits.
        """
        return read_audio(self.source(), name=self.name, channels=channels)

    def source(self) -> Path | bytes:
        """The file, or what is in the zip member."""
        if self.archive is None or self.member is None:
            return self.path
        return read_member(self.archive, self.archive.getinfo(self.member), self.name)


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> bytes:
    """What is in a member of a zip, if it has no more than a file may have.

    Raises
    ------
    InvalidArgument
        It is damaged or encrypted.
    TooLarge
        Over `MAX_FILE_BYTES`.
    """
    if info.file_size > MAX_FILE_BYTES:
        raise TooLarge(f"{name}: {info.file_size} bytes, files of up to {MAX_FILE_BYTES} are read; cut it in parts")
    try:
        return archive.read(info)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # RuntimeError: encrypted
        raise InvalidArgument(f"{name}: cannot be unpacked from the zip: {error}") from error


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that looks like a recording and is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The utterances of a folder or zip, in an order that depends on their names alone."""

    layout: Layout
    utterances: tuple[Utterance, ...]
    skipped: tuple[Skipped, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that occur, sorted."""
        return tuple(sorted({u.label for u in self.utterances}))

    @property
    def speakers(self) -> tuple[str, ...]:
        """The speakers that occur, sorted; empty where the layout does not tell."""
        return tuple(sorted({u.speaker for u in self.utterances if u.speaker is not None}))


@dataclass(frozen=True, slots=True)
class _Found:
    """A file with a recording's suffix.

    `name` is for people; `inner` is the path below the root or in the zip; `place` goes on upwards from the root.
    """

    name: str
    inner: str
    place: str
    path: Path
    archive: zipfile.ZipFile | None = None
    member: str | None = None

    def utterance(
        self, label: str, speaker: str | None = None, split: str | None = None, take: str | None = None
    ) -> Utterance:
        return Utterance(self.name, label, speaker, split, take, self.path, self.archive, self.member)


def open_corpus(path: Path | str, *, strings: bool = False, merge_oh: bool = False) -> Corpus:
    """List the recordings below a path, with their labels.

    Parameters
    ----------
    path : path
        A folder (the corpus itself or one above it, such as a disc), a zip, or a folder that holds such zips.
    strings : bool
        TIDIGITS: take names of several digits too, labelled as spelt ("z4548z"). Otherwise they are skipped.
    merge_oh : bool
        TIDIGITS: label "oh" as "zero", for ten classes instead of eleven.

    Raises
    ------
    NotFound
        No such path.
    InvalidArgument
        No recording in one of the layouts; says what was looked for.
    """
    root = Path(path)
    found = sorted(_find(root), key=lambda f: f.name)
    if any(_place(f) for f in found):
        layout: Layout = "tidigits"
        entries = [_tidigits(f, strings, merge_oh) for f in found]
    elif 2 * sum(_FSDD.fullmatch(_base(f)) is not None for f in found) > len(found):
        layout = "fsdd"
        entries = [_fsdd(f) for f in found]
    elif any("/" in f.inner for f in found):
        layout = "folders"
        above = os.path.commonpath([os.path.dirname(os.path.dirname(f.inner)) for f in found])  # noqa: PTH120
        entries = [_folder(f, above) for f in found]
    else:
        raise InvalidArgument(
            f"{root}: no corpus found. Looked for TIDIGITS ({{train,test}}/{{man,woman,boy,girl}}/<id>/<digits><take>"
            f".wav), {{digit}}_{{speaker}}_{{index}}.wav or .flac, also in a zip, and a folder per class; "
            f"{len(found)} recordings lie there"
        )
    entries = _once(entries)
    utterances = tuple(sorted((e for e in entries if isinstance(e, Utterance)), key=_order))
    skipped = tuple(e for e in entries if isinstance(e, Skipped))
    if not utterances:
        raise InvalidArgument(
            f"{root}: looks like {layout}, yet none of its {len(skipped)} recordings can be used; the first, "
            f"{skipped[0].name}: {skipped[0].reason}"
        )
    return Corpus(layout, utterances, skipped)


def parse_digits(name: str) -> tuple[str, str] | None:
    """Digits as spelt and take of a TIDIGITS file name: "Z4548ZA.WAV;1" gives ("z4548z", "a"); None for other names."""
    found = _DIGITS.fullmatch(_VERSION.sub("", name.lower()))
    return (found[1], found[2]) if found else None


def _tidigits(f: _Found, strings: bool, merge_oh: bool) -> Utterance | Skipped:
    place = _place(f)
    if place is None:
        return Skipped(f.name, "not below {train,test}/{man,woman,boy,girl}/<two letters>")
    split, kind, speaker, base = place
    parsed = parse_digits(base)
    if parsed is None:
        return Skipped(f.name, "odd name: needed are digits (1 to 9, z, o), then the take (a or b), then .wav")
    digits, take = parsed
    if len(digits) > 1 and not strings:
        return Skipped(f.name, f"a string of {len(digits)} digits; strings are not asked for")
    label = digits if len(digits) > 1 else WORDS[digits]
    return f.utterance("zero" if merge_oh and label == "oh" else label, f"{split}/{kind}/{speaker}", split, take)


def _place(f: _Found) -> tuple[str, str, str, str] | None:
    """Split, type, speaker and file name, in lower case, from the last four parts of a path."""
    found = _PLACE.fullmatch("/".join(f.place.lower().split("/")[-4:]))
    return (found[1], found[2], found[3], found[4]) if found else None


def _fsdd(f: _Found) -> Utterance | Skipped:
    found = _FSDD.fullmatch(_base(f))
    if not found:
        return Skipped(f.name, "odd name: needed is {digit}_{speaker}_{index}.wav or .flac")
    split = "test" if int(found[3]) < 5 else "train"  # the data set's own rule
    return f.utterance(label=found[1], speaker=found[2], split=split, take=found[3])


def _folder(f: _Found, above: str) -> Utterance | Skipped:
    parts = f.inner.removeprefix(f"{above}/").split("/")
    if len(parts) != 2:
        return Skipped(f.name, "not directly in the folder of a class")
    if parts[1].startswith("."):
        return Skipped(f.name, "hidden file")
    return f.utterance(label=parts[0])


def _once(entries: Sequence[Utterance | Skipped]) -> list[Utterance | Skipped]:
    """The entries, a recording that is there twice (on two discs, say) kept where its name comes first."""
    first: dict[tuple[str | None, ...], str] = {}
    kept: list[Utterance | Skipped] = []
    for entry in entries:
        if isinstance(entry, Utterance) and entry.speaker is not None:
            spelt = parse_digits(entry.name.rpartition("/")[2]) or (entry.label, "")
            name = first.setdefault((entry.speaker, spelt[0], entry.take), entry.name)
            if name != entry.name:
                kept.append(Skipped(entry.name, f"the same speaker, digits and take as {name}"))
                continue
        kept.append(entry)
    return kept


def _order(u: Utterance) -> tuple[str, int, str]:
    """Names in order, but index 10 after index 9."""
    if u.take is not None and u.take.isdecimal():
        return u.name.rpartition("_")[0], int(u.take), u.name
    return u.name, 0, u.name


def _base(f: _Found) -> str:
    return _VERSION.sub("", f.name.rpartition("/")[2])


def _find(root: Path) -> Iterator[_Found]:
    """All files with a recording's suffix: below a folder, or in a zip, or in the zips that lie in a folder."""
    if not root.exists():
        raise NotFound(f"{root}: no such file or folder; give a corpus, the folder above it, or a zip of it")
    if root.is_file():
        yield from _members(root, "")
        return
    top = printable(root.resolve().as_posix().rstrip("/"))
    n_found = 0
    for path in _walk(root):
        if _sounds(path.name):
            name = printable(path.relative_to(root).as_posix())
            n_found += 1
            yield _Found(name, name, f"{top}/{name}", path)
    if not n_found:
        for path in sorted(root.glob("*.zip")):
            yield from _members(path, f"{path.name}/")


def _members(path: Path, prefix: str) -> Iterator[_Found]:
    """The recordings in a zip, which stays open as long as one of them is held."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{path}: not a folder, and not a zip that can be read: {error}") from error
    for info in archive.infolist():
        if not info.is_dir() and _sounds(info.filename):
            inside = info.filename
            yield _Found(prefix + inside, inside, inside, path, archive, inside)


def _walk(root: Path) -> Iterator[Path]:
    """Files below a folder, links followed, each folder once, hidden folders left out."""
    seen: set[tuple[int, int]] = set()
    for folder, below, files in os.walk(root, onerror=_refuse, followlinks=True):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files))


def _refuse(error: OSError) -> NoReturn:
    raise InvalidArgument(f"{error.filename}: cannot be listed: {error.strerror}") from error


def _sounds(name: str) -> bool:
    return _VERSION.sub("", name.lower()).endswith(AUDIO_SUFFIXES)
