"""`streamfeat bench kernels`: every path against its alternatives, one thread a side."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from streamfeat.bench.sides import CDF, FOURIER, Problem
from streamfeat.bench.turns import Spread, Times, ratio, spread_of, take_turns
from streamfeat.kernels import LANES
from streamfeat.layer2 import Layer2, Source
from streamfeat.learn.neighbours import NeighbourIndex
from streamfeat.projections import move
from streamfeat.threads import one_blas_thread

Say = Callable[[str], None]
Report = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much is run, about side x side pictures, m templates and shifts x shifts x angles."""

    n_turns: int = 25
    n_paper_turns: int = 5
    side: int = 32
    m: int = 1024
    elements: tuple[int, int] = (7, 9)
    dense: tuple[int, int] = (1024, 64)
    """m and batch of the dense path."""
    second: tuple[int, int] = (4096, 2048)
    """Frequencies of the second layer, and numbers of the first."""
    ms: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    groups: tuple[tuple[int, int], ...] = ((1, 9), (3, 9), (7, 9), (15, 9))
    sides: tuple[int, ...] = (16, 32, 64)
    batches: tuple[int, ...] = (1, 4, 16, 64)
    stored: tuple[int, ...] = (1000, 4000, 16_000, 64_000)
    """Features in an index."""


QUICK = Plan(
    n_turns=9,
    n_paper_turns=3,
    dense=(512, 64),
    ms=(256, 1024),
    groups=((3, 9), (7, 9)),
    sides=(16, 32),
    batches=(1, 16),
    stored=(1000, 4000),
)

TOGETHER = 16
"""Items of a batch where something else grows."""

BATCH = 64
"""Items of a batch for the second layer."""

STORED_D = 1024
"""Numbers of each feature in an index."""


