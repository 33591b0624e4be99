"""Fuzzing of what reads bytes from outside: SPHERE, the WAV policy, containers, IDX, NumPy files and frames.

    scripts/fuzz [--seconds 600] [TARGET ...]

Each input is a seed that was mutated: bits, bytes and lengths changed, cut, repeated, spliced with another. With the
package atheris, coverage guides the choice (`--engine atheris`, one target at a time); without it chance does.

A target may refuse or accept. It fails when anything but a refusal comes out, when one input takes over `MOST_S`, or
when the process has grown by more than `MOST_BYTES`. The input is then saved as `fuzz-TARGET-HASH.bin`.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import io
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import numpy as np
import soundfile

from streamfeat.errors import CallerError
from streamfeat.inspection import check_bytes
from streamfeat.payloads import item_to_signal
from streamfeat.signals import encode_sphere
from streamfeat.signals.audio import decode_audio
from streamfeat.signals.containers import plain_container
from streamfeat.signals.idx import read_idx
from streamfeat.signals.riff import is_riff, plain_riff
from streamfeat.signals.sphere import decode_sphere
from streamfeat.wire.codec import decode, encode
from tests.files import idx, pcm_format, png, riff, shorten, sphere_header, wav16
from tests.golden import EXAMPLES

MOST_S = 2.0
MOST_BYTES = 200 << 20
HANG_S = 60
"""When libFuzzer ends a run in which nothing comes back; by the clock, so that a busy machine is no hang."""

RAMP = np.arange(-300, 300, 3, dtype=np.int16)
NUMBERS = [0, 1, 2, 7, 8, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


@dataclass(frozen=True)
class Target:
    """A reader and files that it takes."""

    read: Callable[[bytes], object]
    seeds: Sequence[bytes]


def _wav(data: bytes) -> object:
    return plain_riff(data, "f") if is_riff(data) else None


def _stack(frames: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)


def _frames(data: bytes) -> object:
    frames: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(frames) < 64:
        (n,) = struct.unpack_from(">I", data, at)
        frames.append(data[at + 4 : at + 4 + n])
        at += 4 + n
    message = decode(frames)
    return [item_to_signal(item) for item in message.items if "signal" in item.fields]


_PACKED: dict[str, str | int] = {"sample_rate": 8000, "sample_coding": "pcm,embedded-shorten-v2.00"}
_WAVS = [
    wav16(RAMP),
    wav16(np.stack([RAMP, RAMP], axis=1)),
    riff(pcm_format(8000, n_bytes=4, tag=3), RAMP.astype("<f4").tobytes(), before=b"LIST\x05\0\0\0INFOx\0"),
    riff(pcm_format(8000, order=">"), RAMP.astype(">i2").tobytes(), form=b"RIFX"),
    riff(pcm_format(8000, n_bytes=1, tag=7), bytes(range(256)), data_size=0xFFFFFFFF),
]


def _piped_flac() -> bytes:
    """Two frames and no length."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(5000, np.int16), 8000, format="FLAC", subtype="PCM_16")
    whole = buffer.getvalue()
    return whole[:21] + bytes([whole[21] & 0xF0]) + bytes(4) + whole[26:]


_CONTAINERS = [
    b"FORM\0\0\0\x40AIFFCOMM\0\0\0\x12" + bytes(18) + b"SSND\0\0\0\x10" + bytes(16),
    b".snd" + struct.pack(">IIIII", 24, 16, 3, 8000, 1) + bytes(16),
    b"caff\0\1\0\0desc" + struct.pack(">q", 32) + bytes(32) + b"data" + struct.pack(">q", 8) + bytes(8),
    b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0" + bytes(24) + b"data" + bytes(12) + struct.pack("<Q", 24),
    b"OggS\0\x04" + bytes(20) + b"\x02\x03\x04" + bytes(7),
    _piped_flac(),
]
_MAPS = [b"P5 #c\n4 3 200\n" + bytes(12), b"P3\n1 1 9\n1 2 3", b"PF 1 2 -1.0\n" + bytes(24)]
_NUMBERS = np.arange(60, dtype=np.uint8).reshape(5, 4, 3)


def _npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, _NUMBERS)
    return buffer.getvalue()


