"""The network that paper B compares with: its pictures are turned as ours are, and it learns what there is to learn."""

from __future__ import annotations

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from streamfeat.frontends import make_front_end
from streamfeat.groups.image import rotation
from streamfeat.protocols.digits import plan_rotmnist
from streamfeat.protocols.plan import Source
from streamfeat.reproduce import rotmnist
from streamfeat.reproduce.experiment import Run
from tests.test_experiment import silent
from tests.test_mnist import data

__all__ = ["data"]

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="JAX comes with the extra peers (scripts/peers)")


def test_pictures_are_turned_as_templates_are() -> None:
    """By the operator of the factor `rotation`; a quarter turn is a copy."""
    from streamfeat.reproduce.cnn import turn

    rng = np.random.default_rng(0)
    pictures = rng.random((3, 28, 28)).astype(np.float32)
    pictures[:, [0, -1]] = pictures[:, :, [0, -1]] = 0  # what is half outside is cut off by the one, faded by the other
    turned = np.asarray(turn(pictures, np.array([np.pi / 2, 0.3, -2.0])))
    # angles are float32: places are right to 1e-5 of a pixel
    np.testing.assert_allclose(turned[0], np.rot90(pictures[0]), atol=1e-4)
    axes = make_front_end([{"stage": "pixels", "height": 28, "width": 28}]).axes
    for picture, angle, found in zip(pictures[1:], (0.3, -2.0), turned[1:], strict=True):
        expected = rotation(axes, angle).forward(picture.ravel()).reshape(28, 28)
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_what_is_drawn_is_learned() -> None:
    """Bars that lie or stand anywhere, in sixty steps; the same seed gives the same answers, another one others."""
    from streamfeat.reproduce.cnn import Training, answers_of

    rng = np.random.default_rng(0)
    codes = np.arange(256) % 2
    pictures = 0.1 * rng.random((256, 28, 28)).astype(np.float32)
    for picture, code in zip(pictures, codes, strict=True):
        where = rng.integers(4, 22)
        bar = picture if code else picture.T
        bar[where : where + 4, 4:24] = 1.0
    train, asked = (pictures[:128], codes[:128]), pictures[128:]
    learned = answers_of(*train, asked, Training(60, 0, False))
    # half would be right by chance
    assert np.mean(learned == codes[128:]) > 0.9
    first, again, other = (answers_of(*train, asked, Training(2, seed, True)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_networks_have_rows_and_are_not_trained_again(data: Path, tmp_path: Path) -> None:
    """An error of each kind and seed, on the digits of all other rows; what is in the journal stays."""
    extent = rotmnist.Extent(60, 30, n_epochs=1, n_networks=2)
    run = Run("rotmnist", fast=True, folder=tmp_path, progress=silent).begin({})
    plan = plan_rotmnist(Source(data, None, 1, lambda _text, _total: nullcontext(lambda _n: None)))
    (trial,) = plan.trials
    items = trial.train[:60], next(iter(trial.tests.values()))[:30]
    rows = rotmnist._networks(run, plan, extent, items)
    assert [(row["method"], row["seeds"], row["n"]) for row in rows] == [(name, 2, 60) for name in rotmnist.NETWORKS]
    assert all(0 <= row["mean"] <= 100 for row in rows)
    run.keep("CNN seed 0", 30)
    run.keep("CNN seed 1", 30)
    assert rotmnist._networks(run, plan, extent, items)[0]["mean"] == 100
