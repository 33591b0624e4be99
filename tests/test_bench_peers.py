"""`streamfeat bench peers`: the same items for all, and a report of those that are installed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from streamfeat.bankspec import BankSpec
from streamfeat.bench import peers
from streamfeat.bench.peers import QUICK, Side, bench_peers, fit_paper, paper_spec, plans
from streamfeat.bench.plots import draw_peers
from streamfeat.bench.standins import plan_small_digits, plan_synthetic_speech
from streamfeat.cli.bench import show_peers
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.protocols.fitted import Task
from streamfeat.protocols.methods import PICTURES, SPEECH
from streamfeat.protocols.plan import Plan, Trial

SMALL = replace(QUICK, n_turns=2, n_test=40, n_templates=100)


def digits_alone(*_arguments: object) -> dict[str, Plan]:
    """The stand-in digits, cut."""
    return {"mnist-few": peers._cut(plan_small_digits(), peers.COLUMNS["mnist-few"], SMALL)}


def few_sides() -> dict[str, Side]:
    """Ours, a peer, and one that nobody has."""
    whole = BankSpec.preset("global-image")
    return {
        "digits-image": Side(PICTURES["preset"], whole, ours=True),
        "kymatio Scattering2D J=3": Side(PICTURES["pixels"], whole),
        "lost": Side(PICTURES["pixels"], whole, package="streamfeat_no_such_package"),
    }


def test_a_small_run_has_every_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows with accuracy and time, the ratio of times, what is missing and how to get it; JSON, table, picture."""
    monkeypatch.setattr(peers, "plans", digits_alone)
    monkeypatch.setattr(peers, "picture_sides", few_sides)
    report = bench_peers(SMALL, lambda _what: None)
    assert json.loads(json.dumps(report)) == report
    assert [(row["method"], row["protocol"], row["ours"]) for row in report["rows"]] == [
        ("digits-image", "mnist-few", True),
        ("kymatio Scattering2D J=3", "mnist-few", False),
    ]
    for row in report["rows"]:
        assert row["ms_per_item"] > 0
        # ten labels of ten classes: far above chance for either
        assert 0.4 < row["accuracy"] <= 1.0
    assert set(report["ratios"]) == {"scattering2d_vs_digits_image"}
    lost = {"method": "lost", "package": "streamfeat_no_such_package", "install": "scripts/peers"}
    assert report["missing"] == [lost]
    show_peers(report)
    out = capsys.readouterr().out
    assert "not run: lost needs streamfeat_no_such_package; scripts/peers installs it" in out
    assert "stand in for MNIST" in out
    draw_peers(tmp_path / "peers.png", report)
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


def test_peers_are_run_as_they_do_best() -> None:
    """MiniRocket on whole recordings too, which it knows better where ends are weak; scattering at both scales."""
    for sides, ours in ((peers.picture_sides(), PICTURES), (peers.speech_sides(), SPEECH)):
        run = {side.method for side in sides.values()}
        lacking = {name for name, method in ours.items() if method not in run}
        assert lacking <= {"plain", "raw", "pixels", "augment", "logmel", "kymatio-front-end"}
    claimed = {name for pair in peers.CLAIMS.values() for name in pair}
    assert claimed <= {*peers.picture_sides(), *peers.speech_sides()}


def test_numpy_of_the_paper_gives_our_counts() -> None:
    """Every gt stored and compared: the same share of the group below each threshold."""
    table = {**paper_spec().as_dict(), "templates": {"source": "gaussian", "m": 4, "epsilon": 0.5}}
    spec = BankSpec.from_dict(table)
    signals = plan_small_digits().templates()[:5]
    naive = fit_paper(Task(spec, lambda: signals, "turn")).transform(signals)
    fmap = FeatureMap.fit(spec)
    ours = fmap.transform(signals).reshape(naive.shape)
    # 25 thresholds x 125 elements: a projection in a thousand may lie within rounding of a threshold
    assert np.mean(np.abs(naive * fmap.bank.only.n_group - ours) > 0.5) < 0.01


def test_plans_are_cut() -> None:
    """The wanted columns under their short names, one trial of each draw and test items, at most so many items."""
    plan = plan_small_digits()
    rows = np.arange(1400, 1500)
    trials = tuple(Trial(0, np.arange(n), {"long": rows, "other": rows}) for n in (50, 60))
    cut = peers._cut(replace(plan, trials=trials), {"long": "short"}, replace(SMALL, n_trials=None))
    (trial,) = cut.trials
    assert len(trial.train) == 50
    assert list(trial.tests) == ["short"]
    assert len(trial.tests["short"]) == 40
    assert 100 <= len(cut.templates()) < 200


def test_stand_in_digits_keep_test_items_apart() -> None:
    """No asked digit trains, and templates come from those that do."""
    plan = plan_small_digits()
    assert [list(trial.tests) for trial in plan.trials] == [["10 labels"], ["100 labels"]]
    for trial in plan.trials:
        (asked,) = trial.tests.values()
        assert not set(trial.train.tolist()) & set(asked.tolist())
    assert len(plan.trials[1].train) == 1000


def test_stand_in_speakers_are_asked_of_others() -> None:
    """Who is tested does not train."""
    plan = plan_synthetic_speech()
    assert plan.speakers is not None
    for trial in plan.trials:
        trained = {plan.speakers[row] for row in trial.train}
        (asked,) = trial.tests.values()
        (held,) = {plan.speakers[row] for row in asked}
        assert held not in trained
        assert len(trained) == 7


def test_a_named_folder_must_be_there(tmp_path: Path) -> None:
    """Stand-ins are for those who named none."""
    with pytest.raises(ConfigError, match="no such folder"):
        plans(SMALL, tmp_path / "nothing", lambda _what: None)


def test_our_bounds_allow_the_peers_versions() -> None:
    """What kymatio 0.3 and aeon 1.6 hold numpy and numba to is within what we ask for, so one environment has all."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    asked = {need.name: need.specifier for need in map(Requirement, project["dependencies"])}
    for package, version in {"numba": "0.63.1", "numpy": "2.2.6", "librosa": "0.11.0"}.items():
        assert asked[package].contains(version), f"{package} {version}"
    extra = {need.name: need.specifier for need in map(Requirement, project["optional-dependencies"]["peers"])}
    assert extra["scipy"].contains("1.14.1")
    # what kymatio calls is gone from it
    assert not extra["scipy"].contains("1.15.0")
    assert extra["aeon"].contains("1.6.0")
