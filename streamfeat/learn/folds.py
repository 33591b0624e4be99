"""Who is held out while lambda is chosen: each row alone, each group, or one part of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.learn.checks import group_numbers, row_mask

Numbers = NDArray[np.intp]

HELD_OUT_EVERY = 5
"""Of the rows of a class (or of the groups) every fifth is held out; GURLS: hoproportion .2."""


@dataclass(frozen=True)
class Folds:
    """`criterion` "loo" (each row alone: `of_row` is None), "logo" or "holdout" (`of_row` (n,): -1 stays in)."""

    criterion: str
    of_row: Numbers | None

    @classmethod
    def of(
        cls,
        lam: float | str,
        n: int,
        codes: Numbers | None,
        groups: Sequence[object] | NDArray[Any] | None,
        holdout: ArrayLike | None,
    ) -> Folds:
        """The folds that `lam` asks for.

        Parameters
        ----------
        codes : ndarray of intp (n,) or None
            The rows' classes.
        groups : sequence of n names, optional
        holdout : array_like of bool (n,), optional
            Rows to hold out with lam="holdout"; without it every fifth group, or every fifth row of each class.

        Raises
        ------
        InvalidArgument
            "logo" with fewer than two groups; a mask of another length, of all rows or none, or for another `lam`.
        """
        numbers = None if groups is None else group_numbers(groups, n)[0]
        if holdout is not None and lam != "holdout":
            raise InvalidArgument(f'holdout rows are for lam="holdout", got lam={lam!r}; leave them out')
        if lam == "holdout":
            return cls("holdout", np.where(_held_out(n, codes, numbers, holdout), 0, -1).astype(np.intp))
        if lam == "logo":
            return cls("logo", need_groups(numbers))
        if lam == "loo" or numbers is None or numbers.max() == 0:
            return cls("loo", None)
        return cls("logo", numbers)

    def judged(self, n: int, codes: Numbers | None) -> NDArray[np.bool_]:
        """Rows (n,) that are held out while there is something to answer them from: another row, of the same class."""
        if codes is None:
            codes = np.zeros(n, dtype=np.intp)
        elsewhere = has_example_elsewhere(codes, self.of_row)
        return elsewhere if self.of_row is None else elsewhere & (self.of_row >= 0)


def _held_out(n: int, codes: Numbers | None, groups: Numbers | None, mask: ArrayLike | None) -> NDArray[np.bool_]:
    if mask is not None:
        held = row_mask(mask, n, "holdout")
        if held.all() or not held.any():
            raise InvalidArgument(f"holdout must leave out some of the {n} rows, got {int(held.sum())}")
        return held
    if groups is not None and groups.max() >= HELD_OUT_EVERY - 1:
        return np.asarray(groups % HELD_OUT_EVERY == HELD_OUT_EVERY - 1)
    of_class = np.zeros(n, dtype=np.intp) if codes is None else codes
    held = np.zeros(n, dtype=np.bool_)
    for rows in members(of_class):
        held[rows[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]] = True
    return held


def has_example_elsewhere(codes: Numbers, fold: Numbers | None) -> NDArray[np.bool_]:
    """Rows whose class has another example outside their fold: the only ones a held-out choice can judge (n,)."""
    n_of_class = np.bincount(codes)
    if fold is None:
        return np.asarray(n_of_class[codes] > 1)
    together = np.zeros((fold.max() + 2, len(n_of_class)), dtype=np.intp)  # the last row: those of no fold
    np.add.at(together, (fold, codes), 1)
    return np.asarray(n_of_class[codes] > together[fold, codes])


def members(fold: Numbers) -> Iterator[Numbers]:
    """The rows of fold 0, 1, ..."""
    for number in range(int(fold.max()) + 1):
        yield np.flatnonzero(fold == number)


def need_groups(groups: Numbers | None, at_least: int = 2) -> Numbers:
    """The groups, if there are enough of them to hold one out."""
    n_groups = 0 if groups is None else int(groups.max()) + 1
    if groups is None or n_groups < at_least:
        raise InvalidArgument(f'lam="logo" needs {at_least} groups or more, got {n_groups}; pass groups or lam="loo"')
    return groups
