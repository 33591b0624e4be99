"""What a method gives once it has seen its unlabelled signals: features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.signals.signal import Signal


@dataclass(frozen=True)
class Task:
    """What a method may use.

    Attributes
    ----------
    spec : BankSpec
        Of the bank; peers take its seed.
    signals : callable
        Unlabelled training signals.
    moves : "shift-turn" or "turn"
        How pictures are moved to augment them.
    """

    spec: BankSpec
    signals: Callable[[], Sequence[Signal]]
    moves: Literal["shift-turn", "turn"]


@dataclass(frozen=True)
class Fitted:
    """Features of signals.

    Attributes
    ----------
    transform : callable
        n signals -> (n, D), each from its signal alone.
    bank : str, optional
        Hash of the bank.
    copies : callable, optional
        n training signals -> (n, copies, D), moved copies to train on in their place.
    threads : bool
        Several may be computed at a time.
    """

    transform: Callable[[Sequence[Signal]], NDArray[Any]]
    bank: str | None = None
    copies: Callable[[Sequence[Signal]], NDArray[Any]] | None = None
    threads: bool = True
