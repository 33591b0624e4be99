"""The turned digits' experiment, small, on scikit-learn's digits at MNIST's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamfeat import layer2
from streamfeat.bankspec import BankSpec
from streamfeat.protocols import drawn
from streamfeat.protocols.table import featurise
from streamfeat.reproduce import rotmnist
from streamfeat.reproduce.experiment import reproduce
from tests.test_experiment import silent
from tests.test_mnist import data

__all__ = ["data"]

EXTENT = rotmnist.Extent(60, 30, 48, 6, 64, 8, 30, True)


@pytest.fixture(scope="module", autouse=True)
def small() -> Any:
    """A very small form, in blocks of 20 digits, without networks (test_cnn.py)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rotmnist, "FAST", EXTENT)
        patch.setattr(rotmnist, "BLOCK", 20)
        patch.setattr(drawn, "N_TEMPLATES", 40)  # fewer than landmarks, as in full
        patch.setattr(rotmnist, "find_spec", lambda _name: None)
        patch.setattr(layer2, "LEAST_STRUCTURED", 48)
        patch.setattr(rotmnist, "WIDTHS", (0.4, 0.9))
        patch.setattr(rotmnist, "specs", lambda extent: {**SPECS(extent), rotmnist.OURS: light()})
        yield


SPECS = rotmnist.specs


def light() -> BankSpec:
    """The preset with a small second layer and four angles."""
    table = BankSpec.preset(rotmnist.OURS).as_dict()
    table["layer2"]["m"], table["outer"][0]["n"], table["templates"]["m"] = 64, 4, 16
    return BankSpec.from_dict(table)


def test_the_table_has_the_papers_recipe() -> None:
    """s = 7,000, r = 100 angles of kappa 0.2, 17,000 in layer 2; the same without group or second layer beside it."""
    table = SPECS(rotmnist.Extent())
    whole = table["LGIKA, RF, layer 2"].as_dict()
    assert (whole["templates"]["m"], whole["group"][0]["n"], whole["layer2"]["m"]) == (7000, 100, 17_000)
    assert (whole["group"][0]["law"], whole["group"][0]["kappa"]) == ("von-mises", 0.2)
    assert (whole["templates"]["source"], whole["layer2"]["source"]) == ("hadamard", "hadamard")
    drawn = SPECS(rotmnist.FAST)[rotmnist.DRAWN].as_dict()
    assert (drawn["templates"]["source"], drawn["layer2"].get("source")) == ("fourier", None)
    assert table["LGIKA, RF"].layer2 is None
    assert table["RF"].only.group == table["Nystrom"].only.group == ()
    assert table["GICDF"].only.group == table["LGIKA, RF"].only.group
    changed = rotmnist.with_width(table["LGIKA, Nystrom, layer 2"], 0.7, 5).as_dict()
    assert (changed["pooling"]["kernel"]["sigma"], changed["group"][0]["n"]) == (0.7, 5)


def test_blocks_that_are_done_are_not_done_again(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the second block of a method, a run goes on there, and the report is that of one run."""
    whole = reproduce(rotmnist.ROTMNIST, fast=True, folder=tmp_path / "whole", progress=silent, data=data)
    assert [row["method"] for row in whole["rows"]] == list(SPECS(EXTENT))
    assert all(0 <= row["mean"] <= 100 for row in whole["rows"])
    assert [claim["holds"] for claim in whole["claims"][:4]] == [None] * 4
    assert sum("JAX is not installed, scripts/peers does it" in said for said in whole["deviations"]) == 1
    asked: list[int] = []
    stop_at = [4]

    def stopping(*given: Any) -> Any:
        asked.append(len(given[2]))
        if asked.count(20) + asked.count(10) in stop_at:
            raise KeyboardInterrupt
        return featurise(*given)

    monkeypatch.setattr(rotmnist, "featurise", stopping)
    with pytest.raises(KeyboardInterrupt):
        reproduce(rotmnist.ROTMNIST, fast=True, folder=tmp_path / "part", progress=silent, data=data)
    before = len(asked)
    stop_at.clear()
    asked.clear()
    again = reproduce(rotmnist.ROTMNIST, fast=True, folder=tmp_path / "part", progress=silent, data=data)
    assert {**again, "wall_s": 0} == {**whole, "wall_s": 0}
    # two widths and 60 training digits a method, then its blocks of 20 and 10
    n_methods, n_widths = len(SPECS(EXTENT)), 6 * 2
    assert before + len(asked) == n_methods * 3 + n_widths + 2  # the stopped block, and its model, twice


def test_a_rival_of_one_layer_is_beaten_by_one_layer() -> None:
    """What a second layer is worth is not what the group is worth."""
    at = dict.fromkeys(rotmnist.LGIKA_NAMES, 3.0) | {"RF": 8.0, "GICDF": 6.0, "Nystrom": 8.0, "LGIKA, RF": 5.0}
    assert [claim["holds"] for claim in rotmnist._without_layer_2(at, "")] == [True, True, True]
    assert [claim["holds"] for claim in rotmnist._without_layer_2({**at, "LGIKA, RF": 7.0}, "")] == [True, False, True]
    assert [claim["holds"] for claim in rotmnist._without_layer_2({**at, "LGIKA, RF": 9.0}, "")] == [False, False, True]
    worse = {**at, rotmnist.LGIKA_NAMES[0]: 8.5}
    assert [claim["holds"] for claim in rotmnist._without_layer_2(worse, "")] == [False, False, True]


def test_claims_of_networks_are_told_in_full() -> None:
    """Better than a network on the same digits or not; a small form, whose networks learned little, is silent."""
    at = {**dict.fromkeys(rotmnist.NETWORKS, 5.0), rotmnist.OURS: 1.2}
    assert [claim["holds"] for claim in rotmnist._same_digits(at, 2.9, False)] == [True, True]
    assert [claim["holds"] for claim in rotmnist._same_digits({**at, rotmnist.OURS: 6.0}, 5.5, False)] == [False, False]
    assert [claim["holds"] for claim in rotmnist._same_digits(at, 2.9, True)] == [None, None]
    assert not list(rotmnist._same_digits({rotmnist.OURS: 1.2}, 2.9, False))
