"""The protocols of photographs and faces, on small data in their layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.learn.verification import verify
from streamfeat.protocols import faces, photographs
from streamfeat.protocols.methods import method_of
from streamfeat.protocols.plan import Source
from tests.files import shared
from tests.protocol_data import IMAGE_SPEC
from tests.test_protocols import silent

RAW = method_of("raw", speech=False)
SPEC = BankSpec.from_toml(IMAGE_SPEC)


def source(data: Path, given: Path | None = None, n_seeds: int = 3) -> Source:
    """Where a plan takes its items from."""
    return Source(data, given, n_seeds, silent)


def portraits(n_people: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Six noisy pictures of each of n people."""
    rng = np.random.default_rng(seed)
    each = rng.uniform(0, 200, (n_people, 1, 14, 14)) + rng.uniform(0, 55, (n_people, 6, 14, 14))
    return each.reshape(-1, 14, 14).astype(np.uint8), np.repeat(np.arange(n_people), 6)


@pytest.fixture(scope="module")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Faces in ORL's layout: 12 people."""
    root = tmp_path_factory.mktemp("album")
    (root / "faces").mkdir()
    images, subject = portraits(12)
    np.savez(root / "faces" / "orl.npz", images=images, subject=subject)
    return root


# -------------------------------------------------------------------------------------------------------------- faces


def test_three_groups_of_subjects_never_meet(album: Path) -> None:
    """Half in T_G, a quarter in X, a quarter tested, with all their pictures; each split is another."""
    plan = faces.plan_orl(source(album))
    groups = []
    for split in plan.splits:
        people = [{plan.subjects[row] for row in rows} for rows in (split.taught, split.more, split.asked)]
        assert [len(some) for some in people] == [6, 3, 3]
        assert len(set.union(*people)) == 12
        assert len(split.taught) + len(split.more) + len(split.asked) == 72
        groups.append(frozenset(people[2]))
    assert len(set(groups)) > 1


def test_banks_see_the_pictures_of_t_g_alone(album: Path) -> None:
    """Nobody who is tested, nor X."""
    plan = faces.plan_orl(source(album, n_seeds=1))
    seen: list[str] = []

    def fit(task: object) -> object:
        seen.extend(signal.name for signal in task.signals())  # type: ignore[attr-defined]
        return RAW.fit(task)  # type: ignore[arg-type]

    faces.verify_faces(plan, replace(RAW, fit=fit), SPEC, progress=silent, n_threads=1)  # type: ignore[arg-type]
    assert seen == [f"face {row}" for row in plan.splits[0].taught]


def test_rates_are_those_of_the_pairs_that_are_tested(album: Path) -> None:
    """Cosines of raw pictures, computed again; centring takes T_G's mean; deviation over splits."""
    plan = faces.plan_orl(source(album))
    fitted, n_features, report = faces.verify_faces(plan, RAW, SPEC, progress=silent, n_threads=2)
    assert n_features == 14 * 14
    assert fitted.bank is None
    rates = []
    for seed, split in enumerate(plan.splits):
        X = fitted.transform([plan.read(int(row)) for row in split.asked])
        mean = fitted.transform([plan.read(int(row)) for row in split.taught]).mean(axis=0, dtype=np.float64)
        asked = [plan.subjects[row] for row in split.asked]
        assert report["per_seed"]["cosine, 1 % FAR"][str(seed)] == verify(X, asked, (0.01,)).vr[0.01]
        rates.append(verify(X - mean, asked, (0.01,)).vr[0.01])
    column = "centred cosine, 1 % FAR"
    assert report["accuracy"][column] == pytest.approx(np.mean(rates))
    assert report["sd"][column] == pytest.approx(np.std(rates, ddof=1))
    assert len(report["accuracy"]) == 4 * 2
    assert set(report["n_test"].values()) == {18 * 17 // 2}
    curve = report["roc"]["centred cosine"]
    assert curve["far"][0] == 1e-4
    assert (curve["vr"] == sorted(curve["vr"]), curve["vr"][-1], curve["sd"][-1]) == (True, 1.0, 0.0)
    # curves are read at bins of scores, rates at the scores themselves
    assert curve["vr"][curve["far"].index(0.01)] == pytest.approx(np.mean(rates), abs=0.05)
    # people differ by far more than pictures of one do
    assert report["accuracy"]["whitened from T_G + X, 1 % FAR"] > 0.9


def test_given_faces_are_tested_in_every_split(album: Path, tmp_path: Path) -> None:
    """New people, whatever they are called: "3" is not the data set's third."""
    images, subject = portraits(4, seed=9)
    np.savez(tmp_path / "mine.npz", images=images, labels=subject)
    plan = faces.plan_orl(source(album, tmp_path / "mine.npz"))
    for split in plan.splits:
        assert [plan.subjects[row] for row in split.asked] == [str(s) for s in subject]
        assert not {plan.subjects[row] for row in split.asked} & {plan.subjects[row] for row in split.taught}
    assert plan.notes == (faces.UNCHECKED,)
    assert faces.plan_orl(source(album)).notes == (faces.OTHERS,)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 0, 1, 1, 2], r"mine\.npz:images: 6 pictures, but mine\.npz:labels has 5 labels; give one label a picture"),
        ([0] * 6, r"mine\.npz: needed are two people, .* got 1 label for 6 pictures; label each picture with who"),
        ([*range(6)], r"mine\.npz: needed are two people, .* got 6 labels for 6 pictures; label each picture with who"),
    ],
)
def test_given_faces_need_labels_that_fit(labels: list[int], message: str, album: Path, tmp_path: Path) -> None:
    """The file and the remedy, before a bank is built."""
    images, _ = portraits(1)
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    with pytest.raises(InvalidArgument, match=message):
        faces.plan_orl(source(album, tmp_path / "mine.npz"))


