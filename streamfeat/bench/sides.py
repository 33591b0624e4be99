"""The ways to one and the same feature: fast transforms, sgemm with the same pooling, dense rows, the paper's NumPy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bank import build_bank, other_chance
from streamfeat.bankspec import BankSpec
from streamfeat.kernels import VECTORS, Floats
from streamfeat.kernels.hadamard import transform_lanes
from streamfeat.layers import pooled
from streamfeat.orbits import orbits, template_vectors
from streamfeat.pooling import Pass, along_lanes
from streamfeat.projections import items_at_once, move, projections
from streamfeat.streams import Stream

CDF = {"kind": "cdf", "thresholds": "sigma", "n_bins": 25}
FOURIER = {"kind": "fourier", "gain": 10.0}

ORBITS = 64
"""Templates whose orbits the paper's bank repeats until it has m of them: what it costs does not depend on them."""


def group(n_shifts: int, n_angles: int) -> list[dict[str, Any]]:
    """n_shifts x n_shifts whole shifts of n_angles rotations."""
    reach = (n_shifts - 1) // 2
    turns = {"factor": "rotation", "law": "grid", "low": -20.0, "high": 20.0, "n": n_angles, "identity": False}
    shifts = {"factor": "translation", "law": "grid", "low": -reach, "high": reach, "n": n_shifts, "identity": False}
    return [turns, shifts]


class Clocked:
    """Blocks of projections, and the CPU time that taking them costs."""

    def __init__(self, blocks: Iterator[tuple[int, Floats]]) -> None:
        self.blocks, self.spent_s = blocks, 0.0

    def __iter__(self) -> Iterator[tuple[int, Floats]]:
        """Block after block."""
        while True:
            clock = time.thread_time()
            block = next(self.blocks, None)
            self.spent_s += time.thread_time() - clock
            if block is None:
                return
            yield block


class Problem:
    """A bank over side x side pictures, and items for it.

    Parameters
    ----------
    side, m : int
    elements : (int, int)
        Shifts along either axis, and angles.
    pooling : mapping
    source : str
        Of templates.
    form : str
        "operators", or "dense": every gt stored.
    """

    def __init__(
        self,
        side: int,
        m: int,
        elements: tuple[int, int],
        pooling: Mapping[str, Any],
        *,
        source: str = "hadamard",
        form: str = "operators",
    ) -> None:
        table = {
            "name": "bench",
            # the sides' norms would be multiplied alike, and cost half a minute to make
            "renormalise": False,
            "front_end": [{"stage": "array", "rows": side, "columns": side}],
            "templates": {"source": source, "m": m},
            "group": group(*elements),
            "pooling": dict(pooling),
            "form": form,
        }
        self.stream: Stream = build_bank(BankSpec.from_dict(table)).only

    def items(self, n: int) -> Floats:
        """n unit vectors."""
        X = other_chance(0).standard_normal((n, self.stream.d))
        unit: Floats = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
        return unit

    @cached_property
    def templates(self) -> Floats:
        """(m, d)."""
        return template_vectors(self.stream)

    def ours(self, X: Floats) -> NDArray[Any]:
        """What serving does."""
        return pooled(self.stream, X)

    def by_sgemm(self, X: Floats) -> NDArray[Any]:
        """The best dense formulation: the same orbits, one matrix product an item, the same kernels pool it."""
        stream, G = self.stream, self.stream.n_group
        arrays = {**stream.arrays, "gains": np.ones(stream.m, np.float32)}
        pool = along_lanes(stream.spec.pooling, arrays, G, 1)
        assert pool is not None
        out = np.empty((len(X), stream.n_features), stream.dtype)
        P = np.empty((stream.m, G), np.float32)
        for i in range(len(X)):
            np.matmul(self.templates, move(stream, X[i : i + 1])[:G, : stream.d].T, out=P)
            for first in range(0, G, VECTORS):
                pool.add(0, P, (first, min(VECTORS, G - first)), slice(0, stream.m))
            pool.write(out[i : i + 1])
        return out

    def transformed_alone(self) -> None:
        """The transforms of one item, and nothing else of it."""
        signs = self.stream.arrays["signs"].astype(np.float32)
        # zeros: transformed again and again, anything else would overflow
        Y = np.zeros((signs.shape[2], VECTORS), np.float32)
        for _ in range(0, self.stream.n_group, VECTORS):
            for diagonals in signs:
                transform_lanes(diagonals, Y)

    def profile(self, X: Floats) -> dict[str, float]:
        """Where the dense path spends its CPU time on X: seconds of orbit, product and pooling.

        The first two are what taking blocks of projections costs, less what the orbits cost by themselves.
        """
        stream, pooling = self.stream, self.stream.spec.pooling
        out = np.empty((len(X), stream.n_features), stream.dtype)
        orbit = taking = 0.0
        begun = time.thread_time()
        for first in range(0, len(X), items_at_once(stream)):
            some = slice(first, first + items_at_once(stream))
            clock = time.thread_time()
            move(stream, X[some])
            orbit += time.thread_time() - clock
            blocks = Clocked(projections(stream, X[some]))
            pooling.pool(Pass(stream.arrays, X[some], blocks), out[some])
            taking += blocks.spent_s
        whole = time.thread_time() - begun - orbit
        return {"orbit": orbit, "product": taking - orbit, "pooling": whole - taking}

    @cached_property
    def _paper_bank(self) -> Floats:
        stream = self.stream
        some = orbits(stream, range(min(ORBITS, stream.m))).reshape(-1, stream.d)
        bank = np.empty((stream.m * stream.n_group, stream.d), np.float32)
        for first in range(0, len(bank), len(some)):
            bank[first : first + len(some)] = some[: len(bank) - first]
        return bank

    def by_paper(self, X: Floats) -> NDArray[np.float64]:
        """Mroueh, Voinea, Poggio 2015 as it reads: every gt stored, inner products, compared with thresholds, mean."""
        tau = self.stream.arrays["thresholds"][0, :, 0]
        out = np.empty((len(X), self.stream.m, len(tau)))
        for i, x in enumerate(X):
            P = (self._paper_bank @ x).reshape(self.stream.m, -1)
            out[i] = (P[:, :, None] <= tau).mean(axis=1)
        return out

    @property
    def size(self) -> dict[str, int]:
        """Numbers of a vector, templates and group elements."""
        return {"d": self.stream.d, "m": self.stream.m, "n_group": self.stream.n_group}

    def work(self, structured: bool) -> dict[str, int]:
        """An item's projections: additions and multiplications, and the bytes of its orbit and of the templates."""
        d, m, G = self.stream.d, self.stream.m, self.stream.n_group
        if not structured:
            return {"flops": 2 * d * m * G, "bytes": 4 * (G * d + m * d)}
        p = 1 << (d - 1).bit_length()
        return {"flops": 3 * p * int(math.log2(p)) * math.ceil(m / p) * G, "bytes": 4 * (G * d + m)}
