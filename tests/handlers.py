"""A worker whose handler does what an item's name asks for: the same loop as every worker, without a bank.

    python -m tests.handlers --connect ENDPOINT --name NAME

The feature of a signal is its samples as float32. Names that act: `boom` raises, `refuse` raises an error of ours,
`die` kills the process, `sleep:S` takes S seconds, `few` returns too few results, `wild` returns a field that does not
travel, `segfault` reads at address 0, `swell` asks for more memory than there is, `spin` computes for ever without
letting go of the interpreter; `after` and `amid` kill the process once it has the result, or soon after. Each may be
followed by `/anything`. With `--immortal` none of those that end the process does anything. With `--stale` a reload
fails. `--seen FILE`: names in the
order in which they were handled, a line each.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from streamfeat.workers.launch import serve, worker_parser
from streamfeat.workers.notify import begin

from streamfeat.errors import ConfigError, ItemFailed
from streamfeat.payloads import feature_result, item_to_signal
from streamfeat.wire.messages import Item

BANK = "ec" * 32


class Echo:
    """Handler of `features` for the bank `echo`."""

    kind = "features"
    stages: tuple[str, ...] = (f"features:{BANK}",)
    banks: dict[str, str] = {"echo": BANK}  # noqa: RUF012 - never changed
    work: dict[str, int] = {}  # noqa: RUF012
    bank_bytes: dict[str, int] = {BANK: 1 << 10}  # noqa: RUF012
    n_items = 32
    n_bytes = 1 << 20

    def __init__(self, immortal: bool = False, seen: Path | None = None, stale: bool = False) -> None:
        self._stale = stale
        self._immortal = immortal
        self._seen = seen

    def warm(self) -> None:
        """As long as STREAMFEAT_TEST_WARM_S says."""
        time.sleep(float(os.environ.get("STREAMFEAT_TEST_WARM_S", "0")))

    def reload(self) -> bool:
        """Nothing to reload."""
        if self._stale:
            raise ConfigError("the newer bank is not whole")
        return False

    def handle(
        self, stage: str, items: Sequence[Item], _options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """One result an item, or what its name asks for."""
        results = []
        if self._seen is not None:
            with self._seen.open("a") as seen:
                seen.writelines(f"{item.fields.get('name', '')}\n" for item in items)
        for item in items:
            act, _, value = str(item.fields.get("name", "")).split("/")[0].partition(":")
            if act == "boom":
                raise ValueError("secret detail")
            if act == "refuse":
                raise ItemFailed(f"refused at {stage.partition(':')[0]}")
            if not self._immortal:
                end(act)
            if act == "swell":
                bytearray(1 << 60)
            if act == "sleep":
                time.sleep(float(value))
            if act == "few":
                return []
            result = feature_result(item_to_signal(item).samples.astype(np.float32), BANK)
            if act == "wild":
                result.fields["surprise"] = {1, 2}
            results.append(result)
            if act == "after" and not self._immortal:
                os.kill(os.getpid(), signal.SIGKILL)
            beat(0)
        return results

    def close(self) -> None:
        """Nothing to let go of."""


def end(act: str) -> None:
    """What ends this process, before there is a result."""
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "amid":
        threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGKILL)).start()
    if act == "segfault":
        ctypes.string_at(0)
    while act == "spin":
        pass


def main() -> int:
    """Run the worker; its exit status."""
    stop, notifier = begin(os.environ)
    parser = worker_parser("features", __doc__ or "")
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--immortal", action="store_true")
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--stale", action="store_true")
    args = parser.parse_args()
    status: int = serve(
        lambda: Echo(args.immortal, args.seen, args.stale), args, stop, notifier, n_together=args.together
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
