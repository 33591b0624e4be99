"""Spoken digits, understood from speakers who were not trained on: fsdd-loso and arabic.

Templates come from the Arabic training speakers in both, so no tested speaker is in a bank. The seeds are the banks'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamfeat.protocols.data import given_recordings, need, read_all
from streamfeat.protocols.plan import Plan, Rows, Source, Trial, rows_of
from streamfeat.protocols.trouble import TROUBLES, troubled
from streamfeat.signals import Signal, open_corpus
from streamfeat.signals.corpus import Utterance

FSDD, ARABIC_TRAIN, ARABIC_VAL = "fsdd", "arabic_digits/arabic_digits_train.zip", "arabic_digits/arabic_digits_val.zip"
TEST_TAKES = {"test 40-49": range(40, 50), "test 10-39": range(10, 40)}
PAIRS = tuple(range(0, 10, 2))
"""First takes of the draws of two: 0-1, 2-3 ... 8-9."""
ROUNDS = {"rounds 1-2": range(1, 3), "rounds 1-8": range(1, 9)}
GIVEN = "given items"
UNNAMED = "speaker unknown"


@dataclass(frozen=True)
class Spoken:
    """Recordings in memory, who says what in them, and which take it is (-1: not told)."""

    signals: list[Signal]
    labels: list[str]
    speakers: NDArray[np.str_]
    takes: Rows
    n_given: int = 0

    @classmethod
    def of(cls, source: Source, utterances: Sequence[Utterance], name: str) -> Spoken:
        """The protocol's utterances, and after them those that were given."""
        given: Sequence[Utterance] = ()
        if source.given is not None:
            given = given_recordings(source.given, [u.label for u in utterances])
        every = [*utterances, *given]
        with source.progress(f"{name}: reading", len(every)) as advance:
            signals = read_all(every, advance)
        takes = [int(u.take) if u.take is not None and u.take.isdecimal() else -1 for u in every]
        speakers = [u.speaker or UNNAMED for u in every]
        return cls(signals, [u.label for u in every], np.array(speakers), np.array(takes, np.intp), len(given))

    @property
    def own(self) -> NDArray[np.bool_]:
        """Which are the protocol's."""
        return np.arange(len(self.signals)) < len(self.signals) - self.n_given

    @property
    def given_speakers(self) -> set[str]:
        """Who speaks what was given: nothing of them may be in a bank."""
        return set(self.speakers[~self.own].tolist())

    def by(self, speakers: set[str]) -> NDArray[np.bool_]:
        """Which are spoken by one of these."""
        return np.isin(self.speakers, sorted(speakers))

    def said_in(self, takes: range) -> NDArray[np.bool_]:
        """Which of the protocol's are one of these takes."""
        return self.own & (self.takes >= takes.start) & (self.takes < takes.stop)


def plan_fsdd(source: Source) -> Plan:
    """Free Spoken Digits, each speaker answered by a model of the others.

    Columns "2 takes" are the mean over five pairs of takes on takes 40-49 and takes 0-1 alone on takes 10-39; "10
    takes" are takes 0-9. The troubled columns are those of 10 takes, tested on takes 40-49; babble is made of the
    recordings that the model was trained on, so that nobody who is asked is heard in it.
    """
    utterances = open_corpus(need(source.data, FSDD, "the Free Spoken Digit Dataset (a zip or folder)")).utterances
    spoken = Spoken.of(source, utterances, "fsdd-loso")
    tests = _fsdd_tests(spoken)
    clean = next(column for column in tests if column.startswith("10 takes"))
    trouble = _Trouble(spoken, rows_of(tests[clean]))
    trials = tuple(_fsdd_trials(spoken, tests, clean, trouble))
    return Plan(
        labels=[*spoken.labels, *(spoken.labels[row] for row, _ in trouble.items)],
        read=trouble.read,
        templates=_arabic_templates(source, spoken.given_speakers),
        trials=trials,
        speakers=[str(spoken.speakers[row]) for row in (*range(len(spoken.signals)), *(r for r, _ in trouble.items))],
        clean={f"10 takes, {name}": clean for name in TROUBLES},
        notes=(
            "templates and thresholds from Arabic training speakers alone",
            "babble is made of the training speakers' recordings",
        ),
    )


