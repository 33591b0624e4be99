"""QM7's experiment, small, on made-up molecules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.reproduce import qm7
from streamfeat.reproduce.experiment import Run, reproduce
from streamfeat.reproduce.molecules import FILE, coulomb_matrices
from tests.test_experiment import silent

EXTENT = qm7.Extent(60, 4, 6, templates={"fourier": 256, "nystrom": 20, "cdf": 20})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 molecules whose energy is a sum over pairs of atoms, in the files' layout."""
    folder = tmp_path_factory.mktemp("data")
    C, _ = coulomb_matrices(60, 7, None, np.random.default_rng(0))
    (folder / FILE).parent.mkdir()
    np.savez(folder / FILE, X=C.astype(np.float32))
    np.savez(folder / qm7.GEOMETRY, T_pbe0_kcal=-C.sum(axis=(1, 2)) / 10, fold=np.arange(60) % 5)
    return folder


@pytest.fixture(scope="module")
def report(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a very small form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qm7, "FAST", EXTENT)
        return reproduce(qm7.QM7, fast=True, folder=tmp_path_factory.mktemp("out"), progress=silent, data=data)


def test_every_method_is_asked_on_five_folds(report: dict[str, Any]) -> None:
    """Twelve methods, two measures, and no root mean square below the mean."""
    assert [row["method"] for row in report["rows"]] == [*qm7.METHODS, *qm7.METHODS]
    assert {row["seeds"] for row in report["rows"]} == {5}
    n = len(qm7.METHODS)
    for mae, rmse in zip(report["rows"][:n], report["rows"][n:], strict=True):
        assert 0 < mae["mean"] <= rmse["mean"]


def test_claims_are_those_of_the_rows(report: dict[str, Any]) -> None:
    """Whatever the figures are here, `holds` is what they say."""
    mae = {row["method"]: row["mean"] for row in report["rows"] if row["metric"] == qm7.MAE}
    rivals = [qm7.RANDOM_GP, qm7.SORTED_GP, qm7.GICDF]
    assert [claim["holds"] for claim in report["claims"][:3]] == [mae[qm7.LGIKA] < mae[rival] for rival in rivals]
    assert any("small form" in deviation for deviation in report["deviations"])


def test_ends_of_grids_are_told(report: dict[str, Any]) -> None:
    """Of widths and of penalties, with the methods of which a fold chose them."""
    for said in ("a narrower one may be better still, was chosen for", "the least was chosen for"):
        assert sum(said in deviation for deviation in report["deviations"]) == 1
    done = {"a, GP 0": {"penalty": 1e-6}, "a, GP 1": {"penalty": 1.0}, "b 0": {"penalty": 1.0}, "c 0": {"penalty": 0.1}}
    assert qm7._choosing(done, lambda chosen: chosen["penalty"] >= 1) == "a, GP, b"
    assert qm7._choosing(done, lambda chosen: chosen["penalty"] > 1) == "none"


def test_features_do_not_see_the_order_of_atoms(data: Path, tmp_path: Path) -> None:
    """LGIKA's features of a molecule and of the same with its atoms renamed are equal; the raw matrices are not."""
    run = Run("qm7", fast=True, folder=tmp_path, progress=silent, data=data)
    molecules = qm7.read_molecules(run, 8)
    p = np.random.default_rng(1).permutation(23)
    items = np.arange(8)
    half = np.where((items < 4)[:, None, None], molecules.C, molecules.C[:, p][:, :, p])
    renamed = qm7.Molecules(half, molecules.y, molecules.fold)

    def gram(name: str, of: qm7.Molecules) -> Any:
        return qm7.Kernels(qm7.METHODS[name], of, EXTENT)(50.0, items)(items, items)

    np.testing.assert_allclose(gram(qm7.LGIKA, renamed), gram(qm7.LGIKA, molecules), atol=1e-6)  # float32
    assert np.abs(gram("original Coulomb, GP", renamed) - gram("original Coulomb, GP", molecules)).max() > 0.01
    assert set(run.hashes) == {FILE.name, Path(qm7.GEOMETRY).name}


def test_files_of_different_molecules_are_refused(data: Path, tmp_path: Path) -> None:
    """As many matrices as energies are needed."""
    (tmp_path / "qm7").mkdir()
    (tmp_path / FILE).write_bytes((data / FILE).read_bytes())
    np.savez(tmp_path / qm7.GEOMETRY, T_pbe0_kcal=np.zeros(7), fold=np.zeros(7))
    run = Run("qm7", fast=True, folder=tmp_path, progress=silent, data=tmp_path)
    with pytest.raises(ConfigError, match="needs 7 matrices"):
        qm7.read_molecules(run, None)


def test_folds_that_are_not_three_are_refused(data: Path, tmp_path: Path) -> None:
    """One is held out, one is chosen by, and one is learned from."""
    (tmp_path / "qm7").mkdir()
    (tmp_path / FILE).write_bytes((data / FILE).read_bytes())
    run = Run("qm7", fast=True, folder=tmp_path, progress=silent, data=tmp_path)
    for fold in (np.arange(60) % 2, np.arange(60) % 4 + 1):
        np.savez(tmp_path / qm7.GEOMETRY, T_pbe0_kcal=np.zeros(60), fold=fold)
        with pytest.raises(ConfigError, match="folds 0, 1, 2 and so on are needed"):
            qm7.read_molecules(run, None)
