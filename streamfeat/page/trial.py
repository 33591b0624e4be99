"""What a fleet makes of one file: its class, its nearest, and how its feature moves when the file is moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.client import Client, Job, Result
from streamfeat.decoding import Decoder
from streamfeat.errors import BankMismatch, CallerError, InvalidArgument, TooLarge, Unavailable
from streamfeat.inspection import kind_of_name
from streamfeat.page.drawing import magnitudes, picture, sound
from streamfeat.page.gallery import Encoder, Gallery
from streamfeat.page.moves import MOVES, moved
from streamfeat.signals.signal import Signal

MOST_SECONDS = 30.0
MOST_PIXELS = 1 << 22
N_NEIGHBOURS = 8
N_SCORES = 12
N_PROFILE = 128
MOST_STAGES = 8
"""Models, and indexes, that are asked for one file."""


@dataclass(frozen=True)
class Asked:
    """One question of a browser: a file, by which bank (none: the first that takes it), moved how far."""

    data: bytes
    name: str
    bank: str = ""
    move: str = ""
    amount: float | None = None


@dataclass(frozen=True)
class Stages:
    """Names of models and indexes: those given, and those that lie in a state directory."""

    models: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    state: Path | None = None

    def known(self, role: str) -> list[str]:
        """Of the models (role "learner") or of the indexes ("index"), those given first; looked for anew each time."""
        given, pattern = {"learner": (self.models, "*/model-*"), "index": (self.indexes, "*/log.sqlite")}[role]
        found = () if self.state is None else (path.parent.name for path in (self.state / role).glob(pattern))
        return list(dict.fromkeys([*given, *sorted(found)]))[:MOST_STAGES]


class Trial:
    """Answers questions, one after the other, in one thread.

    Parameters
    ----------
    decoder : Decoder
        Reads what was dropped, within its limits.
    stages : Stages
    gallery : Gallery, optional
    """

    def __init__(self, decoder: Decoder, stages: Stages, gallery: Gallery | None = None) -> None:
        self._decoder, self._stages, self._gallery = decoder, stages, gallery
        self._encoder = Encoder()
        self._strangers: set[tuple[str, str]] = set()

    def answer(self, client: Client, asked: Asked) -> dict[str, Any]:
        """Class, neighbours, picture and feature of the file, moved where that is asked.

        Raises
        ------
        CallerError
            The file cannot be read, is too large, or no bank of the fleet takes it.
        OperatorError
            The fleet does not answer.
        """
        still = self._read(asked)
        signal = still if asked.amount is None else moved(still, asked.move, asked.amount)
        banks = _banks(client, asked.bank)
        feature, bank = self._encode(client, signal, banks)
        sliders = {name: move for name, move in MOVES.items() if move.kind == still.kind}
        answer: dict[str, Any] = {
            "name": still.name,
            "kind": signal.kind,
            "about": _about(signal),
            "bank": banks.get(bank, bank[:12]),
            "moves": {name: [m.amounts[0], m.amounts[-1], m.still, m.unit] for name, m in sliders.items()},
            "picture": picture(signal),
            "models": self._classes(client, signal, bank),
            "indexes": self._indexed(client, signal, bank),
            "gallery": self._nearest(feature, bank),
            "profile": profile(feature),
        }
        if signal is not still:
            answer["cosine"] = cosine(feature, self._encode(client, still, {bank: ""})[0])
        return {**answer, "sound": sound(signal)} if signal.kind == "audio" else answer

    def curve(self, client: Client, asked: Asked) -> dict[str, Any]:
        """Cosines of the feature and of the input to themselves unmoved, and the class, over all of one slider."""
        still = self._read(asked)
        if asked.move not in MOVES:
            moved(still, asked.move, 0.0)  # says which there are
        amounts = MOVES[asked.move].amounts
        banks = _banks(client, asked.bank)
        feature, bank = self._encode(client, still, banks)
        signals = [moved(still, asked.move, amount) for amount in amounts]
        results = list(client.stream((Job(signal) for signal in signals), bank=bank))
        model = next(
            (name for name in self._stages.known("learner") if self._classify(client, still, name, bank)), None
        )
        return {
            "move": asked.move,
            "amounts": list(amounts),
            "feature": [cosine(result.feature, feature) for result in results],
            "input": [cosine(plain(signal), plain(still)) for signal in signals],
            "others": [1 - distance for _, distance in self._nearest_pairs(feature, bank)],
            "model": model,
            "labels": [] if model is None else client.classify(signals, model, bank=bank),
        }

    def _read(self, asked: Asked) -> Signal:
        kind = kind_of_name(asked.name)
        if kind not in ("audio", "image"):
            raise InvalidArgument(f"{asked.name}: a sound (such as .wav) or a picture (such as .png) is needed")
        if kind == "audio":
            signal = self._decoder.audio(asked.data, asked.name, "mix")
            if signal.samples.size > MOST_SECONDS * (signal.rate_hz or 1):
                raise TooLarge(f"{asked.name}: longer than {MOST_SECONDS:g} s, which is the most here; cut it")
            return signal
        signal = self._decoder.image(asked.data, asked.name)
        height, width = signal.samples.shape[:2]
        if height * width > MOST_PIXELS:
            raise TooLarge(f"{asked.name}: {width} x {height}, {MOST_PIXELS} pixels are the most here; scale it down")
        return signal

    def _encode(self, client: Client, signal: Signal, banks: Mapping[str, str]) -> tuple[NDArray[Any], str]:
        found = self._encoder.encode(client, signal, list(banks))
        if found is None:
            names = ", ".join(name or digest[:12] for digest, name in banks.items())
            raise InvalidArgument(f"{signal.name}: no bank here takes it as {signal.kind}; tried: {names}")
        return found

    def _ask(self, client: Client, signal: Signal, stage: str, bank: str, options: Mapping[str, Any]) -> Result | None:
        """What one stage says; None if nothing is there or it is of another bank, in which case it is let alone."""
        if (stage, bank) in self._strangers:
            return None
        [result] = client.stream([Job(signal)], route=("features", stage), bank=bank, options=options)
        if isinstance(result.error, BankMismatch):
            self._strangers.add((stage, bank))  # a log keeps its bank for good
        if result.error is not None and not isinstance(result.error, CallerError):
            raise result.error
        return result if result.ok else None

    def _classify(self, client: Client, signal: Signal, model: str, bank: str) -> Result | None:
        return self._ask(client, signal, f"classify:{model}", bank, {"classes": True})

    def _classes(self, client: Client, signal: Signal, bank: str) -> list[dict[str, Any]]:
        found = []
        for name in self._stages.known("learner"):
            result = self._classify(client, signal, name, bank)
            if result is not None:
                pairs = zip(result.fields["classes"], result.arrays[0].tolist(), strict=True)
                scores = sorted(pairs, key=lambda pair: -pair[1])[:N_SCORES]
                found.append(
                    {"model": name, "label": result.label, "scores": [[str(c), round(s, 4)] for c, s in scores]}
                )
        return found

    def _indexed(self, client: Client, signal: Signal, bank: str) -> list[dict[str, Any]]:
        found = []
        for name in self._stages.known("index"):
            result = self._ask(client, signal, f"search:{name}", bank, {"k": N_NEIGHBOURS})
            if result is not None:
                near = [{"label": label, "id": i, "distance": round(d, 4)} for label, i, d in result.neighbours]
                found.append({"index": name, "n_items": result.fields["n_items"], "neighbours": near})
        return found

    def _nearest_pairs(self, feature: NDArray[Any], bank: str) -> list[tuple[Any, float]]:
        return [] if self._gallery is None else self._gallery.nearest(feature, bank, N_NEIGHBOURS)

    def _nearest(self, feature: NDArray[Any], bank: str) -> list[dict[str, Any]]:
        return [{**shown._asdict(), "distance": round(d, 4)} for shown, d in self._nearest_pairs(feature, bank)]


def cosine(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Of the angle between two vectors; 0 where one of them is nothing."""
    a, b = x.astype(np.float64), y.astype(np.float64)
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return round(float(a @ b) / norms, 5) if norms else 0.0


