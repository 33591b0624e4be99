"""Faces of people nobody has seen, told apart by the cosine of pairs: orl-verify.

Of 40 subjects each split has 20 in T_G, whose pictures teach the bank, the mean and the whitening, 10 in X, which may
teach the whitening too, and 10 who are tested, on all pairs of their pictures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.learn.verification import verify
from streamfeat.learn.whitening import WithinOrbitWhitening
from streamfeat.protocols.data import arrays_in, given_pictures, need
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import Method
from streamfeat.protocols.plan import Progress, Rows, Source
from streamfeat.protocols.scores import sd_of
from streamfeat.protocols.table import Table, featurise
from streamfeat.signals.signal import Signal

ORL = "faces/orl.npz"
OTHERS = "bank, mean and whitening from other subjects than those who are tested"
N_PEOPLE = 8
"""So many at least, that two of them are tested."""
UNCHECKED = "bank, mean and whitening from subjects of ORL; nobody checked whether the given faces are ORL's own"
ROC_FARS: NDArray[np.float64] = np.logspace(-4, 0, 33)
"""Where curves of several splits are averaged."""

FARS = {"1 % FAR": 0.01, "0.1 % FAR": 0.001}


@dataclass(frozen=True)
class Split:
    """Rows of one split: T_G, X, and those who are tested; `seed` drew it."""

    taught: Rows
    more: Rows
    asked: Rows
    seed: int


@dataclass(frozen=True)
class Views:
    """Features of one split with who they show: T_G and X, and those of the tested, whose names are not told."""

    taught: NDArray[Any]
    taught_names: Sequence[str]
    more: NDArray[Any]
    more_names: Sequence[str]
    asked: NDArray[Any]
    seed: int


Descriptors = Callable[[Views], dict[str, NDArray[Any]]]
"""What pairs are compared by, by the column's name."""


