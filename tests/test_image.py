"""Pictures: decoded whole and upright, value for value; what is refused is in `test_image_refused`."""

from __future__ import annotations

import csv
import hashlib
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image, features

from streamfeat.errors import CallerError, InvalidArgument
from streamfeat.signals import read_image
from streamfeat.signals.image import decode_image
from tests.files import png, png_of, shared, shared_cases, tiff

GREY = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
COLOUR = np.stack([GREY, GREY[::-1], GREY[:, ::-1]], axis=2)


def saved(picture: Image.Image, form: str, **options: Any) -> bytes:
    """The picture as a file of one format."""
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()


@settings(deadline=None, max_examples=40)
@given(pixels=hnp.arrays(np.uint8, st.sampled_from([(1, 1), (3, 5), (4, 4, 3), (1, 7, 3)])))
def test_pixels_are_read_exactly(pixels: NDArray[np.uint8]) -> None:
    """Grey stays (h, w), colour (h, w, 3), value for value."""
    signal = read_image(png(pixels))
    np.testing.assert_array_equal(signal.samples, pixels)
    assert signal.samples.dtype == np.uint8
    assert signal.kind == "image"


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM", "GIF", "JPEG2000", "PCX"])
def test_lossless_formats_agree(form: str) -> None:
    """The same grey picture from each format; GIF keeps a palette, so its colours come out three times."""
    got = read_image(saved(Image.fromarray(GREY), form)).samples
    np.testing.assert_array_equal(got if got.ndim == 2 else got[:, :, 0], GREY)


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    """A PNG named .jpg is read, and called by its path."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(png(COLOUR))
    signal = read_image(path)
    assert signal.name == str(path)
    np.testing.assert_array_equal(signal.samples, COLOUR)


def test_lab_and_inks_without_marker() -> None:
    """Lab is converted by its definition; a CMYK JPEG without Adobe's marker holds its inks as they are."""
    lab = Image.frombytes("LAB", (1, 1), bytes([255, 0, 0]))  # a and b are signed
    np.testing.assert_allclose(read_image(saved(lab, "TIFF")).samples.astype(int), [[[255, 255, 255]]], atol=2)
    data = saved(Image.new("CMYK", (16, 16), (255, 0, 0, 0)), "JPEG", quality=95)  # stored inverted, and marked so
    at = data.index(b"\xff\xee")
    unmarked = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
    # taken as they are, the inks 0, 255, 255, 255 are black; JPEG at 95 keeps a flat field within 3
    np.testing.assert_allclose(read_image(unmarked).samples.astype(int), 0, atol=3)


