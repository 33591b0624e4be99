"""Corpora: the layout is found by looking, and every recording is used or listed with a reason."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.signals import encode_sphere, open_corpus, read_audio
from streamfeat.signals.corpus import parse_digits
from tests.files import shared, wav16

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
SPHERE = encode_sphere(RAMP, 20000)
WAV = wav16(RAMP)


def lay(root: Path, *names: str, data: bytes = SPHERE) -> Path:
    """The same file under each of the names."""
    for name in names:
        path = root / name
        assert path.is_relative_to(root), "a name with a leading slash would leave the test's folder"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


NAMES = ("train/man/ae/1a.wav", "train/man/ae/zb.wav", "test/woman/ae/oa.wav", "test/boy/bc/9b.wav")


@pytest.mark.parametrize("above", [".", "tidigits", "disc_4.1.1/tidigits", "data/adults", "LDC/tidigits/data/children"])
def test_tidigits_is_found_below_any_folder(tmp_path: Path, above: str) -> None:
    """Both layouts and their parents give the same utterances."""
    corpus = open_corpus(lay(tmp_path, *(f"{above}/{name}" for name in NAMES), f"{above}/readme.txt"))
    assert corpus.layout == "tidigits"
    assert [(u.label, u.speaker, u.split, u.take) for u in corpus.utterances] == [
        ("9", "test/boy/bc", "test", "b"),
        ("oh", "test/woman/ae", "test", "a"),
        ("1", "train/man/ae", "train", "a"),
        ("zero", "train/man/ae", "train", "b"),
    ]
    assert corpus.skipped == ()
    np.testing.assert_array_equal(corpus.utterances[0].read().samples, RAMP)


@pytest.mark.parametrize("inside", ["train", "train/man", "train/man/ae"])
def test_a_part_of_tidigits_keeps_its_speakers(tmp_path: Path, inside: str) -> None:
    """Opening a split, a type or one speaker gives the same speaker names."""
    corpus = open_corpus(lay(tmp_path, *NAMES) / inside)
    assert corpus.speakers == ("train/man/ae",)
    assert corpus.labels == ("1", "zero")


def test_upper_case_and_versions_are_read(tmp_path: Path) -> None:
    """Names as on a CD master mean the same."""
    corpus = open_corpus(lay(tmp_path, "TIDIGITS/TRAIN/GIRL/AE/ZA.WAV;1", "TIDIGITS/TRAIN/GIRL/AE/3B.WAV"))
    assert [(u.label, u.speaker, u.take) for u in corpus.utterances] == [
        ("3", "train/girl/ae", "b"),
        ("zero", "train/girl/ae", "a"),
    ]


def test_oh_is_merged_on_request(tmp_path: Path) -> None:
    """Eleven classes by default, ten with merge_oh."""
    lay(tmp_path, *(f"train/man/ae/{d}{t}.wav" for d in "123456789zo" for t in "ab"))
    assert len(open_corpus(tmp_path).labels) == 11
    merged = open_corpus(tmp_path, merge_oh=True)
    assert len(merged.labels) == 10
    assert (len(merged.utterances), merged.skipped) == (22, ())


def test_strings_are_skipped_with_a_reason_or_read(tmp_path: Path) -> None:
    """A string of digits is listed; with strings=True it is an utterance labelled as spelt."""
    lay(tmp_path, "train/man/ae/1a.wav", "train/man/ae/Z4548ZA.wav")
    (skipped,) = open_corpus(tmp_path).skipped
    assert skipped.name == "train/man/ae/Z4548ZA.wav"
    assert "6 digits" in skipped.reason
    corpus = open_corpus(tmp_path, strings=True, merge_oh=True)
    assert [u.label for u in corpus.utterances] == ["1", "z4548z"]


def test_odd_names_are_listed(tmp_path: Path) -> None:
    """Each file that is not used appears with its reason; files that are no recordings do not."""
    odd = ["train/man/ae/0a.wav", "train/man/ae/1c.wav", "train/man/ae/.wav", "train/man/ae/._1a.wav", "train/1a.wav"]
    corpus = open_corpus(lay(tmp_path, "train/man/ae/1a.wav", "train/man/ae/notes.doc", *odd))
    assert [s.name for s in corpus.skipped] == sorted(odd)
    assert all(s.reason for s in corpus.skipped)
    assert len(corpus.utterances) == 1


def test_a_recording_on_two_discs_counts_once(tmp_path: Path) -> None:
    """The second copy of the same speaker, digits and take is listed, naming the first."""
    corpus = open_corpus(lay(tmp_path, "disc1/train/man/ae/1a.wav", "disc2/train/man/ae/1a.wav"))
    assert [u.name for u in corpus.utterances] == ["disc1/train/man/ae/1a.wav"]
    assert "disc1/train/man/ae/1a.wav" in corpus.skipped[0].reason


@settings(deadline=None, max_examples=50)
@given(digits=st.text("123456789zo", min_size=1, max_size=7), take=st.sampled_from("ab"), upper=st.booleans())
def test_digit_names_round_trip(digits: str, take: str, upper: bool) -> None:
    """Any digits and take are read back from the name, whatever its case."""
    name = f"{digits}{take}.wav"
    assert parse_digits(name.upper() + ";1" if upper else name) == (digits, take)


def test_digit_names_of_the_shared_cases() -> None:
    """The names of the manifest give the digits listed there, or none."""
    for case in json.loads(shared("cases", "files", "tidigits_names.json").read_text()):
        parsed = parse_digits(case["name"].rpartition("/")[2])
        assert (list(parsed[0]) if parsed else None) == case["digits"]


FSDD = [f"{d}_{s}_{i}.wav" for d in (0, 7) for s in ("ann", "bob_k") for i in (0, 9, 10)]


def zipped(path: Path, prefix: str = "") -> Path:
    """The FSDD names in a zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in FSDD:
            archive.writestr(prefix + name, WAV)
    return path


