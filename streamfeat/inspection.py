"""What would become of a file, without a fleet: read, or refused by name with the reason.

The content decides what a file is. Only where no format is recognised does the name say what it was meant to be, so
that the refusal can be about that.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import CallerError, InvalidArgument, StreamfeatError, TooLarge
from streamfeat.payloads import item_to_signal
from streamfeat.signals.arrays import NPY_MAGIC, ZIP_MAGIC, open_npy, read_npz
from streamfeat.signals.audio import decode_audio
from streamfeat.signals.containers import W64_MAGIC
from streamfeat.signals.corpus import AUDIO_SUFFIXES
from streamfeat.signals.foreign import foreign_sound
from streamfeat.signals.idx import GZIP, images_beside, is_idx, read_idx
from streamfeat.signals.image import Frames, Pixels, decode_image
from streamfeat.signals.pictures import ARRAY_KEYS, PICTURE_SUFFIXES
from streamfeat.signals.recording import Channels, Recording
from streamfeat.signals.riff import is_riff
from streamfeat.signals.signal import FULL_SCALE, read_source
from streamfeat.signals.sphere import is_sphere
from streamfeat.wire.codec import decode

Kind = Literal["audio", "image", "idx", "array", "message"]

HEAD = 8
"""Values that are shown."""

ITEM_BYTES = 16 << 20
"""What a fleet takes of one item unless it is set up for more."""

MESSAGE_BYTES = 64 << 20
"""Of a message in a file: hexadecimal, more than twice what travels."""

_AUDIO = (b".snd", b"dns.", b"fLaC", b"OggS", b"caff", b"ID3", W64_MAGIC)
_IMAGE = (
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\0\0\1\0", b"P1", b"P2",
    b"P3", b"P4", b"P5", b"P6", b"PF", b"Pf", b"\0\0\0\x0cjP", b"\xff\x4f\xff\x51", b"\n\5\1", b"\n\3\1", b"\n\2\1",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """How channels and frames are chosen; None lets several channels pass, with a warning."""

    channels: Channels | None = None
    frames: Frames = "first"


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict on one file.

    Attributes
    ----------
    file : str
    kind : str or None
        "audio", "image", "idx", "array" or "message"; None where neither content nor name says.
    error : StreamfeatError or None
        Why it is refused.
    rate_hz : int or None
        Of audio.
    shape : tuple of int or None
        Audio: (frames,) or (frames, channels). Picture: (rows, columns), and channels with transparency. Others: as
        stored.
    warnings : tuple of str
        What is odd and read all the same.
    stored : ndarray or None
        What was read, as it was stored; times `scale` it is audio at full scale 1.0, a picture of 0 to 255 (a float
        one is as it is), other numbers as they are.
    """

    file: str
    kind: Kind | None
    error: StreamfeatError | None = None
    rate_hz: int | None = None
    shape: tuple[int, ...] | None = None
    warnings: tuple[str, ...] = ()
    stored: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    scale: float = 1.0

    @property
    def accepted(self) -> bool:
        """Whether it would be read."""
        return self.error is None

    def as_dict(self, *, values: bool = False) -> dict[str, Any]:
        """For JSON; with `values`, the first eight in C order and the sum of all, None beyond float64."""
        shown: dict[str, Any] = {
            "file": self.file,
            "kind": self.kind,
            "outcome": "accept" if self.accepted else "reject",
            "code": None if self.error is None else self.error.code,
            "reason": None if self.error is None else self.error.reason,
            "rate_hz": self.rate_hz,
            "shape": None if self.shape is None else list(self.shape),
            "warnings": list(self.warnings),
        }
        if values:
            x = self.stored
            shown["head"] = None if x is None else [float(v) * self.scale for v in x.flat[:HEAD]]
            with np.errstate(over="ignore"):
                total = None if x is None else float(x.sum(dtype=np.float64)) * self.scale
            # JSON has no infinity
            shown["sum"] = total if total is None or math.isfinite(total) else None
        return shown


def check_file(path: Path | str, *, name: str | None = None, policy: Policy | None = None) -> Check:
    """Read one file and tell what became of it; a file that is refused raises nothing.

    Parameters
    ----------
    path : Path or str
    name : str, optional
        What the verdict calls it; the path when not given.
    policy : Policy, optional
    """
    path = Path(path)
    name = name or str(path)
    try:
        data, _ = read_source(path, name)
    except CallerError as error:
        return Check(name, kind_of_name(path.name), error)
    return check_bytes(data, name, path=path, policy=policy)


