"""What is said in a window, without a fleet: a feature map and a model in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from streamfeat.featuremap import FeatureMap
from streamfeat.learn.checks import Label
from streamfeat.learn.rls import RLS
from streamfeat.model import Model
from streamfeat.signals import Signal
from streamfeat.signals.corpus import Utterance, open_corpus
from streamfeat.synth import synthesise_corpus

N_SPEAKERS = 16
"""Synthetic speakers of the model that is there when nothing else is given."""

Judge = Callable[[Signal], tuple[Label, float]]
"""The class of a signal, and its score."""


def judge_by(feature_map: FeatureMap, model: Model) -> Judge:
    """The class with the highest score, as a learner of a fleet has it.

    Raises
    ------
    BankMismatch
        The model was fitted on features of another bank.
    """

    def judge(signal: Signal) -> tuple[Label, float]:
        scores = model.scores(feature_map.one(signal)[None], feature_map.bank_hash)[0]
        best = int(scores.argmax())
        return model.classes[best], float(scores[best])

    return judge


def train(feature_map: FeatureMap, utterances: Sequence[Utterance], signals: Sequence[Signal]) -> Model:
    """RLS on recordings; lambda by leaving speakers out where there are three, else one recording at a time."""
    speakers = [utterance.speaker for utterance in utterances]
    by_speaker = len({*speakers} - {None}) >= 3
    rls = RLS("logo" if by_speaker else "loo")
    rls.fit(feature_map.transform(signals), [u.label for u in utterances], groups=speakers if by_speaker else None)
    return Model(rls, feature_map.bank_hash)


def synthetic_model(feature_map: FeatureMap, folder: Path, say: Callable[[str], None]) -> Model:
    """A model of the eleven English digit words as espeak-ng speaks them; made once, then kept in `folder`.

    Raises
    ------
    ConfigError
        The extra `synth` is not installed.
    """
    path = folder / f"words-{N_SPEAKERS}-{feature_map.bank_hash[:16]}"
    if path.exists():
        return Model.open(path)
    say(f"training on {N_SPEAKERS} synthetic speakers")
    with tempfile.TemporaryDirectory(prefix="streamfeat-") as made:
        corpus = synthesise_corpus(Path(made) / "corpus", n_train_speakers=N_SPEAKERS, n_test_speakers=0, strings=False)
        utterances = open_corpus(corpus).utterances
        model = train(feature_map, utterances, [utterance.read() for utterance in utterances])
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model