def test_fsdd_is_the_same_in_a_folder_and_a_zip(tmp_path: Path) -> None:
    """Folder, zip, zip with a folder in it, and a folder holding the zip: same utterances, 10 after 9, 0 to 4 test."""
    folder = lay(tmp_path / "folder", *FSDD, data=WAV)
    (tmp_path / "holder").mkdir()
    zipped(tmp_path / "holder" / "fsdd_flac.zip")
    opened = [
        open_corpus(folder),
        open_corpus(zipped(tmp_path / "a.zip")),
        open_corpus(zipped(tmp_path / "b.zip", "recordings/")),
        open_corpus(tmp_path / "holder"),
    ]
    keys = [[(u.label, u.speaker, u.take, u.split) for u in c.utterances] for c in opened]
    assert keys[0][:4] == [
        ("0", "ann", "0", "test"),
        ("0", "ann", "9", "train"),
        ("0", "ann", "10", "train"),
        ("0", "bob_k", "0", "test"),
    ]
    for corpus, key in zip(opened, keys, strict=True):
        assert (corpus.layout, key) == ("fsdd", keys[0])
        signal = corpus.utterances[5].read()
        np.testing.assert_array_equal(signal.samples, RAMP)
        assert signal.name == corpus.utterances[5].name


def test_fsdd_odd_names_are_listed(tmp_path: Path) -> None:
    """A name out of the pattern is listed among the good ones; so is the same recording in two formats."""
    corpus = open_corpus(lay(tmp_path, *FSDD, "ten_ann_1.wav", "0_ann_0.flac", data=WAV))
    assert [s.name for s in corpus.skipped] == ["0_ann_0.wav", "ten_ann_1.wav"]
    assert len(corpus.utterances) == len(FSDD)


def test_a_folder_per_class(tmp_path: Path) -> None:
    """The folder's name is the label, whatever lies above; deeper, outer and hidden files are listed."""
    lay(tmp_path / "top", "yes/a.wav", "yes/b.flac", "no/a.wav", "no/deep/c.wav", "no/.d.wav", "e.wav", data=WAV)
    corpus = open_corpus(tmp_path / "top")
    assert corpus.layout == "folders"
    assert [(u.label, u.name, u.speaker) for u in corpus.utterances] == [
        ("no", "no/a.wav", None),
        ("yes", "yes/a.wav", None),
        ("yes", "yes/b.flac", None),
    ]
    assert [s.name for s in corpus.skipped] == ["e.wav", "no/.d.wav", "no/deep/c.wav"]
    above = open_corpus(lay(tmp_path / "x", "speech/yes/a.wav", "speech/no/a.wav", data=WAV))
    assert above.labels == ("no", "yes")


