"""Pictures: what Pillow can decode whole becomes a grey or RGB signal. What a file is, its content decides.

Rules, the same for every format:

    size            checked on the header, before a pixel is decoded
    16-bit grey     kept at 16 bits, never clipped to 8
    palette         its colours, not its numbers
    transparency    laid on white, as on paper
    CMYK            to RGB; with Adobe's marker the inks are taken as inverted, without it as they are
    orientation     EXIF's and TIFF's is applied: the picture stands as it was taken
    several frames  the first
    cut short       refused, never filled up with grey

Formats whose decoding runs other programs (EPS) or that have no signature (TGA) are not read.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from streamfeat.errors import InvalidArgument
from streamfeat.signals.signal import Signal, read_source

FORMATS = ("PNG", "JPEG", "GIF", "BMP", "DIB", "TIFF", "WEBP", "PPM", "ICO", "JPEG2000", "PCX")
MAX_PIXELS = 50_000_000
"""The largest photographs of telephones have 48 million; 150 MB as RGB."""
MAX_SIDE = 20_000

WHITE = (255, 255, 255, 255)


def read_image(
    source: Path | str | bytes,
    *,
    name: str | None = None,
    max_pixels: int = MAX_PIXELS,
    max_side: int = MAX_SIDE,
) -> Signal:
    """The picture in a file or in a file's bytes.

    Parameters
    ----------
    source : path or bytes
    name : str, optional
        What messages and the signal call it; the path when not given.
    max_pixels, max_side : int
        A larger picture is refused before it is decoded.

    Returns
    -------
    Signal
        (h, w) uint8 for grey and black-and-white, (h, w) uint16 for 16-bit grey, (h, w) float32 for float grey,
        (h, w, 3) uint8 for the rest.

    Raises
    ------
    InvalidArgument
        Beginning with the name: cannot be read, empty, not a picture (with its first bytes), over a limit (with
        both numbers), damaged or cut short, colours that have no conversion to RGB.
    """
    data, name = read_source(source, name)
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
            _check_size(picture.size, max_pixels, max_side, name)
            samples = _samples(picture, name)
    except UnidentifiedImageError as error:
        raise InvalidArgument(
            f"{name}: not a picture that is read here ({', '.join(FORMATS)}); it begins with {data[:16]!r}"
        ) from error
    except InvalidArgument:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidArgument(f"{name}: over the limit of {max_pixels} pixels: {error}") from error
    except Exception as error:  # Pillow's decoders raise whatever the bytes drive them to: OSError, struct.error ...
        raise InvalidArgument(f"{name}: the picture cannot be decoded, it is damaged or cut short: {error}") from error
    return Signal("image", samples, name=name)


def _check_size(size: tuple[int, int], max_pixels: int, max_side: int, name: str) -> None:
    width, height = size
    if max(size) > max_side:
        raise InvalidArgument(f"{name}: {width} x {height}: a side over the limit of {max_side} pixels; scale it down")
    if width * height > max_pixels:
        raise InvalidArgument(
            f"{name}: {width} x {height} = {width * height} pixels, over the limit of {max_pixels}; scale it down"
        )


def _samples(picture: Image.Image, name: str) -> NDArray[Any]:
    """Decode and bring to one of the four forms."""
    upright = ImageOps.exif_transpose(picture)
    mode = upright.mode
    if mode.startswith("I;16"):
        return np.asarray(upright).astype("<u2")
    if mode == "I":
        return _sixteen_bits(np.asarray(upright), name)
    if mode == "F":
        return np.array(upright, np.float32)
    grey = mode in ("1", "L", "LA", "La")
    if upright.has_transparency_data:
        page = Image.new("RGBA", upright.size, WHITE)
        upright = Image.alpha_composite(page, _with_alpha(upright))
    return np.array(upright.convert("L" if grey else "RGB"), np.uint8)


def _with_alpha(picture: Image.Image) -> Image.Image:
    """RGBA with straight alpha; premultiplied modes go through their own straight twin."""
    straight = {"La": "LA", "RGBa": "RGBA"}.get(picture.mode)
    return (picture.convert(straight) if straight else picture).convert("RGBA")


def _sixteen_bits(values: NDArray[Any], name: str) -> NDArray[np.uint16]:
    """32-bit integers as uint16 if they fit: older Pillow gives 16-bit PNGs in this mode."""
    low, high = int(values.min()), int(values.max())
    if not 0 <= low <= high <= 65535:
        raise InvalidArgument(f"{name}: grey values of {low} to {high}, 0 to 65535 are read; convert it to 16 bits")
    return values.astype("<u2")
