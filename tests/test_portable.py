"""Portable maps: comments wherever they may stand, values held to the greatest that the header says, floats."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import CallerError, InvalidArgument, TooLarge
from streamfeat.signals.image import decode_image
from streamfeat.signals.portable import plain_map
from tests.files import packed

WHITE_SPACE = st.sampled_from([b" ", b"\n", b"\t", b"\r\n", b"#c\n", b" # 7 #\r", b"\n\n# P5 9\n "])


@settings(deadline=None, max_examples=200)
@given(
    kind=st.integers(1, 6),
    greatest=st.sampled_from([1, 2, 100, 255, 256, 1000, 65534, 65535]) | st.integers(1, 65535),
    spaces=st.lists(WHITE_SPACE, min_size=3, max_size=3),
    seed=st.integers(0, 1000),
)
def test_values_of_every_kind(kind: int, greatest: int, spaces: list[bytes], seed: int) -> None:
    """White and comments anywhere in the header, also right after a word: the values over the greatest."""
    n_colours = 3 if kind in (3, 6) else 1
    greatest = 1 if kind in (1, 4) else greatest
    values = np.random.default_rng(seed).integers(0, greatest + 1, (2, 11, n_colours))
    words = [b"11", b"2", b"%d" % greatest][: 2 if kind in (1, 4) else 3]
    head = b"P%d" % kind + b"".join(space + word for space, word in zip(spaces, words, strict=False)) + b"\n"
    if kind < 4:
        body = b" ".join(b"%d" % value for value in values.ravel())
    elif kind == 4:
        body = b"".join(packed(row.ravel(), 1) for row in values)
    else:
        body = values.astype("u1" if greatest < 256 else ">u2").tobytes()
    read = decode_image(head + body).values
    want = 255 * (1 - values) if kind in (1, 4) else values * (255 / greatest)
    got = read * (255 / 65535) if read.dtype == np.uint16 else read
    # Pillow spreads greys over 8 or 16 bits and rounds; of deep colours it keeps 8 bits
    np.testing.assert_allclose(got.reshape(want.shape), want, atol=1.0 if n_colours == 3 else 0.51)


@pytest.mark.parametrize(
    ("data", "found"),
    [(b"P5 2 1 100\n" + bytes([100, 101]), 101), (b"P6 1 1 300\n\0\1\1\x2d\0\0", 301), (b"P5 1 1 1\n\xff", 255)],
)
def test_a_value_over_the_greatest_is_refused(data: bytes, found: int) -> None:
    """With both numbers; Pillow clips it."""
    with pytest.raises(InvalidArgument, match=f"^x: a value of {found}, the header says"):
        decode_image(data, name="x")
    with pytest.raises(InvalidArgument):
        plain_map(data, "x")


@settings(deadline=None, max_examples=80)
@given(
    order=st.sampled_from("<>"),
    colours=st.booleans(),
    scale=st.sampled_from(["1", "1.0", "0.5", "1e-3"]),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 1000),
)
def test_floats_of_both_orders(order: str, colours: bool, scale: str, shape: tuple[int, int], seed: int) -> None:
    """Grey and colours, the first row lowest; cut, too wide or not finite they are refused."""
    values = np.random.default_rng(seed).normal(size=(*shape, 3) if colours else shape).astype("<f4")
    head = b"P%s\n# c\n%d %d\n" % (b"F" if colours else b"f", shape[1], shape[0])
    head += ("-" if order == "<" else "").encode() + scale.encode() + b"\n"
    data = head + values[::-1].astype(f"{order}f4").tobytes()
    np.testing.assert_array_equal(decode_image(data).values, values)
    np.testing.assert_array_equal(decode_image(data).signal().samples, values)
    with pytest.raises(InvalidArgument, match=rf"needs {values.nbytes} bytes, {values.nbytes - 1} are there"):
        decode_image(data[:-1])
    with pytest.raises(TooLarge):
        decode_image(data, max_pixels=shape[0] * shape[1] - 1)
    with pytest.raises(InvalidArgument, match="non-finite sample at"):
        decode_image(data[:-4] + np.array(np.nan, f"{order}f4").tobytes())


@pytest.mark.parametrize("words", [b"2 1 0", b"2 1 x", b"0 1 1", b"2 -1 1", b"2 1 1e999", b"2 1 ..", b"2 1"])
def test_a_header_that_is_none(words: bytes) -> None:
    """Named as that of a PFM."""
    with pytest.raises(InvalidArgument, match=r"^x: a PFM begins with its width, height and a scale"):
        decode_image(b"Pf\n" + words + b"\n" + bytes(8), name="x")


@settings(deadline=None, max_examples=200)
@given(kind=st.sampled_from([b"P1", b"P2", b"P3", b"P4", b"P5", b"P6", b"Pf", b"PF"]), data=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(kind: bytes, data: bytes) -> None:
    """Nothing but a refusal comes out of what is no map."""
    with suppress(CallerError):
        decode_image(kind + b"\n" + data, name="x")