def plain(signal: Signal) -> NDArray[Any]:
    """What a signal is without a bank: its pixels, or its spectrogram on 64 frames."""
    if signal.kind == "image":
        return signal.unit_scale().ravel()
    spectrogram = magnitudes(signal)
    at = np.linspace(0, spectrogram.shape[1] - 1, 64)
    return np.concatenate([np.interp(at, np.arange(spectrogram.shape[1]), row) for row in spectrogram])


def profile(feature: NDArray[Any]) -> list[float]:
    """A feature as a strip of at most 128 cells: means of neighbouring numbers, over the feature's largest."""
    cells = np.array_split(feature.astype(np.float64), min(N_PROFILE, feature.size))
    largest = float(np.abs(feature).max()) or 1.0
    return [round(float(cell.mean()) / largest, 4) for cell in cells]


def _banks(client: Client, wanted: str) -> dict[str, str]:
    """Hash to name of the banks to be tried, in order of their names."""
    served = {digest: name for name, digest in sorted(client.status()["banks"].items())}
    if not served:
        raise Unavailable("no feature worker is there")
    if wanted and wanted not in served.values():
        raise InvalidArgument(f"no bank {wanted!r} is served; there are: {', '.join(served.values())}")
    return {digest: name for digest, name in served.items() if wanted in ("", name)}


def _about(signal: Signal) -> str:
    if signal.kind == "audio":
        rate_hz = signal.rate_hz or 1
        return f"{signal.samples.size / rate_hz:.2f} s at {rate_hz} Hz"
    height, width = signal.samples.shape[:2]
    return f"{width} x {height}, {'grey' if signal.samples.ndim == 2 else 'colour'}"
