"""`streamfeat bank`: built once, listed, drawn, verified, expanded."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from streamfeat.bank import open_bank
from streamfeat.featuremap import FeatureMap
from streamfeat.signals import Signal, open_corpus
from tests.files import wav16
from tests.terminal import Terminal

SPEC = """
name = "{name}"
[[front_end]]
stage = "pixels"
height = 12
width = 12
[templates]
source = "{source}"
m = 8
[[group]]
factor = "translation"
law = "grid"
low = -1
high = 1
n = 3
[pooling]
kind = "cdf"
thresholds = "{thresholds}"
n_bins = 5
"""

HEARD = """
[[front_end]]
stage = "resample"
rate_hz = 8000
[[front_end]]
stage = "spectrogram"
window = 256
hop = 80
bands = 8
low_hz = 60
high_hz = 4000
scale = "mel"
[[front_end]]
stage = "frames"
n = 5
"""


def spec(home: Path, name: str = "tiny", source: str = "gaussian", thresholds: str = "sigma") -> Path:
    """A spec file."""
    file = home / f"{name}.toml"
    file.write_text(SPEC.format(name=name, source=source, thresholds=thresholds))
    return file


def own(cli: Terminal) -> tuple[str, str]:
    """A bank directory of the test's own."""
    return ("--bank-dir", str(cli.home / "own"))


def test_a_spec_is_built_once(cli: Terminal) -> None:
    """The report names bank, hash and path; a second build finds it and leaves every file as it is."""
    first = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    path = Path(first["path"])
    assert path == cli.home / "own" / f"tiny-{first['hash'][:12]}"
    assert (first["n_templates"], first["group_size"], first["n_features"], first["dtype"]) == (8, 9, 40, "<u2")
    assert first["bytes"] == sum(file.stat().st_size for file in path.iterdir())
    assert open_bank(path).hash == first["hash"]
    before = {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in path.iterdir()}
    second = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    assert {**second, "wall_s": 0} == {**first, "wall_s": 0}
    assert {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in path.iterdir()} == before


def test_plain_is_the_same_with_one_element(cli: Terminal) -> None:
    """--plain: another name, |G| = 1, the same templates."""
    full = open_bank(Path(cli("bank", "build", spec(cli.home), *own(cli), "--json").json["path"]))
    report = cli("bank", "build", spec(cli.home), "--plain", *own(cli), "--json").json
    assert (report["name"], report["group_size"]) == ("tiny-plain", 1)
    plain = open_bank(Path(report["path"]))
    np.testing.assert_array_equal(plain.arrays["templates"], full.arrays["templates"])


def test_from_takes_what_lies_below(cli: Terminal, corpus: Path) -> None:
    """Pictures in folders or arrays, recordings in a corpus or a flat folder; needed, missing, unused, unreadable."""
    file = spec(cli.home, "seen", "data", "quantile")
    rng = np.random.default_rng(0)
    np.save(cli.home / "stack.npy", rng.integers(0, 256, (20, 12, 12), np.uint8))
    cli("bank", "build", file, *own(cli)).refused(78, "name a folder of it with --from")
    built = cli("bank", "build", file, "--from", cli.home / "stack.npy", *own(cli), "--json")
    assert built.status == 0, built
    unused = cli("bank", "build", spec(cli.home), "--from", cli.home / "stack.npy", *own(cli))
    assert unused.status == 0
    assert "the 20 recordings or pictures are not used" in unused.err
    heard = cli.home / "heard.toml"
    pixels = '[[front_end]]\nstage = "pixels"\nheight = 12\nwidth = 12\n'
    heard.write_text(file.read_text().replace(pixels, HEARD).replace("translation", "time_shift"))
    folder = cli.home / "flat"
    folder.mkdir()
    utterances = open_corpus(corpus).utterances
    for n, u in enumerate(utterances):
        shutil.copy(u.path, folder / f"{n:03}.wav")
    hashes = set()
    for source in (corpus / "train" / "man" / "aa", folder):
        ran = cli("bank", "build", heard, "--from", source, *own(cli), "--json")
        assert ran.status == 0, ran
        hashes.add(ran.json["hash"])
    assert len(hashes) == 2
    (folder / "050.wav").write_bytes(wav16(np.zeros(900, np.int16))[:-100])
    cli("bank", "build", heard, "--from", folder, *own(cli)).refused(64, "050.wav")
    (cli.home / "empty").mkdir()
    cli("bank", "build", heard, "--from", cli.home / "empty", *own(cli)).refused(64, "empty: no pictures")


