"""`streamfeat bench dask`: digits through a local cluster of two workers, beside two threads of this process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamfeat.bench.fleet import N_CORES, cpu_s, items_of, two_cores
from streamfeat.bench.turns import spread_of
from streamfeat.blocks import Done
from streamfeat.delivery import Failure
from streamfeat.featuremap import FeatureMap
from streamfeat.presets import preset_signals
from streamfeat.signals.pictures import Picture
from streamfeat.threads import in_threads, one_blas_thread

if TYPE_CHECKING:
    import distributed

Blocks = Sequence[Sequence[Picture]]


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    preset: str = "digits-image"
    n_items: int = 20_000
    block: int = 256
    n_turns: int = 5


QUICK = Plan(n_items=2048, n_turns=3)


def bench_dask(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Features of the same digits by both, turn about, on the same two cores.

    Returns
    -------
    dict
        "ratio" (wall time of the cluster over that of the threads, median, min and max of the turns), "cpu_ratio" (CPU
        time of client, scheduler and workers over that of the threads), "equal" (to the bit), "start_s" (of the
        cluster, once), and by "cluster" and "threads" the medians "wall_s", "cpu_s" and "items_per_s".
    """
    from streamfeat.dask import connect

    begun = time.perf_counter()
    say(f"building {plan.preset}")
    fmap = FeatureMap.fit(plan.preset, preset_signals(plan.preset))
    pictures = [Picture(f"digit {i}", None, None, s.samples) for i, s in enumerate(items_of("image", plan.n_items))]
    blocks = [pictures[first : first + plan.block] for first in range(0, plan.n_items, plan.block)]
    with two_cores(), one_blas_thread():
        say("starting a cluster")
        started = time.perf_counter()
        with connect(n_workers=N_CORES) as client:
            start_s = time.perf_counter() - started
            say("comparing features")
            equal = _are_equal(client, fmap, blocks)
            say("cluster and this process, turn about")
            figures = _turns(client, fmap, blocks, plan.n_turns)
    figures |= {"items": plan.n_items, "numbers": fmap.n_features, "bank": plan.preset, "equal": equal}
    figures |= {"start_s": round(start_s, 2), "load_average": round(os.getloadavg()[1], 1)}
    return figures | {"wall_s": round(time.perf_counter() - begun, 1)}


def _are_equal(client: distributed.Client, fmap: FeatureMap, blocks: Blocks) -> bool:
    """Whether every block has the same bits; also what warms both."""
    equal: dict[int, bool] = {}

    def compare(number: int, done: Done | None, failed: list[Failure]) -> None:
        here = _transform(fmap, blocks[number])
        equal[number] = done is not None and not failed and done.features.tobytes() == here.tobytes()

    _compute(client, fmap, blocks, compare)
    return len(equal) == len(blocks) and all(equal.values())


def _turns(client: distributed.Client, fmap: FeatureMap, blocks: Blocks, n_turns: int) -> dict[str, Any]:
    """Wall and CPU time of both."""
    pids = list(client.run(os.getpid).values())

    def cluster() -> None:
        done: list[Done | None] = []
        _compute(client, fmap, blocks, lambda _number, block, _failed: done.append(block))

    def threads() -> None:
        list(in_threads(lambda block: _transform(fmap, block), blocks, N_CORES))

    spent: dict[str, list[tuple[float, float]]] = {"cluster": [], "threads": []}
    for _ in range(n_turns):
        for name, run in (("cluster", cluster), ("threads", threads)):
            # workers that idle spend a little as well: while the threads have their turn it is not theirs
            others = pids if name == "cluster" else []
            began, cpu = time.perf_counter(), time.process_time() + sum(map(cpu_s, others))
            run()
            spent[name].append((time.perf_counter() - began, time.process_time() + sum(map(cpu_s, others)) - cpu))
    n_items = sum(map(len, blocks))
    wall, cpus = ([[turn[k] for turn in spent[name]] for name in ("cluster", "threads")] for k in (0, 1))
    figures: dict[str, Any] = {
        "ratio": spread_of([there / here for there, here in zip(*wall, strict=True)]),
        "cpu_ratio": spread_of([there / here for there, here in zip(*cpus, strict=True)]),
    }
    for name, wall_s, of_cpu in zip(("cluster", "threads"), wall, cpus, strict=True):
        median = statistics.median(wall_s)
        rates = {"cpu_s": round(statistics.median(of_cpu), 3), "items_per_s": round(n_items / median, 1)}
        figures[name] = {"wall_s": round(median, 3), **rates}
    return figures


def _compute(
    client: distributed.Client,
    fmap: FeatureMap,
    blocks: Blocks,
    finished: Callable[[int, Done | None, list[Failure]], None],
) -> None:
    from streamfeat.dask import compute

    compute(client, fmap, blocks, finished)


def _transform(fmap: FeatureMap, block: Sequence[Picture]) -> Any:
    return fmap.transform([picture.read() for picture in block])
