"""A spoken-digit corpus in TIDIGITS' layout, spoken by espeak-ng's voices: to try things on, not to measure with.

    OUT/{train,test}/{man,woman,boy,girl}/<two letters>/{1a ... 9b, za, zb, oa, ob}.wav     SPHERE, 20 kHz, 16 bit
    OUT/corpus.json                                                      what it was made with; written last

A speaker is a voice variant with its own accent, pitch, speed and liveliness; a child is a woman's voice resampled
upwards, which moves the formants as a shorter vocal tract does. Train and test speakers share no variant. Files of
every second speaker are big-endian, and every fifth speaker also says two strings of digits, as in the real corpus.

The engine keeps global state that no call resets (where it is in a voice's flutter), so the same word twice in one
process differs. It therefore speaks in a process of its own, always from its first word on: the same parameters give
the same bytes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from streamfeat.directory import write_directory
from streamfeat.errors import EXIT_CONFIG, ConfigError, InternalError, InvalidArgument
from streamfeat.signals.sphere import ByteOrder, write_sphere

RATE_HZ = 20_000
VERSION = 2
"""Counts up when the same parameters give other files."""

WORDS = {
    "1": "one", "2": "two", "3": "three", "4": "four", "5": "five", "6": "six",
    "7": "seven", "8": "eight", "9": "nine", "z": "zero", "o": "oh",
}  # fmt: skip

ACCENTS = (
    "en", "en-us", "en-us-nyc", "en-gb-scotland", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029",
)  # fmt: skip
"""espeak-ng's kinds of English; train and test speakers have all of them."""

