"""Decoding in a process of its own: the same signals, and a file that hangs, crashes or swells costs only itself."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamfeat.decoding import Decoder, Limits
from streamfeat.errors import InvalidArgument, ItemFailed, TooLarge
from streamfeat.signals import read_audio
from tests.files import png, slow, wav16

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5


@pytest.fixture(scope="module")
def decoder() -> Iterator[Decoder]:
    """One with the usual limits."""
    with Decoder() as made:
        yield made


def test_signals_are_those_of_the_readers(decoder: Decoder, tmp_path: Path) -> None:
    """From a path and from bytes, recordings and pictures, and their refusals."""
    (tmp_path / "a.wav").write_bytes(wav16(RAMP))
    for source in (tmp_path / "a.wav", wav16(RAMP)):
        got = decoder.audio(source, "a.wav")
        np.testing.assert_array_equal(got.samples, RAMP)
        assert (got.rate_hz, got.name, got.samples.dtype.str) == (8000, "a.wav", "<i2")
    np.testing.assert_array_equal(decoder.image(png(GREY), "a.png").samples, GREY)
    stereo = wav16(np.stack([RAMP, -RAMP], axis=1))
    np.testing.assert_array_equal(
        decoder.audio(stereo, "b", channels="mix").samples, read_audio(stereo, channels="mix").samples
    )
    with pytest.raises(InvalidArgument, match=r"^b: one channel is needed, there are 2"):
        decoder.audio(stereo, "b")
    with pytest.raises(InvalidArgument, match=r"^none\.wav: cannot be read"):
        decoder.audio(tmp_path / "none.wav", "none.wav")


def test_checks_are_those_of_the_library(decoder: Decoder) -> None:
    """The verdict in words and numbers."""
    found = decoder.check(wav16(RAMP), "a.wav")
    assert (found["outcome"], found["shape"], found["rate_hz"]) == ("accept", [200], 8000)
    assert decoder.check(b"<html>", "a.wav")["code"] == "INVALID_ARGUMENT"


def test_the_process_is_used_again(decoder: Decoder) -> None:
    """A refusal does not end it."""
    decoder.image(png(GREY), "a")
    pid = decoder.pid
    with pytest.raises(InvalidArgument):
        decoder.image(b"junk", "b")
    decoder.image(png(GREY), "c")
    assert decoder.pid == pid


def test_a_hang_costs_one_file() -> None:
    """A file that takes long is stopped in time, by name; the next one is read."""
    with Decoder(Limits(seconds=0.5)) as decoder:
        decoder.image(png(GREY), "warm")
        started = time.monotonic()
        with pytest.raises(ItemFailed, match=r"^slow\.sph: decoding was stopped after 0\.5 s"):
            decoder.audio(slow(), "slow.sph")
        assert time.monotonic() - started < 5  # half a second, on a loaded machine
        assert decoder.check(slow(), "slow.sph")["code"] == "ITEM_FAILED"
        np.testing.assert_array_equal(decoder.image(png(GREY), "next").samples, GREY)


def test_a_file_that_is_not_taken_has_an_end_too() -> None:
    """A process that was stopped reads nothing, and a pipe holds 64 KiB: not waited for, and the next file is read."""
    with Decoder(Limits(seconds=0.5)) as decoder:
        decoder.audio(wav16(RAMP), "before.wav")
        assert decoder.pid is not None
        os.kill(decoder.pid, signal.SIGSTOP)
        with pytest.raises(ItemFailed, match=r"long\.wav: decoding was stopped after 0\.5 s"):
            decoder.audio(wav16(np.zeros(200_000, np.int16)), "long.wav")
        np.testing.assert_array_equal(decoder.audio(wav16(np.tile(RAMP, 1000)), "after.wav").samples[:200], RAMP)


def test_a_swelling_file_is_refused(tmp_path: Path) -> None:
    """A picture within the pixel limit, 144 MB when decoded, in 64 MiB of memory."""
    Image.new("RGB", (8000, 6000)).save(tmp_path / "big.png")
    with Decoder(Limits(memory_bytes=64 << 20)) as decoder:
        with pytest.raises(TooLarge, match=r"^big\.png: decoding needs more than 64 MiB"):
            decoder.image(tmp_path / "big.png", "big.png")
        assert decoder.check(tmp_path / "big.png", "big.png")["code"] == "TOO_LARGE"
        np.testing.assert_array_equal(decoder.image(png(GREY), "next").samples, GREY)


def test_a_crash_costs_one_file() -> None:
    """The process dies in the middle of a file: that file fails by name with the signal, the next is read."""
    with Decoder() as decoder:
        decoder.image(png(GREY), "warm")
        pid = decoder.pid
        assert pid is not None
        crash = threading.Timer(0.3, os.kill, (pid, signal.SIGSEGV))
        crash.start()
        with pytest.raises(ItemFailed, match=r"^x\.sph: the decoding process died of this file \(SIGSEGV\)"):
            decoder.audio(slow(), "x.sph")
        crash.join()
        np.testing.assert_array_equal(decoder.image(png(GREY), "next").samples, GREY)


def test_nothing_is_left_behind() -> None:
    """Closing ends the process."""
    decoder = Decoder()
    decoder.image(png(GREY), "a")
    pid = decoder.pid
    decoder.close()
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()
    decoder.close()  # a second time does no harm
