"""Protocols on digits: which are drawn, which are asked, and how they are turned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.protocols import digits
from tests.protocol_data import picture_data, pictures
from tests.test_protocols import source


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Picture data."""
    return picture_data(tmp_path_factory.mktemp("pictures"))


def test_few_labels_are_drawn_as_protocol_one_says(written: Path) -> None:
    """default_rng(seed) once for each seed and n, classes in order; the same test digits for all."""
    plan = digits.plan_mnist_few(source(written))
    y_train = np.array(plan.labels[:90])
    for trial in plan.trials:
        n = len(trial.train) // 3
        rng = np.random.default_rng(trial.seed)
        expected = [rng.choice(np.flatnonzero(y_train == str(c)), n, replace=False) for c in range(3)]
        np.testing.assert_array_equal(trial.train, np.concatenate(expected))
        [rows] = trial.tests.values()
        np.testing.assert_array_equal(rows, np.arange(90, 150))
    assert [(t.seed, len(t.train)) for t in plan.trials] == [(s, 3 * n) for s in (0, 1) for n in (1, 5, 10, 30)]
    assert plan.notes == (
        "100 labels a class: left out, a class has fewer items",
        "templates and widths from 90 training pictures without their labels",
    )


def test_templates_of_pictures_are_training_pictures(written: Path) -> None:
    """Unlabelled; a test picture is never among them, nor one that was given."""
    with np.load(written / "mnist" / "mnist.npz") as file:
        train = {image.tobytes() for image in file["x_train"]}
    for plan in (digits.plan_mnist(source(written)), digits.plan_mnist_few(source(written))):
        assert {signal.samples.tobytes() for signal in plan.templates()} <= train


def test_given_pictures_take_the_place_of_the_test(written: Path, tmp_path: Path) -> None:
    """An .npz of images and labels: these are asked, and nothing else."""
    images, labels = pictures(9, 5)
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    plan = digits.plan_mnist(source(written, tmp_path / "mine.npz"))
    [trial] = plan.trials
    assert list(trial.tests) == ["given items"]
    asked = trial.tests["given items"]
    np.testing.assert_array_equal([plan.read(int(row)).samples for row in asked], images)
    assert [plan.labels[row] for row in asked] == [str(label) for label in labels]
    assert len(trial.train) == 90


def test_turned_digits_are_generated_and_say_so(written: Path) -> None:
    """Twelve of sixty-two train; each picture is turned by an angle of its own, and all stay within 0 and 1."""
    plan = digits.plan_rotmnist(source(written))
    [trial] = plan.trials
    assert len(trial.train) == round(150 * 12 / 62)
    assert len(trial.train) + len(trial.tests["all"]) == 150
    assert not set(trial.train) & set(trial.tests["all"])
    samples = np.stack([plan.read(row).samples for row in range(20)])
    assert samples.min() >= 0.0
    assert samples.max() <= 1.0
    assert "not the published" in plan.notes[0]
    assert plan.moves == "turn"


def test_turned_by_a_right_angle_is_a_transposition() -> None:
    """Bilinear turning by 90 degrees is exact, up to float32."""
    image = pictures(1, 0)[0]
    turned = digits.Turned(image, np.array([np.pi / 2]))(0).samples
    np.testing.assert_allclose(turned, np.rot90(image[0] / 255.0), atol=1e-5)
