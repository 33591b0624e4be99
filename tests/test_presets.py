"""Banks that have a name: built once, built again when the preset changes, and from recordings of their own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamfeat.bank import build_bank, open_bank
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, NotFound
from streamfeat.featuremap import FeatureMap
from streamfeat.presets import build_named, ensure_bank, preset_names, preset_signals, read_signals
from streamfeat.signals import open_corpus
from tests.files import png


def test_every_preset_is_a_spec() -> None:
    """Each TOML file reads as a spec of its own name, and the defaults of `stream` and `push` are among them."""
    assert {"digits-audio", "digits-image", "rotated-image", "faces", "colour"} <= set(preset_names())
    assert [BankSpec.preset(name).name for name in preset_names()] == list(preset_names())


@pytest.mark.parametrize("name", ["digits-audio", "digits-image", "global-audio", "global-image", "paper-a-tidigits"])
def test_a_preset_is_built_once(name: str, tmp_path: Path) -> None:
    """The second time the bank is found, whether asked for by preset, bank name, hash or path."""
    said: list[str] = []
    path = ensure_bank(name, tmp_path, say=said.append)
    assert said == [f"built bank {path.name}"]
    for asked in (name, path.name, path.name[-12:], str(path)):
        assert ensure_bank(asked, tmp_path, say=said.append) == path
    assert len(said) == 1
    assert open_bank(path).name == name


def test_a_preset_of_another_version_is_built_again(tmp_path: Path) -> None:
    """A bank of the name, from another spec, is not taken for it; both lie there."""
    spec = BankSpec.preset("global-audio")
    other = build_bank(spec.of_one(spec.name, templates=replace(spec.only.templates, m=16))).save(tmp_path)
    path = ensure_bank("global-audio", tmp_path)
    assert path != other
    assert open_bank(path).only.m == spec.only.templates.m
    assert ensure_bank("global-audio", tmp_path) == path


def test_plain_is_a_bank_of_its_own(tmp_path: Path) -> None:
    """|G| = 1 under its own name, found again, beside the full one."""
    said: list[str] = []
    plain = ensure_bank("global-audio", tmp_path, plain=True, say=said.append)
    full = ensure_bank("global-audio", tmp_path, say=said.append)
    assert (open_bank(plain).only.n_group, open_bank(full).only.n_group) == (1, 15)
    assert ensure_bank("global-audio", tmp_path, plain=True, say=said.append) == plain
    assert len(said) == 2


def test_what_is_neither_preset_nor_bank(tmp_path: Path) -> None:
    """NotFound; it lists what there is."""
    with pytest.raises(NotFound, match=r"no bank 'digits'.*there are: none"):
        ensure_bank("digits", tmp_path)
    with pytest.raises(NotFound, match=r"there are colour, .*a spec is a file ending in \.toml"):
        build_named("digits", tmp_path)


TOML = """
name = "wrong"
[[front_end]]
stage = "pixels"
height = 8
width = 8
[templates]
source = "gaussian"
m = 4
[pooling]
kind = "cdf"
thresholds = "sigma"
n_bins = 3
"""


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("m = 4", "m = 'four'", r"templates\.m must be integer, got 'four'"),
        ("[templates]", "[templatse]", "no key 'templatse'.*did you mean templates"),
        ("n_bins", "bins", "'bins'"),
        ("height", "heigth", "no parameter 'heigth'.*did you mean height"),
        ("[pooling]", "[[group]]\nfactor = 'rotaton'\n[pooling]", "unknown factor 'rotaton'.*did you mean rotation"),
        ("[pooling]", "[window]\nkind = 'patches'\nheight = 9\nwidth = 3\n[pooling]", "window: patches of 9 x 3"),
    ],
)
def test_a_wrong_spec_names_its_file_and_its_key(tmp_path: Path, right: str, wrong: str, told: str) -> None:
    """What is seen when it is read, and what is seen when its bank is built."""
    file = tmp_path / "wrong.toml"
    file.write_text(TOML.replace(right, wrong))
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: .*{told}"):
        build_named(str(file), tmp_path)


def test_signals_of_presets() -> None:
    """None where everything is drawn at random; else every word of the synthetic speakers, the same each time."""
    assert preset_signals("global-audio") == []
    first, second = preset_signals("digits-audio"), preset_signals("paper-a-tidigits-waveform")
    assert len(first) == 24 * 11
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)


def test_pictures_of_presets() -> None:
    """Small digits for digits, the same ones turned for pictures at any angle, a user's own for everything else."""
    upright, turned = preset_signals("digits-image"), preset_signals("rotated-image")
    assert len(upright) == len(turned) == 1797
    assert upright[0].samples.shape == turned[0].samples.shape == (28, 28)
    assert not np.array_equal(upright[0].samples, turned[0].samples)
    assert preset_signals("global-image") == []
    for name in ("faces", "colour"):
        with pytest.raises(ConfigError, match=rf"'{name}' takes its templates from pictures of your own; .* --from"):
            preset_signals(name)


def test_a_preset_is_built_from_what_is_given(tmp_path: Path) -> None:
    """Signals of the caller's instead of the preset's own; what draws everything at random has no use for them."""
    given = preset_signals("digits-image")[:400]
    own = ensure_bank("digits-image", tmp_path / "own", signals=given)
    assert own.name != ensure_bank("digits-image", tmp_path / "usual").name
    said: list[str] = []
    ensure_bank("global-image", tmp_path / "own", signals=given, say=said.append)
    assert len(said) == 1


def test_a_face_and_its_mirror_image_have_one_feature() -> None:
    """The mean over both, to the rounding of two sums in another order."""
    pictures = preset_signals("digits-image")[:200]
    feature_map = FeatureMap(build_bank(BankSpec.preset("faces"), pictures))
    mirrored = [replace(picture, samples=picture.samples[:, ::-1].copy()) for picture in pictures[:5]]
    X = feature_map.transform(pictures[:5])
    # pictures of 28 x 28 are stretched first, which mirrors to 1e-6
    np.testing.assert_allclose(feature_map.transform(mirrored), X, atol=1e-5)
    assert np.abs(X[0] - X[1]).max() > 1e-3


def test_signals_are_read_from_whatever_lies_there(corpus: Path, tmp_path: Path) -> None:
    """A corpus, one recording, one picture, a folder of both kinds of which the recordings count, several in turn."""
    utterances = open_corpus(corpus, strings=True).utterances
    picture = tmp_path / "one.png"
    picture.write_bytes(png(np.eye(9, dtype=np.uint8)))
    assert len(read_signals([corpus])) == len(utterances)
    [recording] = read_signals([utterances[0].path])
    np.testing.assert_array_equal(recording.samples, utterances[0].read().samples)
    kinds = [signal.kind for signal in read_signals([picture, utterances[0].path, tmp_path])]
    assert kinds == ["image", "audio", "image"]
    with pytest.raises(NotFound, match="nowhere"):
        read_signals([tmp_path / "nowhere"])


def test_a_bank_that_is_nearly_a_preset_is_answered_with_it(tmp_path: Path) -> None:
    """Nothing is built."""
    with pytest.raises(NotFound, match=r"no bank 'digit-audio'.*did you mean digits-audio\?"):
        ensure_bank("digit-audio", tmp_path)
