"""Peers' features of recordings, with the settings that are usual: MFCC, log-mel, MiniRocket (aeon).

All of a recording at its own rate, scaled to its peak and trimmed at 30 dB (frames of 32 ms every 10 ms); log-mel of 40
bands in dB below the loudest, at most 80.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.signals.signal import Signal

Floats = NDArray[np.float32]

BANDS, COEFFICIENTS = 40, 13
WINDOW_S, HOP_S = 0.032, 0.01
TRIM_DB, RANGE_DB = 30.0, 80.0
SHIFTS = (-2, -1, 0, 1, 2)
"""Bands that `augment` raises a training recording by."""
TRIMMED_FRAMES, WHOLE_FRAMES = 75, 101
OCTAVES, PER_OCTAVE, N_SAMPLES, STRETCHES = 8, 8, 8192, 8
"""Of the scattering: J, Q, the samples it sees at once, and the stretches of time that are averaged."""
SCATTERED_HZ, FLOOR = 8000, 1e-6
"""The rate it is computed at, and what is added before its logarithm, both as in kymatio's example of spoken digits."""


def log_mel(signal: Signal, trim: bool = True) -> Floats:
    """Energies in dB below the loudest, (40, frames)."""
    import librosa

    rate_hz = signal.rate_hz or 0
    window, hop = round(WINDOW_S * rate_hz), round(HOP_S * rate_hz)
    x = _trimmed(signal) if trim else _peak(signal)
    if x.size < window:
        x = np.pad(x, (0, window - x.size))
    mel = librosa.feature.melspectrogram(y=x, sr=rate_hz, n_fft=window, hop_length=hop, n_mels=BANDS)
    return np.asarray(librosa.power_to_db(mel, ref=max(float(mel.max()), 1e-10), top_db=RANGE_DB), np.float32)


def _peak(signal: Signal) -> Floats:
    x = signal.unit_scale()
    return x / (np.abs(x).max() or np.float32(1.0))


def _trimmed(signal: Signal) -> Floats:
    import librosa

    x, rate_hz = _peak(signal), signal.rate_hz or 0
    window, hop = round(WINDOW_S * rate_hz), round(HOP_S * rate_hz)
    kept, _ = librosa.effects.trim(x, top_db=TRIM_DB, frame_length=window, hop_length=hop)
    return kept if kept.size else x


def frames_of(spectrum: Floats, n: int) -> Floats:
    """(bands, frames) averaged over n stretches of time, as adaptive average pooling cuts them."""
    length = spectrum.shape[1]
    edges = [(i * length // n, -(-(i + 1) * length // n)) for i in range(n)]
    return np.stack([spectrum[:, begin:end].mean(axis=1) for begin, end in edges], axis=1)


def fit_mfcc(_task: Task) -> Fitted:
    """13 coefficients x 16 frames."""
    import librosa

    def one(signal: Signal) -> Floats:
        coefficients = librosa.feature.mfcc(S=log_mel(signal), n_mfcc=COEFFICIENTS)
        return frames_of(np.asarray(coefficients, np.float32), 16).ravel()

    return Fitted(_each(one))


def fit_log_mel(_task: Task) -> Fitted:
    """40 bands x 32 frames."""
    return Fitted(_each(lambda signal: frames_of(log_mel(signal), 32).ravel()))


def fit_augment(_task: Task) -> Fitted:
    """The same, each training recording also one and two bands up and down."""

    def copies(signals: Sequence[Signal]) -> Floats:
        spectra = np.stack([frames_of(log_mel(signal), 32) for signal in signals])
        bands = np.arange(BANDS)
        moved = [spectra[:, np.clip(bands - shift, 0, BANDS - 1)] for shift in SHIFTS]
        return np.stack(moved, axis=1).reshape(len(signals), len(SHIFTS), -1)

    return Fitted(_each(lambda signal: frames_of(log_mel(signal), 32).ravel()), copies=copies)


def fit_scattering(_task: Task) -> Fitted:
    """Scattering1D (kymatio), J = Q = 8, of the trimmed recording at 8 kHz: its log, means over 8 stretches."""
    try:
        from kymatio.scattering1d.frontend.numpy_frontend import ScatteringNumPy1D
    except ImportError as error:
        raise ConfigError(f"the method scattering needs kymatio ({error}): pip install kymatio") from error
    scattering = ScatteringNumPy1D(J=OCTAVES, shape=(N_SAMPLES,), Q=PER_OCTAVE)

    def one(signal: Signal) -> Floats:
        x = soxr.resample(_trimmed(signal), signal.rate_hz or SCATTERED_HZ, SCATTERED_HZ)[:N_SAMPLES]
        out = np.asarray(scattering(np.pad(x, (0, N_SAMPLES - x.size))), np.float32)
        n_filled = max(1, -(-x.size // 2**OCTAVES))
        # the first row is the recording itself, averaged
        return frames_of(np.log(out[1:, :n_filled] + np.float32(FLOOR)), STRETCHES).ravel()

    return Fitted(_each(one))


def fit_minirocket(task: Task) -> Fitted:
    """10,000 random convolutions of the trimmed log-mel, 75 frames; biases from the training recordings."""
    return _minirocket(task, TRIMMED_FRAMES, trim=True)


def fit_minirocket_whole(task: Task) -> Fitted:
    """The same of the recording as it is, 101 frames."""
    return _minirocket(task, WHOLE_FRAMES, trim=False)


def _minirocket(task: Task, n_frames: int, trim: bool) -> Fitted:
    try:
        from aeon.transformations.collection.convolution_based import MiniRocket
    except ImportError as error:
        raise ConfigError(f"the method minirocket needs aeon ({error}): pip install aeon") from error

    def series(signals: Sequence[Signal]) -> Floats:
        out = np.full((len(signals), BANDS, n_frames), -RANGE_DB, np.float32)
        for row, signal in zip(out, signals, strict=True):
            spectrum = log_mel(signal, trim)[:, :n_frames]
            row[:, : spectrum.shape[1]] = spectrum
        return out

    rocket = MiniRocket(n_kernels=10_000, random_state=task.spec.seed)
    rocket.fit(series(task.signals()))
    # its compiled loops are parallel themselves and must not be entered twice at a time
    return Fitted(lambda signals: np.asarray(rocket.transform(series(signals)), np.float32), threads=False)


def _each(one: Callable[[Signal], Floats]) -> Callable[[Sequence[Signal]], NDArray[Any]]:
    return lambda signals: np.stack([one(signal) for signal in signals])
