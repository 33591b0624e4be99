"""Canonical time: a spectrogram and any smooth monotone warp of it give the same frames; silence takes no steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.frontends import FrontEnd, make_front_end
from streamfeat.frontends.arclength import Arclength
from streamfeat.groups.axes import VARIABLE, Axes
from streamfeat.signals.signal import Signal
from tests import naive

BANDS = 12
Floats = NDArray[np.float64]


def apply(stage: Arclength, x: Any) -> NDArray[np.float32]:
    """The stage on bands x frames."""
    x = np.asarray(x, np.float32)
    step, axes = stage.build(Axes(("band", "frame"), (len(x), VARIABLE), tuple(np.arange(1.0, len(x) + 1)), 100.0))
    out = step(x)
    assert axes.shape == out.shape == (len(x), stage.n)
    assert axes.rate_hz == 0
    assert out.dtype == np.float32
    return out


def spectrogram(seed: int, u: Floats, ground: float) -> Floats:
    """A made word at times u in [0, 1]: five soft events over a slow drift on a ground, (BANDS, len(u))."""
    rng = np.random.default_rng(seed)
    drift, events = rng.uniform(-1, 1, (BANDS, 1)), rng.uniform(0, 1, (BANDS, 5))
    at, width = np.linspace(0.1, 0.9, 5)[:, None], rng.uniform(0.1, 0.2, (5, 1))
    return ground + 1 + drift * (u - 0.5) + events @ np.exp(-(((u - at) / width) ** 2))


def warp(t: Floats, waves: list[float]) -> Floats:
    """A smooth map of [0, 1] onto itself; its slope is between 1 - sum |a| and 1 + sum |a|."""
    return np.asarray(t + sum(a * np.sin(np.pi * k * t) / (np.pi * k) for k, a in enumerate(waves, 1)))


warps = hnp.arrays(np.float64, 3, elements=st.floats(-1, 1)).map(lambda a: list(0.7 * a / max(1, np.abs(a).sum())))
"""Slopes from .3 to 1.7: parts of a recording nearly six times as fast as others."""


@dataclass(frozen=True)
class Sampled:
    """A warped recording of so many frames, and how far reading it may be from reading the curve itself.

    With h the time of a frame, L the curve, ' its derivative in that time, f the length of a step:

    reading between frames                 h^2/8 max |L''|,   as far along the path and once more when it is read
    chords for arcs                        h^2/24 times the integral of |L''|^2 / |L'|
    means of three for values              h^2/3  times the integral of |L'''| and |L''| at the two ends
    a band that crosses the floor in one   h/8 of its own |L'|, each: an arc with a corner is at most .11 of it longer
                                           than its chord

    of which the last three are lengths of path and count twice: at the place and in the whole it is a share of.
    """

    frames: Floats
    error: float

    @staticmethod
    def of(seed: int, waves: list[float], n: int, *, ground: float, floor: float) -> Sampled:
        fine = np.linspace(0, 1, 4001)
        L = spectrogram(seed, warp(fine, waves), ground)
        speed, bend, jerk = (np.linalg.norm(np.diff(L, k, axis=1), axis=0) * 4000.0**k for k in (1, 2, 3))
        h = 1 / (n - 1)
        lit = floor * L.max() < L
        corners = np.abs(np.diff(L, axis=1))[lit[:, 1:] != lit[:, :-1]] * 4000 / 8
        path = h**2 * (np.mean(bend**2 / speed[1:]) / 24 + (jerk.mean() + bend[0] + bend[-1]) / 3)
        error = 2 * (path + h * corners.sum()) + h**2 / 4 * bend.max()
        return Sampled(spectrogram(seed, warp(np.linspace(0, 1, n), waves), ground), float(error))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 99), waves=warps, n_frames=st.sampled_from([97, 150, 400]))
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_warped_recordings_give_the_same_frames(power: float, seed: int, waves: list[float], n_frames: int) -> None:
    """Any smooth monotone map of time, any number of frames: equal within what sampling both allows."""
    ground = 4.0  # nothing below the floor: the curve stays smooth
    stage = Arclength(32, points=0, power=power)
    plain, warped = (Sampled.of(seed, a, n, ground=ground, floor=0) for a, n in (([0.0], 200), (waves, n_frames)))
    distance = np.linalg.norm(apply(stage, warped.frames) - apply(stage, plain.frames), axis=0).max()
    # power 2 weighs steps by values that here lie between 4 and 10: paths err in that proportion
    assert distance <= (plain.error + warped.error) * (1 if power == 1 else 2.5)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 99), waves=warps)
def test_also_with_the_floor_and_even_points_first(seed: int, waves: list[float]) -> None:
    """With bands that come and go through the floor, read at 96 even points first: 96 frames are what is sampled."""
    stage = Arclength(32)
    plain, warped = (Sampled.of(seed, a, stage.points, ground=0.0, floor=stage.floor) for a in ([0.0], waves))
    long = [spectrogram(seed, warp(np.linspace(0, 1, n), a), 0.0) for n, a in ((700, [0.0]), (411, waves))]
    distance = np.linalg.norm(apply(stage, long[1]) - apply(stage, long[0]), axis=0).max()
    assert distance <= plain.error + warped.error


def test_without_the_stage_the_same_warp_moves_frames_far_apart() -> None:
    """What the tests above would see if nothing were done; and the errors fall with the square of the frame."""
    waves = [0.4, -0.3]
    t = np.linspace(0, 1, 32)
    uniform = np.linalg.norm(spectrogram(1, warp(t, waves), 4.0) - spectrogram(1, t, 4.0), axis=0).max()
    error = {}
    for n in (50, 100, 200):
        plain, warped = (spectrogram(1, warp(np.linspace(0, 1, n), a), 4.0) for a in ([0.0], waves))
        stage = Arclength(32, points=0)
        error[n] = np.linalg.norm(apply(stage, warped) - apply(stage, plain), axis=0).max()
    assert uniform > 20 * error[100]
    assert error[50] > 3 * error[100] > 9 * error[200]


@settings(deadline=None, max_examples=30)
@given(
    x=hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(2, 9)), elements=st.floats(0, 10, width=16)),
    n=st.integers(2, 7),
    points=st.sampled_from([0, 5, 12]),
    smooth=st.sampled_from([1, 3, 5]),
    floor=st.sampled_from([0.0, 0.3]),
)
def test_equals_the_slow_twin(x: Floats, n: int, points: int, smooth: int, floor: float) -> None:
    """Number by number, also where the path stands still for a while."""
    power = 2.0 if floor else 1.0
    x[0, 0], x[0, 1] = 1.0, 9.0  # it moves
    path_moves = x + np.linspace(0, 0.5, x.shape[1])  # and never stops: where it does, rounding decides who is first
    got = apply(Arclength(n, points, smooth, power, floor), path_moves)
    want = naive.arclength(path_moves.astype(np.float32), n, points=points, smooth=smooth, power=power, floor=floor)
    steps = np.abs(np.diff(path_moves, axis=1)).max()
    # values are float32; where the path goes slowly a place moves by up to 1e-4 of a frame with them
    np.testing.assert_allclose(got, want, atol=1e-4 * max(1, steps))


def test_what_moves_evenly_is_left_as_it_is() -> None:
    """Constant flux: as many frames as there are points are the points; fewer are read evenly."""
    line = 8 + np.outer([1.0, -2.0, 0.5], np.linspace(0, 1, 96))
    # places are right to 1e-13 of the path, values are rounded to float32 at 10
    np.testing.assert_allclose(apply(Arclength(96), line), line, atol=2e-6)
    np.testing.assert_allclose(apply(Arclength(20), line)[:, [0, -1]], line[:, [0, -1]], atol=2e-6)
    np.testing.assert_allclose(np.diff(apply(Arclength(20), line), 2, axis=1), 0, atol=4e-6)


@pytest.mark.parametrize("n_frames", [1, 2, 3, 200])
@pytest.mark.parametrize("value", [0.0, 0.1, 7.3, 1e-30, -2.0])
@pytest.mark.parametrize("points", [0, 96])
def test_what_stands_still_is_read_evenly(value: float, n_frames: int, points: int) -> None:
    """Silence and constants, from one frame on: the same constant, finite."""
    got = apply(Arclength(32, points), np.full((3, n_frames), value))
    np.testing.assert_allclose(got, np.float32(value), rtol=1e-6)


@settings(deadline=None, max_examples=50)
@given(
    x=hnp.arrays(
        np.float32, st.tuples(st.integers(1, 3), st.integers(1, 12)), elements=st.floats(-(2.0**39), 2.0**39, width=32)
    ),
    floor=st.sampled_from([0.0, 0.45]),
)
def test_any_array_gives_finite_frames_within_its_range(x: NDArray[np.float32], floor: float) -> None:
    """Reading between frames leaves no range, whatever the values."""
    got = apply(Arclength(8, power=2, floor=floor), x)
    assert np.isfinite(got).all()
    slack = 1e-6 * np.abs(x).max()
    assert (got >= x.min() - slack).all()
    assert (got <= x.max() + slack).all()


def test_silence_and_noise_beneath_the_floor_take_no_steps() -> None:
    """Ten times as long a pause before and after, quiet or noisy: what is above the floor is read at the same moments.

    Without a floor the noise takes nearly all of the steps.
    """
    u = np.linspace(0, 1, 120)
    event = spectrogram(3, u, 0.0) * np.sin(np.pi * u) ** 2
    stage = Arclength(32, points=0)
    plain = apply(stage, event)
    floor = stage.floor * event.max()
    noise = np.random.default_rng(7).uniform(0, 0.9 * floor, (BANDS, 1200 + 120 + 1000))
    quiet, noisy = np.zeros_like(noise), noise.copy()
    for x in (quiet, noisy):
        x[:, 1200:1320] = np.maximum(x[:, 1200:1320], event)
        # the path is the same; it may be entered and left one frame of 120 earlier or later
        assert np.abs(apply(stage, x) - plain)[plain > floor].max() < 0.02 * event.max()
    lost = apply(Arclength(32, points=0, floor=0.0), noisy)
    assert np.abs(lost - plain)[plain > floor].max() > 0.5 * event.max()


RATE_HZ = 8000


def tones(pause_s: float, snr_db: float | None, seed: int = 0) -> Signal:
    """A made word of half a second, three tones with glides, in a pause and white noise."""
    t = np.arange(4000) / RATE_HZ
    x = np.zeros(4000)
    for hz, slope in ((300, 400), (900, -600), (2000, 900)):
        x += np.sin(2 * np.pi * (hz * t + slope * t * t / 2)) * np.sin(np.pi * t / 0.5) ** 2
    x = np.pad(x, int(pause_s * RATE_HZ))
    if snr_db is not None:
        level = np.sqrt(np.mean(x[x != 0] ** 2)) * 10 ** (-snr_db / 20)
        x += np.random.default_rng(seed).normal(0, level, x.size)
    return Signal("audio", (x / np.abs(x).max()).astype(np.float32), RATE_HZ)


def front_end(**arclength: Any) -> FrontEnd:
    """Root-compressed spectrogram, not trimmed, at canonical times."""
    return make_front_end(
        [
            {"stage": "resample", "rate_hz": RATE_HZ},
            {"stage": "spectrogram"},
            {"stage": "compress", "kind": "root"},
            {"stage": "arclength", **arclength},
            {"stage": "centre"},
        ]
    )


def test_pauses_and_noise_round_a_word_cost_little() -> None:
    """A second of silence before and after, noise 40 dB below, both: the vector turns by at most 11 degrees.

    Without a floor, by 30; the noise itself, in every frame that is read, is 10 of either.
    """

    def angle(floor: float, pause_s: float, snr_db: float | None) -> float:
        vector = front_end(floor=floor)
        return float(np.degrees(np.arccos(vector(tones(pause_s, snr_db)) @ vector(tones(0, None)))))

    for pause_s, snr_db in ((1.0, None), (0.0, 40.0), (1.0, 40.0)):
        assert angle(Arclength().floor, pause_s, snr_db) < 11
    assert angle(0.0, 1.0, 40.0) > 25


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"n": 1}, "n must be 2 to 1000000"),
        ({"points": 1}, "points 0 or 2 to 1000000"),
        ({"smooth": 4}, "smooth must be an odd number of frames, 1 to 99, got 4"),
        ({"power": 0}, "0 < power <= 8"),
        ({"floor": 1.0}, "0 <= floor < 1"),
    ],
)
def test_impossible_parameters_are_refused(stage: dict[str, Any], message: str) -> None:
    """When the front end is made."""
    with pytest.raises(ConfigError, match=message):
        front_end(**stage)


def test_it_needs_bands_and_frames() -> None:
    """Not a waveform, not a picture."""
    with pytest.raises(ConfigError, match="arclength needs the axes band, frame; the front end gives row, column"):
        make_front_end([{"stage": "pixels", "height": 4, "width": 4}, {"stage": "arclength"}])
