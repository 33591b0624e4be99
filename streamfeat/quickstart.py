"""The whole line once: a synthesised corpus and handwritten digits through a fleet of real processes.

Audio: espeak-ng "speakers" in TIDIGITS' layout, trained on some and tested on others. Images: scikit-learn's digits
enlarged to 28 x 28, trained upright, tested set down at random within +-3 px and +-20 degrees. Each with three banks:
the best preset (orbits of patches), the papers' global orbits, and these at |G| = 1, so that what invariance is worth
can be read off.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.bank import open_bank
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.delivery import Delivery, Failure, Readable, deliver, labels_of, rate_report
from streamfeat.directory import replace_file
from streamfeat.errors import ConfigError
from streamfeat.figures import new_figure, save_png
from streamfeat.fleet import LocalFleet, private_settings
from streamfeat.learn.rls import RLS
from streamfeat.presets import ensure_bank
from streamfeat.presets.unlabelled import enlarge, load_small_digits
from streamfeat.signals import Signal
from streamfeat.signals.corpus import open_corpus
from streamfeat.synth import synthesise_corpus

N_TRAIN_SPEAKERS = 16
N_TEST_SPEAKERS = 32
N_TRAIN_DIGITS = 1000
SHIFT_PX = 3
TURN_DEG = 20.0
CURVE_SPEAKERS = (2, 4, 8, 16)
EXTRA = ("espeakng_loader", "sklearn", "matplotlib")
"""What the extra `quickstart` installs."""

WAYS = {
    task: {"patches": (f"digits-{task}", False), "global": (f"global-{task}", False), "plain": (f"global-{task}", True)}
    for task in ("audio", "image")
}
"""Orbits of patches, the papers' orbits of the whole, and no orbits, for each task: preset, and whether at |G| = 1."""

CURVE_NAMES = {"patches": "orbits of patches", "global": "orbits of the whole", "plain": "|G| = 1"}

Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Picture:
    """A labelled picture in memory."""

    name: str
    label: int
    samples: NDArray[np.uint8] = field(repr=False)

    def read(self) -> Signal:
        """The picture as a signal."""
        return Signal("image", self.samples, name=self.name)


@dataclass(frozen=True)
class Task:
    """One half of the demonstration: what is trained on, what is tested, by which bank."""

    name: str
    presets: Mapping[str, tuple[str, bool]]
    """Way of making features -> its preset, and whether that at |G| = 1."""
    train: Sequence[Readable]
    test: Sequence[Readable]
    speakers: Sequence[str | None] | None = None
    """Of the training items, where they have any."""
    unlabelled: Sequence[Signal] | None = None
    """What banks are built from; None: what the presets take by themselves."""


@dataclass
class Outcome:
    """What came of a task."""

    sent: int = 0
    failed: list[Failure] = field(default_factory=list)
    accuracy: float = 0.0
    accuracy_global: float = 0.0
    accuracy_plain: float = 0.0
    accuracy_neighbour: float = 0.0
    truth: list[Any] = field(default_factory=list)
    predicted: list[Any] = field(default_factory=list)
    curve: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "sent": self.sent,
            "answered": self.sent - len(self.failed),
            "failed": len(self.failed),
            "failures": [failure.as_dict() for failure in self.failed],
            "accuracy": round(self.accuracy, 4),
            "accuracy_global": round(self.accuracy_global, 4),
            "accuracy_plain": round(self.accuracy_plain, 4),
            "accuracy_neighbour": round(self.accuracy_neighbour, 4),
        }