def test_moved_copies_are_refused(album: Path) -> None:
    """Nothing is trained on labels."""
    plan = faces.plan_orl(source(album, n_seeds=1))
    with pytest.raises(ConfigError, match="leave the method augment out"):
        faces.verify_faces(plan, method_of("augment", speech=False), SPEC, progress=silent, n_threads=1)


def test_real_faces_are_told_apart() -> None:
    """ORL, pixels of 28 x 23, centred, two splits: .65 +- .07 over 20 splits at 1 % FAR."""
    spec = BankSpec.from_toml(IMAGE_SPEC.replace("height = 14", "height = 28").replace("width = 14", "width = 23"))
    plan = faces.plan_orl(source(shared("data"), n_seeds=2))
    _, _, report = faces.verify_faces(plan, RAW, spec, progress=silent, n_threads=1)
    assert set(report["n_test"].values()) == {100 * 99 // 2}
    assert 0.45 < report["accuracy"]["centred cosine, 1 % FAR"] < 0.85


def test_the_preset_tells_real_faces_apart() -> None:
    """ORL, first split, whitened from T_G: .918 at 1 % FAR; over 20 splits .935 +- .056, of pixels .736."""
    plan = faces.plan_orl(source(shared("data"), n_seeds=1))
    preset = method_of("preset", speech=False)
    _, _, report = faces.verify_faces(plan, preset, BankSpec.preset("faces"), progress=silent, n_threads=2)
    assert report["accuracy"]["whitened from T_G, 1 % FAR"] > 0.86


# -------------------------------------------------------------------------------------------------------- photographs


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 in its layout: two sheets of 2 x 3 tiles to train, one to test; a tile is all of its number."""
    folder = tmp_path_factory.mktemp("sheets") / "cifar10"
    folder.mkdir()
    for first, name in ((0, "train_00"), (6, "train_01"), (12, "test_00")):
        tiles = (first + np.arange(6, dtype=np.uint8)).reshape(2, 3)
        sheet = np.repeat(np.repeat(tiles, 32, axis=0), 32, axis=1)
        Image.fromarray(np.stack([sheet] * 3, axis=2)).save(folder / f"{name}.webp", lossless=True)
    np.savez(folder / "labels.npz", train=np.arange(12) % 3, test_first1000=np.arange(6) % 3)
    return folder.parent


def test_tiles_come_row_by_row(sheets: Path) -> None:
    """In the order of the labels, training sheets first, lossless."""
    plan = photographs.plan_cifar10(source(sheets))
    [trial] = plan.trials
    np.testing.assert_array_equal(trial.train, np.arange(12))
    np.testing.assert_array_equal(trial.tests["first 6"], np.arange(12, 18))
    for row in range(18):
        assert plan.read(row).samples.shape == (32, 32, 3)
        assert (plan.read(row).samples == row).all()
    assert list(plan.labels) == [str(row % 3) for row in (*range(12), *range(6))]
    assert plan.notes[0] == "tested on 6 of the 10,000 test photographs"


def test_few_photographs_a_class(sheets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw for each seed and number of labels, of training photographs alone; the same are asked as of all."""
    monkeypatch.setattr(photographs, "PER_CLASS", (1, 3, 5))
    plan = photographs.plan_cifar10_few(source(sheets, n_seeds=2))
    assert [(trial.seed, len(trial.train)) for trial in plan.trials] == [(0, 3), (0, 9), (1, 3), (1, 9)]
    assert plan.columns == ("1 label, first 6", "3 labels, first 6")
    for trial in plan.trials:
        assert max(trial.train) < 12
        assert sorted({plan.labels[row] for row in trial.train}) == ["0", "1", "2"]
        [asked] = trial.tests.values()
        np.testing.assert_array_equal(asked, np.arange(12, 18))
    assert plan.notes[0] == "tested on 6 of the 10,000 test photographs"
    assert "5 labels a class: left out" in plan.notes[1]


def test_a_missing_sheet_is_told(sheets: Path, tmp_path: Path) -> None:
    """Pictures and labels are counted."""
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for name in ("labels.npz", "train_00.webp", "test_00.webp"):
        (folder / name).write_bytes((sheets / "cifar10" / name).read_bytes())
    with pytest.raises(InvalidArgument, match="12 pictures on 2 sheets, but 18 labels"):
        photographs.plan_cifar10(source(tmp_path))
