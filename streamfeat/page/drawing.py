"""What a browser shows of a signal: a picture as a data URL, and its sound."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.signals.signal import Signal

SIDE = 320
THUMB_SIDE = 64
WINDOW_S = 0.025
RANGE_DB = 70.0
MOST_FRAMES = 400
COLOURS = np.array([[13, 8, 60], [86, 24, 120], [200, 60, 90], [250, 160, 60], [252, 250, 200]], np.float64)
"""Of a spectrogram, from silence to its loudest."""


def picture(signal: Signal, side: int = SIDE) -> str:
    """The picture itself or the spectrogram, no side of it over `side`, as a data URL of a PNG."""
    pixels = spectrogram_pixels(signal) if signal.kind == "audio" else _levels(signal)
    drawn = Image.fromarray(pixels)
    scale = side / max(drawn.size)
    size = (max(1, round(drawn.width * scale)), max(1, round(drawn.height * scale)))
    if signal.kind == "audio":
        size = (side, side * 5 // 8)
    large = scale > 1 and signal.kind == "image"  # pixels that stay pixels
    drawn = drawn.resize(size, Image.Resampling.NEAREST if large else Image.Resampling.BOX)
    out = io.BytesIO()
    drawn.save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


def sound(signal: Signal) -> str:
    """The recording as a data URL of a WAV of 16 bits."""
    import soundfile

    out = io.BytesIO()
    soundfile.write(out, np.clip(signal.unit_scale(), -1, 1), signal.rate_hz, format="WAV", subtype="PCM_16")
    return f"data:audio/wav;base64,{base64.b64encode(out.getvalue()).decode()}"


def magnitudes(signal: Signal) -> NDArray[np.float64]:
    """Square roots of spectral magnitudes of a recording, (bins, frames): frames of 25 ms, at most 400 of them."""
    x, rate_hz = signal.unit_scale(), signal.rate_hz or 1
    n = max(16, round(WINDOW_S * rate_hz))
    hop = max(n // 4, x.size // MOST_FRAMES, 1)
    padded = np.pad(x, (n // 2, n))
    frames = np.lib.stride_tricks.sliding_window_view(padded, n)[::hop] * np.hanning(n)
    roots: NDArray[np.float64] = np.sqrt(np.abs(np.fft.rfft(frames, axis=1))).T
    return roots


def spectrogram_pixels(signal: Signal) -> NDArray[np.uint8]:
    """The spectrogram in colours, (bins, frames, 3), low frequencies at the bottom, 70 dB deep."""
    level_db = 40 * np.log10(np.maximum(magnitudes(signal)[::-1], 1e-6))
    depth = np.clip(1 + (level_db - level_db.max()) / RANGE_DB, 0, 1)
    knots = np.linspace(0, 1, len(COLOURS))
    colours = [np.interp(depth, knots, COLOURS[:, channel]) for channel in range(3)]
    return np.stack(colours, axis=-1).round().astype(np.uint8)


def _levels(signal: Signal) -> NDArray[np.uint8]:
    """Grey or colour levels of a picture; floats beyond full scale are cut off."""
    return (255 * np.clip(signal.unit_scale(), 0, 1)).round().astype(np.uint8)
