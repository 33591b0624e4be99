"""Spoken digits of speakers who were not trained on (Mroueh et al. 2015, figure 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.bankspec import BankSpec
from streamfeat.errors import InvalidArgument
from streamfeat.protocols.data import data_folder, need
from streamfeat.protocols.methods import SPEECH
from streamfeat.protocols.plan import Trial
from streamfeat.reports.pictures import Panel
from streamfeat.reproduce.curve import NN_METRIC, RLS_METRIC, Points, curve_rows, measure_trials, ranking_claim
from streamfeat.reproduce.experiment import Experiment, Findings, Run, claim, closeness, mean_of, row_of
from streamfeat.reproduce.spoken import (
    N_TEMPLATES,
    SPLITS,
    STAND_INS,
    Recordings,
    read_arabic,
    read_english,
    read_typed,
)
from streamfeat.signals import open_corpus
from streamfeat.synth import synthesise_corpus

ARABIC, ENGLISH, SYNTHETIC, REAL = "Arabic", "FSDD", "synthesised", "TIDIGITS"
METHODS = {
    "CDF, spectrogram": ("preset", "paper-a-tidigits"),
    "CDF, waveform": ("preset", "paper-a-tidigits-waveform"),
    "CDF, raw waveform": ("preset", "paper-a-tidigits-raw"),
    "CDF, raw waveform, shifts": ("preset", "paper-a-tidigits-shift"),
    "CDF, spectrogram, |G| = 1": ("plain", "paper-a-tidigits"),
    "MFCC": ("mfcc", "paper-a-tidigits"),
    "log-mel": ("logmel", "paper-a-tidigits"),
    "preset digits-audio": ("preset", "digits-audio"),
    "MiniRocket": ("minirocket", "digits-audio"),
    "MiniRocket, untrimmed": ("minirocket-untrimmed", "digits-audio"),
    "scattering": ("scattering", "digits-audio"),
}
"""Name -> method of the protocols, preset."""
CDF, WAVEFORM, RAW, SHIFTS, IDENTITY, MFCC, _, OURS = list(METHODS)[:8]
PACKAGES = {"minirocket": "aeon", "minirocket-untrimmed": "aeon", "scattering": "kymatio"}
"""Method -> what it needs, of the peers that not everybody has."""


@dataclass(frozen=True)
class Extent:
    """How much is run: draws of speakers, takes of a digit, synthesised speakers that train and are asked, m."""

    n_seeds: int = 5
    n_takes: int = 8
    n_synthetic: tuple[int, int] = (40, 20)
    m: int | None = None


FAST = Extent(2, 1, (16, 8), 150)


@dataclass(frozen=True)
class Corpus:
    """How it is read, and what is asked of it."""

    read: Callable[[], Recordings]
    trials: Callable[[Recordings], Iterator[Trial]]


def measure_tidigits(run: Run) -> Findings:
    """Accuracy on speakers who were not trained on, by corpus, split and number of training speakers."""
    extent = FAST if run.fast else Extent()
    found = corpora(run, extent)
    specs = [_spec(preset, extent.m, N_TEMPLATES).as_dict() for _, preset in METHODS.values()]
    run.begin({**vars(extent), "corpora": list(found), "files": run.hashes, "specs": specs})
    read: dict[str, Recordings] = {}

    def points(part: str) -> dict[str, Any]:
        corpus, _, name = part.partition(": ")
        if corpus not in read:
            read.clear()  # the recordings of one corpus at a time
            read[corpus] = found[corpus].read()
        method, preset = METHODS[name]

        def progress(what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
            return run.progress(f"{part}, {what}", total)

        taken: Points = []
        banks: dict[str, str] = {}
        for plan in read[corpus].plans(found[corpus].trials(read[corpus])):
            split = ", ".join(SPLITS.keys() & plan.columns)
            spec = _spec(preset, extent.m, len(plan.templates()))
            for some, bank in measure_trials(plan, SPEECH[method], spec, progress):
                taken += some
                if bank is not None:
                    banks[split] = bank
        return {"points": taken, "banks": banks}

    methods = [name for name in METHODS if name not in missing()]
    done = run.parts([f"{corpus}: {name}" for corpus in found for name in methods], points)
    rows: list[dict[str, Any]] = []
    for corpus in found:
        for name in methods:
            part = done[f"{corpus}: {name}"]
            rows += curve_rows(name, part["points"], corpus=corpus)
            run.hashes |= {f"bank {corpus}, {name} {split}".rstrip(): bank for split, bank in part["banks"].items()}
    panels = [
        Panel(f"{corpus}, {metric}, against training speakers", metric, "n", "x", {"corpus": corpus})
        for corpus in found
        for metric in (RLS_METRIC, NN_METRIC)
    ]
    return Findings(rows, _claims(rows), _deviations(list(found), extent), panels)


def missing() -> dict[str, str]:
    """Name -> package, of the peers whose package is not installed."""
    needed = {name: PACKAGES[method] for name, (method, _) in METHODS.items() if method in PACKAGES}
    return {name: package for name, package in needed.items() if not find_spec(package)}


def corpora(run: Run, extent: Extent) -> dict[str, Corpus]:
    """The user's own TIDIGITS; or what stands in for it, and a synthesised corpus in its layout.

    What is not there is missed at once, not after the corpora before it.
    """

    def typed(recordings: Recordings) -> Iterator[Trial]:
        yield from recordings.splits()
        yield from recordings.curve(extent.n_seeds)

    given = run.data
    if given is not None and _is_tidigits(given):
        run.read(given)
        return {REAL: Corpus(lambda: read_typed(given, run.progress), typed)}
    folder = data_folder(given)
    for name, what in STAND_INS.items():
        run.read(need(folder, name, what))
    synthesised = run.read(_synthesised(run, extent))
    return {
        ARABIC: Corpus(
            lambda: read_arabic(folder, extent.n_takes, run.progress), lambda some: some.curve(extent.n_seeds)
        ),
        ENGLISH: Corpus(
            lambda: read_english(folder, extent.n_takes, run.progress), lambda some: some.left_out(extent.n_seeds)
        ),
        SYNTHETIC: Corpus(lambda: read_typed(synthesised, run.progress), typed),
    }


def _is_tidigits(path: Path) -> bool:
    try:
        return open_corpus(path).layout == "tidigits"
    except InvalidArgument:
        return False  # a folder of several corpora, in which what stands in is looked for


def _synthesised(run: Run, extent: Extent) -> Path:
    n_train, n_test = extent.n_synthetic
    out = run.folder / f"synthesised-{n_train}-{n_test}"
    with run.progress("tidigits: synthesising", n_train + n_test) as advance:
        return synthesise_corpus(
            out, n_train_speakers=n_train, n_test_speakers=n_test, takes="a", strings=False, progress=advance
        )


def _spec(preset: str, m: int | None, n_recordings: int) -> BankSpec:
    """The preset; paper A's with at most m templates, and no more than recordings where each of them is one."""
    spec = BankSpec.preset(preset)
    if not preset.startswith("paper-a"):
        return spec
    table = spec.as_dict()
    most = n_recordings if table["templates"]["source"] == "data" else math.inf
    table["templates"]["m"] = min(m or math.inf, most, table["templates"]["m"])
    return BankSpec.from_dict(table)


