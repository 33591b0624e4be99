"""Files and payloads become signals here: finite, of known rate or layout, or refused by name."""

from streamfeat.signals.arrays import read_arrays
from streamfeat.signals.audio import read_audio
from streamfeat.signals.corpus import Corpus, Skipped, Utterance, open_corpus
from streamfeat.signals.idx import read_idx
from streamfeat.signals.image import read_image
from streamfeat.signals.pictures import Picture, Pictures, open_images
from streamfeat.signals.signal import SAMPLE_DTYPES, Signal
from streamfeat.signals.sphere import encode_sphere, parse_header, read_sphere, write_sphere

__all__ = [
    "SAMPLE_DTYPES",
    "Corpus",
    "Picture",
    "Pictures",
    "Signal",
    "Skipped",
    "Utterance",
    "encode_sphere",
    "open_corpus",
    "open_images",
    "parse_header",
    "read_arrays",
    "read_audio",
    "read_idx",
    "read_image",
    "read_sphere",
    "write_sphere",
]
