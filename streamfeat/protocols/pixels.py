"""Peers' features of pictures, with the settings that are usual: pixels, RBFSampler, HOG, kymatio's scattering."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.baselines import fit_baseline
from streamfeat.errors import ConfigError
from streamfeat.frontends.pixels import Pixels
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.signals.signal import Signal

Floats = NDArray[np.float32]
Pictures = Callable[[Sequence[Signal]], Floats]

N_FOURIER = 4000
MEDIAN_OF = 1000
"""Pictures whose distances give the width of the kernel."""
SHIFTS_PX, TURNS_DEG = (-2, 0, 2), (-15, 0, 15)
N_TURNS = 24
N_LANDMARKS = 1000
SCATTERING_SCALE, SCATTERING_ANGLES = 3, 8


def fit_pixels(task: Task) -> Fitted:
    """Pixels at full scale 1.0, of the training pictures' size."""
    pictures = _pictures(task)
    return Fitted(lambda signals: _flat(pictures(signals)))


def fit_rbf(task: Task) -> Fitted:
    """4,000 random Fourier features of the pixels; width: the median distance of the training pictures."""
    pictures = _pictures(task)
    fourier = _fourier(task, pictures)
    return Fitted(lambda signals: fourier(_flat(pictures(signals))))


def fit_nystroem(task: Task) -> Fitted:
    """The same kernel by 1,000 training pictures as landmarks."""
    try:
        from sklearn.kernel_approximation import Nystroem
    except ImportError as error:
        raise ConfigError(f"the method nystroem needs scikit-learn ({error}): pip install scikit-learn") from error
    pictures = _pictures(task)
    some = _flat(pictures(task.signals()))
    n, seed = min(N_LANDMARKS, len(some)), task.spec.seed
    nystroem = Nystroem(kernel="rbf", gamma=_gamma(some[:MEDIAN_OF]), n_components=n, random_state=seed).fit(some)
    return Fitted(lambda signals: np.asarray(nystroem.transform(_flat(pictures(signals))), np.float32))


def fit_augment(task: Task) -> Fitted:
    """The same, learned from moved copies: 9 shifts x 3 turns, or 24 turns where digits are turned any way."""
    pictures = _pictures(task)
    fourier = _fourier(task, pictures)

    def copies(signals: Sequence[Signal]) -> Floats:
        moved = np.stack([_moved(picture, task.moves) for picture in pictures(signals)])
        n, n_copies = moved.shape[:2]
        return fourier(moved.reshape(n * n_copies, -1)).reshape(n, n_copies, -1)

    return Fitted(lambda signals: fourier(_flat(pictures(signals))), copies=copies)


def fit_hog(task: Task) -> Fitted:
    """9 orientations, cells of 4 x 4 px, blocks of 2 x 2 cells, L2-Hys."""
    try:
        from skimage.feature import hog
    except ImportError as error:
        raise ConfigError(f"the method hog needs scikit-image ({error}): pip install scikit-image") from error
    pictures = _pictures(task)
    settings = {"orientations": 9, "pixels_per_cell": (4, 4), "cells_per_block": (2, 2), "block_norm": "L2-Hys"}

    def one(picture: Floats) -> Floats:
        return np.asarray(hog(picture, channel_axis=-1 if picture.ndim == 3 else None, **settings), np.float32)

    return Fitted(lambda signals: np.stack([one(picture) for picture in pictures(signals)]))


def fit_kymatio(task: Task) -> Fitted:
    """Scattering2D, J = 3, L = 8, second order, of the pixels."""
    return _scattering(_pictures(task))


def fit_kymatio_fine(task: Task) -> Fitted:
    """The same with J = 2: four times as many places."""
    return _scattering(_pictures(task), scale=2)


def fit_kymatio_front_end(task: Task) -> Fitted:
    """The same, of what the preset's front end makes of a picture."""
    raw = fit_baseline("raw", task.spec)
    shape = task.signals()[0].samples.shape[:2]
    if raw.n_features != np.prod(shape):
        raise ConfigError(
            f"kymatio-front-end needs a front end that gives pictures of {shape[0]} x {shape[1]}, {task.spec.name!r} "
            f"gives {raw.n_features} numbers; use the method kymatio"
        )
    return _scattering(lambda signals: raw.transform(signals).reshape(-1, *shape))


def _scattering(pictures: Pictures, scale: int = SCATTERING_SCALE) -> Fitted:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # not kymatio.numpy, which brings in its 3-D part: that fails beside SciPy 1.17
            from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D
    except ImportError as error:
        raise ConfigError(f"the method kymatio needs kymatio ({error}): pip install kymatio") from error
    made: dict[tuple[int, ...], Any] = {}

    def transform(signals: Sequence[Signal]) -> Floats:
        X = pictures(signals)
        if X.ndim == 4:
            X = np.ascontiguousarray(np.moveaxis(X, 3, 1))
        shape = X.shape[-2:]
        if shape not in made:
            made[shape] = ScatteringNumPy2D(J=scale, shape=shape, L=SCATTERING_ANGLES, max_order=2)
        return np.asarray(made[shape](X), np.float32).reshape(len(X), -1)

    return Fitted(transform)


def _pictures(task: Task) -> Pictures:
    """Signals as an array of the size and the colours that training pictures have."""
    samples = task.signals()[0].samples
    height, width = samples.shape[:2]
    read, _ = Pixels(height, width, grey=samples.ndim == 2).build()
    return lambda signals: np.stack([read(signal) for signal in signals])


def _fourier(task: Task, pictures: Pictures) -> Callable[[Floats], Floats]:
    try:
        from sklearn.kernel_approximation import RBFSampler
    except ImportError as error:
        raise ConfigError(f"this method needs scikit-learn ({error}): pip install scikit-learn") from error
    some = _flat(pictures(task.signals()[:MEDIAN_OF]))
    sampler = RBFSampler(gamma=_gamma(some), n_components=N_FOURIER, random_state=task.spec.seed)
    sampler.fit(some[:1])
    return lambda X: np.asarray(sampler.transform(X), np.float32)


def _gamma(some: Floats) -> float:
    """1 / (2 sigma^2) with the median distance for sigma."""
    X = some.astype(np.float64)
    squares = np.square(X).sum(axis=1)
    apart = (squares[:, None] + squares - 2.0 * X @ X.T)[np.triu_indices(len(X), 1)]
    return 0.5 / float(np.median(apart))


def _moved(picture: Floats, moves: str) -> Floats:
    """The copies of one picture, itself among them, (copies, ...): bilinear, black beyond the edge."""
    from scipy.ndimage import rotate, shift

    turns = [360.0 * i / N_TURNS for i in range(N_TURNS)] if moves == "turn" else TURNS_DEG
    steps = (0,) if moves == "turn" else SHIFTS_PX
    turned = [rotate(picture, turn, order=1, reshape=False) for turn in turns]
    along = [(dy, dx, *(0,) * (picture.ndim - 2)) for dy, dx in itertools.product(steps, steps)]
    return np.stack([shift(copy, step, order=1) for copy in turned for step in along])


def _flat(pictures: Floats) -> Floats:
    return pictures.reshape(len(pictures), -1)
