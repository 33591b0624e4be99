"""Handwritten digits: mnist-few and mnist as they are, rotmnist-few and rotmnist turned by any angle.

The turned ones are generated here from MNIST: the published mnist-rot file was drawn and turned otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.protocols.data import arrays_in, need
from streamfeat.protocols.drawn import Drawn, with_given
from streamfeat.protocols.plan import Plan, Source, Trial
from streamfeat.signals import Signal

Pixels = NDArray[np.uint8]

MNIST = "mnist/mnist.npz"
PER_CLASS = (1, 5, 10, 30, 100)
N_FIRST = 2000
"""Test digits that earlier choices were made on; the rest are a column of their own."""
TURNED_TRAIN, TURNED_TEST = 12_000, 50_000
FEW_ANGLES_SEED = 123
GENERATED = "turned digits are generated from MNIST here (bilinear, uniform angles): not the published mnist-rot file"


def plan_mnist_few(source: Source) -> Plan:
    """A few labelled digits a class. The seeds are the draws of these."""
    drawn = read_mnist(source)
    n, tested = drawn.n_train, len(drawn.labels) - (0 if drawn.given is None else len(drawn.given))
    halves = {f"first {N_FIRST}": np.arange(n, min(n + N_FIRST, tested)), "last 8000": np.arange(n + N_FIRST, tested)}
    return drawn.few(drawn.tests(halves), source.n_seeds, PER_CLASS)


def plan_mnist(source: Source) -> Plan:
    """All 60,000 digits train, the 10,000 are asked. The seeds are the banks'."""
    drawn = read_mnist(source)
    tests = drawn.tests({"all": np.arange(drawn.n_train, len(drawn.labels))})
    return drawn.plan((Trial(0, np.arange(drawn.n_train), tests),))


def plan_rotmnist_few(source: Source) -> Plan:
    """100 labelled digits a class, each turned by an angle of its own, as are the first 2,000 test digits."""
    images, labels, n = _images(source)
    rng = np.random.default_rng(FEW_ANGLES_SEED)
    of_test = rng.uniform(0.0, 2.0 * np.pi, N_FIRST)
    angles = np.concatenate([rng.uniform(0.0, 2.0 * np.pi, n), of_test])[: len(images)]
    drawn = with_given(source, Drawn(labels[: len(angles)], Turned(images, angles), n, None))
    tests = drawn.tests({f"first {N_FIRST}": np.arange(n, len(angles))})
    return _turned(drawn.few(tests, source.n_seeds, (100,)))


def plan_rotmnist(source: Source) -> Plan:
    """12,000 turned digits train and 50,000 are asked, of 62,000 drawn from all 70,000. The seeds are the banks'."""
    images, labels, _ = _images(source)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(images))[: TURNED_TRAIN + TURNED_TEST]
    angles = rng.uniform(0.0, 2.0 * np.pi, len(chosen))
    n = round(len(chosen) * TURNED_TRAIN / (TURNED_TRAIN + TURNED_TEST))
    turned = Turned(images[chosen], angles)
    drawn = with_given(source, Drawn([labels[row] for row in chosen], turned, n, None))
    tests = drawn.tests({"all": np.arange(n, len(chosen))})
    return _turned(drawn.plan((Trial(0, np.arange(n), tests),)))


@dataclass(frozen=True)
class Turned:
    """Pictures turned about their middle, each by its angle in rad: bilinear, black beyond the edge, 0 to 1."""

    images: Pixels
    angles: NDArray[np.float64]

    def __call__(self, row: int) -> Signal:
        """One of them, turned now."""
        from scipy.ndimage import rotate

        picture = self.images[row].astype(np.float32) / np.float32(255)
        turned = rotate(picture, np.rad2deg(self.angles[row]), order=1, reshape=False)
        return Signal("image", np.clip(turned, 0.0, 1.0), name=f"turned digit {row}")


def _images(source: Source) -> tuple[Pixels, list[str], int]:
    """All digits, training ones first, their labels, and how many train."""
    path = need(source.data, MNIST, "MNIST as an .npz of x_train, y_train, x_test, y_test")
    x_train, y_train = arrays_in(path, {"x_train": 3, "y_train": 1})
    x_test, y_test = arrays_in(path, {"x_test": 3, "y_test": 1})
    if x_train.shape[1:] != x_test.shape[1:]:
        raise ConfigError(f"{path}: pictures of one size are needed, got {x_train.shape[1:]} and {x_test.shape[1:]}")
    labels = [str(label) for label in (*y_train.tolist(), *y_test.tolist())]
    return np.concatenate([x_train, x_test]), labels, len(x_train)


def read_mnist(source: Source) -> Drawn:
    """The 60,000 digits that train and the 10,000 that are asked."""
    images, labels, n = _images(source)
    return with_given(source, Drawn(labels, lambda row: Signal("image", images[row], name=f"digit {row}"), n, None))


def _turned(plan: Plan) -> Plan:
    """The plan with what goes with turned digits."""
    return replace(plan, moves="turn", notes=(GENERATED, *plan.notes))
