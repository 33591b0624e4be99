"""`streamfeat bench peers`: our presets beside what others make of the same items, in accuracy and in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.bench.standins import plan_small_digits, plan_synthetic_speech
from streamfeat.bench.turns import Spread, Times, ratio
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.orbits import orbits
from streamfeat.protocols.classify import classify
from streamfeat.protocols.data import data_folder
from streamfeat.protocols.digits import plan_mnist_few
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import PICTURES, SPEECH, Method
from streamfeat.protocols.plan import Plan, Source, Trial
from streamfeat.protocols.scores import scores_of
from streamfeat.protocols.speech import plan_fsdd
from streamfeat.signals import Signal
from streamfeat.threads import n_cores, one_blas_thread

Say = Callable[[str], None]
Report = dict[str, Any]

COLUMNS = {
    "mnist-few": {f"{n} labels, first 2000": f"{n} labels" for n in (10, 100)},
    "fsdd-loso": {f"{n} takes, test 40-49": f"{n} takes" for n in (2, 10)},
}
"""What is asked of each protocol, and what it is called here."""

N_TIMED = 16
"""Items in a turn."""


@dataclass(frozen=True)
class Extent:
    """How much is run."""

    n_turns: int = 9
    n_seeds: int = 2
    n_columns: int = 2
    n_trials: int | None = None
    """Of each column and seed; None: all."""
    n_test: int = 500
    """Of each trial. Differences of a point need `streamfeat evaluate` and all items."""
    n_templates: int = 4000


QUICK = Extent(n_turns=3, n_seeds=1, n_columns=1, n_trials=1, n_test=60, n_templates=300)


@dataclass(frozen=True)
class Side:
    """One method: how it is fitted, to what spec, and the package it needs."""

    method: Method
    spec: BankSpec
    ours: bool = False
    package: str | None = None


def picture_sides() -> dict[str, Side]:
    """What is run on digits."""
    best, whole, paper = (BankSpec.preset("digits-image"), BankSpec.preset("global-image"), paper_spec())
    return {
        "digits-image": Side(PICTURES["preset"], best, ours=True),
        "global-image": Side(PICTURES["preset"], whole, ours=True),
        "paper's bank": Side(PICTURES["preset"], paper, ours=True),
        "paper's bank in NumPy": Side(Method(fit_paper, "none"), paper),
        "kymatio Scattering2D J=3": Side(PICTURES["kymatio"], best, package="kymatio"),
        "kymatio Scattering2D J=2": Side(PICTURES["kymatio-fine"], best, package="kymatio"),
        "scikit-learn RBFSampler": Side(PICTURES["rbf"], best, package="sklearn"),
        "scikit-learn Nystroem": Side(PICTURES["nystroem"], best, package="sklearn"),
        "scikit-image HOG": Side(PICTURES["hog"], best, package="skimage"),
    }


def speech_sides() -> dict[str, Side]:
    """What is run on spoken digits."""
    best = BankSpec.preset("digits-audio")
    return {
        "digits-audio": Side(SPEECH["preset"], best, ours=True),
        "global-audio": Side(SPEECH["preset"], BankSpec.preset("global-audio"), ours=True),
        "aeon MiniRocket, log-mel": Side(SPEECH["minirocket"], best, package="aeon"),
        "aeon MiniRocket, untrimmed": Side(SPEECH["minirocket-untrimmed"], best, package="aeon"),
        "kymatio Scattering1D": Side(SPEECH["scattering"], best, package="kymatio"),
        "librosa MFCC": Side(SPEECH["mfcc"], best, package="librosa"),
    }


CLAIMS = {
    "scattering2d_vs_digits_image": ("kymatio Scattering2D J=3", "digits-image"),
    "minirocket_vs_digits_audio": ("aeon MiniRocket, log-mel", "digits-audio"),
}
"""How many times as long the first takes as the second."""


def bench_peers(extent: Extent, say: Say, data: Path | None = None) -> Report:
    """Every method that is installed, on the same items, splits and seeds; timed turn about on one thread.

    Parameters
    ----------
    extent : Extent
    say : callable
    data : Path, optional
        Folder of MNIST and FSDD; None: the usual places, and if there is none, stand-ins.

    Returns
    -------
    dict
        "rows": {"method", "protocol", "column", "accuracy", "ms_per_item" (CPU time of the process), "wall_ms",
        "ours"}; "ratios": see `CLAIMS`, {"median", "min", "max"} over turns; "missing": methods that are not
        installed, with what installs them; "notes".
    """
    begun = time.perf_counter()
    report: Report = {"rows": [], "ratios": {}, "missing": [], "notes": []}
    for protocol, plan in plans(extent, data, say).items():
        sides = picture_sides() if plan.speakers is None else speech_sides()
        ready = {name: side for name, side in sides.items() if side.package is None or find_spec(side.package)}
        report["missing"] += [
            {"method": name, "package": side.package, "install": "scripts/peers"}
            for name, side in sides.items()
            if name not in ready
        ]
        report["notes"] += plan.notes
        rows, ratios = _compare(protocol, plan, ready, extent, say)
        report["rows"] += rows
        report["ratios"] |= ratios
    report["clock"] = "CPU time of the process, one thread, turn about; wall clock beside it"
    report["wall_s"] = round(time.perf_counter() - begun, 1)
    return report


def _quiet(_text: str, _total: int) -> AbstractContextManager[Callable[[int], None]]:
    """No bar: what is being done is said."""
    return nullcontext(lambda _n: None)


def plans(extent: Extent, data: Path | None, say: Say) -> dict[str, Plan]:
    """The protocols, cut to the extent."""
    try:
        folder = data_folder(data)
    except ConfigError as error:
        if data is not None:
            raise
        say(f"{error}; stand-ins are used")
        found = {"mnist-few": plan_small_digits(), "fsdd-loso": plan_synthetic_speech()}
    else:
        source = Source(folder, None, extent.n_seeds, _quiet)
        found = {"mnist-few": plan_mnist_few(source), "fsdd-loso": plan_fsdd(source)}
    return {protocol: _cut(plan, COLUMNS[protocol], extent) for protocol, plan in found.items()}


def _cut(plan: Plan, columns: Mapping[str, str], extent: Extent) -> Plan:
    """The columns that are wanted, under their short names; of several draws on the same test items the first."""
    known = {**columns, **{name: name for name in columns.values()}}
    wanted = list(dict.fromkeys(known[column] for column in plan.columns if column in known))[: extent.n_columns]
    seen: set[tuple[int, str, int]] = set()
    n_of: dict[tuple[int, str], int] = {}
    trials = []
    for trial in plan.trials:
        tests = {}
        for column, rows in trial.tests.items():
            name = known.get(column, "")
            key = trial.seed, name, int(rows[0])
            n = n_of.get(key[:2], 0)
            if name not in wanted or key in seen or (extent.n_trials is not None and n >= extent.n_trials):
                continue
            seen.add(key)
            n_of[key[:2]] = n + 1
            tests[name] = rows[np.linspace(0, len(rows) - 1, min(extent.n_test, len(rows))).astype(int)]
        if tests:
            trials.append(Trial(trial.seed, trial.train, tests))
    templates = plan.templates

    def some() -> Sequence[Signal]:
        every = templates()
        return every[:: max(1, len(every) // extent.n_templates)]

    return replace(plan, trials=tuple(trials), templates=some, clean={})


def _compare(
    protocol: str, plan: Plan, sides: Mapping[str, Side], extent: Extent, say: Say
) -> tuple[list[Report], dict[str, Spread]]:
    fitted: dict[str, Fitted] = {}
    accuracy: dict[str, dict[str, float]] = {}
    for name, side in sides.items():
        say(f"{protocol}: {name}")
        hits = classify(plan, side.method, side.spec, None, progress=_quiet, n_threads=n_cores())
        assert hits.fitted is not None  # there is no plan without a trial
        fitted[name], accuracy[name] = hits.fitted, scores_of(hits, plan)["accuracy"]
    say(f"{protocol}: time an item, turn about")
    asked = next(iter(plan.trials[0].tests.values()))
    signals = [plan.read(int(row)) for row in asked[:N_TIMED]]
    times = _timed(fitted, signals, extent.n_turns)
    rows = [
        {
            "method": name,
            "protocol": protocol,
            "column": column,
            "accuracy": round(value, 4),
            "ms_per_item": round(times[name].cpu_ms, 4),
            "wall_ms": round(times[name].wall_ms, 4),
            "ours": sides[name].ours,
        }
        for name in sides
        for column, value in accuracy[name].items()
    ]
    found = {claim: pair for claim, pair in CLAIMS.items() if set(pair) <= set(times)}
    return rows, {claim: ratio(times[slow], times[fast]) for claim, (slow, fast) in found.items()}


def _timed(fitted: Mapping[str, Fitted], signals: Sequence[Signal], n_turns: int) -> dict[str, Times]:
    """All in turn; CPU time of the whole process, for some compute in a thread of their own."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in fitted}
    with one_blas_thread():
        for turn in range(n_turns + 1):
            for name, method in fitted.items():
                wall, cpu = time.perf_counter(), time.process_time()
                method.transform(signals)
                spent = (time.process_time() - cpu) / len(signals), (time.perf_counter() - wall) / len(signals)
                if turn > 0:
                    taken[name].append(spent)
    return {name: Times(*zip(*pairs, strict=True)) for name, pairs in taken.items()}


