"""What a kind of worker is to the loop that runs it: `Handler`, and the `Lease` it is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from streamfeat.wire.messages import Item


class Handler(Protocol):
    """What a kind of worker computes."""

    kind: str  # `features`, `learner` or `index`
    stages: tuple[str, ...]
    banks: dict[str, str]
    """What is served, banks as name and hash; known after `warm`."""
    n_items: int
    n_bytes: int
    """Credit: how much the broker may lease to this worker at a time."""

    def warm(self) -> None:
        """Open everything and compute once, so that READY means ready."""

    def handle(
        self, stage: str, items: Sequence[Item], options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """As many results as items, in order.

        Call `beat(0)` between items, and `beat(busy_ms)` before one long step.
        """

    def close(self) -> None:
        """Let go of files."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One item in hand: what the broker called it, and when nobody waits for it any more."""

    stage: str
    options: Mapping[str, Any]
    item: Item
    deadline: float
