"""Items where no data folder is: scikit-learn's handwritten digits, and synthetic speakers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from streamfeat.presets import preset_signals
from streamfeat.presets.unlabelled import enlarge, load_small_digits
from streamfeat.protocols.drawn import Drawn
from streamfeat.protocols.plan import Plan, Trial, rows_of
from streamfeat.signals import Signal, open_corpus
from streamfeat.synth import synthesise_corpus

N_TRAIN = 1297
"""Of 1,797 digits: more than 100 of each class."""
N_SPEAKERS, N_HELD = 8, 3


def plan_small_digits() -> Plan:
    """scikit-learn's digits at 28 x 28: 10 and 100 labels a class, 500 are asked."""
    small, shown = load_small_digits()
    order = np.random.default_rng(0).permutation(len(small))
    pictures = [enlarge(small[i]) for i in order]
    labels = [str(shown[i]) for i in order]
    drawn = Drawn(labels, lambda row: Signal("image", pictures[row], name=f"digit {row}"), N_TRAIN, None)
    asked = np.arange(N_TRAIN, len(labels))
    trials = []
    for n in (10, 100):
        train = drawn.per_class(n, 0)
        assert train is not None  # the digits are always the same
        trials.append(Trial(0, train, {f"{n} labels": asked}))
    return drawn.plan(tuple(trials), ("scikit-learn's digits stand in for MNIST: no data folder is there",))


def plan_synthetic_speech() -> Plan:
    """Two takes of espeak-ng speakers, each asked of a model of the others. Templates: other synthetic speakers."""
    with tempfile.TemporaryDirectory(prefix="streamfeat-") as folder:
        corpus = synthesise_corpus(
            Path(folder) / "corpus", n_train_speakers=N_SPEAKERS, n_test_speakers=0, takes="ab", strings=False, seed=7
        )
        utterances = open_corpus(corpus).utterances
        signals = [utterance.read() for utterance in utterances]
    speakers = np.array([utterance.speaker or "" for utterance in utterances])
    trials = tuple(
        Trial(0, rows_of(speakers != held), {"2 takes": rows_of(speakers == held)})
        for held in np.unique(speakers)[:N_HELD]
    )
    return Plan(
        labels=[utterance.label for utterance in utterances],
        read=signals.__getitem__,
        templates=lambda: preset_signals("digits-audio"),
        trials=trials,
        speakers=speakers.tolist(),
        notes=("synthetic speech stands in for FSDD: no data folder is there",),
    )