def paper_spec() -> BankSpec:
    """paper-a-mnist at 100 templates and 5 shifts x 5 shifts x 5 angles: its orbits stored are 39 MB, not 553."""
    table = BankSpec.preset("paper-a-mnist").as_dict()
    table["name"] = "paper-a-small"
    table["templates"] = {**table["templates"], "m": 100}
    table["group"] = [{**factor, "n": 5} for factor in table["group"]]
    return BankSpec.from_dict(table)


def fit_paper(task: Task) -> Fitted:
    """Mroueh, Voinea, Poggio 2015 as it reads: every gt stored, inner products, compared with thresholds, mean."""
    fmap = FeatureMap.fit(task.spec)
    stream = fmap.bank.only
    bank = np.ascontiguousarray(orbits(stream, range(stream.m)).reshape(-1, stream.d), np.float32)
    return Fitted(partial(_by_paper, fmap, bank, stream.arrays["thresholds"][0, :, 0]))


def _by_paper(
    fmap: FeatureMap, bank: NDArray[np.float32], tau: NDArray[np.float32], signals: Sequence[Signal]
) -> NDArray[np.float32]:
    out = []
    for signal in signals:
        P = (bank @ fmap.front_end(signal)).reshape(fmap.bank.only.m, -1)
        out.append((P[:, :, None] <= tau).mean(axis=1).ravel())
    return np.array(out, np.float32)
