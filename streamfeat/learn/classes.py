"""Classes as numbers and back: one column a class, +1 in it and -1 elsewhere (one against all)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label

Floats = NDArray[np.float64]


def sorted_classes(labels: Iterable[Label]) -> list[Label]:
    """The classes among the labels, sorted."""
    return sorted(set(labels), key=lambda label: (isinstance(label, str), label))


def need_classes(labels: Iterable[Label]) -> list[Label]:
    """The same, if there are two or more."""
    classes = sorted_classes(labels)
    if len(classes) < 2:
        raise InvalidArgument(f"RLS needs rows of two classes or more, got {classes}; learn examples of another one")
    return classes


def code(labels: Sequence[Label], classes: Sequence[Label]) -> NDArray[np.intp]:
    """The column of each label (n,)."""
    column = {label: number for number, label in enumerate(classes)}
    return np.array([column[label] for label in labels], dtype=np.intp)


def one_against_all(codes: NDArray[np.intp], n_classes: int) -> Floats:
    """Targets (n, C): +1 in the row's column, -1 elsewhere."""
    Y = np.full((len(codes), n_classes), -1.0)
    Y[np.arange(len(codes)), codes] = 1.0
    return Y


def balanced(codes: NDArray[np.intp], weight: Floats | None) -> Floats:
    """Weights (n,) times what makes all classes weigh the same."""
    given = np.ones(len(codes)) if weight is None else weight
    return np.asarray(given / np.bincount(codes, weights=given)[codes])


def decode(scores: Floats, classes: Sequence[Label]) -> list[Label]:
    """The class of the highest score in each row; the first of equals."""
    return [classes[best] for best in scores.argmax(axis=1)]
