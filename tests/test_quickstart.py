"""The parts of the quickstart; the whole of it is run by tests/test_readme.py."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.delivery import Failure
from streamfeat.presets.unlabelled import enlarge
from streamfeat.quickstart import SHIFT_PX, Outcome, set_down


def test_a_digit_is_enlarged_to_28_by_28() -> None:
    """0 to 16 become 0 to 255; what was bright stays where it was."""
    digit = np.zeros((8, 8))
    digit[2, 5] = 16
    picture = enlarge(digit)
    assert picture.shape == (28, 28)
    assert picture.dtype == np.uint8
    brightest = np.array(np.unravel_index(picture.argmax(), picture.shape))
    np.testing.assert_array_equal(brightest // 3.5, [2, 5])
    assert picture.max() > 200
    assert not enlarge(np.zeros((8, 8))).any()
    assert (enlarge(np.full((8, 8), 16)) == 255).all()


def centre(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Row and column of the centre of brightness."""
    ys, xs = np.indices(picture.shape)
    return np.array([np.average(ys, weights=picture), np.average(xs, weights=picture)])


class Fixed(np.random.Generator):
    """A generator that draws what it was told: angle in degrees, then dx and dy in pixels."""

    def __init__(self, angle: float, dx: float, dy: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.drawn = [angle, (dx, dy)]

    def uniform(self, *_args: object, **_kwargs: object) -> object:  # type: ignore[override]
        """The next of them."""
        return self.drawn.pop(0)


@pytest.mark.parametrize(("angle", "dx", "dy"), [(0, 0, 0), (0, 3, 0), (0, 0, -2), (20, 0, 0), (-20, 2, 1)])
def test_a_digit_is_turned_about_its_middle_then_moved(angle: float, dx: float, dy: float) -> None:
    """A blot goes where the rotation about (13.5, 13.5) and the shift say."""
    picture = np.zeros((28, 28), np.uint8)
    picture[8:11, 13:16] = 255
    y, x = 9 - 13.5, 14 - 13.5
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    wanted = np.array([13.5 + sin * x + cos * y + dy, 13.5 + cos * x - sin * y + dx])
    # bilinear sampling on whole pixels moves the centre of nine of them by less than a tenth
    assert np.abs(centre(set_down(picture, Fixed(angle, dx, dy))) - wanted).max() < 0.1


def test_displacements_are_within_their_bounds() -> None:
    """A square of 4 pixels in the middle never leaves the middle by more than 3 px each way."""
    picture = np.zeros((28, 28), np.uint8)
    picture[12:16, 12:16] = 255
    rng = np.random.default_rng(1)
    away = [centre(set_down(picture, rng)) - 13.5 for _ in range(50)]
    assert np.abs(away).max() <= SHIFT_PX + 0.1  # bilinear sampling
    assert np.abs(away).max() > SHIFT_PX - 1


def test_an_outcome_counts_in_json() -> None:
    """answered is what was sent and did not fail."""
    outcome = Outcome(sent=5, failed=[Failure("a", "CODE", "why")], accuracy=0.98765, accuracy_plain=0.5)
    assert outcome.summary() == {
        "sent": 5,
        "answered": 4,
        "failed": 1,
        "failures": [{"file": "a", "code": "CODE", "reason": "why"}],
        "accuracy": 0.9877,
        "accuracy_global": 0.0,
        "accuracy_plain": 0.5,
        "accuracy_neighbour": 0.0,
    }
