"""The microphone of this machine, as chunks of PCM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError

CHUNK_S = 0.05


def microphone(rate_hz: int) -> Iterator[tuple[NDArray[np.int16], bool]]:
    """Chunks of the default input device, for ever: samples (n,), and whether some were lost before them.

    Raises
    ------
    ConfigError
        The extra `microphone` or its PortAudio is not installed; no such device.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: the package is there, its PortAudio is not
        raise ConfigError(
            f"a microphone needs sounddevice and PortAudio ({error}): pip install 'streamfeat[microphone]', "
            "on Debian also apt install libportaudio2"
        ) from error
    n = round(CHUNK_S * rate_hz)
    try:
        with sounddevice.RawInputStream(samplerate=rate_hz, channels=1, dtype="int16", blocksize=n) as device:
            while True:
                data, lost = device.read(n)
                yield np.frombuffer(bytes(data), "<i2"), bool(lost)
    except sounddevice.PortAudioError as error:
        raise ConfigError(f"the microphone gives no {rate_hz} Hz: {error}; choose another device or --rate") from error
