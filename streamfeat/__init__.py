"""streamfeat: features that do not change when the input is raised, spoken faster, turned, moved or scaled.

bytes -> message (`wire`) -> signal (`signals`) -> front end (`frontends`) -> projections on a bank (`bank`, `groups`)
-> pooled feature (`featuremap`) -> learner or index (`learn`) -> result (`client`).

In process: `FeatureMap`, `RLS`, `NeighbourIndex`. Over sockets: `Client`, `AsyncClient`, and the
processes in `streamfeat.workers`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamfeat.asyncclient import AsyncClient
    from streamfeat.audiostream import AudioStream
    from streamfeat.bank import build_bank, open_bank
    from streamfeat.bankspec import BankSpec
    from streamfeat.client import Client, Job, Result
    from streamfeat.featuremap import FeatureMap
    from streamfeat.learn.kernelrls import KernelRegressor, KernelRLS
    from streamfeat.learn.knn import KNN
    from streamfeat.learn.mmif import MMIF
    from streamfeat.learn.neighbours import NeighbourIndex
    from streamfeat.learn.recursive import RecursiveRegressor, RecursiveRLS
    from streamfeat.learn.regression import RLSRegressor
    from streamfeat.learn.rls import RLS
    from streamfeat.presets import preset_signals
    from streamfeat.signals import Signal

__version__ = "0.1.0"

_HOME = {
    "AsyncClient": "asyncclient",
    "AudioStream": "audiostream",
    "BankSpec": "bankspec",
    "Client": "client",
    "FeatureMap": "featuremap",
    "Job": "client",
    "KNN": "learn.knn",
    "MMIF": "learn.mmif",
    "KernelRLS": "learn.kernelrls",
    "KernelRegressor": "learn.kernelrls",
    "NeighbourIndex": "learn.neighbours",
    "RLS": "learn.rls",
    "RLSRegressor": "learn.regression",
    "RecursiveRLS": "learn.recursive",
    "RecursiveRegressor": "learn.recursive",
    "Result": "client",
    "Signal": "signals",
    "build_bank": "bank",
    "open_bank": "bank",
    "preset_signals": "presets",
}

__all__ = [
    "KNN",
    "MMIF",
    "RLS",
    "AsyncClient",
    "AudioStream",
    "BankSpec",
    "Client",
    "FeatureMap",
    "Job",
    "KernelRLS",
    "KernelRegressor",
    "NeighbourIndex",
    "RLSRegressor",
    "RecursiveRLS",
    "RecursiveRegressor",
    "Result",
    "Signal",
    "build_bank",
    "open_bank",
    "preset_signals",
]


def __getattr__(name: str) -> Any:
    # on first use: a client needs no numba, a learner no socket
    if name not in _HOME:
        raise AttributeError(f"module 'streamfeat' has no attribute {name!r}")
    return getattr(importlib.import_module(f"streamfeat.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
