"""Corpora of spoken digits with many speakers, and how they are split between training and test."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.protocols.data import need, read_all
from streamfeat.protocols.plan import Plan, Progress, Trial, rows_of
from streamfeat.protocols.speech import ARABIC_TRAIN, ARABIC_VAL, FSDD
from streamfeat.signals import Signal, open_corpus
from streamfeat.signals.corpus import Utterance

RANDOM = "random speakers"
KINDS = ("man", "woman", "boy", "girl")
SPLITS = {
    "men to women": (("man",), ("woman",)),
    "women to men": (("woman",), ("man",)),
    "adults to children": (("man", "woman"), ("boy", "girl")),
    **{f"others to {kind}": (tuple(k for k in KINDS if k != kind), (kind,)) for kind in KINDS},
}
"""Name -> who trains and who is asked."""
N_TEMPLATES = 400
"""Recordings that banks see, labels left aside."""
STAND_INS = {
    ARABIC_TRAIN: "the Arabic digits",
    ARABIC_VAL: "the Arabic digits",
    FSDD: "the Free Spoken Digit Dataset",
}
"""Where there is no TIDIGITS: files, and what they are."""
TAKES_ASKED = range(40, 50)
"""Of Free Spoken Digits."""


@dataclass(frozen=True)
class Recordings:
    """A corpus in memory: what is said, by whom, by which kind of speaker, and who trains."""

    signals: list[Signal]
    labels: list[str]
    speakers: NDArray[np.str_]
    kinds: NDArray[np.str_]
    trains: NDArray[np.bool_]
    unlabelled: list[Signal]

    @classmethod
    def of(cls, utterances: Sequence[Utterance], trains: Sequence[bool], progress: Progress) -> Recordings:
        """Read every one of them. Banks see recordings that train, without labels, and nobody who is asked."""
        signals = _read(utterances, progress)
        # TIDIGITS' speakers are split/kind/letters
        speakers = [u.speaker or u.name for u in utterances]
        kinds = [speaker.split("/")[1] if "/" in speaker else "" for speaker in speakers]
        seen = [signal for signal, taught in zip(signals, trains, strict=True) if taught]
        labels = [u.label for u in utterances]
        return cls(signals, labels, np.array(speakers), np.array(kinds), np.array(trains), seen)

    def plans(self, trials: Iterable[Trial]) -> Iterator[Plan]:
        """One for all trials that may share a bank, and one for each of `SPLITS`, whose bank hears no other kind.

        Who trains on men and is asked by women must not have heard women, not even without labels.
        """
        shared: list[Trial] = []
        apart: list[Trial] = []
        for trial in trials:
            (apart if SPLITS.keys() & trial.tests.keys() else shared).append(trial)
        yield self._plan(shared, self.unlabelled)
        for trial in apart:
            yield self._plan([trial], [self.signals[row] for row in trial.train])

    def _plan(self, trials: Sequence[Trial], unlabelled: Sequence[Signal]) -> Plan:
        """Lambda is chosen by leaving speakers out."""
        chosen = np.sort(np.random.default_rng(0).permutation(len(unlabelled))[:N_TEMPLATES])
        return Plan(
            self.labels,
            self.signals.__getitem__,
            lambda: [unlabelled[i] for i in chosen],
            tuple(trials),
            speakers=[str(speaker) for speaker in self.speakers],
        )

    def curve(self, n_seeds: int) -> Iterator[Trial]:
        """2, 4, 8 ... and all training speakers, drawn anew for each seed; a column is their number.

        Not one: lambda is chosen by leaving a speaker out.
        """
        names, asked = np.unique(self.speakers[self.trains]), rows_of(~self.trains)
        sizes = [2**i for i in range(1, 10) if 2**i < len(names)]
        for n in (*sizes, len(names)):
            for seed in range(n_seeds if n < len(names) else 1):
                chosen = np.random.default_rng([seed, n]).choice(names, n, replace=False)
                yield Trial(seed, rows_of(self.trains & np.isin(self.speakers, chosen)), {str(n): asked})

    def splits(self) -> Iterator[Trial]:
        """The kinds' splits, training speakers against those who are asked; where two train, to choose lambda by."""
        yield Trial(0, rows_of(self.trains), {RANDOM: rows_of(~self.trains)})
        for name, (taught, asked) in SPLITS.items():
            train = rows_of(self.trains & np.isin(self.kinds, taught))
            test = rows_of(~self.trains & np.isin(self.kinds, asked))
            if len(np.unique(self.speakers[train])) > 1 and len(test):
                yield Trial(0, train, {name: test})

    def left_out(self, n_seeds: int) -> Iterator[Trial]:
        """Each speaker asked of 2, 3 ... and all of the others; a column is their number.

        For each seed another set of the others, as long as there are any: of five speakers ten pairs and one five.
        """
        names = np.unique(self.speakers)
        for n in range(2, len(names)):
            chosen = {held: _sets(names[names != held], n, n_seeds, [n, i]) for i, held in enumerate(names)}
            for seed in range(min(n_seeds, math.comb(len(names) - 1, n))):
                for held in names:
                    train = rows_of(self.trains & np.isin(self.speakers, chosen[held][seed]))
                    yield Trial(seed, train, {str(n): rows_of(~self.trains & (self.speakers == held))})


