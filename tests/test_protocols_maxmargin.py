"""MMIF under the protocols of faces, on small data in their layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.learn.mmif import MMIF
from streamfeat.learn.verification import unit_rows, verify
from streamfeat.protocols import faces, maxmargin
from streamfeat.protocols.fitted import Fitted
from tests.protocol_data import IMAGE_SPEC
from tests.test_protocols import silent
from tests.test_protocols_pictures import RAW, album, source

__all__ = ["album"]  # the fixture

SPEC = BankSpec.from_toml(IMAGE_SPEC)


@pytest.fixture(autouse=True)
def few_svms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of them."""
    monkeypatch.setattr(maxmargin, "SIZES", (5, 10, 20))
    monkeypatch.setattr(maxmargin, "K", 10)
    monkeypatch.setattr(maxmargin, "GAINS", {"gain": ("MMIF max linear, K = 10", "SVMs alone, K = 10")})


def about_mean(plan: faces.Faces, fitted: Fitted, split: faces.Split) -> list[tuple[NDArray[Any], list[str]]]:
    """Rows of T_G, X and the tested, less the mean of T_G, with who they show."""
    parts = [split.taught, split.more, split.asked]
    rows = [fitted.transform([plan.read(int(row)) for row in part]) for part in parts]
    mean = rows[0].mean(axis=0, dtype=np.float64)
    return [(X - mean, [plan.subjects[row] for row in part]) for X, part in zip(rows, parts, strict=True)]


def test_columns_are_those_of_mmif_on_the_rows_of_each_split(album: Path) -> None:
    """Orbits from T_G, SVMs from X, verified on the tested; the gain is the difference, split by split."""
    plan = maxmargin.plan_splits(source(album, n_seeds=2))
    fitted, _, report = faces.verify_faces(plan, RAW, SPEC, progress=silent, n_threads=1)
    (T, orbits), (X, things), (asked, who) = about_mean(plan, fitted, plan.splits[1])
    for column, pooling in (("SVMs alone, K = 10", "none"), ("MMIF max linear, K = 10", "max")):
        mmif = MMIF(10, seed=1, pooling=pooling)  # type: ignore[arg-type]
        mmif.fit(X, things, templates=T, orbits=orbits)
        expected = verify(mmif.transform(asked), who, (0.01,)).vr[0.01]
        assert report["per_seed"][f"{column}, 1 % FAR"]["1"] == expected
    by_seed = report["per_seed"]
    for seed in ("0", "1"):
        difference = by_seed["MMIF max linear, K = 10, 1 % FAR"][seed] - by_seed["SVMs alone, K = 10, 1 % FAR"][seed]
        assert by_seed["gain, 1 % FAR"][seed] == difference
    rbf = MMIF(10, C=maxmargin.COST, seed=1, kernel="rbf", sigma=maxmargin.SIGMA)
    rbf.fit(unit_rows(X), things, templates=unit_rows(T), orbits=orbits)
    expected = verify(rbf.transform(unit_rows(asked)), who, (0.01,)).vr[0.01]
    assert by_seed[f"{maxmargin.UNIT}, 1 % FAR"]["1"] == expected
    assert len(report["accuracy"]) == 2 * (4 + 2 * 3 + len(maxmargin.VARIANTS) + 1 + 1)


def test_draws_test_the_same_people_and_divide_the_others(album: Path) -> None:
    """T_G and X are drawn anew from those who are not tested, as many of each."""
    plan = maxmargin.plan_draws(source(album, n_seeds=4))
    first = maxmargin.plan_splits(source(album, n_seeds=1)).splits[0]
    divisions = set()
    for split in plan.splits:
        assert split.asked.tolist() == first.asked.tolist()
        taught, more = ({plan.subjects[row] for row in rows} for rows in (split.taught, split.more))
        assert (len(taught), len(more), len(taught | more)) == (6, 3, 9)
        assert not (taught | more) & {plan.subjects[row] for row in split.asked}
        divisions.add(frozenset(more))
    assert len(divisions) > 1


def test_one_split_has_no_gain(album: Path) -> None:
    """A difference of two rates has no binomial deviation."""
    plan = maxmargin.plan_splits(source(album, n_seeds=1))
    _, _, report = faces.verify_faces(plan, RAW, SPEC, progress=silent, n_threads=1)
    assert not any(column.startswith("gain") for column in report["accuracy"])
