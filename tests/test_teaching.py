"""Banks taught by labelled signals, in this process and by the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from streamfeat.bank import open_bank
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.learn.subsetsvm import SubsetSVMs
from streamfeat.learn.verification import verify
from streamfeat.learn.whitening import WithinOrbitWhitening
from streamfeat.signals import Signal
from streamfeat.teaching import teach
from tests.protocol_data import IMAGE_SPEC
from tests.terminal import Terminal
from tests.test_protocols_pictures import portraits

FMAP = FeatureMap.fit(BankSpec.from_toml(IMAGE_SPEC))


def album(n_people: int = 6, seed: int = 0) -> tuple[list[Signal], list[str]]:
    """Pictures and who they show."""
    images, subject = portraits(n_people, seed)
    return [Signal("image", image) for image in images], [f"p{s}" for s in subject]


@pytest.mark.parametrize(("by", "n_columns"), [("mmif", 20), ("whitening", 5), ("pca", 5), ("random", 400)])
def test_what_was_learned_is_the_readout(by: Any, n_columns: int) -> None:
    """Features are those of the bank, then of the learner; people never seen are told apart by their cosines."""
    signals, names = album()
    bank = teach(FMAP.bank, signals, names, by, n_columns)
    assert (bank.name, bank.n_features, bank.base.n_features) == (f"small-image-{by}", n_columns, FMAP.n_features)
    new, who = album(5, seed=1)
    found = FeatureMap(bank).transform(new)
    Phi, seen = (FMAP.dense(FMAP.transform(some)).astype(float) for some in (new, signals))
    if by == "mmif":
        expected = SubsetSVMs(20).fit(seen, names).transform(Phi)
    elif by == "whitening":
        expected = WithinOrbitWhitening(5).fit(seen, names).transform(Phi)
    elif by == "pca":
        # distances inside the span of the leading directions, whatever their signs
        V = np.linalg.svd(seen - seen.mean(axis=0))[2][:5]
        expected, found = (A @ A.T for A in ((Phi - seen.mean(axis=0)) @ V.T, found))
    else:
        # lengths of 400 Gaussian columns vary by 1 / sqrt(800), six times that among thirty
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(Phi, axis=1), rtol=0.25)
        return
    # Phi is float32, and small differences from its mean are scaled up
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())
    assert verify(FeatureMap(bank).transform(new), who, [0.05]).vr[0.05] > 0.9


def test_a_chance_is_its_seeds() -> None:
    """The same seed, the same hash."""
    signals, names = album()
    for by in ("mmif", "random"):
        hashes = [teach(FMAP.bank, signals, names, by, 8, seed=s).hash for s in (0, 0, 1)]
        assert hashes[0] == hashes[1] != hashes[2]


def test_what_cannot_be_taught_is_refused() -> None:
    """No signals, an unknown way, a bank that was taught."""
    signals, names = album()
    with pytest.raises(InvalidArgument, match="got none"):
        teach(FMAP.bank, [], [], "pca")
    with pytest.raises(ConfigError, match="one of mmif, whitening, pca, random, got 'lda'"):
        teach(FMAP.bank, signals, names, "lda")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has a readout already"):
        teach(teach(FMAP.bank, signals, names, "random"), signals, names, "random")


def test_the_command_saves_a_bank_that_serves(cli: Terminal) -> None:
    """`bank teach`: from a folder a person to a bank of another name; pictures without a label are refused."""
    where = ("--bank-dir", cli.home / "own")
    FMAP.bank.save(cli.home / "own")
    signals, names = album()
    for i, (signal, name) in enumerate(zip(signals, names, strict=True)):
        folder = cli.home / "faces" / name
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(signal.samples).save(folder / f"{i:03d}.png")
    words = ("bank", "teach", "small-image", "--by", "mmif", "--numbers", "12", *where, "--from")
    done = cli(*words, cli.home / "faces", "--json")
    assert done.status == 0, done
    expected = teach(FMAP.bank, signals, names, "mmif", 12)
    assert (done.json["name"], done.json["n_features"], done.json["taught_by"]) == ("small-image-mmif", 12, 36)
    assert open_bank(Path(done.json["path"])).hash == done.json["hash"] == expected.hash
    cli(*words, cli.home / "faces" / "p0").refused(64, "has no label")
