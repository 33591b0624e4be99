"""A protocol laid out: which items there are, on which of them each model is fitted, and which it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.signals.signal import Signal

Rows = NDArray[np.intp]
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Source:
    """Where a protocol's items come from.

    Attributes
    ----------
    data : Path
        Folder of the training data, and of the test items that belong to them.
    given : Path, optional
        Test items in their place.
    n_seeds : int
        How many draws of the training items, where the protocol draws them.
    progress : callable
        `progress(description, total)` is a context that gives the function moving the bar on.
    """

    data: Path
    given: Path | None
    n_seeds: int
    progress: Progress


@dataclass(frozen=True)
class Trial:
    """One fit: the rows it is fitted on, and by column the rows it is asked. `seed` is the draw it belongs to."""

    seed: int
    train: Rows
    tests: Mapping[str, Rows]

    @property
    def rows(self) -> Rows:
        """All that it needs."""
        return np.concatenate([self.train, *self.tests.values()])


@dataclass(frozen=True)
class Plan:
    """Items by number, and the trials on them.

    Attributes
    ----------
    labels : sequence of str, one an item
    read : callable
        The signal of an item; threads may call it.
    templates : callable
        Unlabelled training signals, from which banks and peers take what they learn without labels. Nobody who is
        tested is among them.
    trials : tuple of Trial
    speakers : sequence of str, optional
        Who speaks each item: lambda is then chosen by leaving speakers out, and means are over speakers.
    moves : "shift-turn" or "turn"
        How `augment` moves training pictures: a little each way, or all the way round.
    clean : mapping
        Column of troubled items -> the column of the same items untroubled.
    notes : tuple of str
        What goes with every figure.
    """

    labels: Sequence[str]
    read: Callable[[int], Signal]
    templates: Callable[[], Sequence[Signal]]
    trials: tuple[Trial, ...]
    speakers: Sequence[str] | None = None
    moves: Literal["shift-turn", "turn"] = "shift-turn"
    clean: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the trials."""
        return tuple(dict.fromkeys(column for trial in self.trials for column in trial.tests))


def rows_of(chosen: NDArray[np.bool_]) -> Rows:
    """The rows where a mask is true."""
    return np.flatnonzero(chosen)