def check_bytes(data: bytes, name: str, *, path: Path | None = None, policy: Policy | None = None) -> Check:
    """As `check_file`, of bytes that are held already: a member of a zip, say."""
    kind = kind_of(data) or kind_of_name(name)
    try:
        if kind is None:
            raise InvalidArgument(
                f"{name}: neither audio, picture, IDX, array nor message: it begins with {data[:16]!r}"
            )
        return _READERS[kind](data, name, path, policy or Policy())
    except (CallerError, MemoryError) as error:
        refusal = TooLarge(f"{name}: more memory is needed than there is") if isinstance(error, MemoryError) else error
        return Check(name, kind, refusal)


def kind_of(data: bytes) -> Kind | None:
    """What the bytes are, by their beginning; None for no known format."""
    looks: dict[Kind, Callable[[bytes], bool]] = {
        "audio": _is_audio,
        "idx": lambda data: is_idx(data[:4]) or (data.startswith(GZIP) and is_idx(_unpacked_head(data))),
        "array": lambda data: data.startswith((NPY_MAGIC, ZIP_MAGIC)),
        "image": _is_image,
        "message": lambda data: data[:256].lstrip().startswith(b"{") and (b'"frames"' in data or b'"verb"' in data),
    }
    return next((kind for kind, is_it in looks.items() if is_it(data)), None)


def _is_audio(data: bytes) -> bool:
    aiff = data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC")
    return (
        aiff
        or foreign_sound(data) is not None
        or is_sphere(data)
        or is_riff(data)
        or data.startswith(_AUDIO)
        or _is_mpeg_audio(data)
    )


def _is_image(data: bytes) -> bool:
    webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return webp or data.startswith(_IMAGE) or data[4:12] in (b"ftypavif", b"ftypavis")