def read_typed(path: Path, progress: Progress) -> Recordings:
    """A corpus in TIDIGITS' layout, its own split; ten words, without oh, so that no digit is said twice as often.

    Raises
    ------
    ConfigError
        Fewer than two speakers train, or nobody is asked.
    """
    utterances = [u for u in open_corpus(path).utterances if u.label != "oh"]
    speakers = Counter(split for split, _ in {(u.split, u.speaker) for u in utterances})
    if speakers["train"] < 2 or not speakers["test"]:
        raise ConfigError(
            f"{path}: needs two speakers below train and one below test, got {speakers['train']} and "
            f"{speakers['test']}; name the folder that holds both"
        )
    return Recordings.of(utterances, [u.split == "train" for u in utterances], progress)


def read_arabic(folder: Path, n_takes: int, progress: Progress) -> Recordings:
    """18 speakers train, 6 others are asked, so many rounds of each."""
    every = []
    for name in (ARABIC_TRAIN, ARABIC_VAL):
        found = open_corpus(need(folder, name, STAND_INS[name])).utterances
        every += [(u, name == ARABIC_TRAIN) for u in found if _take(u) <= n_takes]
    return Recordings.of([u for u, _ in every], [taught for _, taught in every], progress)


def read_english(folder: Path, n_takes: int, progress: Progress) -> Recordings:
    """Free Spoken Digits: the first takes train, takes 40 to 49 are asked; banks see Arabic speakers."""
    found = open_corpus(need(folder, FSDD, STAND_INS[FSDD])).utterances
    kept = [u for u in found if _take(u) < n_takes or _take(u) in TAKES_ASKED]
    recordings = Recordings.of(kept, [_take(u) < n_takes for u in kept], progress)
    strangers = open_corpus(need(folder, ARABIC_TRAIN, STAND_INS[ARABIC_TRAIN])).utterances
    chosen = np.random.default_rng(0).permutation(len(strangers))[:N_TEMPLATES]
    return replace(recordings, unlabelled=_read([strangers[i] for i in np.sort(chosen)], progress))


def _sets(names: NDArray[np.str_], n: int, n_sets: int, seed: list[int]) -> list[tuple[str, ...]]:
    """So many sets of n of the names, none twice, or all that there are."""
    every = list(itertools.combinations(names.tolist(), n))
    return [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:n_sets]]


def _read(utterances: Sequence[Utterance], progress: Progress) -> list[Signal]:
    with progress("tidigits: reading", len(utterances)) as advance:
        return read_all(utterances, advance)


def _take(utterance: Utterance) -> int:
    return int(utterance.take or 0)
