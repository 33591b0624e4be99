"""Time an item of several methods, in one go and alone, taken in turns: a machine that slows down slows all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from streamfeat.protocols.fitted import Fitted
from streamfeat.signals.signal import Signal
from streamfeat.threads import one_blas_thread

N_ITEMS = 16
"""In one go, as a worker takes them."""
N_ROUNDS = 9
N_ALONE = 4
"""Rounds of one item after the other."""


def ms_alone(
    methods: Mapping[str, Fitted], signals: Sequence[Signal], n_rounds: int = N_ALONE
) -> dict[str, list[float]]:
    """Milliseconds of each signal by itself, on one thread, method by method in turns: n_rounds x signals of each."""
    spent: dict[str, list[float]] = {name: [] for name in methods}
    with one_blas_thread():
        for signal in list(signals) * n_rounds:
            for name, fitted in methods.items():
                began = time.perf_counter()
                fitted.transform([signal])
                spent[name].append((time.perf_counter() - began) * 1e3)
    return spent


def ms_per_item(methods: Mapping[str, Fitted], signals: Sequence[Signal], n_rounds: int = N_ROUNDS) -> dict[str, float]:
    """Milliseconds of wall time from a signal to its feature, on one thread: medians over rounds.

    Parameters
    ----------
    methods : mapping of name to Fitted
    signals : sequence of Signal
        Decoded already.
    n_rounds : int
        In each, every method has its turn.
    """
    spent: dict[str, list[float]] = {name: [] for name in methods}
    with one_blas_thread():
        for fitted in methods.values():
            fitted.transform(signals)  # warm
        for _ in range(n_rounds):
            for name, fitted in methods.items():
                began = time.perf_counter()
                fitted.transform(signals)
                spent[name].append(time.perf_counter() - began)
    return {name: float(np.median(times)) * 1e3 / len(signals) for name, times in spent.items()}
