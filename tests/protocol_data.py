"""Small data in the protocols' layout: tones and blobs that are easily told apart, and specs of small banks."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.files import wav16

RATE_HZ = 8000
DIGITS = (0, 1, 2)
FSDD_SPEAKERS = ("ann", "bob", "cy", "dee")
ARABIC_SPEAKERS = ("s01", "s02", "s03", "s04")
TAKES = (*range(10), 10, 40, 41)

AUDIO_SPEC = """
name = "small-audio"
[[front_end]]
stage = "resample"
rate_hz = 8000
[[front_end]]
stage = "spectrogram"
bands = 12
[[front_end]]
stage = "compress"
kind = "root"
[[front_end]]
stage = "frames"
n = 8
[templates]
source = "data"
m = 24
[[group]]
factor = "time_shift"
law = "grid"
low = -1
high = 1
n = 3
[pooling]
kind = "cdf"
thresholds = "quantile"
n_bins = 5
"""

IMAGE_SPEC = """
name = "small-image"
[[front_end]]
stage = "pixels"
height = 14
width = 14
[templates]
source = "gaussian"
m = 64
[[group]]
factor = "rotation"
law = "grid"
low = -10
high = 10
n = 3
[pooling]
kind = "cdf"
thresholds = "sigma"
n_bins = 7
"""


def word(digit: int, speaker: str, take: int, n: int = 1600) -> NDArray[np.int16]:
    """A tone that rises through the word, higher for each digit, a little otherwise for each speaker and take."""
    rng = np.random.default_rng([digit, *speaker.encode(), take])
    hz = (300 + 700 * digit) * rng.uniform(0.95, 1.05) * np.linspace(1.0, 1.3, n)
    tone = np.sin(2 * np.pi * np.cumsum(hz) / RATE_HZ) + 0.05 * rng.standard_normal(n)
    return np.asarray(tone * 8000, np.int16)


def speech_data(root: Path) -> Path:
    """A folder with FSDD as files and the Arabic digits as zips; 3 digits, 4 speakers each."""
    fsdd = root / "fsdd"
    fsdd.mkdir(parents=True)
    for digit in DIGITS:
        for speaker in FSDD_SPEAKERS:
            for take in TAKES:
                (fsdd / f"{digit}_{speaker}_{take}.wav").write_bytes(wav16(word(digit, speaker, take), RATE_HZ))
    (root / "arabic_digits").mkdir()
    for split, speakers in (("train", ARABIC_SPEAKERS[:3]), ("val", ARABIC_SPEAKERS[3:])):
        with zipfile.ZipFile(root / "arabic_digits" / f"arabic_digits_{split}.zip", "w") as archive:
            for digit in DIGITS:
                for speaker in speakers:
                    for take in range(1, 5):
                        archive.writestr(f"{digit}_{speaker}_{take:02}.wav", wav16(word(digit, speaker, take), RATE_HZ))
    return root


def pictures(n: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """n pictures of 14 x 14 and their labels: bars of three directions, each set down a little off centre."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % len(DIGITS)
    images = np.zeros((n, 14, 14))
    for image, label in zip(images, labels, strict=True):
        y, x = rng.integers(4, 9, size=2)
        if label == 0:
            image[2:12, x : x + 2] = 1.0
        elif label == 1:
            image[y : y + 2, 2:12] = 1.0
        else:
            image[y : y + 4, x : x + 4] = 1.0
    images += rng.uniform(0.0, 0.1, images.shape)
    return (images.clip(0, 1) * 255).astype(np.uint8), labels.astype(np.uint8)


def picture_data(root: Path) -> Path:
    """A folder with MNIST's file: 90 bars to train on and 60 to test."""
    (root / "mnist").mkdir(parents=True)
    x_train, y_train = pictures(90, 0)
    x_test, y_test = pictures(60, 1)
    np.savez(root / "mnist" / "mnist.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return root