def test_12_bit_grey_is_spread_over_16() -> None:
    """4095 of a 12-bit TIFF is white, as 65535 of a 16-bit one."""
    packed = bytes([0x00, 0x0F, 0xFF, 0x80, 0x00, 0x00])  # rows of two values: 0, 4095; 2048, 0
    signal = read_image(tiff(packed, 2, 2, bits=12))
    np.testing.assert_array_equal(signal.samples, [[0, 65535], [2048 * 65535 // 4095, 0]])


def test_white_is_zero() -> None:
    """A deep TIFF in which 0 is white is turned round."""
    stored = np.array([[0, 65535]], "<u2")
    np.testing.assert_array_equal(
        read_image(tiff(stored.tobytes(), 2, 1, bits=16, photometric=0)).samples, [[65535, 0]]
    )


def test_16_bit_grey_keeps_its_levels() -> None:
    """All 65,536 levels survive, in PNG and in TIFF of both byte orders."""
    deep = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    big = Image.frombytes("I;16B", (256, 256), deep.astype(">u2").tobytes())
    for data in (saved(Image.fromarray(deep), "PNG"), saved(Image.fromarray(deep), "TIFF"), saved(big, "TIFF")):
        signal = read_image(data)
        assert signal.samples.dtype.str == "<u2"
        np.testing.assert_array_equal(signal.samples, deep)


def test_wide_and_float_grey() -> None:
    """32-bit integers are taken while they fit in 16 bits; floats stay floats; NaN is refused with its index."""
    wide = np.array([[0, 65535]], np.int32)
    np.testing.assert_array_equal(read_image(saved(Image.fromarray(wide), "TIFF")).samples, wide)
    with pytest.raises(InvalidArgument, match="65536"):
        read_image(saved(Image.fromarray(wide + 1), "TIFF"))
    real = np.array([[0.25, 1.5]], np.float32)
    np.testing.assert_array_equal(read_image(saved(Image.fromarray(real), "TIFF")).samples, real)
    with pytest.raises(InvalidArgument, match=r"non-finite sample at \(0, 1\)"):
        read_image(saved(Image.fromarray(np.array([[0, np.nan]], np.float32)), "TIFF"))


def test_black_and_white_is_grey() -> None:
    """One bit becomes 0 and 255."""
    got = read_image(saved(Image.fromarray(GREY > 100), "PNG")).samples
    np.testing.assert_array_equal(got, np.where(GREY > 100, 255, 0))


def test_palette_gives_colours() -> None:
    """The colours of the palette, not its numbers."""
    picture = Image.new("P", (2, 1))
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((1, 0), 1)
    np.testing.assert_array_equal(read_image(saved(picture, "PNG")).samples, [[[10, 20, 30], [200, 100, 50]]])


def test_transparency_is_laid_on_white() -> None:
    """Clear pixels are white, half-clear ones half way; grey with alpha stays grey; a clear colour counts as well."""
    rgba = np.array([[[255, 0, 0, 0], [0, 0, 0, 128], [0, 0, 255, 255]]], np.uint8)
    expected = [[[255, 255, 255], [127, 127, 127], [0, 0, 255]]]  # 255 - 128
    np.testing.assert_array_equal(read_image(saved(Image.fromarray(rgba), "PNG")).samples, expected)
    la = Image.merge("LA", [Image.fromarray(rgba[:, :, 0]), Image.fromarray(rgba[:, :, 3])])
    np.testing.assert_array_equal(read_image(saved(la, "PNG")).samples, [[255, 127, 0]])
    keyed = saved(Image.fromarray(GREY[:1, :3]), "PNG", transparency=5)
    np.testing.assert_array_equal(read_image(keyed).samples, [[0, 255, 10]])


def test_cmyk_inks_become_light() -> None:
    """Full cyan is (0, 255, 255) and not red; white paper is white."""
    for inks, light in (((255, 0, 0, 0), (0, 255, 255)), ((0, 0, 0, 0), (255, 255, 255)), ((0, 0, 0, 255), (0, 0, 0))):
        data = saved(Image.new("CMYK", (16, 16), inks), "JPEG", quality=95)
        got = read_image(data).samples
        # measured quality: JPEG at 95 keeps a flat field within 3
        np.testing.assert_allclose(got.reshape(-1, 3).astype(int), np.tile(light, (256, 1)), atol=3)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_orientation_is_applied(form: str) -> None:
    """Each of the eight EXIF orientations stands the picture up."""
    turned = {
        1: GREY, 2: GREY[:, ::-1], 3: GREY[::-1, ::-1], 4: GREY[::-1],
        5: GREY.T, 6: GREY.T[:, ::-1], 7: GREY.T[::-1, ::-1], 8: GREY.T[::-1],
    }  # fmt: skip
    for orientation, upright in turned.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = saved(Image.fromarray(GREY), form, exif=exif)
        np.testing.assert_array_equal(read_image(data).samples, upright)


def test_the_first_of_several_frames() -> None:
    """A GIF and a TIFF of three frames give the first."""
    frames = [Image.fromarray(np.full((4, 4), v, np.uint8)) for v in (10, 90, 200)]
    for form in ("GIF", "TIFF"):
        got = read_image(saved(frames[0], form, save_all=True, append_images=frames[1:])).samples
        assert np.unique(got).tolist() == [10]


def test_frames_are_chosen_or_refused() -> None:
    """One by its number, or none of several; a single picture has nothing to refuse."""
    pages = [Image.fromarray(np.full((4, 4), v, np.uint8)) for v in (10, 90, 200)]
    data = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    assert decode_image(data).warnings == ("3 frames: the first is taken",)
    assert np.unique(read_image(data, frames=2).samples).tolist() == [200]
    with pytest.raises(InvalidArgument, match="3 frames, one is needed"):
        read_image(data, frames="refuse")
    with pytest.raises(InvalidArgument, match="frame 3 was asked for, there are 3"):
        read_image(data, frames=3)
    np.testing.assert_array_equal(read_image(png(GREY), frames="refuse").samples, GREY)


@shared_cases("image")
def test_awkward_pictures(case: dict[str, Any]) -> None:
    """Files from public bug reports are read, or refused, as their manifest says."""
    path = shared("cases", "files", case["file"])
    if case["outcome"] == "reject":
        with pytest.raises(CallerError, match=f"^{path.name}: "):
            read_image(path, name=path.name)
        return
    got = read_image(path).samples.astype(np.float64)
    if case["file"] == "palette_alpha.png":  # expected before the background: the first pixel is clear red
        assert got.shape == (4, 4, 3)
        np.testing.assert_array_equal(got[0, 0], [255, 255, 255])
        np.testing.assert_array_equal(got[0, 1], [127, 255, 127])  # half-clear green on white
        return
    if case["file"] == "gray16_ramp.png":  # expected at 8 bits
        got /= 257
    assert list(got.shape) == case["shape"]
    np.testing.assert_allclose(got.ravel()[:8], case["head"], rtol=0, atol=case["tol"])
    np.testing.assert_allclose(got.sum(), case["total"], rtol=0, atol=case["tol"] * got.size)
    if "pair" in case:
        np.testing.assert_array_equal(got, read_image(shared("cases", "files", case["pair"])).samples)


def test_awkward_pictures_of_others() -> None:
    """Each file made by other projects is refused, or has the pixels that ImageMagick finds, to the bit.

    Not compared: AVIF, Lab and the 16-bit RGB, which decoders round each their own way, and the 12-bit grey, of which 8
    bits leave nothing.
    """
    others = {"pillow_avif_hopper.avif", "pillow_lab.tif", "pillow_tiff_16bit_RGB.tiff", "pillow_12bit.cropped.tif"}
    manifest = csv.DictReader((shared("data", "awkward") / "manifest.csv").read_text().splitlines())
    digests = {Path(row["file"]).name: row["decoded_md5"] for row in manifest}
    refused = {
        "pillow_bmp_b_reallybig.bmp",
        "pillow_bmp_b_shortfile.bmp",
        "pillow_decompression_bomb.ico",
        "pillow_oom-225817ca0f8c663be7ab4b9e717b02c661e66834.tif",
        "pillow_png_decompression_dos.png",
        "pillow_unknown_compression_method.png",
    }
    for path in sorted(shared("data", "awkward", "image").iterdir()):
        if path.name in refused:
            with pytest.raises(CallerError):
                read_image(path)
            continue
        pixels = read_image(path).samples
        if path.name not in others:
            # as stored, which ImageMagick's dump keeps; of 16 bits the upper 8
            stored = pixels.T if path.name == "pillow_g4_orientation_5.tif" else pixels
            eight = (stored >> 8).astype(np.uint8) if stored.dtype == np.uint16 else stored
            rgb = eight if eight.ndim == 3 else np.dstack([eight] * 3)
            rgba = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])
            assert hashlib.md5(rgba.tobytes(), usedforsecurity=False).hexdigest() == digests[path.name], path.name


PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""By colour type: grey, colours, palette, grey with alpha, colours with alpha."""

MODES: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
    "WEBP": (Image.fromarray(COLOUR), "WEBP", {"lossless": True}),
    "TIFF, LZW": (Image.fromarray(COLOUR), "TIFF", {"compression": "tiff_lzw"}),
    "TIFF, deflated": (Image.fromarray(GREY), "TIFF", {"compression": "tiff_deflate"}),
    "TIFF of 64-bit offsets": (Image.fromarray(GREY), "TIFF", {"big_tiff": True}),
    "TIFF of one bit, G4": (Image.fromarray(GREY > 100), "TIFF", {"compression": "group4"}),
    "BMP of one bit": (Image.fromarray(GREY > 100), "BMP", {}),
    "PFM": (Image.fromarray(GREY.astype(np.float32)), "PPM", {}),
    "LA": (Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(255 - GREY)]), "PNG", {}),
    "LA in TIFF": (Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(255 - GREY)]), "TIFF", {}),
    "RGBA": (Image.fromarray(np.dstack([COLOUR, 255 - GREY])), "PNG", {}),
    "JPEG 2000 of 16 bits": (Image.fromarray(GREY.astype(np.uint16) * 200), "JPEG2000", {}),
}


@pytest.mark.parametrize("what", MODES)
def test_values_of_every_mode(what: str) -> None:
    """Decoded with transparency they are the array that was saved; one bit is 0 and 255."""
    picture, form, options = MODES[what]
    wanted = np.asarray(picture)
    got = decode_image(saved(picture, form, **options)).values
    np.testing.assert_array_equal(got, wanted * np.uint8(255) if wanted.dtype == np.bool_ else wanted)


def test_lossy_forms_are_near() -> None:
    """AVIF, a progressive JPEG and one inside a TIFF: a flat field within 4 of 255."""
    flat = Image.new("RGB", (32, 32), (200, 100, 50))
    forms: dict[str, dict[str, Any]] = {"AVIF": {}, "JPEG": {"progressive": True}, "TIFF": {"compression": "jpeg"}}
    for form, options in forms.items():
        if form == "AVIF" and not features.check("avif"):
            with pytest.raises(InvalidArgument, match="not a picture"):
                read_image(b"\0\0\0\x20ftypavif" + bytes(40))
            continue
        got = read_image(saved(flat, form, **options)).samples.reshape(-1, 3).astype(int)
        np.testing.assert_allclose(got, np.tile([200, 100, 50], (1024, 1)), atol=4)


@pytest.mark.parametrize(
    ("data", "levels"),
    [
        (b"P2\n3 1\n100\n0 50 100\n", [0, 128, 255]),  # spread over 255
        (b"P5\n3 1\n255\n" + bytes([0, 7, 255]), [0, 7, 255]),
        (b"P5\n2 1\n1000\n" + bytes([0, 0, 3, 232]), [0, 65535]),
        (b"P1\n2 1\n1 0\n", [0, 255]),
    ],
)
def test_portable_maps_have_their_own_white(data: bytes, levels: list[int]) -> None:
    """The greatest value of a PGM is white; in a PBM one is black."""
    np.testing.assert_array_equal(read_image(data).samples, [levels])


@settings(deadline=None, max_examples=200)
@given(
    kind=st.sampled_from([(d, c) for c, depths in PNG_DEPTHS.items() for d in depths]),
    has_clear=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_png_of_every_depth_and_colour_type(kind: tuple[int, int], has_clear: bool, seed: int) -> None:
    """Values on the scale of 0 to 255, colours of 16 bits by their upper 8, and what the file calls clear is clear."""
    (depth, colour), rng = kind, np.random.default_rng(seed)
    n, top = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour], (1 << depth) - 1
    pixels = rng.integers(0, top + 1, (4, 5, n))
    palette = rng.integers(0, 256, (top + 1 if colour == 3 else 1, 3))
    want: NDArray[Any] = pixels if colour != 3 else palette[pixels[:, :, 0]]
    deep_colour = depth == 16 and colour != 0
    want = want >> 8 if deep_colour else want * 255 / (255 if colour == 3 else top)
    more = [(b"PLTE", palette.astype("u1").tobytes())] if colour == 3 else []
    if has_clear and colour in (0, 2, 3):
        if colour == 3:
            alpha = rng.integers(0, 255, top + 1)
            more.append((b"tRNS", alpha.astype("u1").tobytes()))
            alpha = alpha[pixels[:, :, 0]]
        else:
            clear = pixels[1, 2]
            more.append((b"tRNS", clear.astype(">u2").tobytes()))
            alpha = np.where((pixels == clear).all(axis=2), 0, 255)
        want = np.dstack([want, alpha])
    read = decode_image(png_of(pixels, depth, colour, more)).values
    got = read * (255 / 65535) if read.dtype == np.uint16 else read
    np.testing.assert_allclose(got, want[:, :, 0] if want.shape[2] == 1 else want, atol=1e-9)


def test_clear_deep_grey_is_laid_on_white() -> None:
    """Where 16-bit grey is clear the paper is seen; the other values keep their levels."""
    pixels = np.array([[[300], [0], [301]]])
    picture = decode_image(png_of(pixels, 16, 0, [(b"tRNS", struct.pack(">H", 300))]))
    np.testing.assert_array_equal(picture.signal().samples, [[65535, 0, 301]])


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_animations_are_their_first_frame(form: str) -> None:
    """With a word on how many there are; another one when asked for."""
    first, second = Image.new("RGB", (8, 8), (255, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 255))
    options = {"lossless": True} if form == "WEBP" else {}
    data = saved(first, form, save_all=True, append_images=[second], duration=100, **options)
    pixels = decode_image(data)
    assert pixels.warnings == ("2 frames: the first is taken",)
    assert pixels.signal().samples[0, 0].tolist() == [255, 0, 0]
    assert read_image(data, frames=1).samples[0, 0].tolist() == [0, 0, 255]