def test_list_shows_banks_and_presets(cli: Terminal) -> None:
    """None at first, then each with its hash; the presets always."""
    report = cli("bank", "list", *own(cli), "--json").json
    assert report["banks"] == []
    assert "digits-audio" in report["presets"]
    built = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    [listed] = cli("bank", "list", *own(cli), "--json").json["banks"]
    assert listed == {key: built[key] for key in listed}
    assert f"tiny {built['hash'][:12]}" in cli("bank", "list", *own(cli)).out


def test_list_goes_on_past_a_broken_bank(cli: Terminal) -> None:
    """A bank that cannot be opened is listed apart, with its reason; the others are there."""
    good = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    bad = cli("bank", "build", spec(cli.home, name="bad"), *own(cli), "--json").json
    (Path(bad["path"]) / "manifest.json").write_text("{")
    report = cli("bank", "list", *own(cli), "--json").json
    assert [bank["hash"] for bank in report["banks"]] == [good["hash"]]
    assert [bank["path"] for bank in report["broken"]] == [bad["path"]]
    assert bad["path"] in cli("bank", "list", *own(cli)).out


def test_show_draws_and_describes(cli: Terminal) -> None:
    """A PNG, whatever its name, of the rows and columns asked for; the spec in the report, found by name or hash."""
    built = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    for name in ("tiny", built["hash"][:8], Path(built["path"]).name):
        sheet = cli.home / "sheet"
        ran = cli("bank", "show", name, "--png", sheet, "--templates", "2", "--elements", "3", *own(cli), "--json")
        assert ran.json["png"] == str(sheet)
        assert ran.json["spec"]["templates"]["m"] == 8
        with Image.open(sheet) as picture:
            assert picture.format == "PNG"
            assert picture.width / picture.height == 1.5


def test_verify_finds_a_flipped_byte(cli: Terminal) -> None:
    """One bit in the middle of an array: 78 and the file's name; the other bank is well."""
    first = Path(cli("bank", "build", spec(cli.home), *own(cli), "--json").json["path"])
    other = Path(cli("bank", "build", spec(cli.home, "other"), *own(cli), "--json").json["path"])
    well = cli("bank", "verify", *own(cli), "--json")
    assert (well.status, well.json["ok"], len(well.json["banks"])) == (0, True, 2)
    for file in sorted(first.glob("*.npy")):
        data = bytearray(file.read_bytes())
        data[-3] ^= 0x10
        file.write_bytes(data)
        ran = cli("bank", "verify", *own(cli), "--json")
        assert (ran.status, ran.json["ok"]) == (78, False)
        verdicts = {verdict["path"]: verdict for verdict in ran.json["banks"]}
        assert verdicts[str(other)]["ok"]
        assert file.name in verdicts[str(first)]["reason"]
        shown = cli("bank", "verify", *own(cli))
        assert shown.status == 78
        assert f"FAIL {first}" in shown.out
        assert cli("bank", "verify", "other", *own(cli)).status == 0
        assert cli("bank", "verify", "tiny", *own(cli)).status == 78
        data[-3] ^= 0x10
        file.write_bytes(data)
    assert cli("bank", "verify", *own(cli)).status == 0


def test_materialize_writes_the_dense_form(cli: Terminal) -> None:
    """Its own hash, the orbits stored, the same counts but for a projection within rounding of a threshold."""
    built = cli("bank", "build", spec(cli.home), *own(cli), "--json").json
    dense = cli("bank", "materialize", "tiny", *own(cli), "--json").json
    assert (dense["form"], dense["n_features"]) == ("dense", built["n_features"])
    assert dense["hash"] != built["hash"]
    assert dense["compared"] == 16 * built["n_features"]
    assert dense["differing"] <= 0.001 * dense["compared"]
    assert dense["largest_difference"] <= 1
    assert (
        f"{dense['differing']} of {dense['compared']} numbers differ"
        in cli("bank", "materialize", "tiny", *own(cli)).out
    )
    rng = np.random.default_rng(2)
    signals = [Signal("image", rng.integers(0, 256, (12, 12), np.uint8)) for _ in range(50)]
    first, second = (FeatureMap.open(Path(r["path"])).transform(signals).astype(int) for r in (built, dense))
    assert np.abs(first - second).max() <= 1
    assert np.mean(first != second) < 0.001
