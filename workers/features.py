"""Feature worker: signals in, features of its banks out.

    python -m streamfeat.workers.features --connect ipc:///run/streamfeat/back.sock --bank DIR --name features-1

Stateless: any number of them may serve the same banks, which are mapped read-only and shared through the page cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamfeat.errors import ConfigError, InternalError, StreamfeatError

from .notify import begin

if TYPE_CHECKING:
    from streamfeat.featuremap import FeatureMap
    from streamfeat.wire.messages import Item

CREDIT_ITEMS = 32
"""Two of the broker's messages: one is computed while the other waits."""

CREDIT_BYTES = 32 << 20


class Features:
    """Handler of `features` for the banks in these directories.

    Parameters
    ----------
    banks : sequence of Path
    """

    kind = "features"
    stages: tuple[str, ...] = ("features",)
    n_items = CREDIT_ITEMS
    n_bytes = CREDIT_BYTES

    def __init__(self, banks: Sequence[Path]) -> None:
        self.banks: dict[str, str] = {}
        self._paths = banks
        self._maps: dict[str, FeatureMap] = {}

    def warm(self) -> None:
        """Map and verify each bank, load or compile its kernels, and compute a canary with it."""
        from streamfeat.featuremap import FeatureMap

        for path in self._paths:
            feature_map = FeatureMap.open(path)
            feature_map.warm()
            check_canary(feature_map)
            name, bank_hash = feature_map.bank.name, feature_map.bank_hash
            if self.banks.setdefault(name, bank_hash) != bank_hash:
                raise ConfigError(f"two banks are called {name!r}: {self.banks[name][:12]} and {bank_hash[:12]}")
            self._maps[f"features:{bank_hash}"] = feature_map

    def handle(
        self, stage: str, items: Sequence[Item], _options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """One feature an item; an item that is no signal of the bank's kind fails alone."""
        from streamfeat.payloads import error_result, feature_result, item_to_signal

        feature_map = self._maps[stage]
        results = []
        for item in items:
            try:
                feature = feature_map.one(item_to_signal(item))
                results.append(feature_result(feature, feature_map.bank_hash))
            except StreamfeatError as error:
                results.append(error_result(error))
            beat(0)
        return results

    def close(self) -> None:
        """Let go of the maps."""
        self._maps.clear()


def check_canary(feature_map: FeatureMap) -> None:
    """Compute one feature twice, from the same made-up vector.

    Raises
    ------
    InternalError
        They differ, or are not finite: a miscompiled kernel must not answer anybody.
    """
    import numpy as np

    vector = np.cos(np.arange(feature_map.bank.d)).astype(np.float32)[None]
    vector /= np.linalg.norm(vector)
    first, second = feature_map.of_vectors(vector), feature_map.of_vectors(vector)
    if not np.isfinite(first).all() or not np.array_equal(first, second):
        raise InternalError(f"bank {feature_map.bank.name}: the canary's feature is not finite or not the same twice")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worker; its exit status."""
    stop, notifier = begin(os.environ)
    # after begin: numpy reads the number of threads when it is imported
    from .launch import serve, worker_parser

    parser = worker_parser("features", __doc__ or "")
    parser.add_argument("--bank", required=True, action="append", type=Path, metavar="DIR", help="repeatable")
    args = parser.parse_args(argv)
    return serve(lambda: Features(args.bank), args, stop, notifier, n_together=1)


if __name__ == "__main__":
    sys.exit(main())