def _claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What figure 3 and its text say, of each corpus where most speakers train, and what we say of every point."""
    claims = []
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        some = [row for row in rows if row["corpus"] == corpus and row["metric"] == RLS_METRIC]
        claims += [*_invariance(some), ranking_claim([row for row in some if "n" in row], OURS), *_between_kinds(some)]
    return claims


def _invariance(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the paper says of new speakers, by the rows of one corpus."""
    most = max(row["n"] for row in rows if "n" in row)
    cdf, one, mfcc, waveform, raw = (
        row_of(rows, name, RLS_METRIC, n=most) for name in (CDF, IDENTITY, MFCC, WAVEFORM, RAW)
    )
    shown = f"RLS, {rows[0]['corpus']}, {most} training speakers: "

    def above(text: str, higher: Mapping[str, Any], lower: Mapping[str, Any]) -> dict[str, Any]:
        figures = ", ".join(f"{some['method']} {some['mean']:.3f} ±{some['sd']:.3f}" for some in (higher, lower))
        return claim(text, higher["mean"] > lower["mean"], f"{shown}{figures}{closeness(higher, lower)}")

    yield above("Features invariant under pitch and tempo beat the same without the group on new speakers.", cdf, one)
    yield above("Invariant features beat MFCC.", cdf, mfcc)
    yield above(
        "Words moved as waveforms, as in the paper, and seen as log-mel, which the paper does without, beat MFCC.",
        waveform,
        mfcc,
    )
    yield above("Words as waveforms, as in the paper, without any spectrum, beat MFCC.", raw, mfcc)