def plan_arabic(source: Source) -> Plan:
    """Arabic digits: 18 speakers train, 6 others are asked; two rounds a speaker, or eight."""
    train = open_corpus(need(source.data, ARABIC_TRAIN, "the Arabic digits' training zip")).utterances
    asked: Sequence[Utterance] = ()
    if source.given is None:
        asked = open_corpus(need(source.data, ARABIC_VAL, "the Arabic digits' validation zip")).utterances
    spoken = Spoken.of(source, [*train, *asked], "arabic")
    n_train = len(train)
    of_train = np.arange(len(spoken.signals)) < n_train
    trials = []
    for name, rounds in ROUNDS.items():
        taught = of_train & spoken.said_in(rounds)
        column = name if source.given is None else f"{name}, {GIVEN}"
        for held, rows in _by_knowing(spoken, rows_of(~of_train), set(spoken.speakers[:n_train].tolist())):
            trials.append(Trial(0, rows_of(taught & (spoken.speakers != held)), {column: rows}))
    return Plan(
        labels=spoken.labels,
        read=spoken.signals.__getitem__,
        templates=lambda: [spoken.signals[i] for i in rows_of(of_train & ~spoken.by(spoken.given_speakers))],
        trials=tuple(trials),
        speakers=[str(speaker) for speaker in spoken.speakers],
        notes=("templates and thresholds from the training speakers alone",),
    )


class _Trouble:
    """The spoken items, and after them each tested row in each kind of trouble, made when it is read."""

    def __init__(self, spoken: Spoken, rows: Rows) -> None:
        self.spoken = spoken
        self.items = [(int(row), name) for name in TROUBLES for row in rows]
        self._place = {item: len(spoken.signals) + i for i, item in enumerate(self.items)}
        taught = spoken.said_in(range(10))
        self._voices = {
            speaker: [spoken.signals[i] for i in rows_of(taught & (spoken.speakers != speaker))]
            for speaker in {str(spoken.speakers[row]) for row in rows}
        }

    def read(self, row: int) -> Signal:
        if row < len(self.spoken.signals):
            return self.spoken.signals[row]
        clean, name = self.items[row - len(self.spoken.signals)]
        return troubled(self.spoken.signals[clean], name, self._voices[str(self.spoken.speakers[clean])], clean)

    def of(self, rows: Rows, name: str) -> Rows:
        """The rows of the same items in that trouble."""
        return np.array([self._place[int(row), name] for row in rows], np.intp)


def _fsdd_tests(spoken: Spoken) -> dict[str, NDArray[np.bool_]]:
    """Column -> which items it asks."""
    if spoken.n_given:
        return {f"{n} takes, {GIVEN}": ~spoken.own for n in (2, 10)}
    return {f"{n} takes, {name}": spoken.said_in(takes) for n in (2, 10) for name, takes in TEST_TAKES.items()}


def _fsdd_trials(spoken: Spoken, tests: dict[str, NDArray[np.bool_]], clean: str, trouble: _Trouble) -> Iterator[Trial]:
    tested = rows_of(np.logical_or.reduce(list(tests.values())))
    for held, rows in _by_knowing(spoken, tested, set(spoken.speakers[spoken.own].tolist())):
        asked = np.isin(np.arange(len(spoken.signals)), rows)
        taught = spoken.own & (spoken.speakers != held)
        own = {column: rows_of(asked & chosen) for column, chosen in tests.items()}
        two = {column: rows for column, rows in own.items() if column.startswith("2 takes") and len(rows)}
        ten = {column: rows for column, rows in own.items() if column.startswith("10 takes") and len(rows)}
        if clean in ten:
            ten |= {f"10 takes, {name}": trouble.of(ten[clean], name) for name in TROUBLES}
        for pair in PAIRS:
            # takes 10-39 are asked of takes 0-1 alone
            drawn = {column: rows for column, rows in two.items() if pair == 0 or not column.endswith("10-39")}
            yield Trial(0, rows_of(taught & spoken.said_in(range(pair, pair + 2))), drawn)
        yield Trial(0, rows_of(taught & spoken.said_in(range(10))), ten)


def _by_knowing(spoken: Spoken, tested: Rows, trained: set[str]) -> Iterator[tuple[str, Rows]]:
    """Tested rows by the training speaker who must be held out for them, "" for all whom training never heard."""
    held = np.array([s if s in trained else "" for s in spoken.speakers[tested].tolist()])
    for speaker in sorted(set(held.tolist())):
        yield speaker, tested[held == speaker]


def _arabic_templates(source: Source, without: set[str]) -> Callable[[], list[Signal]]:
    def read() -> list[Signal]:
        path = need(source.data, ARABIC_TRAIN, "the Arabic digits' training zip, which templates are taken from")
        utterances = [u for u in open_corpus(path).utterances if u.speaker not in without]
        with source.progress("reading templates", len(utterances)) as advance:
            return read_all(utterances, advance)

    return read
