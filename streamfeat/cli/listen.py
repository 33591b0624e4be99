"""`streamfeat listen`: what is said in a file, a pipe or at the microphone, a line an utterance."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import click
from numpy.typing import NDArray

from streamfeat.audiostream import AudioStream, Window
from streamfeat.cli.choices import channels_option
from streamfeat.cli.console import with_settings
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.cuts import Cut, Sliding, Utterances
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, ConfigError, StreamfeatError
from streamfeat.inquiry import credentials_for
from streamfeat.signals import read_audio
from streamfeat.signals.pcm import ENCODINGS, PcmFormat, PcmReader
from streamfeat.signals.signal import printable

PIPE_BYTES = 1 << 16
FILE_SAMPLES = 1 << 16
MICROPHONE_HZ = 16_000

Say = Callable[[str], None]
Ask = Callable[[Window], tuple[str | int, float]]
Chunks = Iterator[tuple[int, NDArray[Any], bool]]
"""Rate, samples, and whether some were lost before them."""


@dataclass(frozen=True)
class Source:
    """Where the sound comes from."""

    path: str | None
    microphone: bool
    rate_hz: int | None
    encoding: str
    n_channels: int
    channels: Any

    def chunks(self) -> Chunks:
        """The sound, as it comes."""
        if self.microphone:
            from streamfeat.microphone import microphone

            rate_hz = self.rate_hz or MICROPHONE_HZ
            yield from ((rate_hz, samples, lost) for samples, lost in microphone(rate_hz))
        elif self.path == "-":
            yield from self._piped()
        else:
            signal = read_audio(Path(str(self.path)), channels=self.channels)
            assert signal.rate_hz is not None  # audio has one
            for at in range(0, signal.samples.size, FILE_SAMPLES):
                yield signal.rate_hz, signal.samples[at : at + FILE_SAMPLES], False

    def _piped(self) -> Chunks:
        known = PcmFormat(self.rate_hz, self.encoding, self.n_channels) if self.rate_hz else None
        reader = PcmReader(known, channels=self.channels)
        pipe = cast(BufferedReader, sys.stdin.buffer)
        while data := pipe.read1(PIPE_BYTES):  # what is there, not a whole buffer: a pipe may be slow
            samples = reader.feed(data)
            if reader.format is not None:
                yield reader.format.rate_hz, samples, False
        reader.close()


@dataclass(frozen=True)
class Judging:
    """By what windows are classified."""

    model: str | None
    train: Path | None
    connect: str | None
    bank: str

    def open(self, settings: Settings, stack: ExitStack, say: Say) -> tuple[Ask, int | None]:
        """The function that classifies, and the rate it wants, where that is known."""
        if self.connect is not None:
            return self._fleet(settings, stack, self.connect), None
        return self._here(settings, say)

    def _fleet(self, settings: Settings, stack: ExitStack, endpoint: str) -> Ask:
        if self.model is None or self.train is not None:
            raise click.UsageError("--connect classifies by a model of that fleet: name it with --model")
        waits = settings.client
        made = Client(
            endpoint,
            timeout_s=waits.timeout_s,
            connect_timeout_s=waits.connect_timeout_s,
            credentials=credentials_for(endpoint, settings),
        )
        client = stack.enter_context(made)
        route = ("features", f"classify:{self.model}")

        def ask(window: Window) -> tuple[str | int, float]:
            # one at a time: the next window may be long in coming, and nobody would wait for this one's answer
            [result] = client.stream([window.job()], route=route, bank=self.bank)
            return result.label, float(result.fields["score"])

        return ask

    def _here(self, settings: Settings, say: Say) -> tuple[Ask, int | None]:
        from streamfeat.featuremap import FeatureMap
        from streamfeat.listening import judge_by, synthetic_model, train
        from streamfeat.model import Model, latest
        from streamfeat.presets import ensure_bank
        from streamfeat.signals import open_corpus

        if self.model is not None and self.train is not None:
            raise click.UsageError("--model is trained already, --train trains one: choose one")
        path = ensure_bank(self.bank, Path(settings.fleet.bank_dir), say=say)
        feature_map = FeatureMap.open(path, verify=False)
        first = feature_map.bank.spec.streams[0].front_end[0]
        if first.get("stage") != "resample":
            raise ConfigError(f"bank {feature_map.bank.name} is not for sounds; choose another with --bank")
        if self.model is not None:
            saved = Path(self.model)
            model = Model.open(saved) if (saved / "model.json").exists() else latest(saved)
        elif self.train is not None:
            utterances = open_corpus(self.train).utterances
            say(f"training on {len(utterances)} recordings")
            model = train(feature_map, utterances, [utterance.read() for utterance in utterances])
        else:
            model = synthetic_model(feature_map, Path(settings.fleet.state_dir) / "listen", say)
        judge = judge_by(feature_map, model)
        return (lambda window: judge(window.signal)), int(first["rate_hz"])


def cut_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How the sound is cut, handed on as one argument: `cut`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        sliding = kwargs.pop("every")
        spoken = {name: kwargs.pop(name) for name in ("floor_db", "margin_db", "hangover_s")}
        return function(*args, cut=Sliding(*sliding) if sliding else Utterances(**spoken), **kwargs)

    default = Utterances()
    for option in (
        click.option("--every", type=float, nargs=2, metavar="LENGTH HOP", help="Windows of LENGTH s every HOP s."),
        click.option("--hangover", "hangover_s", default=default.hangover_s, show_default=True, help="Pause, in s."),
        click.option("--margin", "margin_db", default=default.margin_db, show_default=True, help="Above noise, dB."),
        click.option("--floor", "floor_db", default=default.floor_db, show_default=True, help="Silence, dB."),
    ):
        command = option(command)
    return command


@click.command(
    help="Print what is said: in a FILE, in a pipe (-: RIFF, or raw PCM with --rate), or with --microphone; a line an "
    "utterance, as soon as it is over. Without --model or --train the model is trained on synthetic speech.",
    epilog=examples(
        "streamfeat listen word.wav",
        "cat word.wav | streamfeat listen - --json",
        "streamfeat listen --microphone",
        "# raw samples, 16 bits at 8 kHz",
        "cat word.pcm | streamfeat listen - --rate 8000",
        "# by a model of a fleet",
        "streamfeat listen word.wav --connect tcp://host:5555 --model digits",
    ),
)
@click.argument("file", required=False)
@click.option("--microphone", is_flag=True, help="Listen to this machine's microphone (extra `microphone`).")
@click.option("--rate", "rate_hz", type=click.IntRange(100, 768_000), help="Of raw PCM, or of the microphone, in Hz.")
@click.option("--format", "encoding", type=OneOf(list(ENCODINGS)), default="s16le", help="Of raw PCM [s16le].")
@click.option("--n-channels", type=click.IntRange(1, 64), default=1, help="Of raw PCM [1].")
@channels_option(default="refuse")
@click.option("--model", help="A saved model's folder; with --connect: a model's name in the fleet.")
@click.option("--train", type=click.Path(path_type=Path), help="Train on this corpus first.")
@click.option("--connect", help="A running broker's endpoint; else everything is computed here.")
@click.option("--bank", default="digits-audio", show_default=True, help="Preset, name, hash or directory.")
@cut_options
@with_settings
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, one line an utterance.")
def command(cut: Cut, settings: Settings, as_json: bool, **options: Any) -> int:
    """Cut, classify, print; status 3 when a window could not be classified."""
    judging = Judging(**{name: options.pop(name) for name in ("model", "train", "connect", "bank")})
    source = Source(path=options.pop("file"), **options)
    if (source.path is None) != source.microphone:
        raise click.UsageError("one source is needed: a FILE, - for a pipe, or --microphone")
    n_failed = 0
    with ExitStack() as stack:
        ask, to_hz = judging.open(settings, stack, lambda text: click.echo(text, err=True))
        for window in _windows(source, cut, to_hz):
            found = _judged(window, ask)
            n_failed += "error" in found
            click.echo(json.dumps(found) if as_json else _line(found))
    return EXIT_SOME_FAILED if n_failed else EXIT_OK


def _windows(source: Source, cut: Cut, to_hz: int | None) -> Iterator[Window]:
    stream: AudioStream | None = None
    for rate_hz, samples, lost in source.chunks():
        if stream is None:
            name = printable(source.path or "microphone")
            stream = AudioStream(rate_hz, to_hz=to_hz, cut=cut, name=name)
        if lost:
            click.echo(f"gap at {stream.heard_s:.3f} s: samples were lost", err=True)
            yield from stream.skip(0)
        yield from stream.push(samples)
    if stream is not None:
        yield from stream.close()


def _judged(window: Window, ask: Ask) -> dict[str, Any]:
    times = {"start_s": round(window.start_s, 4), "end_s": round(window.end_s, 4)}
    try:
        label, score = ask(window)
    except StreamfeatError as error:
        return {**times, "label": None, "score": None, "error": {"code": error.code, "reason": error.reason}}
    return {**times, "label": label, "score": score}


def _line(found: dict[str, Any]) -> str:
    times = f"{found['start_s']:8.2f} {found['end_s']:8.2f}  "
    if "error" in found:
        return f"{times}failed: {found['error']['code']}: {found['error']['reason']}"
    return f"{times}{found['label']:<8} {found['score']:.3f}"
