"""The short form of scripts/fuzz-frames: some thousand mutants against the codec and a broker that runs."""

from __future__ import annotations

import random
from pathlib import Path

import msgpack
import pytest

from streamfeat.wire.codec import decode
from tests import fuzz_frames
from tests.fuzz_frames import BATCH, GOLDEN, fuzz_codec, fuzz_live, limit, mutant


def test_mutants_differ_and_some_are_messages() -> None:
    """Most are refused, enough get past the parser, and the golden ones stay as they are."""
    golden = [list(frames) for frames in GOLDEN]
    made = [mutant(random.Random(seed)) for seed in range(300)]
    assert sum(frames in golden for frames in made) < 100
    assert 15 < sum(fuzz_frames.try_codec(frames) for frames in made) < 250
    assert golden == GOLDEN
    for frames in golden:
        decode(frames)


def test_the_codec_refuses_or_reads() -> None:
    """Ten thousand: nothing but a message or a refusal, and nothing is kept."""
    found = fuzz_codec(limit(10_000, None), random.Random(1))
    assert found["frames"] == 10_000
    assert found["grown_mib"] < 8  # what an allocator may still move by


def test_a_broker_answers_mutants_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds at both doors: broker and worker live, errors have names, the broker does not grow."""
    monkeypatch.setattr(fuzz_frames, "FOLDER", tmp_path)
    found = fuzz_live(limit(None, 3.0), random.Random(2))
    assert found["frames"] >= 2 * BATCH
    assert {"INVALID_ARGUMENT", "VERSION_MISMATCH", "WELCOME"} <= set(found["heard"])


def test_a_failure_keeps_its_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else than a refusal stops the run, and the messages can be tried again."""
    monkeypatch.setattr(fuzz_frames, "FOLDER", tmp_path)
    monkeypatch.setattr(fuzz_frames, "try_codec", lambda frames: frames[1000])
    with pytest.raises(AssertionError, match=r"IndexError.*fuzz-frames\.msgpack"):
        fuzz_codec(limit(5, None), random.Random(0))
    [frames] = msgpack.unpackb((tmp_path / "fuzz-frames.msgpack").read_bytes())
    assert frames == mutant(random.Random(0))
