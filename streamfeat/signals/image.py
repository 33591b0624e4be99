"""Pictures: what Pillow can decode whole becomes a grey or RGB signal. What a file is, its content decides.

Rules, the same for every format:

    size            checked on the header, before a pixel is decoded
    deep grey       kept at 16 bits, never clipped to 8; 9 to 15 bits are spread over them
    deep colours    their upper 8 bits, also of the colour that a file calls clear
    float           as it is
    palette         its colours, not its numbers
    transparency    laid on white, as on paper
    CMYK            to RGB; with Adobe's marker the inks are taken as inverted, without it as they are
    Lab             to sRGB
    orientation     EXIF's and TIFF's is applied: the picture stands as it was taken
    several frames  the first, or the one asked for, or refused: `frames`
    cut short       refused, never filled up with grey

Formats whose decoding runs other programs (EPS) or that have no signature (TGA) are not read.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageOps, UnidentifiedImageError, features

from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.signals.foreign import refuse_foreign
from streamfeat.signals.portable import is_map, is_pfm, pfm_size, plain_map, read_pfm
from streamfeat.signals.signal import Signal, read_source

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "DIB", "TIFF", "WEBP", "AVIF", "PPM", "ICO", "JPEG2000", "PCX")
MAX_PIXELS = 50_000_000
"""The largest photographs of telephones have 48 million; 150 MB as RGB."""
MAX_SIDE = 20_000

WHITE = (255, 255, 255, 255)

Frames = Literal["first", "refuse"] | int
"""What becomes of several frames or pages: the first, none of it, or the one of that number (from 0)."""

_TIFF_PHOTOMETRIC, _TIFF_BITS, _TIFF_FORMAT, _TIFF_SIGNED = 262, 258, 339, 2


@dataclass(frozen=True, slots=True)
class Pixels:
    """A decoded picture, upright, before a background is laid under it.

    `values`: (h, w) grey, (h, w, 2) with alpha, (h, w, 3) RGB, (h, w, 4) RGBA; uint8, or uint16 for grey (with alpha of
    0 or 65535), or float32 without alpha.
    """

    values: NDArray[Any] = field(repr=False)
    name: str
    warnings: tuple[str, ...] = ()

    def signal(self) -> Signal:
        """The picture on white."""
        x = self.values
        if x.ndim == 3 and x.dtype == np.uint16:
            x = np.where(x[:, :, 1] > 0, x[:, :, 0], np.uint16(65535))
        elif x.ndim == 3 and x.shape[2] in (2, 4):
            page = Image.new("RGBA", (x.shape[1], x.shape[0]), WHITE)
            page.alpha_composite(Image.fromarray(x).convert("RGBA"))
            x = np.array(page.convert("L" if x.shape[2] == 2 else "RGB"))
        return Signal("image", x, name=self.name)


def read_image(
    source: Path | str | bytes,
    *,
    name: str | None = None,
    max_pixels: int = MAX_PIXELS,
    max_side: int = MAX_SIDE,
    frames: Frames = "first",
) -> Signal:
    """The picture in a file or in a file's bytes.

    Parameters
    ----------
    source : path or bytes
    name : str, optional
        What messages and the signal call it; the path when not given.
    max_pixels, max_side : int
        A larger picture is refused before it is decoded.
    frames : "first", "refuse" or int
        What becomes of several frames or pages.

    Returns
    -------
    Signal
        (h, w) uint8 for grey and black-and-white, (h, w) uint16 for grey of 9 to 16 bits, (h, w) float32 for float
        grey and (h, w, 3) for a PFM in colours, (h, w, 3) uint8 for the rest.

    Raises
    ------
    InvalidArgument
        Beginning with the name: cannot be read, empty, not a picture (with its first bytes), damaged or cut short,
        colours that have no conversion to RGB, several frames and "refuse".
    TooLarge
        Over a limit, with both numbers.
    """
    return decode_image(source, name=name, max_pixels=max_pixels, max_side=max_side, frames=frames).signal()


def decode_image(
    source: Path | str | bytes,
    *,
    name: str | None = None,
    max_pixels: int = MAX_PIXELS,
    max_side: int = MAX_SIDE,
    frames: Frames = "first",
) -> Pixels:
    """The picture with its transparency, and what was odd about the file; see `read_image`."""
    data, name = read_source(source, name)
    refuse_foreign(data, name)
    if is_pfm(data):
        _check_size(pfm_size(data, name), max_pixels, max_side, name)
        floats = read_pfm(data, name)
        _check_finite(floats, name)
        return Pixels(floats, name)
    if is_map(data):
        data = plain_map(data, name)
    known = [form for form in FORMATS if form != "AVIF" or features.check("avif")]
    try:
        with Image.open(io.BytesIO(data), formats=known) as picture:
            _check_size(picture.size, max_pixels, max_side, name)
            odd = _choose(picture, frames, name)
            _check_size(picture.size, max_pixels, max_side, name)
            values = _values(picture, data[:26], name)
    except UnidentifiedImageError as error:
        what = ", ".join(known)
        if data[:4] in (b"II*\0", b"MM\0*"):
            what = "of TIFF not these bits, sample format, byte order or compression; convert it to PNG"
        raise InvalidArgument(
            f"{name}: not a picture that is read here ({what}), or damaged at its head; it begins with {data[:16]!r}"
        ) from error
    except (InvalidArgument, TooLarge, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        n_pixels = re.search(r"[0-9]{6,}", str(error))  # Pillow's own limit, at open
        said = n_pixels[0] if n_pixels else "too many"
        raise TooLarge(f"{name}: {said} pixels, over the limit of {max_pixels} pixels; scale it down") from error
    except Exception as error:  # Pillow's decoders raise whatever the bytes drive them to: OSError, struct.error ...
        raise InvalidArgument(f"{name}: the picture cannot be decoded, it is damaged or cut short: {error}") from error
    _check_finite(values, name)
    return Pixels(values, name, odd)


def _choose(picture: Image.Image, frames: Frames, name: str) -> tuple[str, ...]:
    """Go to the frame asked for; what to say about the others."""
    n_frames = 1 if picture.format == "MPO" else int(getattr(picture, "n_frames", 1))  # MPO: previews of one picture
    if isinstance(frames, int) and not isinstance(frames, bool):
        if not 0 <= frames < n_frames:
            raise InvalidArgument(f"{name}: frame {frames} was asked for, there are {n_frames}, counted from 0")
        picture.seek(frames)
        return ()
    if frames not in ("first", "refuse"):
        raise InvalidArgument(f"{name}: frames must be 'first', 'refuse' or a number, got {frames!r}")
    if n_frames == 1:
        return ()
    if frames == "refuse":
        raise InvalidArgument(f"{name}: {n_frames} frames, one is needed; ask for the first or for one by its number")
    picture.seek(0)
    return (f"{n_frames} frames: the first is taken",)


def _check_size(size: tuple[int, int], max_pixels: int, max_side: int, name: str) -> None:
    width, height = size
    over = []
    if max(size) > max_side:
        over.append(f"a side over the limit of {max_side} pixels")
    if width * height > max_pixels:
        over.append(f"{width * height} pixels, over the limit of {max_pixels} pixels")
    if over:
        raise TooLarge(f"{name}: {width} x {height}: {' and '.join(over)}; scale it down")


def _check_finite(values: NDArray[Any], name: str) -> None:
    if values.dtype.kind == "f":
        Signal("image", values, name=name)  # which refuses NaN by its place


def _values(picture: Image.Image, head: bytes, name: str) -> NDArray[Any]:
    """Decode, stand upright, and bring to one of the forms of `Pixels`."""
    bits, inverted = _depth(picture, name)
    is_grey_png = picture.format == "PNG" and _read_as_png(picture, head)
    upright = ImageOps.exif_transpose(picture)
    mode = upright.mode
    if mode.startswith("I;16"):
        grey16 = _sixteen_bits(np.asarray(upright).astype("<i4"), bits, inverted, name)
        clear = upright.info.get("transparency")
        return grey16 if clear is None else np.dstack([grey16, np.where(grey16 == clear, 0, 65535).astype("<u2")])
    if mode == "I":
        return _sixteen_bits(np.asarray(upright), bits, inverted, name)
    if mode == "F":
        return np.array(upright, np.float32)
    if mode == "LAB":
        return np.array(_from_lab(upright), np.uint8)
    if mode == "CMYK" and picture.format in ("JPEG", "MPO") and "adobe" not in picture.info:
        upright = ImageChops.invert(upright)  # Pillow takes every JPEG's inks as inverted
    grey = is_grey_png or mode in ("1", "L", "LA", "La")
    if upright.has_transparency_data:
        straight = {"La": "LA", "RGBa": "RGBA"}.get(mode)  # premultiplied modes go through their own straight twin
        upright = upright.convert(straight) if straight else upright
        return np.array(_with_alpha(upright, grey), np.uint8)
    return np.array(upright.convert("L" if grey else "RGB"), np.uint8)


def _with_alpha(picture: Image.Image, grey: bool) -> Image.Image:
    """Straight alpha; a colour that a file calls clear is so as well."""
    return picture.convert("RGBA").convert("LA") if grey else picture.convert("RGBA")


def _from_lab(picture: Image.Image) -> Image.Image:
    from PIL import ImageCms

    profiles = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(picture, *profiles, outputMode="RGB")
    assert converted is not None  # it is made anew, not in place
    return converted


def _read_as_png(picture: Image.Image, head: bytes) -> bool:
    """Bring the value that is clear to the scale on which Pillow gives the others; whether the picture is grey."""
    depth, colour_type = head[24], head[25]
    clear = picture.info.get("transparency")
    if isinstance(clear, int) and picture.mode == "L" and depth < 8:
        picture.info["transparency"] = clear * 255 // ((1 << depth) - 1)
    if isinstance(clear, tuple) and depth == 16:
        picture.info["transparency"] = tuple(value >> 8 for value in clear)
    return colour_type in (0, 4)  # of 16 bits with alpha Pillow makes colours


def _depth(picture: Image.Image, name: str) -> tuple[int, bool]:
    """Bits a value of a TIFF, and whether 0 is white in one that Pillow does not turn round itself."""
    tags = getattr(picture, "tag_v2", None)
    if tags is None:
        return 16, False
    bits, signed = (_first(tags.get(tag, default)) for tag, default in ((_TIFF_BITS, 16), (_TIFF_FORMAT, 1)))
    if signed == _TIFF_SIGNED and bits <= 8:  # which Pillow takes for unsigned
        raise InvalidArgument(f"{name}: a TIFF of signed values of {bits} bits; convert it to unsigned ones")
    return bits, tags.get(_TIFF_PHOTOMETRIC) == 0


def _first(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple) else value)


def _sixteen_bits(values: NDArray[Any], bits: int, inverted: bool, name: str) -> NDArray[np.uint16]:
    """Deep grey as uint16, 0 to 65535 whatever its bits; wider whole numbers if they fit."""
    low, high = int(values.min()), int(values.max())
    if not 0 <= low <= high <= 65535:
        raise InvalidArgument(f"{name}: grey values of {low} to {high}, 0 to 65535 are read; convert it to 16 bits")
    full = (1 << bits) - 1 if 8 < bits < 16 else 65535
    spread = values.astype(np.uint32) * 65535 // full if full < 65535 else values
    return (65535 - spread if inverted and bits == 16 else spread).astype("<u2")