def run_quickstart(
    folder: Path, settings: Settings, *, progress: Progress, say: Callable[[str], None], seed: int = 0
) -> dict[str, Any]:
    """Make the corpus and the banks (or find them), run the fleet, learn, test, draw.

    Parameters
    ----------
    folder : Path
        Keeps corpus, banks, what was learned, `summary.json` and `quickstart.png`; a second run uses what is there.
    settings : Settings
        Limits; directories and endpoints are the run's own.
    progress : callable
        `progress(description, total)` is a context that gives the function moving the bar on.
    say : callable
        Takes one line for the user.
    seed : int
        Of corpus and displacements.

    Returns
    -------
    dict
        {"audio", "image", "items_per_s", "p50_ms", "p99_ms", "wall_s", "picture"}; the summary file holds the same.

    Raises
    ------
    ConfigError
        The extra `quickstart` is not installed.
    """
    started = time.monotonic()
    _need_extra()
    folder.mkdir(parents=True, exist_ok=True)
    with progress("speakers", N_TRAIN_SPEAKERS + N_TEST_SPEAKERS) as advance:
        corpus_path = synthesise_corpus(
            folder / "corpus",
            n_train_speakers=N_TRAIN_SPEAKERS,
            n_test_speakers=N_TEST_SPEAKERS,
            seed=seed,
            progress=advance,
        )
    tasks = (_audio_task(corpus_path), _image_task(seed))
    banks = {
        task.name: {
            way: ensure_bank(preset, folder / "banks", signals=task.unlabelled, plain=plain, say=say)
            for way, (preset, plain) in task.presets.items()
        }
        for task in tasks
    }
    total = Delivery()
    outcomes: dict[str, Outcome] = {}
    settings = replace(settings, fleet=replace(settings.fleet, bank_dir=str(folder / "banks")))
    with private_settings(settings, state_dir=folder / "state") as private:
        log_dir = folder / "log"
        paths = [path for own in banks.values() for path in own.values()]
        say("starting broker, 2 feature workers, learner and index")
        with (
            LocalFleet(private, paths, n_workers=2, learner=True, index=True, log_dir=log_dir) as fleet,
            Client(fleet.front, timeout_s=settings.client.timeout_s) as client,
        ):
            for task in tasks:
                outcomes[task.name] = _run_task(client, task, banks[task.name], total, progress)
    summary = {
        **{name: outcome.summary() for name, outcome in outcomes.items()},
        **rate_report(total.latencies_ms, total.wall_s),
        "wall_s": round(time.monotonic() - started, 1),
        "picture": str(folder / "quickstart.png"),
    }
    draw(folder / "quickstart.png", outcomes, banks["audio"]["global"], banks["image"]["global"])
    replace_file(folder / "summary.json", json.dumps(summary, indent=2) + "\n")
    return summary


