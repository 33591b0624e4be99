"""What a fit starts from besides the rows: targets, who is held out, and what each row weighs; checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import Label, check_labels, check_targets, check_weights
from streamfeat.learn.classes import balanced, code, need_classes, one_against_all
from streamfeat.learn.folds import Folds

Floats = NDArray[np.float64]
Groups = Sequence[object] | NDArray[Any] | None


@dataclass(frozen=True)
class Training:
    """Targets Y (n, C), the columns that are the rows' classes (n,), folds, and weights (n,) or None."""

    Y: Floats
    classes: list[Label]
    codes: NDArray[np.intp] | None
    folds: Folds
    weight: Floats | None

    @classmethod
    def of_labels(
        cls,
        y: Sequence[object] | NDArray[Any],
        n: int,
        lam: float | str,
        *,
        groups: Groups,
        sample_weight: ArrayLike | None,
        holdout: ArrayLike | None,
        balance: bool,
    ) -> Training:
        """Class codes of n labels."""
        labels = check_labels(y, n)
        classes = need_classes(labels)
        codes = code(labels, classes)
        folds = Folds.of(lam, n, codes, groups, holdout)
        weight = None if sample_weight is None else check_weights(sample_weight, n)
        weight = balanced(codes, weight) if balance else weight
        return cls(one_against_all(codes, len(classes)), classes, codes, folds, weight)

    @classmethod
    def of_numbers(
        cls,
        y: ArrayLike,
        n: int,
        lam: float | str,
        *,
        groups: Groups,
        sample_weight: ArrayLike | None,
        holdout: ArrayLike | None,
    ) -> Training:
        """Numbers (n,) or (n, t)."""
        Y = check_targets(y, n)
        if n == 0:
            raise InvalidArgument("a regressor needs rows to fit, got none")
        folds = Folds.of(lam, n, None, groups, holdout)
        return cls(Y, [], None, folds, None if sample_weight is None else check_weights(sample_weight, n))
