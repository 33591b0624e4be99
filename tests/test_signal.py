"""The signal: one recording or picture, checked where it enters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.signals import Signal
from streamfeat.signals.recording import Channels, one_channel
from streamfeat.signals.signal import printable, read_source
from tests.strategies import int16_samples

RAMP = np.arange(6, dtype=np.int16)


@settings(deadline=None, max_examples=30)
@given(samples=int16_samples)
def test_integer_and_float_copies_are_equal(samples: NDArray[np.int16]) -> None:
    """An int16 clip and its float copies are the same bit for bit at full scale 1.0."""
    wanted = (samples / 32768).astype(np.float32)
    for x in (samples, wanted, samples / 32768):
        got = Signal("audio", x, rate_hz=8000).unit_scale()
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, wanted)


def test_full_scale_of_pictures() -> None:
    """White is 1.0 at 8 and at 16 bits; -32768 is exactly -1.0."""
    for dtype in (np.uint8, np.uint16):
        white = Signal("image", np.full((2, 3), np.iinfo(dtype).max, dtype)).unit_scale()
        np.testing.assert_array_equal(white, np.ones((2, 3), np.float32))
    assert Signal("audio", np.array([-32768], np.int16), rate_hz=8000).unit_scale()[0] == -1.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("audio", RAMP, None), "rate_hz, an int of 100 to 768000, got None"),
        (("audio", RAMP, 8000.0), "got 8000.0"),
        (("audio", RAMP, True), "got True"),
        (("audio", RAMP, 99), "got 99"),
        (("audio", RAMP.reshape(3, 2), 8000), "mono"),
        (("audio", RAMP[:0], 8000), "no samples"),
        (("audio", RAMP.astype(">i2"), 8000), "'>i2'"),
        (("audio", RAMP.astype(np.int64), 8000), "'<i8'"),
        (("audio", np.array([0, 1, np.nan, np.inf]), 8000), "non-finite sample at 2: nan"),
        (("image", np.array([[0, 0], [-np.inf, 0]]), None), r"non-finite sample at \(1, 0\): -inf"),
        (("image", RAMP, None), r"\(h, w\)"),
        (("image", np.zeros((2, 2, 4), np.uint8), None), r"\(2, 2, 4\)"),
        (("image", np.zeros((2, 2), np.uint8), 8000), "an image has no rate_hz"),
        (("array", RAMP, None), r"floats, got '<i2' of shape \(6,\)"),
        (("array", np.zeros((2, 2, 2)), None), r"\(2, 2, 2\)"),
        (("array", np.zeros(3), 8000), "an array has no rate_hz"),
        (("array", np.array([0, np.inf]), None), "non-finite sample at 1: inf"),
        (("smell", RAMP, None), "'smell'"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[Any, Any, Any], words: str) -> None:
    """Each broken rule is refused, beginning with the signal's name and saying what came."""
    kind, samples, rate_hz = arguments
    with pytest.raises(InvalidArgument, match=f"^clip: .*{words}"):
        Signal(kind, samples, rate_hz=rate_hz, name="clip")


@pytest.mark.parametrize("shape", [(1,), (23,), (5, 8), (3, 1)])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_arrays_are_vectors_and_matrices(shape: tuple[int, ...], dtype: str) -> None:
    """Numbers of no kind keep their values: full scale is what they are."""
    x = np.random.default_rng(0).normal(0, 50, shape).astype(dtype)
    got = Signal("array", x).unit_scale()
    np.testing.assert_array_equal(got, x.astype(np.float32))


def test_samples_are_laid_in_order() -> None:
    """A strided view is copied to C order; a contiguous array is kept, not copied."""
    frames = np.arange(12, dtype=np.int16).reshape(6, 2)
    strided = Signal("audio", frames[:, 1], rate_hz=8000).samples
    assert strided.flags.c_contiguous
    np.testing.assert_array_equal(strided, frames[:, 1])
    assert Signal("audio", RAMP, rate_hz=8000).samples is RAMP


def test_one_channel() -> None:
    """One is itself under any policy, several are mixed or picked, and every other wish is refused."""
    frames = np.array([[100, -300], [32767, 32767]], np.int16)
    np.testing.assert_array_equal(one_channel(frames, 1, "x"), [-300, 32767])
    np.testing.assert_array_equal(one_channel(frames, "mix", "x"), np.array([-100, 32767], np.float32) / 32768)
    np.testing.assert_array_equal(one_channel(frames / 32768, "mix", "x"), np.array([-100, 32767], np.float32) / 32768)
    policies: tuple[Channels, ...] = ("refuse", "mix", 0)
    for policy in policies:
        np.testing.assert_array_equal(one_channel(frames[:, :1], policy, "x"), frames[:, 0])
    wrong: tuple[Any, ...] = ("refuse", "left", 2, -1, True, None)
    for wish in wrong:
        with pytest.raises(InvalidArgument, match=r"^x: "):
            one_channel(frames, wish, "x")


def test_sources_have_a_name(tmp_path: Path) -> None:
    """Bytes are called <bytes>, files by their path, both by the name given; nothing and no file are refused."""
    (tmp_path / "a").write_bytes(b"12")
    assert read_source(b"12", None) == (b"12", "<bytes>")
    assert read_source(tmp_path / "a", None) == (b"12", str(tmp_path / "a"))
    assert read_source(str(tmp_path / "a"), "n") == (b"12", "n")
    for source in (b"", tmp_path / "b"):
        with pytest.raises(InvalidArgument, match=r"^n: "):
            read_source(source, "n")


def test_pipes_and_devices_are_refused_unopened(tmp_path: Path) -> None:
    """A pipe that nobody writes to and a device without end: refused by name, not waited for."""
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "zeros.wav").symlink_to("/dev/zero")
    for name in ("pipe.wav", "zeros.wav"):
        with pytest.raises(InvalidArgument, match=rf"^{name}: cannot be read: a pipe or device"):
            read_source(tmp_path / name, name)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nb.wav", "a\\nb.wav"),
        ("\x1b[2J.wav", "\\x1b[2J.wav"),
        ("a\u2028b.wav", "a\\u2028b.wav"),
        (os.fsdecode(b"\xff.wav"), "\\udcff.wav"),
        ("größe 数\u3000\u200d.wav", "größe 数\u3000\u200d.wav"),
    ],
)
def test_a_name_is_shown_on_one_line(name: str, shown: str) -> None:
    """What would end the line or move the cursor is escaped; every script stays as it is."""
    assert printable(name) == shown
