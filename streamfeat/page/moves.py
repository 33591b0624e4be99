"""How a signal that was dropped on the page is moved by a slider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.groups.waveform import waveform_pitch, waveform_tempo
from streamfeat.signals.signal import Kind, Signal
from streamfeat.spec import did_you_mean

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Move:
    """One slider: what it moves, from where to where, and the amounts a curve is drawn through."""

    kind: Kind
    unit: str
    still: float
    amounts: tuple[float, ...]
    act: Callable[[Signal, float], Floats]


def moved(signal: Signal, name: str, amount: float) -> Signal:
    """The signal, moved; at the amount that does nothing the signal itself.

    Raises
    ------
    InvalidArgument
        No such move, a move of another kind of signal, or an amount beyond the slider's ends.
    """
    move = MOVES.get(name)
    if move is None:
        raise InvalidArgument(f"no move {name!r}{did_you_mean(name, MOVES)}; there are: {', '.join(MOVES)}")
    if move.kind != signal.kind:
        raise InvalidArgument(f"{name} moves a signal of kind {move.kind}, this one is of kind {signal.kind}")
    if not move.amounts[0] <= amount <= move.amounts[-1]:  # also NaN
        raise InvalidArgument(f"{name} takes {move.amounts[0]:g} to {move.amounts[-1]:g} {move.unit}, got {amount}")
    if amount == move.still:
        return signal
    return Signal(signal.kind, move.act(signal, amount), signal.rate_hz, signal.name)


def _pitch(signal: Signal, cents: float) -> Floats:
    return waveform_pitch(signal.unit_scale(), signal.rate_hz or 0, cents)


def _tempo(signal: Signal, rate: float) -> Floats:
    return waveform_tempo(signal.unit_scale(), signal.rate_hz or 0, rate)


def _turned(signal: Signal, degrees: float) -> Floats:
    """Anticlockwise about the middle; what comes in from outside is as the border is."""
    from PIL import Image

    x = signal.unit_scale()
    planes = x[:, :, None] if x.ndim == 2 else x
    border = np.concatenate([planes[0], planes[-1], planes[:, 0], planes[:, -1]])
    ground = np.median(border, axis=0)
    turned = [
        np.asarray(Image.fromarray(planes[:, :, c]).rotate(degrees, Image.Resampling.BILINEAR, fillcolor=float(g)))
        for c, g in enumerate(ground)
    ]
    return np.ascontiguousarray(np.stack(turned, axis=-1).reshape(x.shape), dtype=np.float32)


MOVES = {
    "pitch": Move("audio", "cents", 0.0, tuple(100.0 * n for n in range(-6, 7)), _pitch),
    "tempo": Move("audio", "times as fast", 1.0, tuple(2 ** (n / 6) for n in range(-5, 6)), _tempo),
    "angle": Move("image", "degrees", 0.0, tuple(15.0 * n for n in range(-12, 13)), _turned),
}