TARGETS = {
    "sphere": Target(
        decode_sphere,
        [
            encode_sphere(RAMP, 20_000),
            encode_sphere(RAMP, 20_000, byte_order="big"),
            sphere_header({**_PACKED, "sample_count": len(RAMP)}) + shorten([RAMP.tolist()], order=2),
        ],
    ),
    "wav": Target(_wav, _WAVS),
    "audio": Target(decode_audio, _WAVS),
    "containers": Target(lambda data: plain_container(data, "f"), _CONTAINERS),
    "idx": Target(read_idx, [idx(_NUMBERS, 8), idx(_NUMBERS.astype("f4"), 0x0D), gzip.compress(idx(_NUMBERS, 8))]),
    "check": Target(
        lambda data: check_bytes(data, "f").as_dict(values=True),
        [*_WAVS, png(_NUMBERS[0]), idx(_NUMBERS, 8), _npy(), encode_sphere(RAMP, 8000), *_MAPS],
    ),
    "frames": Target(_frames, [_stack([bytes(f) for f in encode(message)]) for message in EXAMPLES.values()]),
}


def mutate(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One to four changes."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = rng.randrange(256)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + rng.randint(1, 16)]
        elif kind == 4:
            out[at:at] = out[at : at + rng.randint(1, 64)]
        elif kind == 5:
            form = rng.choice(["<I", ">I", "<H", ">H"])
            number = struct.pack(form, rng.choice(NUMBERS) & (0xFFFF if form[1] == "H" else 0xFFFFFFFF))
            out[at : at + len(number)] = number
        elif kind == 6:
            other = rng.choice(others)
            out[at:] = other[rng.randrange(len(other) + 1) :]
        else:
            digits = [i for i, byte in enumerate(out[:2048]) if 48 <= byte <= 57]
            if digits:
                out[rng.choice(digits)] = rng.choice(b"0123456789-")
    return bytes(out[: 1 << 16])


def try_one(name: str, data: bytes) -> float:
    """Read one input; the seconds of a processor it took. Anything but a refusal is raised."""
    started = time.process_time()  # of the processor: others use the machine, too, and no reader waits for anything
    with contextlib.suppress(CallerError):
        TARGETS[name].read(data)
    return time.process_time() - started


def judge(name: str, data: bytes, most_bytes: int) -> None:
    """Read one input, within the time and with this process below so many bytes.

    Raises
    ------
    AssertionError
        Naming the file in which the input was saved.
    """
    try:
        took = try_one(name, data)
        assert took < MOST_S, f"{took:.1f} s"
        assert _peak_bytes() < most_bytes, f"grown to {_peak_bytes()} bytes"
    except Exception as error:
        file = Path(f"fuzz-{name}-{hashlib.sha256(data).hexdigest()[:12]}.bin")
        file.write_bytes(data)
        raise AssertionError(f"{name}: {type(error).__name__}: {error}; the input is in {file}") from error


def fuzz(name: str, seconds: float, seed: int, n_most: float = float("inf")) -> int:
    """Mutate and judge for so long, or so many inputs; how many there were."""
    rng, seeds = random.Random(seed), list(TARGETS[name].seeds)
    deadline, most_bytes, n = time.monotonic() + seconds, _peak_bytes() + MOST_BYTES, 0
    while time.monotonic() < deadline and n < n_most:
        data = mutate(rng.choice(seeds), TARGETS[name].seeds, rng)
        judge(name, data, most_bytes)
        n += 1
        if rng.random() < 0.02 and len(seeds) < 500:  # so that changes add up
            seeds.append(data)
    return n


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _guided(name: str, seconds: float) -> None:
    """The same with atheris, which ends the process."""
    import atheris

    ours = ("streamfeat.signals", "streamfeat.wire", "streamfeat.inspection", "desphere")
    modules = [module for name_, module in sys.modules.items() if name_.startswith(ours)]
    for function in {f for module in modules for f in vars(module).values() if isinstance(f, FunctionType)}:
        atheris.instrument_func(function)  # all there is would take minutes
    corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    for n, data in enumerate(TARGETS[name].seeds):
        (corpus / str(n)).write_bytes(data)
    limits = [f"-max_total_time={int(seconds)}", "-max_len=16384", f"-timeout={HANG_S}", "-print_final_stats=1"]
    most_bytes = _peak_bytes() + MOST_BYTES
    atheris.Setup([sys.argv[0], str(corpus), *limits], lambda data: judge(name, data, most_bytes))
    atheris.Fuzz()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all when none is given")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["chance", "atheris"], default="chance")
    given = parser.parse_args()
    for name in given.targets or TARGETS:
        if name not in TARGETS:
            parser.error(f"targets are {', '.join(TARGETS)}, got {name}")
        if given.engine == "atheris":
            _guided(name, given.seconds)
        n = fuzz(name, given.seconds, given.seed)
        print(f"{name}: {n} inputs in {given.seconds:g} s, peak {_peak_bytes() >> 20} MiB")


if __name__ == "__main__":
    main()