def _is_mpeg_audio(data: bytes) -> bool:
    """The eleven set bits of an MPEG frame, then a version, layer, bit rate and rate that exist."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:
        return False
    version, layer = data[1] >> 3 & 3, data[1] >> 1 & 3
    return version != 1 and layer != 0 and data[2] >> 4 != 15 and data[2] >> 2 & 3 != 3


def _unpacked_head(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        return unpacker.decompress(data[:1024], 4)
    except zlib.error:  # damaged: its name says what it was meant to be
        return b""


def kind_of_name(name: str) -> Kind | None:
    """What a file was meant to be, by its name alone."""
    lower = name.lower()
    if lower.endswith(AUDIO_SUFFIXES):
        return "audio"
    if "idx1" in lower or "idx3" in lower:
        return "idx"
    if lower.endswith((".npy", ".npz")):
        return "array"
    return "image" if lower.endswith((*PICTURE_SUFFIXES, ".avif")) else None


def _audio(data: bytes, name: str, _path: Path | None, policy: Policy) -> Check:
    recording = decode_audio(data, name=name)
    warnings = [*recording.warnings, *_heard(recording)]
    n_channels = recording.frames.shape[1]
    if policy.channels is not None:
        recording.signal(policy.channels)
    elif n_channels > 1:
        warnings.append(f"{n_channels} channels: streamed only with a choice, mix or the number of one")
    x = recording.frames[:, 0] if n_channels == 1 else recording.frames
    warnings += _heavy(len(x) * x.itemsize)
    return Check(name, "audio", None, recording.rate_hz, x.shape, tuple(warnings), x, _scale("audio", x))


def _scale(kind: str, x: NDArray[Any]) -> float:
    """What brings stored samples to the scale they are shown at."""
    full = FULL_SCALE.get(x.dtype.str)
    if full is None or kind not in ("audio", "image"):
        return 1.0
    return 1.0 / full if kind == "audio" else 255.0 / full


def _heard(recording: Recording) -> list[str]:
    """Silence, a constant, samples at or over the limit: read, and worth a word."""
    x = recording.frames
    low, high = float(x.min()), float(x.max())
    scale = FULL_SCALE.get(x.dtype.str, 1.0)
    if low == high:
        return ["silent: every sample is 0" if low == 0 else f"constant: every sample is {low / scale:g}"]
    if max(-low, high) > scale:
        return [f"over full scale: from {low:g} to {high:g}"]
    n_clipped = int(np.count_nonzero((x <= -scale) | (x >= scale * (1 - 2**-15))))
    return [f"clipped: {n_clipped} of {x.size} samples are at full scale"] if n_clipped > 1 else []


def _heavy(n_bytes: int) -> list[str]:
    if n_bytes <= ITEM_BYTES:
        return []
    return [f"{n_bytes} bytes: over the {ITEM_BYTES} that a fleet takes of one item unless it is set up for more"]


def _image(data: bytes, name: str, _path: Path | None, policy: Policy) -> Check:
    pixels: Pixels = decode_image(data, name=name, frames=policy.frames)
    x = pixels.values
    n_alpha = x.shape[0] * x.shape[1] if x.ndim == 3 and x.shape[2] in (2, 4) else 0
    odd = (*pixels.warnings, *_heavy(x.nbytes - n_alpha))
    return Check(name, "image", None, None, x.shape, odd, x, _scale("image", x))


def _idx(data: bytes, name: str, path: Path | None, _policy: Policy) -> Check:
    values = read_idx(data, name=name)
    _check_numbers(values, name)
    if path is not None and values.ndim == 1 and (images := images_beside(path)) is not None:
        try:
            n_images = len(read_idx(images))
        except CallerError as error:
            return Check(name, "idx", None, None, values.shape, (f"its images cannot be read: {error}",), values)
        if n_images != len(values):
            raise InvalidArgument(f"{name}: {len(values)} labels for the {n_images} images of {images.name}")
    return Check(name, "idx", None, None, values.shape, (), values)


def _array(data: bytes, name: str, path: Path | None, _policy: Policy) -> Check:
    if path is None:
        raise InvalidArgument(f"{name}: arrays are read from files of their own; unpack it")
    if data.startswith(NPY_MAGIC):
        values = open_npy(path, name)
        _check_numbers(values, name)
        return Check(name, "array", None, None, values.shape, (), values)
    arrays = read_npz(path, name)
    if not arrays:
        raise InvalidArgument(f"{name}: an archive without arrays")
    lower = {key.lower(): key for key in arrays}
    first = next((lower[x] for x, _, _ in ARRAY_KEYS if x in lower), next(iter(arrays)))
    for key, values in arrays.items():
        if values.dtype.kind != "U" or key == first:  # labels may be text
            _check_numbers(values, f"{name}:{key}")
    others = [f"{key} {array.dtype} {array.shape}" for key, array in arrays.items() if key != first]
    odd = (f"{len(arrays)} arrays: {first} is shown, beside it {', '.join(others)}",) if others else ()
    return Check(name, "array", None, None, arrays[first].shape, odd, arrays[first])


def _check_numbers(values: NDArray[Any], name: str) -> None:
    if values.dtype.kind not in "buif":
        raise InvalidArgument(f"{name}: real numbers are needed, got {values.dtype} {values.shape}")
    if not values.size:
        raise InvalidArgument(f"{name}: no values: shape {values.shape}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = np.unravel_index(int(np.argmin(np.isfinite(values))), values.shape)
        index = tuple(int(i) for i in bad)
        raise InvalidArgument(
            f"{name}: non-finite value at {index[0] if len(index) == 1 else index}: {values[bad]}; remove or repair it"
        )


def _message(data: bytes, name: str, _path: Path | None, _policy: Policy) -> Check:
    """A stack of frames as in schemas/golden: decoded, and the signals of its items checked."""
    try:
        message = decode(_frames(data, name))
        signals = [item_to_signal(item) for item in message.items if "signal" in item.fields]
    except StreamfeatError as error:
        raise type(error)(error.reason if error.reason.startswith(name) else f"{name}: {error.reason}") from error
    if signals:
        x, kind, rate_hz = signals[0].samples, signals[0].kind, signals[0].rate_hz
        return Check(name, "message", None, rate_hz, x.shape, (), x, _scale(kind, x))
    arrays = [array.to_numpy() for item in message.items for array in item.arrays]
    return Check(name, "message", None, None, arrays[0].shape, (), arrays[0]) if arrays else Check(name, "message")


def _frames(data: bytes, name: str) -> list[bytes]:
    if len(data) > MESSAGE_BYTES:
        raise TooLarge(f"{name}: a message of {len(data)} bytes, up to {MESSAGE_BYTES} are read")
    try:
        stack = json.loads(data)["frames"]
        return [bytes.fromhex(frame) for frame in stack]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidArgument(
            f"{name}: a message file is a JSON object whose `frames` are a list of hexadecimal text: {error}"
        ) from error


_READERS = {"audio": _audio, "image": _image, "idx": _idx, "array": _array, "message": _message}
