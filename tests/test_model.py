"""Model: saved whole, opened bit-equal, refused when touched or of another bank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import BankMismatch, ConfigError, InvalidArgument, NotFound, Unavailable
from streamfeat.learn.rls import RLS
from streamfeat.learn.store import save_directory
from streamfeat.model import Model, latest, save_version, versions

BANK = "a" * 64
X = np.random.default_rng(0).integers(0, 400, (30, 8)).astype(np.uint16)


def fitted(labels: list[Any] | None = None, **settings: Any) -> Model:
    """A model of 30 rows and three classes."""
    names = labels or ["one", "oh", "zero"]
    return Model(RLS(**settings).fit(X, [names[i % 3] for i in range(30)]), BANK)


@pytest.mark.parametrize(
    "settings",
    [
        {"lam": "loo"},
        {"lam": 0.1, "standardise": "none"},
        {"lam": "loo", "standardise": "z-score", "unit_norm": True, "per_class": True},
        {"lam": "default"},
        {"lam": "holdout", "grid": "gurls", "measure": "squared-error", "balance": True, "rank": 4, "seed": 2},
        {"lam": "loo", "grid": [0.5, 1e-3]},
    ],
)
def test_scores_are_bit_equal_after_opening(tmp_path: Path, settings: dict[str, Any]) -> None:
    """save, open: the same scores to the bit, the same settings, the same account of how lambda was chosen."""
    model = fitted(**settings)
    model.save(tmp_path / "m")
    back = Model.open(tmp_path / "m")
    np.testing.assert_array_equal(back.scores(X, BANK), model.scores(X, BANK))
    assert back.predict(X) == model.predict(X)
    assert back.bank_hash == BANK
    np.testing.assert_array_equal(back.rls.lam_, model.rls.lam_)
    assert back.rls.lam == settings["lam"]
    assert back.rls.held_out_.criterion == model.rls.held_out_.criterion
    assert back.rls.n_items_ == 30


@pytest.mark.parametrize("labels", [[3, 1, -2], ["1", "01", "oh"]])
def test_labels_come_back_as_given(tmp_path: Path, labels: list[Any]) -> None:
    """ints as ints, texts as texts."""
    model = fitted(labels)
    model.save(tmp_path / "m")
    assert Model.open(tmp_path / "m").classes == sorted(labels)
    assert [type(label) for label in Model.open(tmp_path / "m").predict(X[:1])] == [type(labels[0])]


def test_streamed_models_are_saved_too(tmp_path: Path) -> None:
    """A model that only ever saw partial_fit, and one whose classes nobody could hold out."""
    for i, rls in enumerate([RLS(0.1).partial_fit(X, [j % 3 for j in range(30)]), RLS("loo").fit(X[:3], [0, 1, 2])]):
        model = Model(rls, BANK)
        model.save(tmp_path / str(i))
        back = Model.open(tmp_path / str(i))
        np.testing.assert_array_equal(back.scores(X), model.scores(X))
        assert np.isnan(back.rls.held_out_.accuracy)


def test_features_of_another_bank_are_refused() -> None:
    """Both hashes are named."""
    with pytest.raises(BankMismatch, match=f"{BANK}.*{'b' * 64}"):
        fitted().predict(X, bank_hash="b" * 64)
    with pytest.raises(InvalidArgument, match="8 columns"):
        fitted().predict(X[:, :5], bank_hash=BANK)


def test_a_touched_model_is_refused(tmp_path: Path) -> None:
    """One byte of any file: opening refuses, by name."""
    path = tmp_path / "m"
    fitted().save(path)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        with pytest.raises(ConfigError, match=f"{file.stem}.*again"):
            Model.open(path)
        file.write_bytes(whole)
    assert Model.open(path).classes == ["oh", "one", "zero"]


def test_every_byte_of_a_model_counts(tmp_path: Path) -> None:
    """Flipped or cut anywhere, spaces of the JSON as well: refused, and the files kept."""
    path, rng = tmp_path / "m", np.random.default_rng(0)
    fitted().save(path)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for at in rng.integers(0, len(whole), 40):
            flipped = whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :]
            for damaged in (flipped, whole[:at]):
                file.write_bytes(damaged)
                with pytest.raises(ConfigError, match="again"):
                    Model.open(path)
                assert file.read_bytes() == damaged
        file.write_bytes(whole)
    assert Model.open(path).classes == ["oh", "one", "zero"]


def test_fields_are_held_to_the_schema(tmp_path: Path) -> None:
    """A model.json whose hash is right but whose fields are not a model's is refused; another format is named."""
    fields, arrays = fitted().rls.state()
    whole = {"format": "streamfeat-model-1", "bank_hash": BANK, **fields}
    wrongs: list[dict[str, Any]] = [{"classes": ["a"]}, {"classes": ["a", 1]}, {"extra": 1}, {"n_items": -1}]
    for i, wrong in enumerate(wrongs):
        save_directory(tmp_path / str(i), "model", {**whole, **wrong}, arrays)
        with pytest.raises(ConfigError, match=r"model\.json: data"):
            Model.open(tmp_path / str(i))
    save_directory(tmp_path / "newer", "model", {**whole, "format": "streamfeat-model-2"}, arrays)
    with pytest.raises(ConfigError, match="streamfeat-model-2"):
        Model.open(tmp_path / "newer")


def test_versions_count_up_and_the_newest_is_used(tmp_path: Path) -> None:
    """Each save is a new directory; the two newest stay; half-written ones are not looked at, and go."""
    folder = tmp_path / "digits"
    with pytest.raises(NotFound, match="fit it first"):
        latest(folder)
    for lam in (0.1, 0.2, 0.3):
        save_version(fitted(lam=lam), folder)
    (folder / ".model-0009.x").mkdir()
    (folder / "model-notes").mkdir()
    assert latest(folder).rls.lam == 0.3
    save_version(fitted(lam=0.4), folder)
    assert not list(folder.glob(".model-*"))
    assert [path.name for path in versions(folder)] == ["model-0003", "model-0004"]
    assert latest(folder).rls.lam == 0.4
    assert json.loads((folder / "model-0003" / "model.json").read_text())["settings"]["lam"] == 0.3
    with pytest.raises(InvalidArgument, match="do not change"):
        fitted().save(folder / "model-0003")


def test_a_disk_that_is_full_is_the_operators(tmp_path: Path) -> None:
    """A version that cannot be written is refused with its folder's name."""
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="file cannot be written"):
        save_version(fitted(), tmp_path / "file")
