"""`streamfeat listen`: real processes and pipes; the same lines whatever the chunks, from a file, a pipe, a fleet."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.client import Client, Job
from streamfeat.featuremap import FeatureMap
from streamfeat.listening import train
from streamfeat.signals import open_corpus
from tests.files import wav16
from tests.terminal import EXECUTABLE, Terminal

RATE_HZ = 20_000
LABELS = ("1", "6", "zero")


@pytest.fixture(scope="module")
def words(corpus: Path) -> NDArray[np.int16]:
    """Words of the test speaker, half a second of silence after each."""
    spoken = {u.label: u.read().samples for u in open_corpus(corpus).utterances if u.split == "test"}
    silence = np.zeros(RATE_HZ // 2, "<i2")
    return np.concatenate([part for label in LABELS for part in (spoken[label], silence)])


@pytest.fixture(scope="module")
def model(corpus: Path, audio_bank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on the three speakers of the corpus, saved."""
    utterances = open_corpus(corpus).utterances
    path = tmp_path_factory.mktemp("trained") / "words"
    feature_map = FeatureMap.open(audio_bank, verify=False)
    train(feature_map, utterances, [u.read() for u in utterances]).save(path)
    return path


def piped(cli: Terminal, data: bytes, size: int, *arguments: str | Path) -> list[dict[str, Any]]:
    """What `streamfeat listen - --json` prints of bytes that are written in chunks of one size."""
    command = [EXECUTABLE, "listen", "-", "--json", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=cli.environ, bufsize=0, **pipes) as process:  # type: ignore[call-overload]
        for at in range(0, len(data), size):
            process.stdin.write(data[at : at + size])
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b""), err
    return [json.loads(line) for line in out.splitlines()]


def test_chunks_of_any_size_give_the_same_lines(cli: Terminal, words: NDArray[np.int16], model: Path) -> None:
    """1 and 7,919 bytes raw, 160 as a WAV of unknown length: three words in their order, with their times."""
    raw = ["--rate", str(RATE_HZ), "--model", str(model)]
    whole = piped(cli, words.tobytes(), 7919, *raw)
    assert tuple(line["label"] for line in whole) == LABELS
    assert all(set(line) == {"start_s", "end_s", "label", "score"} for line in whole)
    times = [t for line in whole for t in (line["start_s"], line["end_s"])]
    assert times == sorted(times)
    assert piped(cli, words.tobytes(), 1, *raw) == whole
    header = wav16(words, RATE_HZ)[: -words.nbytes][:-4] + b"\xff\xff\xff\xff"
    assert piped(cli, header + words.tobytes(), 160, "--model", model) == whole


def test_a_line_comes_before_the_pipe_ends(cli: Terminal, words: NDArray[np.int16], model: Path) -> None:
    """The first word is printed while the speaker is still silent."""
    command = [EXECUTABLE, "listen", "-", "--rate", str(RATE_HZ), "--model", str(model)]
    first = words[: words.size // 3 + RATE_HZ // 2].tobytes()
    with subprocess.Popen(command, env=cli.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(first)
        process.stdin.flush()
        assert process.stdout.readline().split()[2] == LABELS[0].encode()
        process.stdin.close()
        process.wait(30)


def test_a_file_is_heard_as_the_pipe_is(cli: Terminal, words: NDArray[np.int16], model: Path, corpus: Path) -> None:
    """And a model that is trained on the spot gives what the saved one gives."""
    file = cli.home / "words.wav"
    file.write_bytes(wav16(words, RATE_HZ))
    heard = [json.loads(line) for line in cli("listen", file, "--model", model, "--json").out.splitlines()]
    assert heard == piped(cli, file.read_bytes(), 4096, "--model", model)
    trained = cli("listen", file, "--train", corpus, "--json")
    assert [json.loads(line) for line in trained.out.splitlines()] == heard
    sliding = cli("listen", file, "--model", model, "--every", "0.5", "0.25", "--json").out.splitlines()
    assert [json.loads(line)["start_s"] for line in sliding] == [n / 4 for n in range(len(sliding))]


def test_a_fleet_is_asked(served: Terminal, cli: Terminal, words: NDArray[np.int16], model: Path, corpus: Path) -> None:
    """--connect: the words of a model that its learner has; a model that is not there fails by window, status 3."""
    file = cli.home / "words.wav"
    file.write_bytes(wav16(words, RATE_HZ))
    here = [json.loads(line) for line in cli("listen", file, "--model", model, "--json").out.splitlines()]
    utterances = open_corpus(corpus).utterances
    with Client(served.front) as client:
        jobs = (Job(u.read(), label=u.label, group=u.speaker, stream="heard", seq=n) for n, u in enumerate(utterances))
        client.learn(jobs, "heard", bank="digits-audio")
        client.fit("heard")
    asked = cli("listen", file, "--connect", served.front, "--model", "heard", "--json")
    assert asked.status == 0, asked
    assert [json.loads(line)["label"] for line in asked.out.splitlines()] == [line["label"] for line in here]
    missing = cli("listen", file, "--connect", served.front, "--model", "nobody", "--json")
    assert missing.status == 3
    assert [json.loads(line)["error"]["code"] for line in missing.out.splitlines()] == ["NOT_FOUND"] * 3


@pytest.mark.skipif(importlib.util.find_spec("sounddevice") is not None, reason="sounddevice is installed here")
def test_a_microphone_needs_its_extra(cli: Terminal, model: Path) -> None:
    """Named, with status 78."""
    ran = cli("listen", "--microphone", "--model", model)
    ran.refused(78, "streamfeat[microphone]")


def test_what_cannot_be_heard_is_refused(cli: Terminal, model: Path, corpus: Path) -> None:
    """Two sources or none, a fleet without a model, both kinds of model, a bank of pictures."""
    cli("listen").refused(64, "one source is needed")
    cli("listen", "x.wav", "--microphone").refused(64, "one source is needed")
    cli("listen", "x.wav", "--connect", "ipc:///nobody").refused(64, "--model")
    cli("listen", "x.wav", "--model", model, "--train", corpus).refused(64, "choose one")
    cli("listen", "x.wav", "--bank", "digits-image").refused(78, "not for sounds")
