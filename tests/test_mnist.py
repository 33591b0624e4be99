"""The digits' experiment, small, on scikit-learn's digits at MNIST's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.protocols.digits import MNIST as FILE
from streamfeat.protocols.digits import read_mnist
from streamfeat.protocols.plan import Source
from streamfeat.reproduce import mnist
from streamfeat.reproduce.curve import NN_METRIC, RLS_METRIC
from streamfeat.reproduce.experiment import reproduce
from tests.test_experiment import silent

EXTENT = mnist.Extent((1, 10, mnist.ALL), 2, 40, 16, (8,), (3,), 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 digits to train on and 100 to ask, three times as large and with a frame, as mnist.npz."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    large = np.kron(digits.images[:400] / 16 * 255, np.ones((3, 3))).astype(np.uint8)
    images, labels = np.pad(large, ((0, 0), (2, 2), (2, 2))), digits.target[:400].astype(np.uint8)
    folder = tmp_path_factory.mktemp("data")
    (folder / FILE).parent.mkdir()
    np.savez(folder / FILE, x_train=images[:300], y_train=labels[:300], x_test=images[300:], y_test=labels[300:])
    return folder


@pytest.fixture(scope="module")
def report(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a very small form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, "FAST", EXTENT)
        return reproduce(mnist.MNIST, fast=True, folder=tmp_path_factory.mktemp("out"), progress=silent, data=data)


def test_every_method_has_its_curve(report: dict[str, Any]) -> None:
    """RLS and 1-NN at 1, 10 and all labels a class; two draws of few labels, one of all; more labels answer more."""
    for method in (mnist.CDF, mnist.IDENTITY, mnist.BEST, "plain RFF", "raw"):
        for metric in (RLS_METRIC, NN_METRIC):
            curve = {r["n"]: r for r in report["rows"] if (r["method"], r["metric"]) == (method, metric)}
            assert {n: curve[n]["seeds"] for n in curve} == {1: 2, 10: 2, 30: 1}
            assert curve[1]["mean"] < curve[30]["mean"]
            assert curve[30]["sd"] is not None
    moved = [r for r in report["rows"] if r["method"] == "plain RFF on 27 moved copies"]
    assert [(r["n"], r["metric"]) for r in moved] == [(1, RLS_METRIC)]


def test_templates_bins_and_groups_are_swept(report: dict[str, Any]) -> None:
    """Each sweep has the whole preset, whose point is that of the curve, and a picture with error bars."""
    whole = next(r["mean"] for r in report["rows"] if (r["method"], r.get("n"), r["metric"]) == ("CDF", 10, RLS_METRIC))
    for name, setting, values, end in (
        (mnist.BY_TEMPLATES, "m", [8, 16], 16),
        (mnist.BY_BINS, "bins", [3, 25], 25),
        (mnist.BY_ELEMENTS, "elements", [1, 9, 49, 147, 441], 441),
        (mnist.BY_GROUP, "group", ["both", "identity", "rotation", "translation"], "both"),
    ):
        for metric in (RLS_METRIC, NN_METRIC):
            rows = {r[setting]: r for r in report["rows"] if (r["method"], r["metric"]) == (name, metric)}
            assert sorted(rows) == values
            assert all(r["n"] == mnist.SWEPT_AT and r["sd"] is not None for r in rows.values())
        swept = next(r for r in report["rows"] if r["method"] == name and r[setting] == end)
        assert swept["mean"] == whole
    panels = {(panel.against, panel.metric): panel.rows(report["rows"]) for panel in mnist._panels()}
    assert len(panels) == 8
    assert all(panels.values())


def test_settings_are_those_of_the_banks() -> None:
    """Templates, bins and the factors that are kept; each part of the group has the elements its row says."""
    spec = mnist.paper_bank(8, n_bins=3)
    assert (spec.only.templates.m, spec.only.pooling.n_features(8)) == (8, 24)
    assert [factor["factor"] for factor in spec.only.group] == ["rotation", "translation"]
    assert mnist.paper_bank(8, turns=1, shifts=1).only.group == ()
    for kind in mnist.kinds_of(EXTENT).values():
        for name, setting in kind.sweeps:
            if name == mnist.BY_ELEMENTS:
                moves = {factor["factor"]: factor["n"] for factor in kind.spec.only.group}
                assert setting["elements"] == moves.get("rotation", 1) * moves.get("translation", 1) ** 2


def test_claims_have_their_figures(report: dict[str, Any]) -> None:
    """The first by the paper's bar, the last by our own where all labels were learned from."""
    cdf = next(r["mean"] for r in report["rows"] if (r["method"], r.get("n"), r["metric"]) == ("CDF", 10, RLS_METRIC))
    first, *_, last = report["claims"]
    assert first["holds"] == (cdf >= mnist.BAR)
    ours = next(r["mean"] for r in report["rows"] if (r["method"], r["n"], r["metric"]) == (mnist.BEST, 30, RLS_METRIC))
    assert f"300 labels: {100 * (1 - ours):.2f} %" in last["why"]
    assert last["holds"] == (100 * (1 - ours) <= mnist.OWN_BAR)
    small = mnist._own_bar(report["rows"], mnist.Extent((1, 10)))
    assert small["holds"] is None


def test_draws_of_many_labels_are_fewer(data: Path) -> None:
    """Where a fit takes minutes; of all digits there is one."""
    drawn = read_mnist(Source(data, None, 5, silent))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, "MANY", 10)
        plan = mnist.plan_labels(drawn, mnist.Extent(n_seeds=5, n_test=40), (5, 10, mnist.ALL))
    assert [trial.seed for trial in plan.trials] == [0, 1, 2, 3, 4, 0, 1, 2, 0]
    assert [len(trial.train) for trial in plan.trials] == [50] * 5 + [100] * 3 + [300]
    assert set(plan.trials[5].train) != set(plan.trials[6].train)


def test_digits_that_are_too_few_are_refused(data: Path, tmp_path: Path) -> None:
    """Told before anything is computed, and by the file's name."""
    (tmp_path / FILE).parent.mkdir()
    with np.load(data / FILE) as arrays:
        np.savez(tmp_path / FILE, **{name: arrays[name][:50] for name in arrays.files})
    with pytest.raises(ConfigError, match=r"mnist.npz: needs 10 digits of each class in x_train"):
        reproduce(mnist.MNIST, fast=True, folder=tmp_path / "out", progress=silent, data=tmp_path)
