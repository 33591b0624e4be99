"""What would become of a file: the verdicts, their kinds, and that nothing else ever comes out."""

from __future__ import annotations

import gzip
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from streamfeat.inspection import Check, Kind, Policy, check_bytes, check_file, kind_of
from streamfeat.signals import encode_sphere
from streamfeat.wire.codec import encode
from streamfeat.wire.messages import Array, Item, Message
from tests.files import idx, pcm_format, png, riff, wav16

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5


def npy(array: NDArray[Any]) -> bytes:
    """The array as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def golden(message: Message) -> bytes:
    """The message as schemas/golden keeps it."""
    return json.dumps({"frames": [bytes(frame).hex() for frame in encode(message)]}).encode()


def request(array: NDArray[Any], **about: Any) -> bytes:
    """A request with one signal, as a message file."""
    item = Item({"id": 1, "signal": about}, (Array.of(array),))
    return golden(Message("REQUEST", {"route": ["features"], "bank": "digits", "ttl_ms": 1000}, (item,)))


FILES: dict[str, tuple[bytes, Kind, tuple[int, ...], int | None]] = {
    "wav": (wav16(RAMP), "audio", (200,), 8000),
    "stereo": (wav16(np.stack([RAMP, -RAMP], axis=1)), "audio", (200, 2), 8000),
    "sphere": (encode_sphere(RAMP, 20_000), "audio", (200,), 20_000),
    "png": (png(GREY), "image", (6, 8), None),
    "idx": (idx(GREY, 8), "idx", (6, 8), None),
    "packed idx": (gzip.compress(idx(GREY, 8)), "idx", (6, 8), None),
    "npy": (npy(GREY), "array", (6, 8), None),
    "message": (request(RAMP, kind="audio", rate_hz=8000), "message", (200,), 8000),
}


def check(data: bytes, tmp_path: Path, name: str = "file", policy: Policy | None = None) -> Check:
    """The verdict on a file of these bytes."""
    (tmp_path / name).write_bytes(data)
    return check_file(tmp_path / name, name=name, policy=policy)


@pytest.mark.parametrize("what", FILES)
def test_content_decides(what: str, tmp_path: Path) -> None:
    """Kind, rate and shape of each, under a name that says something else."""
    data, kind, shape, rate_hz = FILES[what]
    found = check(data, tmp_path, "misnamed.png" if kind != "image" else "misnamed.wav")
    assert (found.accepted, found.kind, found.shape, found.rate_hz) == (True, kind, shape, rate_hz)


def test_values_are_on_one_scale(tmp_path: Path) -> None:
    """Audio at full scale 1.0, whole or float; pictures 0 to 255, of 8 or 16 bits; sums of all values."""
    real = riff(pcm_format(8000, n_bytes=4, tag=3), (RAMP / 32768).astype("<f4").tobytes())
    for data in (wav16(RAMP), real, request(RAMP, kind="audio", rate_hz=8000)):
        shown = check(data, tmp_path).as_dict(values=True)
        np.testing.assert_array_equal(shown["head"], RAMP[:8] / 32768)
        assert math.isclose(shown["sum"], RAMP.sum() / 32768)
    deep = io.BytesIO()
    Image.fromarray(GREY.astype(np.uint16) * 257).save(deep, "PNG")
    for data in (png(GREY), deep.getvalue(), request(GREY, kind="image")):
        shown = check(data, tmp_path).as_dict(values=True)
        np.testing.assert_allclose(shown["head"], GREY.flat[:8], rtol=1e-12)
        assert math.isclose(shown["sum"], GREY.sum())
    assert "head" not in check(png(GREY), tmp_path).as_dict()


def test_a_sum_beyond_float64_is_none(tmp_path: Path) -> None:
    """JSON has no infinity."""
    np.save(tmp_path / "large.npy", np.full(4, 1e308))
    shown = check_file(tmp_path / "large.npy").as_dict(values=True)
    assert (shown["outcome"], shown["head"], shown["sum"]) == ("accept", [1e308] * 4, None)


def test_transparency_is_shown(tmp_path: Path) -> None:
    """A palette with alpha is RGBA, before the white that a signal gets."""
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 0), 1)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", transparency=bytes([0, 128]))
    found = check(buffer.getvalue(), tmp_path).as_dict(values=True)
    assert found["shape"] == [1, 2, 4]
    assert found["head"] == [10, 20, 30, 0, 200, 100, 50, 128]


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros(9, np.int16), "silent"),
        (np.full(9, 8192, np.int16), "constant: every sample is 0.25"),
        (np.tile(np.array([-32768, 32767], np.int16), 9), "clipped: 18 of 18"),
        (np.stack([RAMP, RAMP], axis=1), "2 channels"),
    ],
)
def test_what_is_odd_and_read_is_told(samples: NDArray[np.int16], words: str, tmp_path: Path) -> None:
    """Silence, constants, clipping and several channels are accepted with a word."""
    found = check(wav16(samples), tmp_path)
    assert found.accepted
    assert words in " ".join(found.warnings)


def test_the_policy_refuses(tmp_path: Path) -> None:
    """Several channels or frames, where one is asked for."""
    stereo, pages = FILES["stereo"][0], io.BytesIO()
    first, second = Image.fromarray(GREY), Image.fromarray(GREY[::-1])
    first.save(pages, "TIFF", save_all=True, append_images=[second])
    assert "there are 2" in str(check(stereo, tmp_path, policy=Policy("refuse")).error)
    assert check(stereo, tmp_path, policy=Policy("mix")).accepted
    assert "2 frames" in str(check(pages.getvalue(), tmp_path, policy=Policy(frames="refuse")).error)
    assert check(pages.getvalue(), tmp_path, policy=Policy(frames=1)).as_dict(values=True)["head"][0] == GREY[-1, 0]


@pytest.mark.parametrize(
    ("name", "data", "kind", "words"),
    [
        ("a.wav", b"<html>404</html>", "audio", "<html>"),
        ("a.bin", b"who knows", None, "who knows"),
        ("a.npy", npy(np.array([1.0, np.nan])), "array", "non-finite value at 1"),
        ("a.npy", npy(np.array(["x"])), "array", "real numbers"),
        ("a.npy", npy(np.zeros((0, 3))), "array", "no values"),
        ("a.npy", npy(GREY)[:-1], "array", "not a readable .npy"),
        ("a.idx", idx(np.array([1, np.inf], np.float32), 0x0D), "idx", "non-finite value at 1"),
        ("a.json", b'{"frames": ["zz"]}', "message", "hexadecimal"),
        ("a.json", b'{"frames": ["534631"]}', "message", "version, verb and header"),
        ("a.json", request(np.array([0, np.nan], "<f4"), kind="audio", rate_hz=8000), "message", "sample at 1"),
        ("a.png", b"", "image", "0 bytes"),
    ],
)
def test_refusals_have_kind_code_and_reason(
    name: str, data: bytes, kind: Kind | None, words: str, tmp_path: Path
) -> None:
    """Each names the file and what is wrong; what no format is known for has the kind its name means."""
    found = check(data, tmp_path, name).as_dict(values=True)
    assert (found["outcome"], found["kind"], found["code"]) == ("reject", kind, "INVALID_ARGUMENT")
    assert found["reason"].startswith(f"{name}")
    assert words in found["reason"]
    assert (found["shape"], found["head"], found["sum"]) == (None, None, None)


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    """An array of Python objects is refused in .npy and .npz by its header."""
    held = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "a.npy", held, allow_pickle=True)
    np.savez(tmp_path / "b.npz", images=held)
    for name in ("a.npy", "b.npz"):
        assert "bject" in str(check_file(tmp_path / name).error)


def test_archives_show_their_pictures(tmp_path: Path) -> None:
    """Of an .npz the pictures, and a word about the other arrays; a shape its bytes cannot fill takes no memory."""
    np.savez(tmp_path / "a.npz", labels=np.arange(6), images=GREY)
    found = check_file(tmp_path / "a.npz")
    assert (found.kind, found.shape) == ("array", (6, 8))
    assert "labels int64 (6,)" in found.warnings[0]
    claim = npy(np.zeros(4, np.uint8)).replace(b"(4,)", b"(4000000000,)"[:4].ljust(4), 1)
    head = np.lib.format.header_data_from_array_1_0(np.zeros(4, np.uint8)) | {"shape": (1 << 29,)}
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, head)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.npy", member.getvalue() + claim[-4:])
    assert "needs 536870912 bytes" in str(check_file(tmp_path / "b.npz").error)


def test_labels_of_another_number_are_refused(tmp_path: Path) -> None:
    """A labels file beside images of another count; beside images that are broken it is read, with a word."""
    images = np.zeros((5, 2, 2), np.uint8)
    (tmp_path / "t-images-idx3-ubyte").write_bytes(idx(images, 8))
    labels = tmp_path / "t-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(4, dtype=np.uint8), 8)))
    assert "4 labels for the 5 images of t-images-idx3-ubyte" in str(check_file(labels).error)
    labels.write_bytes(gzip.compress(idx(np.arange(5, dtype=np.uint8), 8)))
    assert check_file(labels).accepted
    (tmp_path / "t-images-idx3-ubyte").write_bytes(idx(images, 8)[:-1])
    assert "cannot be read" in check_file(labels).warnings[0]


HEADS = sorted({data[:12] for data, *_ in FILES.values()} | {b"OggS", b"caff", b".snd", b"fLaC", b"II*\0", b"\xff\xfb"})


@settings(deadline=None, max_examples=200)
@given(head=st.sampled_from(HEADS), data=st.binary(max_size=80), name=st.sampled_from(["a", "a.wav", "a.png"]))
def test_any_bytes_get_a_verdict(head: bytes, data: bytes, name: str) -> None:
    """Never an exception, and a refusal has a reason."""
    found = check_bytes(head + data, name)
    assert found.accepted or found.error
    json.dumps(found.as_dict(values=True), allow_nan=False)


@settings(deadline=None, max_examples=150)
@given(what=st.sampled_from(sorted(FILES)), at=st.floats(0, 1), data=st.data())
def test_flipped_and_cut_files_get_a_verdict(what: str, at: float, data: st.DataObject) -> None:
    """A byte changed and the end cut off: read as something finite, or refused."""
    whole = bytearray(FILES[what][0])
    whole[int(at * (len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    found = check_bytes(bytes(whole[: data.draw(st.integers(1, len(whole)))]), "a")
    assert found.accepted or found.error
    json.dumps(found.as_dict(values=True), allow_nan=False)


def test_kind_of_nothing_is_nothing() -> None:
    """Text and empty bytes are no known format."""
    assert kind_of(b"") is None
    assert kind_of(b"hello") is None
