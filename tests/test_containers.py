"""Containers beside RIFF: cut anywhere they are whole or refused; what their headers claim is held to what is there."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile

from streamfeat.errors import CallerError, InvalidArgument
from streamfeat.signals import read_audio
from streamfeat.signals.containers import check_container

TONE = np.round(9000 * np.sin(np.arange(4000) / 5)).astype(np.int16)
FORMS = [("AIFF", "PCM_16"), ("AU", "PCM_16"), ("W64", "PCM_16"), ("CAF", "PCM_16"), ("FLAC", "PCM_16")]
LOSSY = [("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]


def written(form: str, subtype: str) -> bytes:
    """The tone as a file of that form."""
    buffer = io.BytesIO()
    soundfile.write(buffer, TONE, 8000, format=form, subtype=subtype)
    return buffer.getvalue()


@pytest.mark.parametrize(("form", "subtype"), FORMS)
def test_the_samples_of_each(form: str, subtype: str) -> None:
    """To the bit; Wave64 counts its padding as samples."""
    np.testing.assert_array_equal(read_audio(written(form, subtype)).samples[: len(TONE)], TONE)


@pytest.mark.parametrize(("form", "subtype"), FORMS + LOSSY)
def test_cut_files_are_refused(form: str, subtype: str) -> None:
    """At forty places, the last ones within the samples: never a shorter recording."""
    data = written(form, subtype)
    whole = len(read_audio(data).samples)
    rng = np.random.default_rng(0)
    # the last MPEG frame may be filler: up to 144 bytes at this rate
    last = len(data) - (150 if form == "MP3" else 8)
    for n in sorted({*rng.integers(0, last, 40).tolist(), last}):
        try:
            assert len(read_audio(data[:n]).samples) == whole, n
        except CallerError:
            continue


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"FORM\0\0\0\4AIFF", "without an SSND chunk"),
        (b"FORM\0\0\0\4AIFFSSND\0\0\1\0" + bytes(9), "SSND chunk says 256 bytes, 9 are there"),
        (b".snd", "AU header of 4 bytes"),
        (b".snd" + struct.pack(">II", 24, 100) + bytes(20), "says 100 bytes, 8 are there"),
        (b"dns." + struct.pack("<II", 24, 100) + bytes(20), "says 100 bytes, 8 are there"),
        (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0" + bytes(30), "without a data chunk"),
        (b"caff\0\1\0\0", "without a data chunk"),
        (b"caff\0\1\0\0data" + struct.pack(">q", 50) + bytes(9), "says 50 bytes, 9 are there"),
        (b"OggS" + bytes(30), "no last page"),
    ],
)
def test_both_lengths_are_named(data: bytes, words: str) -> None:
    """What is claimed, and what is there."""
    with pytest.raises(InvalidArgument, match=f"^f: .*{words}"):
        check_container(data, "f")


@pytest.mark.parametrize("data", [b".snd" + struct.pack(">II", 24, 0xFFFFFFFF), b"caff\0\1\0\0data" + b"\xff" * 8])
def test_unknown_lengths_pass(data: bytes) -> None:
    """AU and CAF have a value that says so."""
    check_container(data, "f")