def bench_kernels(plan: Plan, say: Say) -> Report:
    """Ratios at d = m = 1,024 and |G| = 441, the roofline, and how time grows.

    Returns
    -------
    dict
        "ratios": `cdf_structured_vs_sgemm`, `fourier_structured_vs_sgemm`, `cdf_structured_vs_paper_numpy` (how many
        times as long the alternative takes) and `dense_sgemm_share` (what part of the dense path at batch 64 is its
        matrix product), each {"median", "min", "max"} over turns; "rows", one a measurement. Those of how time grows
        say "against" what, and its "value".
    """
    begun = time.perf_counter()
    ratios: dict[str, Spread] = {}
    with one_blas_thread():
        say("machine: sgemm and copy")
        rows = _machine(plan)
        for name, pooling in (("cdf", CDF), ("fourier", FOURIER)):
            problem = Problem(plan.side, plan.m, plan.elements, pooling)
            say(f"{name}: transforms against sgemm")
            rows += _against_sgemm(name, problem, plan, ratios)
            if name == "cdf":
                say("cdf: transforms against the paper's NumPy")
                rows += _against_paper(problem, plan, ratios)
        say("dense path")
        rows += _dense(plan, ratios)
        say("stored orbits")
        rows += _stored(plan)
        say("second layer")
        rows += _second_layer(plan)
        n_turns = max(3, plan.n_turns // 3)
        for against, value, problem, batch in _growth(plan):
            say(f"against {against}: {value}")
            rows.append({**_grown(problem, batch, n_turns), **_named(against, value)})
        for n in plan.stored:
            say(f"against items in memory: {n}")
            rows.append(_searched(n, n_turns))
    sgemm, copy = (_rate(row, work) for row, work in zip(rows, ("flops", "bytes"), strict=False))
    for row in rows:
        row["of_sgemm"], row["of_copy"] = round(_rate(row, "flops") / sgemm, 3), round(_rate(row, "bytes") / copy, 3)
    clock = "CPU time of the one thread, wall clock beside it"
    return {"ratios": ratios, "rows": rows, "clock": clock, "wall_s": round(time.perf_counter() - begun, 1)}


def _rate(row: Report, work: str) -> float:
    """GFLOP/s or GB/s."""
    return float(row[work]) / float(row["cpu_ms"]) / 1e6


def _machine(plan: Plan) -> list[Report]:
    """What sgemm and copying reach here."""
    A, B, C = (np.ones((1024, 1024), np.float32) for _ in range(3))
    source, copied = np.ones((2, 1 << 24), np.float32)
    times = take_turns(
        {"sgemm": (lambda: np.matmul(A, B, out=C), 1), "copy": (lambda: np.copyto(copied, source), 1)}, plan.n_turns
    )
    return [
        {"what": "machine: sgemm", "flops": 2 * 1024**3, "bytes": 3 * A.nbytes, **_spent(times["sgemm"])},
        {"what": "machine: copy", "flops": 0, "bytes": 2 * source.nbytes, **_spent(times["copy"])},
    ]


def _against_sgemm(name: str, problem: Problem, plan: Plan, ratios: dict[str, Spread]) -> list[Report]:
    many, one = problem.items(8), problem.items(1)
    times = take_turns(
        {
            "transforms": (lambda: problem.ours(many), len(many)),
            "sgemm": (lambda: problem.by_sgemm(one), 1),
            "orbit alone": (lambda: move(problem.stream, one), 1),
            "transforms alone": (problem.transformed_alone, 1),
        },
        plan.n_turns,
    )
    ratios[f"{name}_structured_vs_sgemm"] = ratio(times["sgemm"], times["transforms"])
    rows = [_row(f"{name}: {side}", problem, taken, 1, side != "sgemm") for side, taken in times.items()]
    rows[0]["batch"], rows[2]["flops"] = len(many), 0
    return rows


def _against_paper(problem: Problem, plan: Plan, ratios: dict[str, Spread]) -> list[Report]:
    many, one = problem.items(8), problem.items(1)
    times = take_turns(
        {"ours": (lambda: problem.ours(many), len(many)), "paper": (lambda: problem.by_paper(one), 1)},
        plan.n_paper_turns,
    )
    ratios["cdf_structured_vs_paper_numpy"] = ratio(times["paper"], times["ours"])
    row = _row("cdf: the paper's NumPy", problem, times["paper"], 1, False)
    # every gt is read, not every t
    row["bytes"] = 4 * problem.stream.m * problem.stream.n_group * problem.stream.d
    return [row]


def _dense(plan: Plan, ratios: dict[str, Spread]) -> list[Report]:
    """Gaussian templates: the profile of the dense path."""
    m, batch = plan.dense
    problem = Problem(plan.side, m, plan.elements, CDF, source="gaussian")
    X = problem.items(batch)
    problem.profile(X)
    turns = [problem.profile(X) for _ in range(max(3, plan.n_turns // 4))]
    ratios["dense_sgemm_share"] = spread_of([turn["product"] / sum(turn.values()) for turn in turns])
    rows = []
    for part in turns[0]:
        cpu_ms = 1e3 * statistics.median(turn[part] for turn in turns) / batch
        work = problem.work(False) if part == "product" else {"flops": 0, "bytes": 0}
        rows.append({"what": f"dense path: {part}", **problem.size, "batch": batch, **work, "cpu_ms": round(cpu_ms, 4)})
    return rows


def _stored(plan: Plan) -> list[Report]:
    """A bank of form "dense", read from memory once a batch; and what reading it takes."""
    problem = Problem(plan.side, LANES, plan.elements, CDF, source="gaussian", form="dense")
    orbits = problem.stream.arrays["orbits"]
    runs = {f"batch of {n}": (partial(problem.ours, problem.items(n)), n) for n in (1, 4, 16, 32)}
    times = take_turns({**runs, "summing it": (orbits.sum, 1)}, max(3, plan.n_turns // 3))
    rows = []
    for name, taken in times.items():
        n = runs[name][1] if name in runs else 1
        rows.append({**_row(f"stored orbits: {name}", problem, taken, n, False), "bytes": orbits.nbytes // n})
    rows[-1]["flops"] = orbits.size
    return rows


def _second_layer(plan: Plan) -> list[Report]:
    """Random Fourier features of first layers: frequencies by fast transforms, and drawn ones by products."""
    m, d = plan.second
    phi = np.random.default_rng(0).standard_normal((BATCH, d), np.float32) / np.float32(math.sqrt(d))
    out = np.empty((BATCH, 2 * m), np.float32)
    sources: tuple[Source, Source] = ("hadamard", "gaussian")
    layers = {source: Layer2(m, 1.0, source=source) for source in sources}
    arrays = {source: layer.build(d, phi, np.random.default_rng(1)) for source, layer in layers.items()}
    sides: dict[str, tuple[Callable[[], object], int]] = {
        name: (partial(layer.apply, arrays[name], phi, out), BATCH) for name, layer in layers.items()
    }
    p = 1 << (d - 1).bit_length()
    work = {
        "hadamard": {"flops": 3 * p * int(math.log2(p)) * math.ceil(m / p), "bytes": 4 * (d + 2 * m)},
        "gaussian": {"flops": 2 * d * m, "bytes": 4 * (d + 2 * m + m * d // BATCH)},
    }
    return [
        {"what": f"second layer: {name}", "d": d, "m": m, "batch": BATCH, **work[name], **_spent(times)}
        for name, times in take_turns(sides, max(3, plan.n_turns // 3)).items()
    ]


def _growth(plan: Plan) -> Iterator[tuple[str, int, Problem, int]]:
    """One thing changed at a time: what, to which value, the problem, its batch."""
    for m in plan.ms:
        yield "m", m, Problem(plan.side, m, plan.elements, CDF), TOGETHER
    for elements in plan.groups:
        problem = Problem(plan.side, plan.m, elements, CDF)
        yield "|G|", problem.stream.n_group, problem, TOGETHER
    for side in plan.sides:
        yield "d", side * side, Problem(side, plan.m, plan.elements, CDF), TOGETHER
    problem = Problem(plan.side, plan.m, plan.elements, CDF)
    for batch in plan.batches:
        yield "batch", batch, problem, batch


def _grown(problem: Problem, batch: int, n_turns: int) -> Report:
    times = take_turns({"ours": (partial(problem.ours, problem.items(batch)), batch)}, n_turns)
    return _row("", problem, times["ours"], batch, "places" in problem.stream.arrays)


def _searched(n: int, n_turns: int) -> Report:
    """The nearest of n stored features, asked for by a few items at once."""
    rng, index = np.random.default_rng(0), NeighbourIndex(STORED_D)
    index.add(rng.standard_normal((n, STORED_D), np.float32), [None] * n)
    asked = rng.standard_normal((TOGETHER, STORED_D), np.float32)
    times = take_turns({"ours": (partial(index.search, asked, 1), TOGETHER)}, n_turns)
    work = {"flops": 2 * n * STORED_D, "bytes": 4 * n * STORED_D // TOGETHER}
    return {**_named("items in memory", n), "d": STORED_D, "batch": TOGETHER, **work, **_spent(times["ours"])}


def _named(against: str, value: int) -> Report:
    return {"what": f"against {against}: {value}", "against": against, "value": value}


def _row(what: str, problem: Problem, times: Times, batch: int, structured: bool) -> Report:
    return {"what": what, **problem.size, "batch": batch, **problem.work(structured), **_spent(times)}


def _spent(times: Times) -> dict[str, float]:
    return {"cpu_ms": round(times.cpu_ms, 4), "wall_ms": round(times.wall_ms, 4)}
