"""Files and payloads become signals here: finite, of known rate or layout, or refused by name."""

from streamfeat.signals.signal import SAMPLE_DTYPES, Signal

__all__ = ["SAMPLE_DTYPES", "Signal"]