def _need_extra() -> None:
    """Refuse before the work, not after minutes of it, where something is not installed."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)} not installed; pip install 'streamfeat[quickstart]'")


def _audio_task(corpus_path: Path) -> Task:
    utterances = open_corpus(corpus_path).utterances
    train = [u for u in utterances if u.split == "train"]
    test = [u for u in utterances if u.split == "test"]
    return Task("audio", WAYS["audio"], train, test, speakers=[u.speaker for u in train])


def _image_task(seed: int) -> Task:
    small, shown = load_small_digits()
    pictures, labels = [enlarge(digit) for digit in small], [int(label) for label in shown]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pictures))
    train = [Picture(f"digit-{i}", labels[i], pictures[i]) for i in order[:N_TRAIN_DIGITS]]
    test = [Picture(f"digit-{i}-moved", labels[i], set_down(pictures[i], rng)) for i in order[N_TRAIN_DIGITS:]]
    return Task("image", WAYS["image"], train, test, unlabelled=[picture.read() for picture in train])


def set_down(picture: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.uint8]:
    """The picture turned about its middle within +-20 degrees, then moved within +-3 px, both uniform; bilinear."""
    angle = np.deg2rad(rng.uniform(-TURN_DEG, TURN_DEG))
    dx, dy = rng.uniform(-SHIFT_PX, SHIFT_PX, 2)
    cos, sin = np.cos(angle), np.sin(angle)
    # Pillow asks where each output point comes from; coordinates run along pixel edges, the middle is side / 2
    x, y = picture.shape[1] / 2, picture.shape[0] / 2
    source = (cos, sin, x - cos * (x + dx) - sin * (y + dy), -sin, cos, y + sin * (x + dx) - cos * (y + dy))
    size = (picture.shape[1], picture.shape[0])
    turned = Image.fromarray(picture).transform(size, Image.Transform.AFFINE, source, Image.Resampling.BILINEAR)
    return np.asarray(turned)


def _run_task(client: Client, task: Task, banks: Mapping[str, Path], total: Delivery, progress: Progress) -> Outcome:
    """Train and test one task with each of its banks; index and search with the best."""
    outcome = Outcome()

    def send(items: Sequence[Readable], stage: str, way: str, stream: str = "") -> Delivery:
        bank = open_bank(banks[way], verify=False)
        # a model belongs to one bank: its name carries the hash, so that a rebuilt bank starts a new one
        target = f"{task.name}-{bank.hash[:8]}"
        label = f"{task.name} {way}: {stage or 'features'}"
        with progress(label, len(items)) as advance:
            delivery = deliver(
                client,
                items,
                route=f"features > {stage}:{target}" if stage else "features",
                bank=bank.hash,
                groups=task.speakers if stream else None,
                stream=stream or None,
                progress=advance,
            )
        outcome.sent += delivery.sent
        outcome.failed += delivery.failed
        total.merge(delivery)
        if stage == "learn":
            client.fit(target)
        return delivery

    accuracy: dict[str, float] = {}
    for way in banks:
        send(task.train, "learn", way, stream=f"{task.name}-train")
        tested = send(task.test, "classify", way)
        truth = labels_of(task.test, tested.positions)
        predicted = [result.label for result in tested.results]
        accuracy[way] = _agreement(truth, predicted)
        if way == "patches":
            outcome.truth, outcome.predicted = truth, predicted
    outcome.accuracy, outcome.accuracy_global = accuracy["patches"], accuracy["global"]
    outcome.accuracy_plain = accuracy["plain"]
    send(task.train, "insert", "patches", stream=f"{task.name}-train")
    searched = send(task.test, "search", "patches")
    nearest = [result.fields["labels"][0] for result in searched.results]
    outcome.accuracy_neighbour = _agreement(labels_of(task.test, searched.positions), nearest)
    if task.name == "audio":
        for way in banks:
            train, test = send(task.train, "", way), send(task.test, "", way)
            outcome.curve[CURVE_NAMES[way]] = _speaker_curve(task, train, test)
    return outcome


def _agreement(truth: Sequence[Any], predicted: Sequence[Any]) -> float:
    return float(np.mean([t == p for t, p in zip(truth, predicted, strict=True)])) if truth else 0.0


def _speaker_curve(task: Task, train: Delivery, test: Delivery) -> list[tuple[int, float]]:
    """Accuracy on the test speakers of RLS fitted on the first n training speakers."""
    X, X_test = train.features(), test.features()
    labels, truth = labels_of(task.train, train.positions), labels_of(task.test, test.positions)
    assert task.speakers is not None  # audio has them
    groups = [task.speakers[place] for place in train.positions]
    # speakers in turn of kind (man, woman, boy, girl), so that few speakers are still of every kind
    by_kind: dict[str, list[str]] = {}
    for speaker in sorted({g for g in groups if g is not None}):
        by_kind.setdefault(speaker.split("/")[1], []).append(speaker)
    longest = max(len(members) for members in by_kind.values())
    order = [m[i] for i in range(longest) for m in by_kind.values() if i < len(m)]
    curve = []
    for n in CURVE_SPEAKERS:
        rows = [i for i, group in enumerate(groups) if group in order[:n]]
        rls = RLS("logo").fit(X[rows], [labels[i] for i in rows], groups=[groups[i] for i in rows])
        curve.append((n, _agreement(truth, list(rls.predict(X_test)))))
    return curve


def draw(file: Path, outcomes: Mapping[str, Outcome], audio_bank: Path, image_bank: Path) -> None:
    """One picture: confusion matrix, accuracy against training speakers, a template of each bank with its orbit."""
    from streamfeat.contactsheet import contact_sheet

    figure = new_figure(13, 7)
    grid = figure.add_gridspec(2, 2, height_ratios=[4, 1])
    audio = outcomes["audio"]
    words = sorted({*audio.truth, *audio.predicted}, key=str)
    place = {word: i for i, word in enumerate(words)}
    counts = np.zeros((len(words), len(words)), int)
    for truth, predicted in zip(audio.truth, audio.predicted, strict=True):
        counts[place[truth], place[predicted]] += 1
    axis = figure.add_subplot(grid[0, 0])
    axis.imshow(counts, cmap="Blues")
    for (row, column), n in np.ndenumerate(counts):
        if n:
            axis.text(column, row, str(n), ha="center", va="center", fontsize=8)
    axis.set_xticks(range(len(words)), words, rotation=45)
    axis.set_yticks(range(len(words)), words)
    axis.set(title=f"spoken digits, unseen speakers: {audio.accuracy:.3f}", xlabel="predicted", ylabel="spoken")
    axis = figure.add_subplot(grid[0, 1])
    for name, points in audio.curve.items():
        axis.plot(*zip(*points, strict=True), marker="o", label=name)
    axis.set(title="accuracy on unseen speakers (synthetic speech)", xlabel="training speakers", xscale="log")
    axis.set_xticks(CURVE_SPEAKERS, [str(n) for n in CURVE_SPEAKERS])
    axis.minorticks_off()
    axis.grid(alpha=0.3)
    axis.legend()
    for column, (name, bank) in enumerate((("spectrogram", audio_bank), ("picture", image_bank))):
        axis = figure.add_subplot(grid[1, column])
        axis.imshow(np.asarray(contact_sheet(open_bank(bank, verify=False), n_templates=1)), cmap="gray")
        axis.set_title(f"a {name} template and its orbit")
        axis.set_axis_off()
    save_png(figure, file)
