"""What a preset's templates, thresholds and widths are taken from, where a user gives nothing: unlabelled signals."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.signals import Signal, open_corpus
from streamfeat.synth import synthesise_corpus

N_SPEAKERS = 24
"""Synthetic speakers whose words are an audio preset's unlabelled recordings."""

TURNED = frozenset({"rotated-image", "paper-b-rotmnist"})
"""Presets for pictures at any angle: their unlabelled pictures are turned."""

DIGITS = TURNED | {"digits-image", "global-image", "paper-a-mnist"}
"""Presets for handwritten digits."""


def preset_signals(name: str) -> list[Signal]:
    """Unlabelled recordings or pictures that a preset's templates and thresholds are taken from.

    Audio presets take the words of synthetic espeak-ng speakers (extra `synth`), presets for digits scikit-learn's
    handwritten digits (extra `quickstart`), so that nothing of a user's own is in the bank. Presets that draw
    everything at random need none, and get an empty list.

    Raises
    ------
    ConfigError
        What is needed is not installed; or the preset takes pictures of a user's own.
    """
    spec = BankSpec.preset(name)
    if not spec.needs_signals:
        return []
    if spec.streams[0].front_end[0]["stage"] == "resample":
        return _words()
    if name in DIGITS:
        return _digits(turned=name in TURNED)
    raise ConfigError(
        f"preset {name!r} takes its templates from pictures of your own; name a folder of them with --from"
    )


def enlarge(digit: NDArray[np.float64]) -> NDArray[np.uint8]:
    """An 8 x 8 digit of 0..16, as scikit-learn has them, as 28 x 28 of 0..255, bicubic."""
    small = Image.fromarray(np.round(digit * (255.0 / 16.0)).astype(np.uint8))
    return np.asarray(small.resize((28, 28), Image.Resampling.BICUBIC))


def load_small_digits() -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """scikit-learn's 1,797 handwritten digits, (N, 8, 8) of 0..16, and what they show."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ConfigError(
            "handwritten digits come with scikit-learn: pip install 'streamfeat[quickstart]', or name a folder of "
            "pictures with --from"
        ) from error
    digits = load_digits()
    return digits.images, digits.target


def _words() -> list[Signal]:
    with tempfile.TemporaryDirectory(prefix="streamfeat-") as folder:
        corpus = synthesise_corpus(
            Path(folder) / "corpus", n_train_speakers=N_SPEAKERS, n_test_speakers=0, takes="a", strings=False, seed=1
        )
        return [utterance.read() for utterance in open_corpus(corpus).utterances]


def _digits(turned: bool) -> list[Signal]:
    pictures = [enlarge(digit) for digit in load_small_digits()[0]]
    if turned:
        angles = np.random.default_rng(1).uniform(0, 360, len(pictures))
        pictures = [
            np.asarray(Image.fromarray(picture).rotate(angle, Image.Resampling.BILINEAR))
            for picture, angle in zip(pictures, angles, strict=True)
        ]
    return [Signal("image", picture, name=f"digit-{i}") for i, picture in enumerate(pictures)]
