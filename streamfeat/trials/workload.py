"""Items that cost next to nothing, so that a trial is about delivery: numbers, a tiny bank, and what comes of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.client import Job
from streamfeat.featuremap import FeatureMap
from streamfeat.signals import Signal

SPEC = {
    "name": "trial",
    "seed": 1,
    "front_end": [{"stage": "array", "rows": 32}],
    "templates": {"source": "gaussian", "m": 8, "epsilon": 0.5},
    "group": [{"factor": "cyclic_shift", "on": "entries", "law": "all"}],
    "pooling": {"kind": "cdf", "thresholds": "sigma", "reach": 3, "n_bins": 4},
}

STREAM = "trial"
N_CLASSES = 5


class Workload:
    """Numbered items and the bank they go through.

    Parameters
    ----------
    n_items : int
    folder : Path
        Where the bank is saved.
    """

    def __init__(self, n_items: int, folder: Path) -> None:
        self.bank = FeatureMap.fit(BankSpec.from_dict(SPEC)).bank.save(folder)
        self._map = FeatureMap.open(self.bank)
        self._samples = np.random.default_rng(n_items).standard_normal((n_items, self._map.bank.d), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def n_features(self) -> int:
        """D."""
        return self._map.n_features

    def job(self, n: int) -> Job:
        """Item n; its key in a feature log is its number."""
        return Job(self._signal(n), label=f"class {n % N_CLASSES}", stream=STREAM, seq=n, tag=n)

    def expected(self) -> NDArray[Any]:
        """The features that this process computes, (n_items, D)."""
        signals: Iterator[Signal] = (self._signal(n) for n in range(len(self)))
        return self._map.transform(signals)

    def _signal(self, n: int) -> Signal:
        return Signal("array", self._samples[n])