def _between_kinds(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the paper says of speakers of another sex or age, where a corpus tells them apart."""
    splits = [name for name in SPLITS if any(row.get("split") == name for row in rows)]
    if not splits:
        return
    cdf, one, mfcc = (
        float(np.mean([mean_of(rows, name, RLS_METRIC, split=split) for split in splits]))
        for name in (CDF, IDENTITY, MFCC)
    )
    shown = f"RLS, {rows[0]['corpus']}, mean over {', '.join(splits)}: CDF {cdf:.3f}"
    yield claim(
        "They beat the same without the group on speakers of another sex or age.",
        cdf > one,
        f"{shown}, |G| = 1 {one:.3f}",
    )
    yield claim("They beat MFCC on speakers of another sex or age.", cdf > mfcc, f"{shown}, MFCC {mfcc:.3f}")
    yield ranking_claim([row for row in rows if "split" in row], OURS)


def _deviations(found: list[str], extent: Extent) -> list[str]:
    said = [
        "templates are compared with words as log-frequency spectrograms, as log-mel after waveforms were moved "
        f"({WAVEFORM}), or as waveforms, the paper's way ({RAW}), at 8 kHz; in the paper at 20 kHz",
        f"{SHIFTS}: moved by up to 20 ms, not in pitch or tempo; the paper has no such row",
        "thresholds span the projections, see the presets; the paper's own leave every column constant here",
        "group elements: 5 tempi (of waveforms 3) from half to double and 5 pitches within 400 cents; the paper gives "
        "the ranges",
        "figures of the paper's own curves could not be recovered: claims are of order",
        "one draw of templates; they may be recordings of all training speakers, also where few of these are labelled, "
        "but in a split by sex or age only of those who train: rows of waveforms then have as many templates as these "
        "said words, if that is less",
        "where all speakers train there is one draw: its deviation is the binomial error of the recordings, as if "
        "those of one speaker were no more alike than others",
    ]
    if REAL not in found:
        said.append(
            "TIDIGITS is licensed and was not given (--data): real recordings are Free Spoken Digits (English, 6 men) "
            "and Arabic digits (24 speakers); men, women, boys and girls are synthesised voices"
        )
    said += [
        "peers beside the paper's MFCC: 10,000 convolutions of MiniRocket on log-mel, fitted anew to each draw of "
        "training speakers (recordings trimmed at 30 dB as for MFCC, and whole); Scattering1D, J = Q = 8, at 8 kHz",
        *(
            f"the peer {method} was not run: {package} is not installed, scripts/peers does it"
            for method, package in missing().items()
        ),
    ]
    if extent is FAST:
        full = Extent()
        said.append(
            f"small form: {extent.n_takes} take of each digit, {extent.n_seeds} draws of speakers, "
            f"{extent.n_synthetic[0]} + {extent.n_synthetic[1]} synthesised speakers, at most {extent.m} templates in "
            f"paper A's banks; in full {full.n_takes}, {full.n_seeds}, {full.n_synthetic[0]} + {full.n_synthetic[1]} "
            "and 1,000"
        )
    return said


TIDIGITS = Experiment(
    "tidigits",
    "Ten spoken digits, test speakers never trained on; n is the number of training speakers (of FSDD each speaker is "
    "asked of n others; 5 are all of them). RLS with lambda by leaving speakers out, and 1-NN. Templates are random, "
    "or unlabelled recordings of training speakers (for FSDD of Arabic ones).",
    measure_tidigits,
)