@dataclass(frozen=True)
class Faces:
    """Pictures by number with their subjects, the splits, and what pairs are compared by.

    `gains` are columns of their own: how much a column is over another, split by split.
    """

    subjects: Sequence[str]
    read: Callable[[int], Signal]
    splits: tuple[Split, ...]
    notes: tuple[str, ...]
    descriptors: Descriptors = field(default_factory=lambda: cosines)
    gains: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def plan_orl(source: Source) -> Faces:
    """The ORL faces; half of the subjects in T_G, a quarter in X, the rest tested. The seeds are the splits'."""
    path = need(source.data, ORL, "the ORL faces, images and subject")
    images, subject = arrays_in(path, {"images": 3, "subject": 1})
    given = [] if source.given is None else given_pictures(source.given, None)
    if source.given is not None:
        _check_pairs(source.given, [label for label, _ in given])
    n = len(images)

    def read(row: int) -> Signal:
        return Signal("image", images[row], name=f"face {row}") if row < n else given[row - n][1].read()

    people = np.unique(subject)
    if len(people) < N_PEOPLE:
        raise ConfigError(f"{path}: needs {N_PEOPLE} subjects, to be divided in three, got {len(people)}")
    splits = []
    for seed in range(source.n_seeds):
        order = np.random.default_rng(seed).permutation(people)
        parts = np.split(order, [len(people) // 2, len(people) * 3 // 4])
        taught, more, asked = (np.flatnonzero(np.isin(subject, part)) for part in parts)
        splits.append(Split(taught, more, n + np.arange(len(given)) if given else asked, seed))
    # a subject who was given is nobody of the data set, whatever the name
    subjects = [*(f"orl {s}" for s in subject.tolist()), *(label for label, _ in given)]
    return Faces(subjects, read, tuple(splits), (UNCHECKED if given else OTHERS,))


def _check_pairs(path: Path, labels: Sequence[str]) -> None:
    """Raise `InvalidArgument` unless there are pairs of one person and of two."""
    pictures_of = Counter(labels)
    if len(pictures_of) < 2 or max(pictures_of.values()) < 2:
        raise InvalidArgument(
            f"{path}: needed are two people, one of them on two pictures; got {len(pictures_of)} "
            f"label{'s' * (len(pictures_of) != 1)} for {len(labels)} pictures; label each picture with who it shows"
        )


def verify_faces(
    faces: Faces, method: Method, spec: BankSpec, *, progress: Progress, n_threads: int
) -> tuple[Fitted, int, dict[str, Any]]:
    """Every split: a bank from T_G, features of all, the cosines of each kind of descriptor.

    Returns
    -------
    fitted, n_features
        Of the first split.
    report : dict
        "accuracy" (the verification rate), "sd" over splits, "per_seed", "n_test" (pairs), by column; "roc" by what
        is compared: {"far", "vr", "sd"}, means over splits.
    """
    first: tuple[Fitted, int] | None = None
    per_seed: dict[str, dict[str, float]] = defaultdict(dict)
    curves: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    n_pairs = n_genuine = 0
    with progress("splits", len(faces.splits)) as advance:
        for split in faces.splits:
            fitted = method.fit(Task(spec, lambda s=split: _signals(faces, s.taught), "shift-turn"))  # type: ignore[misc]
            if fitted.copies is not None:
                raise ConfigError("orl-verify has no labelled items to move; leave the method augment out")
            rows = np.concatenate([split.taught, split.more, split.asked])
            table = featurise(fitted, faces.read, rows, lambda _n: None, n_threads)
            first = first or (fitted, table.X.shape[1])
            asked = [faces.subjects[row] for row in split.asked]
            for metric, X in faces.descriptors(_views(faces, split, table)).items():
                result = verify(X, asked, tuple(FARS.values()))
                n_pairs, n_genuine = result.pairs, result.genuine
                curves[metric].append(rates_at(result.roc, ROC_FARS))
                for name, far in FARS.items():
                    per_seed[f"{metric}, {name}"][str(split.seed)] = result.vr[far]
            advance(1)
    assert first is not None  # at least one split is asked for
    if len(faces.splits) > 1:
        per_seed |= _gains(faces, per_seed)
    accuracy = {column: float(np.mean(list(some.values()))) for column, some in per_seed.items()}
    sd = {column: sd_of(list(some.values()), n_genuine) for column, some in per_seed.items()}
    over = "seeds" if len(faces.splits) > 1 else "items"
    report = {"accuracy": accuracy, "sd": sd, "sd_over": over, "per_seed": dict(per_seed)}
    roc = {metric: _mean_curve(some) for metric, some in curves.items()}
    return *first, report | {"n_test": dict.fromkeys(accuracy, n_pairs), "roc": roc}


def rates_at(roc: NDArray[np.float64], fars: NDArray[np.float64]) -> NDArray[np.float64]:
    """Verification rates (n,) of a curve (k, 2), which falls from (1, 1) to (0, 0), at no more than these rates."""
    rising = roc[::-1]
    rates: NDArray[np.float64] = rising[np.searchsorted(rising[:, 0], fars, side="right") - 1, 1]
    return rates


def _mean_curve(curves: Sequence[NDArray[np.float64]]) -> dict[str, list[float]]:
    sd = np.std(curves, axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(ROC_FARS))
    parts = {"far": ROC_FARS, "vr": np.mean(curves, axis=0), "sd": sd}
    return {name: [float(f"{value:.4g}") for value in values] for name, values in parts.items()}


def cosines(views: Views) -> dict[str, NDArray[Any]]:
    """The features, less the mean of T_G, and whitened inside the orbits of T_G, or of X too."""
    both = np.concatenate([views.taught, views.more])
    names = [*views.taught_names, *views.more_names]
    return {
        "cosine": views.asked,
        "centred cosine": views.asked - views.taught.mean(axis=0, dtype=np.float64),
        "whitened from T_G": WithinOrbitWhitening().fit(views.taught, views.taught_names).transform(views.asked),
        "whitened from T_G + X": WithinOrbitWhitening().fit(both, names).transform(views.asked),
    }


def _views(faces: Faces, split: Split, table: Table) -> Views:
    taught, more = ([faces.subjects[row] for row in rows] for rows in (split.taught, split.more))
    return Views(table.take(split.taught), taught, table.take(split.more), more, table.take(split.asked), split.seed)


def _gains(faces: Faces, per_seed: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {
        f"{name}, {far}": {
            seed: per_seed[f"{one}, {far}"][seed] - rate for seed, rate in per_seed[f"{other}, {far}"].items()
        }
        for name, (one, other) in faces.gains.items()
        for far in FARS
    }


def _signals(faces: Faces, rows: Rows) -> list[Signal]:
    return [faces.read(int(row)) for row in rows]