def test_nothing_found_says_what_was_looked_for(tmp_path: Path) -> None:
    """No path, an empty folder, recordings in no layout, a file that is no zip: each is told apart."""
    with pytest.raises(NotFound, match="no such file"):
        open_corpus(tmp_path / "none")
    with pytest.raises(InvalidArgument, match=r"TIDIGITS.*folder per class; 0 recordings"):
        open_corpus(tmp_path)
    with pytest.raises(InvalidArgument, match="1 recordings"):
        open_corpus(lay(tmp_path / "flat", "song.wav"))
    with pytest.raises(InvalidArgument, match=r"none of its 1 recordings can be used.*odd name"):
        open_corpus(lay(tmp_path / "odd", "train/man/ae/0a.wav"))
    with pytest.raises(InvalidArgument, match="not a zip"):
        open_corpus(lay(tmp_path, "x.wav") / "x.wav")


def test_a_bad_recording_fails_when_it_is_read(tmp_path: Path) -> None:
    """Listing reads no samples; the bad file is refused by its name below the corpus, its neighbours are read."""
    lay(tmp_path, *NAMES)
    (tmp_path / NAMES[0]).write_bytes(SPHERE[:1100])
    with zipfile.ZipFile(tmp_path / "cut.zip", "w") as archive:
        archive.writestr(FSDD[0], WAV)
    data = (tmp_path / "cut.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[:60] + b"\xff" + data[61:])
    for path, name in ((tmp_path, NAMES[0]), (tmp_path / "cut.zip", FSDD[0])):
        bad = {u.name: u for u in open_corpus(path).utterances}.pop(name)
        with pytest.raises(InvalidArgument, match=f"^{name}: "):
            bad.read()
    assert sum(u.name != NAMES[0] and len(u.read().samples) == 200 for u in open_corpus(tmp_path).utterances) == 3


def test_links_are_followed_once(tmp_path: Path) -> None:
    """A linked speaker folder is found; a link to the folder above does not turn in circles."""
    lay(tmp_path / "elsewhere" / "ae", "1a.wav")
    (tmp_path / "root" / "train" / "man").mkdir(parents=True)
    (tmp_path / "root" / "train" / "man" / "ae").symlink_to(tmp_path / "elsewhere" / "ae")
    (tmp_path / "root" / "train" / "loop").symlink_to(tmp_path / "root")
    assert [u.name for u in open_corpus(tmp_path / "root").utterances] == ["train/man/ae/1a.wav"]


def test_the_free_spoken_digits() -> None:
    """All 3,000 recordings of the shared zip are listed for six speakers, and read as 8 kHz int16."""
    corpus = open_corpus(shared("data", "fsdd"))
    assert (corpus.layout, len(corpus.utterances), len(corpus.speakers)) == ("fsdd", 3000, 6)
    assert corpus.labels == tuple("0123456789")
    for utterance in corpus.utterances[::500]:
        signal = utterance.read()
        assert (signal.rate_hz, signal.samples.dtype.str) == (8000, "<i2")


def test_utterance_equals_read_audio(tmp_path: Path) -> None:
    """An utterance gives what read_audio gives for its path."""
    (utterance,) = open_corpus(lay(tmp_path, "train/man/ae/1a.wav")).utterances
    np.testing.assert_array_equal(utterance.read().samples, read_audio(utterance.path).samples)


def test_names_that_are_no_text_can_be_sent_and_printed(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, in a folder's name and a file's: shown escaped, each of its own, read all the same."""
    for place in (b"caf\xe9/\xff.wav", b"caf\xe9/\xfe.wav", b"tea/a.wav"):
        file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + place))
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(wav16(np.arange(99, dtype=np.int16), 8000))
    found = open_corpus(tmp_path).utterances
    assert [(u.label, u.name) for u in found] == [
        (r"caf\udce9", r"caf\udce9/\udcfe.wav"),
        (r"caf\udce9", r"caf\udce9/\udcff.wav"),
        ("tea", "tea/a.wav"),
    ]
    assert [u.read().name for u in found] == [u.name for u in found]
