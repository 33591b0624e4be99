"""Paper C's protocol of poses, on small data in ORL's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.learn.mmif import MMIF
from streamfeat.learn.orbitkernel import OrbitKernel
from streamfeat.learn.verification import unit_rows, verify
from streamfeat.protocols import faces, maxmargin, poses
from tests.files import shared
from tests.protocol_data import IMAGE_SPEC
from tests.test_protocols import silent
from tests.test_protocols_maxmargin import about_mean
from tests.test_protocols_pictures import RAW, album, source

__all__ = ["album"]  # the fixture

SPEC = BankSpec.from_toml(IMAGE_SPEC)
N = len(poses.POSES)
COLUMNS = 4 + 1 + 2 * 6 + 2 + 3
"""Cosines and whitening; the kernel alone; MMIF and its SVMs alone; fewer orbits; other kernels."""


@pytest.fixture
def few_svms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of them."""
    monkeypatch.setattr(poses, "K", 10)
    monkeypatch.setattr(poses, "SIZES", (5, 10, 20, 30))
    monkeypatch.setattr(poses, "GAINS", {"gain": ("MMIF max rbf, K = 10", "SVMs alone, K = 10")})


def test_poses_are_a_grid_about_the_picture() -> None:
    """Nine of yaw, five of pitch; the middle one is no turn, and the corners and edges are the nine of the shots."""
    assert len(set(poses.POSES)) == N == 45
    assert poses.POSES[poses.FRONT] == (0, 0)
    assert poses.FRONT == N // 2
    yaw, pitch = np.array(poses.POSES)[list(poses.CORNERS)].T
    assert (sorted(set(yaw)), sorted(set(pitch)), len(yaw)) == ([-40, 0, 40], [-20, 0, 20], 9)


def test_each_subject_is_its_first_picture_at_every_pose(album: Path) -> None:
    """The splits of orl-verify; the front pose is that picture, but for what lies beside the head."""
    plan, plain = poses.plan_poses(source(album, n_seeds=2)), faces.plan_orl(source(album, n_seeds=2))
    for split, orl in zip(plan.splits, plain.splits, strict=True):
        for rows, pictures in ((split.taught, orl.taught), (split.more, orl.more), (split.asked, orl.asked)):
            firsts = pictures[::6]
            assert rows.tolist() == [picture * N + pose for picture in firsts for pose in range(N)]
            assert [plan.subjects[row] for row in rows[::N]] == [plain.subjects[row] for row in firsts]
            assert len({plan.subjects[row] for row in rows}) == len(firsts)
    signal, picture = plan.read(6 * N + poses.FRONT), plain.read(6)
    assert signal.name == "face 6, yaw 0, pitch 0"
    np.testing.assert_array_equal(signal.samples[3:11, 3:11], picture.samples[3:11, 3:11])
    assert signal.samples[0, 0] == 0
    assert not np.array_equal(plan.read(6 * N).samples, signal.samples)


def test_shots_are_all_pictures_of_the_tested(album: Path) -> None:
    """At nine poses each; orbits and SVMs as before."""
    shots, plan = poses.plan_pose_shots(source(album, n_seeds=1)), poses.plan_poses(source(album, n_seeds=1))
    np.testing.assert_array_equal(shots.splits[0].taught, plan.splits[0].taught)
    np.testing.assert_array_equal(shots.splits[0].more, plan.splits[0].more)
    asked = shots.splits[0].asked
    assert len(asked) == 3 * 6 * 9
    assert set(asked % N) == set(poses.CORNERS)
    assert len(set(asked // N)) == 18
    assert poses.SHOTS in shots.notes
    assert poses.SHOTS not in plan.notes


def test_draws_test_the_same_people(album: Path) -> None:
    """T_G and X are drawn anew from the others."""
    plan = poses.plan_pose_draws(source(album, n_seeds=3))
    first = poses.plan_poses(source(album, n_seeds=1)).splits[0]
    for split in plan.splits:
        assert split.asked.tolist() == first.asked.tolist()
        assert sorted([*split.taught, *split.more]) == sorted([*first.taught, *first.more])
        assert (len(split.taught), len(split.more)) == (6 * N, 3 * N)
    assert len({tuple(split.more) for split in plan.splits}) > 1


@pytest.mark.usefixtures("few_svms")
def test_columns_are_those_of_mmif_on_unit_rows(album: Path) -> None:
    """Less T_G's mean, of unit length; SVMs of one pose see the front alone; fewer orbits are the first."""
    plan = poses.plan_poses(source(album, n_seeds=2))
    fitted, _, report = faces.verify_faces(plan, RAW, SPEC, progress=silent, n_threads=1)
    (T, orbits), (X, things), (asked, who) = about_mean(plan, fitted, plan.splits[1])
    T, X, asked = (unit_rows(rows) for rows in (T, X, asked))

    def rate(mmif: MMIF, X: NDArray[Any], things: list[str], n_orbits: int) -> float:
        mmif.fit(X, things, templates=T[: n_orbits * N], orbits=orbits[: n_orbits * N])
        return verify(mmif.transform(asked), who, (0.01,)).vr[0.01]

    rbf: dict[str, Any] = {"pooling": "max", "kernel": "rbf", "sigma": maxmargin.SIGMA, "C": maxmargin.COST, "seed": 1}
    alone: dict[str, Any] = {"pooling": "none", "C": poses.COST_ALONE, "seed": 1}
    front = slice(poses.FRONT, None, N)
    expected = {
        "MMIF max rbf, K = 10": rate(MMIF(10, **rbf), X, things, 6),
        "MMIF max rbf, 5 orbits": rate(MMIF(10, **rbf), X, things, 5),
        "MMIF max rbf, X in one pose": rate(MMIF(10, **rbf), X[front], things[front], 6),
        "MMIF mean linear": rate(MMIF(10, pooling="mean", C=maxmargin.COST, seed=1), X, things, 6),
        "SVMs alone, K = 10": rate(MMIF(10, **alone), X, things, 6),
        "SVMs alone, 5 against the rest": rate(MMIF(10, 5, None, **alone), X, things, 6),
    }
    found = {name: report["per_seed"][f"{name}, 1 % FAR"]["1"] for name in expected}
    assert found == expected
    assert len(report["accuracy"]) == 2 * (COLUMNS + 1)


def test_poses_of_given_faces_are_refused(album: Path, tmp_path: Path) -> None:
    """They would be turned though they are turned already."""
    with pytest.raises(ConfigError, match="ORL's own subjects; leave --data out, got"):
        poses.plan_poses(source(album, tmp_path / "mine.npz"))


def test_orbits_of_poses_make_real_faces_more_alike() -> None:
    """Of the people of ORL's split 0 the kernel features alone, without a label, are far above the pixels."""
    plan = poses.plan_poses(source(shared("data"), n_seeds=1))
    split = plan.splits[0]
    T, asked = (
        np.array([plan.read(int(row)).samples[::4, ::4].ravel() for row in rows], np.float64)
        for rows in (split.taught, split.asked)
    )
    mean = T.mean(axis=0)
    T, asked = unit_rows(T - mean), unit_rows(asked - mean)
    who = [plan.subjects[row] for row in split.asked]
    orbits = [plan.subjects[row] for row in split.taught]
    kernel = OrbitKernel("max", "rbf", maxmargin.SIGMA).fit(T, orbits)
    pixels, features = (verify(rows, who, (0.01,)).vr[0.01] for rows in (asked, kernel.transform(asked)))
    assert features > 2 * pixels
