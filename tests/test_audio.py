"""Audio files: what they are is decided by content, and what they declare is there or they are refused."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.signals import encode_sphere, read_audio
from streamfeat.signals.signal import MAX_FILE_BYTES
from tests.files import pcm_format, riff, shared, shared_cases, wav16
from tests.strategies import int16_samples

RAMP = np.arange(-300, 300, 3, dtype=np.int16)


@settings(deadline=None, max_examples=30)
@given(samples=int16_samples, rate_hz=st.integers(100, 768_000))
def test_16_bit_files_stay_int16(samples: NDArray[np.int16], rate_hz: int) -> None:
    """Samples of a 16-bit WAV come back as they are, with their rate."""
    signal = read_audio(wav16(samples, rate_hz))
    assert signal.samples.dtype == np.int16
    assert signal.rate_hz == rate_hz
    np.testing.assert_array_equal(signal.samples, samples)


def test_decoding_is_open_to_interrupts() -> None:
    """libsndfile never calls back into Python while it reads: Ctrl-C in such a call is printed and lost."""
    written = io.BytesIO()
    soundfile.write(written, np.tile(RAMP, 100), 8000, format="FLAC")
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        read_audio(written.getvalue())
    finally:
        sys.setprofile(None)
    assert "_decode" in called
    assert not [name for name in called if name.startswith("vio_")]


@pytest.mark.parametrize(("form", "subtype"), [("FLAC", "PCM_16"), ("AIFF", "PCM_16"), ("WAV", "FLOAT")])
def test_other_formats_hold_the_same_samples(form: str, subtype: str) -> None:
    """FLAC and AIFF give int16, float WAV gives float32; on one scale they are equal bit for bit."""
    buffer = io.BytesIO()
    soundfile.write(buffer, RAMP / 32768, 8000, format=form, subtype=subtype)
    signal = read_audio(buffer.getvalue())
    assert signal.samples.dtype == (np.float32 if subtype == "FLOAT" else np.int16)
    np.testing.assert_array_equal(signal.unit_scale(), read_audio(wav16(RAMP)).unit_scale())


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    """SPHERE named .wav is read as SPHERE, WAV named .sph as WAV."""
    (tmp_path / "a.wav").write_bytes(encode_sphere(RAMP, 20000))
    (tmp_path / "a.sph").write_bytes(wav16(RAMP, 20000))
    for file in sorted(tmp_path.iterdir()):
        signal = read_audio(file)
        assert signal.name == str(file)
        np.testing.assert_array_equal(signal.samples, RAMP)


def test_piped_lengths_are_read_to_the_end() -> None:
    """0xFFFFFFFF and 0x7FFFF000 stand for 'as long as the file'."""
    for size in (0xFFFFFFFF, 0x7FFFF000):
        signal = read_audio(riff(pcm_format(8000), RAMP.tobytes(), data_size=size))
        np.testing.assert_array_equal(signal.samples, RAMP)


def test_big_endian_riff_and_odd_chunks() -> None:
    """RIFX is read in its byte order; a chunk of odd length before the data moves nothing."""
    rifx = riff(pcm_format(8000, order=">"), RAMP.astype(">i2").tobytes(), form=b"RIFX")
    odd = riff(pcm_format(8000), RAMP.tobytes(), before=b"LIST\x05\0\0\0INFOx\0")
    for data in (rifx, odd):
        np.testing.assert_array_equal(read_audio(data).samples, RAMP)


def test_cut_files_are_refused_with_both_lengths() -> None:
    """A data chunk of 400 bytes with 150 there names both; every prefix of the file is refused."""
    data = wav16(RAMP)
    with pytest.raises(InvalidArgument, match="400 bytes, 150 are there"):
        read_audio(data[: 44 + 150])
    for n in range(len(data)):
        with pytest.raises(InvalidArgument, match=r"^cut\.wav: "):
            read_audio(data[:n], name="cut.wav")


def test_cut_flac_is_refused() -> None:
    """A FLAC file cut anywhere is refused, or its samples are all there."""
    rng = np.random.default_rng(0)
    samples = rng.integers(-3000, 3000, 20_000).astype(np.int16)
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 8000, format="FLAC", subtype="PCM_16")
    data = buffer.getvalue()
    for n in range(0, len(data) - 1, 997):
        with pytest.raises(InvalidArgument):
            read_audio(data[:n])


def test_a_long_recording_is_read_whole() -> None:
    """More than one block of frames comes back complete and in order."""
    samples = (np.arange(600_000) % 30_011).astype(np.int16)
    np.testing.assert_array_equal(read_audio(wav16(samples)).samples, samples)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty, 0 bytes"),
        (b"<html><body>404</body></html>", "<html>"),
        (b"speaker ae said one\n", "speaker ae"),
        (riff(pcm_format(8000, tag=0x55), bytes(200)), r"codec 0x0055 \(MPEG layer 3\)"),
        (riff(pcm_format(8000, tag=0x1234), bytes(200)), "codec 0x1234"),
        (riff(pcm_format(8000, n_channels=0), bytes(200)), "[Cc]hannel"),
        (riff(pcm_format(8000), b""), "no samples"),
        (riff(pcm_format(8000, tag=3, n_bytes=4), np.array([0, np.nan, 0], "<f4").tobytes()), "non-finite sample at 1"),
        (riff(pcm_format(8000, tag=3, n_bytes=4), np.array([0, 0, np.inf], "<f4").tobytes()), "non-finite sample at 2"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, words: str) -> None:
    """Each refusal begins with the name and says what came."""
    with pytest.raises(InvalidArgument, match=f"(?s)^f.wav: .*{words}"):
        read_audio(data, name="f.wav")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path without a file, and a folder, are refused by name."""
    for path in (tmp_path / "none.wav", tmp_path):
        with pytest.raises(InvalidArgument, match=f"^{path}: cannot be read"):
            read_audio(path)


