"""Paper C's protocols on made copies in their layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.protocols import albums, faces, maxmargin
from streamfeat.protocols.faces import Faces
from streamfeat.protocols.plan import Source
from tests.protocol_data import IMAGE_SPEC
from tests.test_protocols import silent
from tests.test_protocols_pictures import RAW, portraits
from tests.test_signals_faces import HEADER


def source(data: Path, n_seeds: int = 2) -> Source:
    """Where a plan takes its items from."""
    return Source(data, None, n_seeds, silent)


def save(folder: Path, n_people: int, n_pictures: int = 4) -> list[tuple[str, str]]:
    """Portraits as <person>/<person>_0001.png; person 0 has the most. Their files and who they show."""
    images, subject = portraits(n_people)
    files = []
    for person in range(n_people):
        name = f"p{person:02d}"
        (folder / name).mkdir(parents=True)
        for k, image in enumerate(images[subject == person][: n_pictures + (person == 0)]):
            Image.fromarray(image).save(folder / name / f"{name}_{k + 1:04d}.png")
            files.append((f"{name}/{name}_{k + 1:04d}.png", name))
    return files


def people(plan: Faces, seed: int) -> list[set[str]]:
    """Who is in T_G, in X and tested."""
    split = plan.splits[seed]
    return [{plan.subjects[row] for row in rows} for rows in (split.taught, split.more, split.asked)]


def test_mugshots_are_divided_by_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth, an eighth and the rest, who never meet; and the whole protocol runs."""
    save(tmp_path / "mugshots", 16)
    plan = albums.plan_mugshots(source(tmp_path))
    for seed in (0, 1):
        assert [len(some) for some in people(plan, seed)] == [2, 2, 12]
        assert len(set.union(*people(plan, seed))) == 16
    assert people(plan, 0) != people(plan, 1)
    monkeypatch.setattr(maxmargin, "SIZES", (10,))
    monkeypatch.setattr(maxmargin, "K", 10)
    monkeypatch.setattr(albums, "GAINS", {})
    plan = albums.plan_mugshots(source(tmp_path))
    spec = BankSpec.from_toml(IMAGE_SPEC)
    _, _, report = faces.verify_faces(plan, RAW, spec, progress=silent, n_threads=1)
    assert report["accuracy"]["centred cosine, 1 % FAR"] > 0.9
    assert "MMIF max linear, K = 10, 1 % FAR" in report["accuracy"]


def test_of_lfw_the_subjects_with_the_most_pictures_teach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most of all in T_G; never more than `MOST`, nor than half of all."""
    save(tmp_path / "lfw", 12)
    taught, more, asked = people(albums.plan_lfw(source(tmp_path)), 0)
    assert (len(taught), len(more), len(asked)) == (3, 3, 6)
    assert "p00" in taught
    monkeypatch.setattr(albums, "MOST", 4)
    assert [len(some) for some in people(albums.plan_lfw(source(tmp_path)), 1)] == [2, 2, 8]


def test_ijba_has_its_own_lists_in_each_split(tmp_path: Path) -> None:
    """Those who train are halved; whom the other list names are tested, faces cut out of their files."""
    files = save(tmp_path / "ijba" / "img", 8)
    for seed in (1, 2):
        folder = tmp_path / "ijba" / f"split{seed}"
        folder.mkdir()
        for name, chosen in (("train", range(4)), ("verify_metadata", range(4, 8))):
            rows = [f"1,{who},img/{file},1,2,2,10,{9 + seed}" for file, who in files if int(who[1:]) in chosen]
            (folder / f"{name}_{seed}.csv").write_text("\n".join([HEADER, *rows]))
    plan = albums.plan_ijba(source(tmp_path))
    for seed in (0, 1):
        taught, more, asked = people(plan, seed)
        assert (len(taught), len(more)) == (2, 2)
        assert asked == {"p04", "p05", "p06", "p07"}
        assert plan.read(int(plan.splits[seed].asked[0])).samples.shape == (10 + seed, 10)
    assert len(np.intersect1d(plan.splits[0].asked, plan.splits[1].asked)) == 0
    with pytest.raises(ConfigError, match="split3: not there"):
        albums.plan_ijba(source(tmp_path, n_seeds=3))


def test_what_is_not_there_or_too_little_is_named(tmp_path: Path) -> None:
    """The folder that is needed, and how many subjects."""
    with pytest.raises(ConfigError, match="lfw: not there, needed is LFW"):
        albums.plan_lfw(source(tmp_path))
    with pytest.raises(ConfigError, match="leave --data out"):
        albums.plan_lfw(Source(tmp_path, tmp_path, 1, silent))
    save(tmp_path / "mugshots", 5)
    with pytest.raises(InvalidArgument, match="need two subjects each, got 5 subjects in all"):
        albums.plan_mugshots(source(tmp_path))
