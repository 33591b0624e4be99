"""Splits of speakers: nobody is asked who trained, and kinds are those of the corpus."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.reproduce.spoken import KINDS, RANDOM, SPLITS, Recordings
from streamfeat.signals import Signal


def recordings(n_train: int = 8, n_test: int = 4) -> Recordings:
    """One word a speaker, kinds in turn."""
    speakers = [f"{split}/{KINDS[i % 4]}/s{i}" for split, n in (("train", n_train), ("test", n_test)) for i in range(n)]
    signals = [Signal("audio", np.ones(4, np.float32), 8000, name) for name in speakers]
    return Recordings(
        signals,
        ["one"] * len(speakers),
        np.array(speakers),
        np.array([name.split("/")[1] for name in speakers]),
        np.arange(len(speakers)) < n_train,
        signals[:n_train],
    )


def test_curves_draw_speakers() -> None:
    """2, 4 and all 8 training speakers, two draws of the first two; everybody else is asked."""
    some = recordings()
    trials = list(some.curve(2))
    assert [(trial.seed, len(trial.train), *trial.tests) for trial in trials] == [
        (0, 2, "2"), (1, 2, "2"), (0, 4, "4"), (1, 4, "4"), (0, 8, "8"),
    ]  # fmt: skip
    for trial in trials:
        assert trial.tests[str(len(trial.train))].tolist() == [8, 9, 10, 11]
    assert set(trials[0].train) != set(trials[1].train)


def test_kinds_are_split() -> None:
    """Who trains and who is asked is what the split's name says, always other speakers."""
    some = recordings()
    trials = list(some.splits())
    assert [name for trial in trials for name in trial.tests] == [RANDOM, *SPLITS]
    for trial in trials[1:]:
        ((name, asked),) = trial.tests.items()
        assert (set(some.kinds[trial.train]), set(some.kinds[asked])) == tuple(map(set, SPLITS[name]))
        assert some.trains[trial.train].all()
        assert not some.trains[asked].any()


def test_each_speaker_is_asked_of_the_others() -> None:
    """Two, three and all four others train: each draw another set, without who is asked, while there are sets."""
    base = recordings(5, 5)
    names = np.array([f"s{i % 5}" for i in range(10)])
    some = Recordings(base.signals, base.labels, names, base.kinds, base.trains, base.unlabelled)
    trials = list(some.left_out(5))
    drawn: dict[tuple[str, str], list[frozenset[str]]] = {}
    for trial in trials:
        ((n, asked),) = trial.tests.items()
        (held,) = names[asked]
        taught = frozenset(names[trial.train].tolist())
        assert len(trial.train) == len(taught) == int(n)
        assert held not in taught
        assert some.trains[trial.train].all()
        assert not some.trains[asked].any()
        sets = drawn.setdefault((n, held), [])
        assert trial.seed == len(sets)
        sets.append(taught)
    # six pairs and four threes, of which five and four are drawn, and one four
    assert {key: len(sets) for key, sets in drawn.items()} == {
        (n, f"s{i}"): count for n, count in (("2", 5), ("3", 4), ("4", 1)) for i in range(5)
    }
    assert all(len(set(sets)) == len(sets) for sets in drawn.values())


@pytest.mark.parametrize("n_train", [4, 500])
def test_banks_see_training_recordings(n_train: int) -> None:
    """At most 400 of them, and none that is asked."""
    some = recordings(n_train)
    (plan,) = some.plans(some.curve(1))
    seen = [signal.name for signal in plan.templates()]
    assert len(seen) == min(n_train, 400)
    assert all(name.startswith("train/") for name in seen)


def test_banks_of_a_split_hear_its_kinds_alone() -> None:
    """What trains on men hears no woman, not even without labels; the curve and random speakers share a bank."""
    some = recordings()
    shared, *apart = some.plans([*some.splits(), *some.curve(1)])
    assert shared.columns == (RANDOM, "2", "4", "8")
    assert len(shared.templates()) == 8
    assert [plan.columns for plan in apart] == [(name,) for name in SPLITS]
    for plan, (taught, _) in zip(apart, SPLITS.values(), strict=True):
        assert {signal.name.split("/")[1] for signal in plan.templates()} == set(taught)


def test_a_split_needs_two_who_train() -> None:
    """Lambda is chosen by leaving one out: of a single woman there is no split of women to men."""
    found = [name for trial in recordings(5).splits() for name in trial.tests]
    assert found == [name for name in (RANDOM, *SPLITS) if name != "women to men"]
