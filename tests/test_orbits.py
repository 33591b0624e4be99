"""Orbits that the caller gives: an array, signals, or a folder for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from streamfeat.bank import build_bank, open_bank, orbits, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.presets import build_named, read_orbits
from streamfeat.signals.signal import Signal
from tests import naive
from tests.test_bankspec import small

GROUP = {"factor": "user_orbits"}


def spec(m: int = 5, **changes: Any) -> BankSpec:
    """A bank of given orbits over 4 x 4 pictures."""
    given = {"templates": {"source": "user", "m": m}, "group": [GROUP], "form": "dense", **changes}
    return BankSpec.from_dict(small(**given))


def given_orbits(m: int = 5, G: int = 7, d: int = 16) -> NDArray[np.float32]:
    """m orbits of G vectors of different norms."""
    return np.random.default_rng(0).standard_normal((m, G, d)).astype(np.float32)


def test_an_array_of_orbits_is_the_bank() -> None:
    """gt as given, in its order, the first of each orbit the template; features are those of the definition."""
    array = given_orbits()
    bank = build_bank(spec(renormalise=False), orbits=array)
    assert (bank.only.form, bank.only.m, bank.only.n_group, bank.d) == ("dense", 5, 7, 16)
    np.testing.assert_array_equal(orbits(bank.only, range(5)), array)
    np.testing.assert_array_equal(template_vectors(bank.only), array[:, 0])
    np.testing.assert_array_equal(bank.arrays["factor0_parameters"].ravel(), np.arange(7))
    assert "unitarity_defect" not in bank.manifest["factors"][0]
    fmap = FeatureMap(bank)
    x = fmap.front_end(Signal("image", np.arange(16, dtype=np.uint8).reshape(4, 4)))
    tau = bank.arrays["thresholds"][0, :, :5].T
    np.testing.assert_array_equal(fmap.of_vectors(x[None])[0].reshape(5, -1), naive.cdf_feature(array, tau, x))
    array[:] = 0
    assert orbits(bank.only, [0]).any()  # the caller's array is his own


def test_renormalised_orbits_have_the_norm_of_their_template() -> None:
    """Every gt at |t|; what is zero stays zero."""
    array = given_orbits()
    array[2, 3] = 0
    norms = np.linalg.norm(orbits(build_bank(spec(), orbits=array).only, range(5)), axis=2)
    wanted = np.repeat(np.linalg.norm(array[:, :1], axis=2), 7, axis=1)
    wanted[2, 3] = 0
    np.testing.assert_allclose(norms, wanted, rtol=1e-6)  # float32


def test_the_order_of_transforms_does_not_matter_to_pooling() -> None:
    """Any order of each orbit gives the same counts, but for which vector is called the template."""
    array = given_orbits()
    shuffled = array.copy()
    for orbit in shuffled:
        np.random.default_rng(int(orbit[0, 0] * 1000) % 97).shuffle(orbit)
    x = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)
    one, two = (FeatureMap(build_bank(spec(renormalise=False), orbits=a)).of_vectors(x) for a in (array, shuffled))
    np.testing.assert_array_equal(one, two)


def pictures(root: Path, m: int = 5, G: int = 3) -> list[list[Signal]]:
    """A folder for each of m orbits with G pictures, and the signals they hold."""
    rng = np.random.default_rng(4)
    told = []
    for t in range(m):
        folder = root / f"face {t:03}"
        folder.mkdir(parents=True)
        pixels = rng.integers(0, 256, (G, 4, 4), np.uint8)
        for g in reversed(range(G)):
            Image.fromarray(pixels[g]).save(folder / f"{g:03}.png")
        told.append([Signal("image", p) for p in pixels])
    return told


def test_a_folder_an_orbit(tmp_path: Path) -> None:
    """Folders and their files in the order of their names, saved and opened: the bank of the same signals."""
    told = pictures(tmp_path / "orbits")
    text = (
        'name = "faces"\nform = "dense"\n[[front_end]]\nstage = "pixels"\nheight = 4\nwidth = 4\n[templates]\n'
        'source = "user"\nm = 5\n[[group]]\nfactor = "user_orbits"\n[pooling]\nkind = "cdf"\n'
        'thresholds = "quantile"\nn_bins = 4\n'
    )
    (tmp_path / "faces.toml").write_text(text)
    path = build_named(str(tmp_path / "faces.toml"), tmp_path / "banks", sources=[tmp_path / "orbits"])
    bank = open_bank(path)
    flat = [signal for orbit in told for signal in orbit]
    again = build_bank(BankSpec.from_toml(text), flat, orbits=told)
    assert bank.hash == again.hash
    front_end = FeatureMap(bank).front_end
    wanted = np.array([[front_end(signal) for signal in orbit] for orbit in told])
    np.testing.assert_allclose(orbits(bank.only, range(5)), wanted, atol=1e-6)  # unit norms, renormalised in float32


def test_an_npy_file_of_orbits(tmp_path: Path) -> None:
    """(m, |G|, d) as a front end gave them."""
    np.save(tmp_path / "orbits.npy", given_orbits())
    np.testing.assert_array_equal(np.asarray(read_orbits([tmp_path / "orbits.npy"])), given_orbits())
    (tmp_path / "cut.npy").write_bytes((tmp_path / "orbits.npy").read_bytes()[:100])
    for sources, message in (
        ([tmp_path / "cut.npy"], "no array that can be read"),
        ([tmp_path, tmp_path], "one folder .*got 2"),
        ([tmp_path], "no folders in it"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            read_orbits(sources)


def test_uneven_orbits_are_refused(tmp_path: Path) -> None:
    """Which one is shorter is told."""
    told = pictures(tmp_path)
    told[3].pop()
    with pytest.raises(InvalidArgument, match="orbit 0 has 3, orbit 3 has 2"):
        build_bank(spec(), orbits=told)
    (tmp_path / "face 003" / "001.png").unlink()
    with pytest.raises(InvalidArgument, match=r"face 000 has 3, .*face 003 has 2"):
        read_orbits([tmp_path])


@pytest.mark.parametrize(
    ("changes", "array", "message"),
    [
        ({}, None, "'user_orbits'.* without orbits"),
        ({"group": []}, given_orbits(), r"only with it, got \[\] with orbits"),
        ({"form": "operators"}, given_orbits(), "form = 'dense' and templates.source = 'user', got .*'operators'"),
        ({"templates": {"source": "gaussian", "m": 5}}, given_orbits(), "got .*'gaussian'"),
        ({"group": [GROUP, GROUP]}, given_orbits(), "alone"),
        ({"group": [{**GROUP, "n": 7}]}, given_orbits(), "alone"),
        ({}, given_orbits(m=4), r"\(5, \|G\|, 16\), got \(4, 7, 16\)"),
        ({}, given_orbits(d=15), r"got \(5, 7, 15\)"),
        ({}, given_orbits()[:, 0], r"got \(5, 16\)"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], array: Any, message: str) -> None:
    """The message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        build_bank(spec(**changes), orbits=array)


def test_orbits_must_be_finite() -> None:
    """NaN is found before it is in every feature."""
    array = given_orbits()
    array[3, 1, 2] = np.nan
    with pytest.raises(InvalidArgument, match="orbit 3 is not"):
        build_bank(spec(), orbits=array)
