"""Files and payloads become signals here: finite, of known rate or layout, or refused by name."""

from streamfeat.signals.audio import read_audio
from streamfeat.signals.signal import SAMPLE_DTYPES, Signal
from streamfeat.signals.sphere import encode_sphere, parse_header, read_sphere, write_sphere

__all__ = ["SAMPLE_DTYPES", "Signal", "encode_sphere", "parse_header", "read_audio", "read_sphere", "write_sphere"]