MEN = {
    "train": (
        "m1", "m3", "m4", "m6", "Alex", "Denis", "Diogo", "Lee", "Michael", "Reed", "adam", "boris", "edward",
        "ian", "marcelo", "max", "norbert", "pablo", "paul", "travis",
    ),
    "test": ("m2", "m5", "m7", "Henrique", "benjamin", "john", "michel", "quincy", "sandro", "victor"),
}  # fmt: skip
WOMEN = {
    "train": ("f1", "f2", "f5", "Alicia", "Annie", "anika", "aunty", "belinda", "shelby", "steph"),
    "test": ("f3", "f4", "linda", "grandma"),
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """Ranges that the speakers of one kind are drawn from; pitch and liveliness on espeak's scale of 0 to 99."""

    variants: dict[str, tuple[str, ...]]
    pitch: tuple[int, int]
    formants: tuple[float, float]


KINDS = {
    "man": _Kind(MEN, (25, 65), (0.96, 1.06)),
    "woman": _Kind(WOMEN, (25, 60), (0.96, 1.06)),
    "boy": _Kind(WOMEN, (20, 50), (1.10, 1.20)),
    "girl": _Kind(WOMEN, (35, 65), (1.14, 1.26)),
}


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks: `formants` is the factor by which the voice is resampled upwards, `words_a_minute` its speed."""

    split: str
    kind: str
    id: str
    accent: str
    variant: str
    pitch: int
    liveliness: int
    words_a_minute: int
    formants: float


def synthesise_corpus(
    out: Path | str,
    *,
    n_train_speakers: int = 40,
    n_test_speakers: int = 20,
    takes: str = "ab",
    strings: bool = True,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Path:
    """Make the corpus, or find it made already.

    Parameters
    ----------
    out : path
        A folder that is not there yet, is empty, or holds this very corpus (then nothing is done).
    n_train_speakers, n_test_speakers : int
        Spread evenly over man, woman, boy and girl.
    takes : str
        "a", "b" or "ab".
    strings : bool
        Whether every fifth speaker also says two strings of digits.
    seed : int
        The same parameters and seed give the same bytes.
    progress : callable, optional
        Called with the number of speakers made since the last call.

    Returns
    -------
    Path
        `out`.

    Raises
    ------
    ConfigError
        espeak-ng is not installed: `pip install streamfeat[synth]`.
    InvalidArgument
        A parameter out of range, or `out` holds something else.
    """
    out = Path(out)
    if not 0 < n_train_speakers <= 2704 or not 0 <= n_test_speakers <= 2704:  # 4 kinds x 26 x 26 names
        raise InvalidArgument(
            f"needed are 1 to 2704 speakers to train, got {n_train_speakers}, and {n_test_speakers} to test"
        )
    if not takes or len(set(takes)) < len(takes) or not set(takes) <= {"a", "b"}:
        raise InvalidArgument(f"takes must be 'a', 'b' or 'ab', got {takes!r}")
    parameters = {
        "version": VERSION,
        "n_train_speakers": n_train_speakers,
        "n_test_speakers": n_test_speakers,
        "takes": "".join(sorted(takes)),
        "strings": strings,
        "seed": seed,
    }
    if _holds(out, parameters):
        return out
    if importlib.util.find_spec("espeakng_loader") is None:
        raise ConfigError("synthesised speech needs espeak-ng: pip install streamfeat[synth]")
    try:
        with write_directory(out) as partial:
            _speak_apart(partial, parameters, progress)
    except OSError:
        if not _holds(out, parameters):  # True: another process was first
            raise
    return out


def cast(parameters: dict[str, Any]) -> list[Speaker]:
    """The speakers for these parameters, no two alike, train before test."""
    rng = np.random.default_rng(parameters["seed"])
    speakers: list[Speaker] = []
    seen: set[tuple[Any, ...]] = set()
    for split in ("train", "test"):
        for i in range(parameters[f"n_{split}_speakers"]):
            name, kind = list(KINDS.items())[i % len(KINDS)]
            number = i // len(KINDS)
            variants = kind.variants[split]
            voice: tuple[Any, ...] = ()
            while not voice or voice in seen:
                voice = (
                    ACCENTS[int(rng.integers(len(ACCENTS)))],
                    variants[number % len(variants)],
                    int(rng.integers(*kind.pitch)),
                    int(rng.integers(30, 75)),
                    int(rng.integers(115, 185)),
                    round(float(rng.uniform(*kind.formants)), 3),
                )
            seen.add(voice)
            letters = chr(ord("a") + number // 26) + chr(ord("a") + number % 26)
            speakers.append(Speaker(split, name, letters, *voice))
    return speakers


def _holds(out: Path, parameters: dict[str, Any]) -> bool:
    """Whether `out` is this corpus; False if it is still to be made; refused if it is something else."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    try:
        held = json.loads((out / "corpus.json").read_text())["parameters"]
    except (OSError, ValueError, KeyError, TypeError):
        held = None
    if held != parameters:
        what = "something else" if held is None else f"a corpus made with {held}"
        raise InvalidArgument(f"{out}: holds {what}, wanted is one made with {parameters}; give another folder")
    return True


def _speak_apart(folder: Path, parameters: dict[str, Any], progress: Callable[[int], None] | None) -> None:
    """Run `_speak` in its own process, which prints a line a speaker."""
    n_speakers = parameters["n_train_speakers"] + parameters["n_test_speakers"]
    command = [sys.executable, "-m", "streamfeat.synth", str(folder), json.dumps(parameters)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        watchdog = threading.Timer(60 + 5 * n_speakers, child.kill)  # takes 0.1 s a speaker
        watchdog.start()
        try:
            assert child.stdout is not None  # pipes were asked for
            assert child.stderr is not None
            for _ in child.stdout:
                if progress is not None:
                    progress(1)
            said = child.stderr.read().strip().rpartition("\n")[2]
        except BaseException:
            child.kill()
            raise
        finally:
            watchdog.cancel()
    if child.returncode == EXIT_CONFIG:
        raise ConfigError(said)
    if child.returncode != 0:
        raise InternalError(f"the speaking process ended with {child.returncode}: {said}")


def _speak(folder: Path, parameters: dict[str, Any]) -> None:
    """Write the corpus into an empty folder, the marker last."""
    engine = _Engine()
    speakers = cast(parameters)
    for i, speaker in enumerate(speakers):
        rng = np.random.default_rng([parameters["seed"], i])
        home = folder / speaker.split / speaker.kind / speaker.id
        home.mkdir(parents=True)
        spoken = [f"{digit}{take}" for digit in WORDS for take in parameters["takes"]]
        if parameters["strings"] and i % 5 == 0:
            spoken += _strings(rng, parameters["takes"][0])
        order: ByteOrder = "big" if i % 2 else "little"
        for name in spoken:
            fields = {
                "database_id": "streamfeat synthetic digits",
                "database_version": f"{VERSION}.0",
                "utterance_id": f"{speaker.id}_{name}",
                "speaker_id": f"{speaker.split}_{speaker.kind}_{speaker.id}",
            }
            samples = _record(engine, speaker, name, rng)
            write_sphere(home / f"{name}.wav", samples, RATE_HZ, byte_order=order, fields=fields)
        print(home, flush=True)  # a line a speaker: the parent counts them
    marker = {"parameters": parameters, "speakers": [asdict(speaker) for speaker in speakers]}
    partial = folder / "corpus.json.partial"
    partial.write_text(json.dumps(marker, indent=1) + "\n")
    partial.rename(folder / "corpus.json")


def _strings(rng: np.random.Generator, take: str) -> list[str]:
    """Two names of several digits, such as z4548za."""
    return [f"{''.join(rng.choice(list(WORDS), n))}{take}" for n in (2, 5)]


def _record(engine: _Engine, speaker: Speaker, name: str, rng: np.random.Generator) -> NDArray[np.int16]:
    """One utterance as a microphone would get it: take b a little different, some silence, a little noise."""
    jitter = rng.uniform(-1, 1, 2) * (name[-1] == "b")
    speech = engine.say(
        " ".join(WORDS[digit] for digit in name[:-1]),
        f"{speaker.accent}+{speaker.variant}",
        words_a_minute=round(speaker.words_a_minute / speaker.formants * (1 + 0.08 * jitter[0])),
        pitch=round(speaker.pitch + 5 * jitter[1]),
        liveliness=speaker.liveliness,
        seed=int(rng.integers(1, 2**31)),
    )
    speech = soxr.resample(speech, engine.rate_hz * speaker.formants, RATE_HZ)
    loud = np.flatnonzero(np.abs(speech) > 0.01 * np.abs(speech).max())
    speech = speech[loud[0] : loud[-1] + 1]
    level = 32767 * 10 ** (rng.uniform(-12, -3) / 20) / np.abs(speech).max()
    before, after = (round(RATE_HZ * s) for s in rng.uniform(0.04, 0.2, 2))
    recorded = np.pad(level * speech, (before, after))
    recorded += rng.normal(0, rng.uniform(2, 10), len(recorded))
    return np.round(recorded).clip(-32768, 32767).astype(np.int16)


class _Engine:
    """espeak-ng in synchronous mode. One a process: the library keeps its voice and its state in globals."""

    _SYNCHRONOUS, _DO_NOT_EXIT, _UTF8 = 2, 0x8000, 1
    _RATE, _PITCH, _RANGE = 1, 3, 4  # espeak_PARAMETER

    def __init__(self) -> None:
        import espeakng_loader  # only here: the extra `synth`

        try:
            self._library = ctypes.CDLL(espeakng_loader.get_library_path())
        except OSError as error:
            raise ConfigError(f"espeak-ng cannot be loaded ({error}): pip install streamfeat[synth]") from error
        data = espeakng_loader.get_data_path().encode()
        self.rate_hz = int(self._library.espeak_Initialize(self._SYNCHRONOUS, 0, data, self._DO_NOT_EXIT))
        if self.rate_hz <= 0:
            raise ConfigError(f"espeak-ng does not start with its data in {data!r}: pip install streamfeat[synth]")
        self._blocks: list[NDArray[np.int16]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
        self._callback = kind(self._collect)  # held here: the library keeps no reference
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_Synth.argtypes = [
            ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_int, ctypes.c_uint, ctypes.c_uint,
            ctypes.c_void_p, ctypes.c_void_p,
        ]  # fmt: skip
        self._library.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]

    def say(
        self, text: str, voice: str, *, words_a_minute: int, pitch: int, liveliness: int, seed: int
    ) -> NDArray[np.float64]:
        """The text as samples at `rate_hz`, on the scale of int16."""
        self._blocks.clear()
        self._library.espeak_ng_SetRandSeed(seed)
        failed = self._library.espeak_SetVoiceByName(voice.encode())
        for parameter, value in ((self._RATE, words_a_minute), (self._PITCH, pitch), (self._RANGE, liveliness)):
            failed = failed or self._library.espeak_SetParameter(parameter, value, 0)
        said = text.encode()
        failed = failed or self._library.espeak_Synth(said, len(said) + 1, 0, 1, 0, self._UTF8, None, None)
        if failed or not self._blocks:
            raise InternalError(f"espeak-ng (status {failed}) does not say {text!r} with voice {voice!r}")
        return np.concatenate(self._blocks).astype(np.float64)

    def _collect(self, samples: Any, n_samples: int, _events: int | None) -> int:
        if samples and n_samples > 0:
            self._blocks.append(np.ctypeslib.as_array(samples, (n_samples,)).copy())
        return 0


def _main(arguments: list[str]) -> int:
    """The process that `_speak_apart` starts."""
    try:
        _speak(Path(arguments[0]), json.loads(arguments[1]))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
