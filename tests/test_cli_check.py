"""`streamfeat check`: one line a file, and the exit status."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from streamfeat.cli import run
from tests.files import png, wav16

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
FIELDS = ["file", "kind", "outcome", "code", "reason", "rate_hz", "shape", "warnings"]


def test_one_json_line_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order given, folders and zips file by file, with values where asked; 3 when some are refused."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.png").write_bytes(png(GREY))
    (folder / ".hidden").write_bytes(b"x")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("x/1.wav", wav16(RAMP))
    (tmp_path / "bad.wav").write_bytes(b"<html>")
    status = run(["check", str(tmp_path / "bad.wav"), str(folder), str(tmp_path / "none.wav"), "--values", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 3
    assert [line["file"].removeprefix(f"{tmp_path}/") for line in lines] == [
        "bad.wav", "folder/a.zip/x/1.wav", "folder/b.png", "none.wav",
    ]  # fmt: skip
    assert [line["outcome"] for line in lines] == ["reject", "accept", "accept", "reject"]
    assert all(list(line) == [*FIELDS, "head", "sum"] for line in lines)
    assert lines[1]["head"] == (RAMP[:8] / 32768).tolist()
    assert lines[2]["sum"] == GREY.sum()


def test_all_well_is_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without values the fields are those of the issue; in words, a line a file and a count."""
    (tmp_path / "a.wav").write_bytes(wav16(np.stack([RAMP, RAMP], axis=1)))
    assert run(["check", "--json", str(tmp_path / "a.wav")]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert list(json.loads(line)) == FIELDS
    assert run(["check", str(tmp_path / "a.wav")]) == 0
    assert "audio 200 x 2 at 8000 Hz; 2 channels" in (said := capsys.readouterr().out)
    assert "1 of 1 files would be read" in said
    assert run(["check", str(tmp_path / "a.wav"), "--channels", "refuse"]) == 3
    assert "refused: INVALID_ARGUMENT" in capsys.readouterr().out
    assert run(["check", str(tmp_path / "a.wav"), "--channels", "1"]) == 0


def test_a_name_with_a_line_end_takes_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a file, whatever it is called."""
    (tmp_path / "a\nb.wav").write_bytes(b"RIFF")
    assert run(["check", str(tmp_path)]) == 3
    verdict, _count = capsys.readouterr().out.splitlines()
    assert "/a\\nb.wav: " in verdict


def test_wishes_that_no_file_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    """A channel that is no number is refused before anything is read."""
    assert run(["check", "x", "--channels", "left"]) == 64
    assert "refuse or mix or a number" in capsys.readouterr().err
