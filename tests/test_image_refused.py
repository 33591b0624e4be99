"""What is no picture, too large or cut short: refused by name, before a pixel is decoded where the header tells."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from streamfeat.errors import CallerError, InvalidArgument, TooLarge
from streamfeat.signals import read_image
from tests.files import png
from tests.test_image import COLOUR, GREY, saved


def test_limits_are_checked_on_the_header() -> None:
    """A header that claims too much is refused with the numbers, though 48 pixels follow."""
    for width, height, words in (
        (30_000, 10, "30000 x 10: a side over the limit of 20000"),
        (9000, 9000, "81000000 pixels, over the limit of 50000000 pixels"),
        (100_000, 100_000, "limit"),
    ):
        with pytest.raises(TooLarge, match=f"^big.png: .*{words}"):
            read_image(png(GREY, width=width, height=height), name="big.png")
    with pytest.raises(TooLarge, match="48 pixels, over the limit of 47"):
        read_image(png(GREY), max_pixels=47)
    with pytest.raises(TooLarge, match="limit of 7 "):
        read_image(png(GREY), max_side=7)
    assert read_image(png(GREY), max_pixels=48, max_side=8).samples.shape == (6, 8)


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM", "GIF"])
def test_every_prefix_is_exact_or_refused(form: str) -> None:
    """A file cut anywhere is refused, unless all its pixels are there: never a picture with a grey part."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    picture = Image.fromarray(pixels if form != "GIF" else pixels[:, :, 0])
    data = saved(picture, form)
    whole = read_image(data).samples
    n_refused = 0
    for n in range(0, len(data), 13):
        try:
            np.testing.assert_array_equal(read_image(data[:n]).samples, whole)
        except InvalidArgument:
            n_refused += 1
    assert n_refused > 0.9 * (len(data) / 13)


def test_cut_jpeg_is_refused_and_no_switch_is_set() -> None:
    """A JPEG cut in its pixels is refused; the process-wide switch to accept such files stays off."""
    data = saved(Image.fromarray(np.tile(COLOUR, (20, 20, 1))), "JPEG")
    for n in range(0, len(data) - 40, 211):
        with pytest.raises(InvalidArgument):
            read_image(data[:n])
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty, 0 bytes"),
        (b"<html>404</html>", "not a picture.*<html>"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture.*%!PS"),
        (b"\x89PNG\r\n\x1a\n", "x.png: "),
    ],
)
def test_what_is_no_picture_is_named(data: bytes, words: str) -> None:
    """Each refusal begins with the name and says what came."""
    with pytest.raises(InvalidArgument, match=f"(?s)^x.png: .*{words.removeprefix('x.png: ')}"):
        read_image(data, name="x.png")


@settings(deadline=None, max_examples=150)
@given(
    data=st.binary(max_size=100),
    head=st.sampled_from([b"", b"BM", b"GIF89a", b"II*\0", b"\xff\xd8\xff", b"P5\n", b"\n\5\1"]),
)
def test_any_bytes_are_read_or_refused(data: bytes, head: bytes) -> None:
    """Nothing but a refusal comes out of bytes that are no picture."""
    with suppress(CallerError):
        read_image(head + data)


@pytest.mark.parametrize("order", "<>")
def test_signed_and_odd_tiffs_are_refused(order: str) -> None:
    """Signed bytes, which Pillow takes for unsigned; floats of 64 bits, which it does not know."""
    for bits, sample_format, words in ((8, 2, "signed values of 8 bits"), (64, 3, "bits, sample format")):
        tags = [(256, 2), (257, 1), (258, bits), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, bits // 4)]
        entries = [*tags, (339, sample_format)]
        data = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8 + bits // 4) + bytes(bits // 4)
        data += struct.pack(f"{order}H", len(entries))
        data += b"".join(struct.pack(f"{order}HHII", tag, 4, 1, value) for tag, value in entries) + bytes(4)
        with pytest.raises(InvalidArgument, match=f"^x.tif: .*{words}"):
            read_image(data, name="x.tif")
