"""Feature worker: signals in, features of its banks out.

    python -m streamfeat.workers.features --connect ipc:///run/streamfeat/back.sock --bank DIR --name features-1

Stateless: any number of them may serve the same banks, which are mapped read-only and shared through the page cache.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamfeat.errors import StreamfeatError

from .notify import begin

if TYPE_CHECKING:
    from streamfeat.featuremap import FeatureMap
    from streamfeat.wire.messages import Item

CREDIT_ITEMS = 32
"""Two of the broker's messages: one is computed while the other waits."""

CREDIT_BYTES = 32 << 20

TOGETHER = 16
"""Items computed at once: a bank is read from memory, and its kernels are called, once for all of them."""

QUIET_S = 0.1
"""What items at once may take, a tenth of a heartbeat: of a slow bank there are fewer."""


BANK_BYTES = 1 << 30
"""What open banks may take together: two thirds of a unit's memory. Above it the least recently used are closed."""


class Features:
    """Handler of `features` for the banks in these directories.

    Parameters
    ----------
    banks : sequence of Path
    max_bytes : int
        What they may take together while they are open.
    pinned : bool
        Stay with these very banks when told to reload.
    """

    kind = "features"
    n_items = CREDIT_ITEMS
    n_bytes = CREDIT_BYTES

    def __init__(self, banks: Sequence[Path], *, max_bytes: int = BANK_BYTES, pinned: bool = False) -> None:
        from .banks import Banks

        self._banks = Banks(banks, max_bytes, pinned=pinned)
        self._at_once: dict[str, int] = {}

    @property
    def stages(self) -> tuple[str, ...]:
        """Features of the banks there are, and of those before the last reload."""
        return ("features", *self._banks.earlier)

    @property
    def banks(self) -> dict[str, str]:
        """What is served, as name and hash."""
        return self._banks.names

    @property
    def work(self) -> dict[str, int]:
        """By hash, how many templates a sample meets in a bank, moved ones counted each."""
        return self._banks.work

    @property
    def bank_bytes(self) -> dict[str, int]:
        """By hash, bytes of a bank's arrays."""
        return self._banks.sizes

    def warm(self) -> None:
        """Map and verify each bank, load or compile its kernels, and compute a canary with it."""
        self._banks.warm()

    def reload(self) -> bool:
        """Take up newer banks of the same names, all or none; whether there were any."""
        return self._banks.reload()

    def handle(
        self, stage: str, items: Sequence[Item], _options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """One feature an item; an item that is no signal of the bank's kind fails alone."""
        feature_map = self._banks.get(stage)
        results: list[Item] = []
        while len(results) < len(items):
            some = items[len(results) : len(results) + self._at_once.get(stage, 1)]
            begun = time.perf_counter()
            results += features_of(feature_map, some, beat)
            item_s = (time.perf_counter() - begun) / len(some)
            self._at_once[stage] = max(1, min(TOGETHER, int(QUIET_S / item_s)))
        return results

    def close(self) -> None:
        """Let go of the maps."""
        self._banks.close()


def features_of(feature_map: FeatureMap, items: Sequence[Item], beat: Callable[[int], None]) -> list[Item]:
    """Results of items: front ends one by one, what follows at once. An item that is refused is refused alone."""
    import numpy as np

    from streamfeat.payloads import error_result, feature_result, item_to_signal

    refused: dict[int, Item] = {}
    vectors = []
    for n, item in enumerate(items):
        try:
            vectors.append(feature_map.front_end(item_to_signal(item)))
        except StreamfeatError as error:
            refused[n] = error_result(error)
        beat(0)
    rows = iter(feature_map.of_vectors(np.array(vectors, np.float32))) if vectors else iter(())
    results = [refused.get(n) or feature_result(next(rows), feature_map.bank_hash) for n in range(len(items))]
    beat(0)
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worker; its exit status."""
    stop, notifier = begin(os.environ)
    # after begin: numpy reads the number of threads when it is imported
    from .launch import serve, worker_parser
    from .memory import keep_memory

    keep_memory()
    parser = worker_parser("features", __doc__ or "")
    parser.add_argument("--bank", required=True, action="append", type=Path, metavar="DIR", help="repeatable")
    parser.add_argument("--bank-bytes", type=int, default=BANK_BYTES, metavar="N", help="open banks together")
    parser.add_argument("--pin", action="store_true", help="stay with these very banks when told to reload")
    args = parser.parse_args(argv)

    def build() -> Features:
        return Features(args.bank, max_bytes=args.bank_bytes, pinned=args.pin)

    return serve(build, args, stop, notifier, n_together=TOGETHER)


if __name__ == "__main__":
    sys.exit(main())