def test_channels_are_refused_mixed_or_picked() -> None:
    """Two channels are refused unless the caller says which, or asks for the mean."""
    frames = np.stack([RAMP, -RAMP], axis=1)
    data = wav16(frames)
    with pytest.raises(InvalidArgument, match="there are 2"):
        read_audio(data)
    np.testing.assert_array_equal(read_audio(data, channels="mix").samples, np.zeros(len(RAMP), np.float32))
    np.testing.assert_array_equal(read_audio(data, channels=1).samples, -RAMP)


@settings(deadline=None, max_examples=100)
@given(
    data=st.binary(max_size=120),
    head=st.sampled_from([b"", b"RIFF\0\0\0\0WAVE", b"RF64\0\0\0\0WAVE", b"fLaC", b"FORM"]),
)
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    """Nothing but InvalidArgument comes out of bytes that are no file."""
    with suppress(InvalidArgument):
        read_audio(head + data)


@shared_cases("wav")
def test_awkward_wavs(case: dict[str, Any]) -> None:
    """Files from public bug reports are read to the last sample, or refused, as their manifest says."""
    hold_to(case)


@shared_cases("sphere")
def test_awkward_spheres(case: dict[str, Any]) -> None:
    """The same for SPHERE files; a wrong checksum may be refused."""
    hold_to(case)


def hold_to(case: dict[str, Any]) -> None:
    """Read the case's file and compare with what is expected, its pair included."""
    path = shared("cases", "files", case["file"])
    if case["outcome"] == "reject" or case.get("also_ok"):
        with pytest.raises(InvalidArgument, match=f"^{path.name}: "):
            read_audio(path, name=path.name)
        return
    signal = read_audio(path)
    assert signal.rate_hz == case["sr"]
    assert list(signal.samples.shape) == case["shape"]
    x = signal.unit_scale()
    np.testing.assert_allclose(x[:8], case["head"], rtol=0, atol=case["tol"] + 1e-9)  # given with 9 decimals
    np.testing.assert_allclose(x.sum(dtype=np.float64), case["total"], rtol=0, atol=1e-6 + len(x) * case["tol"])
    if "pair" in case:
        np.testing.assert_array_equal(x, read_audio(shared("cases", "files", case["pair"])).unit_scale())


def test_awkward_recordings_of_others() -> None:
    """Each file made by others has its expected length and the samples that ffmpeg finds, or is refused."""
    folder = shared("data", "awkward")
    refused = {
        "derived_float32_nan_inf_over1.wav",
        "derived_truncated_data.wav",
        "derived_zero_channels.wav",
        "desphere_shorten_gate.sph",
        "hound_fuzz_crash-24728523.wav",
        "scipy_44100Hz-le-1ch-4bytes-early-eof.wav",
    }
    n_equal = 0
    for row in csv.DictReader((folder / "manifest.csv").read_text().splitlines()):
        path = folder / row["file"]
        if path.parent.name != "audio":
            continue
        if path.name in refused:
            with pytest.raises(InvalidArgument):
                read_audio(path, channels="mix")
            continue
        signal = read_audio(path, channels="mix")
        expected = re.fullmatch(r"([0-9]+)x[0-9]+@([0-9]+)", row["expected_shape"])
        if expected:
            assert (len(signal.samples), signal.rate_hz) == (int(expected[1]), int(expected[2])), path.name
        if signal.samples.dtype == np.int16 and path.suffix != ".w64":  # its padding counts as three more samples
            md5 = hashlib.md5(signal.samples.tobytes(), usedforsecurity=False).hexdigest()
            assert md5 == row["decoded_md5"] or not row["decoded_md5"], path.name
            n_equal += bool(row["decoded_md5"])
    assert n_equal >= 4


def test_ten_minutes_are_read() -> None:
    """Twelve million samples at 20 kHz, to the last."""
    samples = np.arange(12_000_000, dtype=np.uint32).astype(np.int16)
    signal = read_audio(wav16(samples, 20_000))
    np.testing.assert_array_equal(signal.samples, samples)


def test_a_bad_frame_of_several_channels_is_named() -> None:
    """The first frame that holds it, and which channel, before anything is mixed."""
    frames = np.zeros((9, 2), "<f4")
    frames[4, 1] = np.inf
    data = riff(pcm_format(8000, n_channels=2, n_bytes=4, tag=3), frames.tobytes())
    with pytest.raises(InvalidArgument, match="non-finite sample at 4 of channel 1"):
        read_audio(data, channels="mix")
    with pytest.raises(InvalidArgument, match="non-finite sample at 4"):
        read_audio(data, channels=0)


def test_over_the_limits_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file over its limit is not read; a recording over its limit is stopped in the middle."""
    (tmp_path / "big.wav").write_bytes(b"RIFF")
    os.truncate(tmp_path / "big.wav", MAX_FILE_BYTES + 1)  # a hole, not half a gigabyte
    with pytest.raises(TooLarge, match=f"{MAX_FILE_BYTES + 1} bytes"):
        read_audio(tmp_path / "big.wav")
    monkeypatch.setattr("streamfeat.signals.audio.MAX_VALUES", 150)
    with pytest.raises(TooLarge, match="over the limit of 150 values"):
        read_audio(wav16(RAMP))
