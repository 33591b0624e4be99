"""What a kind of worker is to the loop that runs it: `Handler`, and the `Lease` it is handed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from streamfeat import __version__
from streamfeat.wire.messages import Item


class Handler(Protocol):
    """What a kind of worker computes."""

    kind: str  # `features`, `learner` or `index`

    @property
    def stages(self) -> tuple[str, ...]:
        """What is served; known after `warm`, and new after a `reload`."""

    @property
    def banks(self) -> dict[str, str]:
        """Of features: the banks, as name and hash."""

    @property
    def work(self) -> dict[str, int]:
        """By the hash of a bank, how many templates, moved ones counted each, a sample meets in it."""

    @property
    def bank_bytes(self) -> dict[str, int]:
        """By the hash of a bank, bytes of its arrays."""

    n_items: int
    n_bytes: int
    """Credit: how much the broker may lease to this worker at a time."""

    def warm(self) -> None:
        """Open everything and compute once, so that READY means ready."""

    def reload(self) -> bool:
        """Take up what is newer on disk, all of it or nothing; whether anything was."""

    def handle(
        self, stage: str, items: Sequence[Item], options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """As many results as items, in order.

        Call `beat(0)` between items, and `beat(busy_ms)` before one long step.
        """

    def close(self) -> None:
        """Let go of files."""


class Lease(msgspec.Struct, frozen=True):
    """One item in hand: what the broker called it, and when nobody waits for it any more."""

    stage: str
    options: Mapping[str, Any]
    item: Item
    deadline: float


@dataclass(slots=True)
class Reloads:
    """What became of the reloads of this run; `error` says why the last one failed, if it did."""

    done: int = 0
    failed: int = 0
    error: str = ""

    def note(self, changed: bool) -> None:
        """One that went well."""
        self.done += changed
        self.error = ""

    def note_failure(self, error: Exception) -> None:
        """One that changed nothing."""
        self.failed += 1
        self.error = str(error) or type(error).__name__

    def as_dict(self) -> dict[str, Any]:
        """For HELLO."""
        counts: dict[str, Any] = {"done": self.done, "failed": self.failed}
        return {**counts, "error": self.error[:200]} if self.error else counts


def compiled() -> int:
    """Kernels that were not in numba's cache on disk when this process needed them."""
    modules = [module for name, module in sys.modules.items() if name.startswith("streamfeat.kernels.")]
    kernels = {kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "py_func")}
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels)


def introduction(
    handler: Handler, peer: str, name: str, *, in_hand: int, warm_s: float, reloads: Reloads
) -> dict[str, Any]:
    """What the worker of a handler says of itself in HELLO; `in_hand` is how many items it may be computing."""
    return {
        "protocol": [1, 1],
        "role": "worker",
        "peer": peer,
        "software": f"streamfeat {__version__}",
        "name": name,
        "kind": handler.kind,
        "stages": list(handler.stages),
        "banks": dict(handler.banks),
        "credit": {"items": handler.n_items, "bytes": handler.n_bytes},
        "work": dict(handler.work),
        "bank_bytes": dict(handler.bank_bytes),
        "warm_ms": round(1000 * warm_s),
        "compiled": compiled(),
        "reloads": reloads.as_dict(),
        "in_hand": in_hand,
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
