"""Front ends: a signal to a vector of unit norm that depends on the signal alone."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.frontends import FrontEnd, make_front_end
from streamfeat.signals.signal import Signal
from tests.strategies import int16_samples

LOG_MEL: list[dict[str, Any]] = [
    {"stage": "resample", "rate_hz": 8000},
    {"stage": "peak"},
    {"stage": "trim", "top_db": 30},
    {"stage": "spectrogram"},
    {"stage": "compress", "kind": "log", "top_db": 60},
    {"stage": "frames", "n": 32},
    {"stage": "centre"},
]
ROOT_LOG_FREQUENCY: list[dict[str, Any]] = [
    {"stage": "resample", "rate_hz": 8000},
    {"stage": "spectrogram", "scale": "log", "bands": 48, "low_hz": 80, "high_hz": 3600, "of": "magnitude"},
    {"stage": "compress", "kind": "root"},
    {"stage": "frames", "n": 20, "mode": "crop"},
    {"stage": "centre", "over": "band"},
]
WAVEFORM: list[dict[str, Any]] = [
    {"stage": "resample", "rate_hz": 8000},
    {"stage": "trim"},
    {"stage": "fixed_length", "n": 2000},
]
CANONICAL_TIME: list[dict[str, Any]] = [
    {"stage": "resample", "rate_hz": 8000},
    {"stage": "spectrogram"},
    {"stage": "compress", "kind": "root"},
    {"stage": "arclength", "n": 24},
    {"stage": "delta"},
    {"stage": "centre"},
]
GREY: list[dict[str, Any]] = [{"stage": "pixels", "height": 12, "width": 10}, {"stage": "centre"}]
COLOUR: list[dict[str, Any]] = [{"stage": "pixels", "height": 12, "width": 10, "grey": False}]

AUDIO = {"log_mel": LOG_MEL, "root": ROOT_LOG_FREQUENCY, "waveform": WAVEFORM, "canonical_time": CANONICAL_TIME}
VECTOR: list[dict[str, Any]] = [{"stage": "array", "rows": 12}]
MATRIX: list[dict[str, Any]] = [{"stage": "array", "rows": 5, "columns": 8}, {"stage": "centre"}]

POSED: list[dict[str, Any]] = [
    {"stage": "pixels", "height": 12, "width": 10},
    {"stage": "pose", "row_sd": 2.5, "column_sd": 2, "otherwise": "pass"},
    {"stage": "centre"},
]

IMAGE = {"grey": GREY, "colour": COLOUR, "posed": POSED}

audio_front_ends = pytest.mark.parametrize("spec", AUDIO.values(), ids=AUDIO.keys())
image_front_ends = pytest.mark.parametrize("spec", IMAGE.values(), ids=IMAGE.keys())
all_front_ends = pytest.mark.parametrize(
    "spec", [*AUDIO.values(), *IMAGE.values(), VECTOR, MATRIX], ids=[*AUDIO, *IMAGE, "vector", "matrix"]
)


def signal_for(front_end: FrontEnd, seed: int = 0) -> Signal:
    """Noise that the front end takes."""
    rng = np.random.default_rng(seed)
    if front_end.kind == "audio":
        return Signal("audio", rng.integers(-9000, 9000, 6000).astype(np.int16), 11025)
    if front_end.kind == "array":
        return Signal("array", rng.normal(0, 30, front_end.axes.shape))
    return Signal("image", rng.integers(0, 256, (17, 14, 3)).astype(np.uint8))


def check_unit(front_end: FrontEnd, x: NDArray[np.float32]) -> None:
    """A float32 vector of the right length whose norm is 1, or all zeros."""
    assert x.shape == (front_end.d,)
    assert x.dtype == np.float32
    assert x.flags.c_contiguous
    assert np.isfinite(x).all()
    if x.any():
        # each number is rounded to float32 once
        assert np.linalg.norm(x.astype(np.float64)) == pytest.approx(1, abs=1e-6)


@all_front_ends
def test_canonical_spec_round_trips(spec: list[dict[str, Any]]) -> None:
    """Every default filled in; plain JSON; made from it the front end is the same."""
    front_end = make_front_end(spec)
    assert [stage["stage"] for stage in front_end.spec] == [stage["stage"] for stage in spec]
    through_json = json.loads(json.dumps(front_end.spec))
    assert through_json == front_end.spec
    again = make_front_end(through_json)
    assert again.spec == front_end.spec
    assert again.axes == front_end.axes
    np.testing.assert_array_equal(again(signal_for(again)), front_end(signal_for(front_end)))


@pytest.mark.parametrize(
    ("spec", "names", "shape"),
    [
        (LOG_MEL, ("band", "frame"), (40, 32)),
        (ROOT_LOG_FREQUENCY, ("band", "frame"), (48, 20)),
        (WAVEFORM, ("sample",), (2000,)),
        (CANONICAL_TIME, ("band", "frame"), (40, 24)),
        (GREY, ("row", "column"), (12, 10)),
        (COLOUR, ("row", "column", "channel"), (12, 10, 3)),
        (POSED, ("row", "column"), (12, 10)),
        (VECTOR, ("entry",), (12,)),
        (MATRIX, ("row", "column"), (5, 8)),
    ],
)
def test_axes_say_what_the_numbers_are(
    spec: list[dict[str, Any]], names: tuple[str, ...], shape: tuple[int, ...]
) -> None:
    """Names and lengths; bands have ascending frequencies; real time keeps its rate."""
    front_end = make_front_end(spec)
    assert front_end.axes.names == names
    assert front_end.axes.shape == shape
    assert front_end.d == np.prod(shape)
    assert len(front_end.axes.band_hz) == (shape[0] if "band" in names else 0)
    assert (np.diff(front_end.axes.band_hz) > 0).all()
    real_time = {id(ROOT_LOG_FREQUENCY): 100.0, id(WAVEFORM): 8000.0}
    assert front_end.axes.rate_hz == real_time.get(id(spec), 0.0)


@all_front_ends
def test_vector_depends_on_the_signal_alone(spec: list[dict[str, Any]]) -> None:
    """Bit-equal on repeat, whatever came before, from four threads at once."""
    front_end = make_front_end(spec)
    signals = [signal_for(front_end, seed) for seed in range(8)]
    alone = [make_front_end(spec)(signal) for signal in signals]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(front_end, signals * 3))
    for got, want in zip(together, alone * 3, strict=True):
        np.testing.assert_array_equal(got, want)
    for x in alone:
        assert x.any()
        check_unit(front_end, x)


@audio_front_ends
@settings(deadline=None, max_examples=25)
@given(samples=int16_samples, rate_hz=st.sampled_from([4000, 8000, 20000, 44100]))
def test_any_recording_gives_a_unit_vector(
    spec: list[dict[str, Any]], samples: NDArray[np.int16], rate_hz: int
) -> None:
    """From one sample on, at any rate; int16 and its float copies give the same bits."""
    front_end = make_front_end(spec)
    x = front_end(Signal("audio", samples, rate_hz))
    check_unit(front_end, x)
    for dtype in ("<f4", "<f8"):
        copy = Signal("audio", (samples / 32768).astype(dtype), rate_hz)
        np.testing.assert_array_equal(front_end(copy), x)


@audio_front_ends
@pytest.mark.parametrize("samples", [np.zeros(800), np.zeros(1), np.full(800, 1e-30), np.append(np.zeros(799), 1e-30)])
def test_silence_is_the_zero_vector(spec: list[dict[str, Any]], samples: NDArray[np.float64]) -> None:
    """Nothing to hear, below one step of 24 bits: zeros, not rounding noise of norm 1."""
    front_end = make_front_end(spec)
    assert not front_end(Signal("audio", samples, 8000)).any()


@image_front_ends
@pytest.mark.parametrize("shape", [(1, 1), (12, 10), (40, 3), (5, 5, 3)])
def test_any_picture_gives_a_unit_vector(spec: list[dict[str, Any]], shape: tuple[int, ...]) -> None:
    """Grey or colour, of any size and depth."""
    front_end = make_front_end(spec)
    rng = np.random.default_rng(3)
    for dtype in (np.uint8, np.uint16):
        check_unit(front_end, front_end(Signal("image", rng.integers(0, 256, shape).astype(dtype))))


@pytest.mark.parametrize("value", [0, 1, 77, 255])
def test_blank_pictures_are_the_zero_vector_once_centred(value: int) -> None:
    """A constant minus its mean is exactly nothing, resized or not."""
    front_end = make_front_end(GREY)
    for shape in ((12, 10), (30, 31), (12, 10, 3)):
        assert not front_end(Signal("image", np.full(shape, value, np.uint8))).any()


@audio_front_ends
def test_level_does_not_matter(spec: list[dict[str, Any]]) -> None:
    """A recording and its half are the same vector: halving is exact in binary."""
    front_end = make_front_end(spec)
    x = np.random.default_rng(2).standard_normal(4000).astype(np.float32)
    np.testing.assert_array_equal(
        front_end(Signal("audio", x, 8000)), front_end(Signal("audio", x * np.float32(0.5), 8000))
    )


def test_wrong_signals_are_refused() -> None:
    """A picture to an audio front end, and values that are far from full scale 1.0, are named."""
    audio, image = make_front_end(LOG_MEL), make_front_end(GREY)
    with pytest.raises(InvalidArgument, match=r"cat\.png: this front end takes audio, got image"):
        audio(Signal("image", np.ones((3, 3), np.uint8), name="cat.png"))
    with pytest.raises(InvalidArgument, match="takes image, got audio"):
        image(Signal("audio", np.ones(3, np.int16), 8000))
    for size in (1e13, 1e300):
        with pytest.raises(InvalidArgument, match="full scale is 1"):
            audio(Signal("audio", np.full(100, -size), 8000))


R = {"stage": "resample", "rate_hz": 8000}
S = {"stage": "spectrogram"}
F = {"stage": "frames", "n": 4}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], "at least one stage, the first one of resample, pixels, array"),
        ([{"stage": "mfcc"}], "unknown first stage of a front end 'mfcc'; known: resample, pixels, array"),
        ([{"rate_hz": 8000}], "unknown first stage of a front end None"),
        ([S], "unknown first stage of a front end 'spectrogram'; known: resample, pixels, array"),
        ([R, R, S, F], "unknown stage 'resample'; known: peak, trim"),
        ([{**R, "rate": 8000}], "stage 'resample' has no parameter 'rate'; known: rate_hz"),
        ([{"stage": "resample"}], "stage 'resample' needs 'rate_hz'"),
        ([{"stage": "resample", "rate_hz": 8}], "stage 'resample': rate_hz must be 100 to 768000, got 8"),
        ([R], "leaves the sample axis open.*fixed_length"),
        ([R, S], "leaves the frame axis open.*frames"),
        ([R, {"stage": "fixed_length", "n": 400}, {"stage": "trim"}], "leaves the sample axis open"),
        ([R, F], "stage 'frames': frames needs the axes frame; the front end gives sample"),
        ([R, S, S, F], "stage 'spectrogram': spectrogram needs the axes sample"),
        ([R, S, F, {"stage": "peak"}], "peak needs the axes sample"),
        ([GREY[0], F], "frames needs the axes frame; the front end gives row, column"),
        ([GREY[0], {"stage": "centre", "over": "band"}], "needs the axes band"),
        ([R, {"stage": "trim", "top_db": -3}, S, F], "top_db must be in"),
        ([R, {"stage": "trim", "hop": 300}, S, F], "hop 1 to half the window"),
        ([R, {**S, "high_hz": 5000}, F], "high_hz must be at most half the rate of 8000 Hz, got 5000"),
        ([R, {**S, "low_hz": 4000}, F], "low_hz < high_hz"),
        ([R, {**S, "scale": "log", "low_hz": 0}, F], "1 <= low_hz"),
        ([R, {**S, "bands": 200}, F], "between two Fourier bins"),
        ([R, {**S, "window": 512, "n_fft": 256}, F], "window <= n_fft"),
        ([R, S, {"stage": "compress", "power": 2}, F], "power <= 1"),
        ([R, S, {**F, "n": 0}], "n must be 1"),
        ([R, S, {**F, "mode": "mirror"}], "mode must be one of resample, crop"),
        ([R, {"stage": "fixed_length", "n": 0}], "n must be 1"),
        ([{**GREY[0], "width": 0}], "height and width must be 1 to 4096"),
    ],
)
def test_impossible_front_ends_are_refused(spec: list[dict[str, Any]], message: str) -> None:
    """When it is made, not at the first signal; the message says what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        make_front_end(spec)
