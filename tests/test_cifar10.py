"""The photographs' experiment, small, on stripes in colours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from streamfeat.errors import ConfigError
from streamfeat.protocols.table import featurise
from streamfeat.reproduce import cifar10
from streamfeat.reproduce.experiment import reproduce
from tests.test_experiment import counting, silent

EXTENT = cifar10.Extent(90, 30, 128, 4, 256, 40)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In CIFAR-10's layout, 90 tiles to train and 30 to ask: stripes of three widths, at any place, in any colour."""
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 3
    place = np.arange(32)[:, None, None] * (0.4 + 0.4 * codes) + rng.uniform(0, 6, 120)
    stripes = np.broadcast_to(np.sin(place), (32, 32, 120)).transpose(2, 0, 1)[..., None]
    tiles = 128 + 60 * stripes * rng.uniform(0.5, 1, (120, 1, 1, 3)) + 20 * rng.standard_normal((120, 32, 32, 3))
    folder = tmp_path_factory.mktemp("sheets") / "cifar10"
    folder.mkdir()
    for first, last, name in ((0, 90, "train_00"), (90, 120, "test_00")):
        sheet = tiles[first:last].clip(0, 255).astype(np.uint8).reshape(-1, 10, 32, 32, 3).swapaxes(1, 2)
        Image.fromarray(sheet.reshape(-1, 320, 3)).save(folder / f"{name}.webp", lossless=True)
    np.savez(folder / "labels.npz", train=codes[:90], test_first1000=codes[90:])
    return folder.parent


@pytest.fixture(scope="module", autouse=True)
def small() -> Any:
    """A very small form, in blocks of 40 photographs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cifar10, "FAST", EXTENT)
        patch.setattr(cifar10, "BLOCK", 40)
        patch.setattr(cifar10, "WIDTHS", (0.3, 0.7))
        yield


def test_the_table_has_the_papers_recipe() -> None:
    """Rotations of kappa 9, scales and shifts of 0.3, s = 10,000, r = 50; every feature of one width."""
    table = cifar10.specs(cifar10.Extent())
    lgika = table[cifar10.LGIKA].as_dict()
    [joint] = lgika["group"]
    laws = {part["factor"]: part for part in joint["of"]}
    assert (lgika["templates"]["m"], joint["n"], laws["scale"]["unitary"]) == (10_000, 50, True)
    assert (laws["rotation"]["law"], laws["rotation"]["kappa"]) == ("von-mises", 9)
    assert (laws["scale"]["law"], laws["scale"]["sigma"]) == ("log-normal", 0.3)
    assert (laws["translation"]["law"], laws["translation"]["sigma"]) == ("gaussian", 0.3)
    assert table[cifar10.RF].only.group == table[cifar10.PLAIN].only.group == ()
    assert 2 * lgika["layer2"]["m"] == 2 * table[cifar10.RF].only.templates.m == 8192
    assert cifar10.specs(cifar10.Extent(width=30_000))[cifar10.LGIKA].as_dict()["layer2"]["m"] == 15_000


def test_methods_that_are_done_are_not_done_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in a method, a run goes on there, and the report is that of one run; of another width, if that was asked
    for, which the command tells. Patches tell stripes apart."""
    asked: dict[str, Any] = {"fast": True, "progress": silent, "data": data, "width": 264}
    whole = reproduce(cifar10.CIFAR10, folder=tmp_path / "whole", **asked)
    assert [row["method"] for row in whole["rows"]] == list(cifar10.specs(EXTENT))
    assert {row["numbers"] for row in whole["rows"]} == {264}
    assert "--width 264" in (tmp_path / "whole" / "cifar10-fast-264.html").read_text()
    # places are random: a third would be right by chance
    assert whole["rows"][-1]["mean"] > 90
    assert len(whole["claims"]) == 4

    computed: list[int] = []
    stop_at = 3 * 5 + 2

    def stopping(*given: Any) -> Any:
        computed.append(len(given[2]))
        if len(computed) == stop_at:
            raise KeyboardInterrupt
        return featurise(*given)

    monkeypatch.setattr(cifar10, "featurise", stopping)
    with pytest.raises(KeyboardInterrupt):
        reproduce(cifar10.CIFAR10, folder=tmp_path / "part", **asked)
    # of 90 every tenth is held out; the others are summed 40, 40 and 1, then come the 9 and the 30 that are asked
    assert computed[:5] == [40, 40, 1, 9, 30]
    computed.clear()
    again = reproduce(cifar10.CIFAR10, folder=tmp_path / "part", **asked)
    assert {**again, "wall_s": 0} == {**whole, "wall_s": 0}
    assert computed == [40, 40, 1, 9, 30]


def test_other_photographs_are_another_run(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped run is gone on with where the sheets are the same, not where one has changed, its labels as before."""

    def stop(*_given: Any, **_more: Any) -> float:
        raise KeyboardInterrupt

    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    asked: dict[str, Any] = {"fast": True, "folder": tmp_path / "out", "progress": silent, "data": mine}
    monkeypatch.setattr(cifar10, "choose_width", stop)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            reproduce(cifar10.CIFAR10, **asked)
    sheet = mine / "cifar10" / "train_00.webp"
    Image.fromarray(np.asarray(Image.open(sheet))[::-1]).save(sheet, lossless=True)
    with pytest.raises(ConfigError, match="cifar10: not the photographs of the run that was stopped"):
        reproduce(cifar10.CIFAR10, **asked)


def test_widths_that_cannot_be_are_refused(data: Path, tmp_path: Path) -> None:
    """Too narrow, too wide, no multiple of a template's numbers, or for an experiment whose methods have their own."""
    asked: dict[str, Any] = {"fast": True, "folder": tmp_path, "progress": silent, "data": data}
    for width in (255, 300, 10**6):
        with pytest.raises(ConfigError, match=f"got {width}"):
            reproduce(cifar10.CIFAR10, width=width, **asked)
    with pytest.raises(ConfigError, match="leave --width 264 out"):
        reproduce(counting([]), width=264, **asked)
