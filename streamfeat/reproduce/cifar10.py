"""Photographs in ten classes (Raj et al. 2017, table 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.protocols.data import data_folder, hash_of, need
from streamfeat.protocols.fitted import Task
from streamfeat.protocols.methods import PICTURES
from streamfeat.protocols.photographs import FOLDER, LABELS, plan_cifar10
from streamfeat.protocols.plan import Plan, Rows, Source
from streamfeat.protocols.table import featurise
from streamfeat.reports.pictures import Panel
from streamfeat.reproduce.experiment import Experiment, Findings, Run, claim, closeness, mean_of, row, row_of
from streamfeat.reproduce.rotmnist import choose_width, with_width
from streamfeat.reproduce.wide import WideRLS, answers
from streamfeat.threads import n_cores

ACCURACY = "accuracy, %"
RF, PLAIN, LGIKA, OURS = "RF", "RF, layer 2", "LGIKA, RF, layer 2", "colour"
WIDTHS = (0.2, 0.3, 0.45, 0.7, 1.0)
"""Of the first layer's kernel, between photographs of unit norm; leave-one-out on training photographs chooses."""
R_CHOOSE = 16
"""Group elements while widths are chosen."""
BLOCK = 1000
"""Photographs whose features are there at a time."""
HELD = 10
"""Every tenth training photograph is held out to choose lambda by."""
OF_COLOUR = 8
"""Numbers of a template of the preset: cos and sin in four cells."""
FAR = 10.0
"""What "far above" is taken for, in points."""
LARGEST = 40_000
"""Numbers of a feature: a Gram matrix of 13 GB."""


@dataclass(frozen=True)
class Extent:
    """How much is run: photographs, templates, group elements, numbers of every feature; photographs to choose by."""

    n_train: int = 50_000
    n_test: int = 1000
    s: int = 10_000
    r: int = 50
    width: int = 8192
    n_choose: int = 3000


FAST = Extent(4000, 1000, 1000, 16, 2048, 1000)


def specs(extent: Extent) -> dict[str, BankSpec]:
    """The banks of the table by the names of its rows, features of `width` numbers each."""
    moves = [
        {"factor": "rotation", "law": "von-mises", "kappa": 9},
        {"factor": "scale", "unitary": True, "law": "log-normal", "sigma": 0.3},
        {"factor": "translation", "law": "gaussian", "sigma": 0.3},
    ]
    table = {
        "name": "cifar10-lgika",
        "seed": 0,
        "front_end": [{"stage": "pixels", "height": 32, "width": 32, "grey": False}],
        "templates": {"source": "hadamard", "m": extent.s},
        "group": [{"factor": "joint", "n": extent.r, "of": moves, "identity": False}],
        "pooling": {"kind": "fourier", "sigma": WIDTHS[0]},
        "layer2": {"kind": "fourier", "source": "hadamard", "m": extent.width // 2, "sigma": "median"},
    }
    lgika = BankSpec.from_dict(table)
    one_layer = {
        **table,
        "name": "cifar10-rf",
        "templates": {"source": "hadamard", "m": extent.width // 2},
        "layer2": {"kind": "none"},
    }
    colour = BankSpec.preset(OURS).as_dict()
    colour["templates"]["m"] = min(extent.width // OF_COLOUR, int(colour["templates"]["m"]))
    return {
        RF: BankSpec.from_dict(one_layer).plain(),
        PLAIN: lgika.plain(),
        LGIKA: lgika,
        OURS: BankSpec.from_dict(colour),
    }


def measure_cifar10(run: Run) -> Findings:
    """Accuracy of plain features, LGIKA and the preset on the same photographs."""
    extent = extent_of(run)
    folder = data_folder(run.data)
    sheets = need(folder, FOLDER, "CIFAR-10 as sheets of 32 x 32 tiles, train_00.webp ... and test_00.webp")
    run.read(need(folder, LABELS, "the labels of CIFAR-10"))
    wanted = specs(extent)
    run.begin({**vars(extent), "files": run.hashes, "specs": [spec.as_dict() for spec in wanted.values()]})
    _check_sheets(run, sheets)
    plan = plan_cifar10(Source(folder, None, 1, run.progress))
    (trial,) = plan.trials
    (every,) = trial.tests.values()
    train, test = trial.train[: extent.n_train], every[: extent.n_test]
    rows = []
    for name, spec in wanted.items():
        sigma = None
        if name != OURS:
            sigma = choose_width(run, plan, (name, spec), train[: extent.n_choose], widths=WIDTHS, r=R_CHOOSE)
        sized = spec if sigma is None else with_width(spec, sigma)
        found = run.part(name, partial(_learn, run, plan, (name, sized), train, test))
        run.hashes[f"bank {name}"] = found["bank"]
        setting = {"n": len(train), "numbers": found["numbers"], "elements": extent.r if name == LGIKA else 1}
        rows.append(row(name, ACCURACY, found["right"] / len(test), n_items=len(test), percent=True, **setting))
    return Findings(rows, _claims(rows), _deviations(extent), [Panel(ACCURACY, ACCURACY)])


def _check_sheets(run: Run, sheets: Path) -> None:
    """Raise `ConfigError` where the photographs are not those that the run which is gone on with has seen."""
    seen = run.hashes | {sheets.name: hash_of(sheets)}
    if run.part("files", lambda: seen) != seen:
        raise ConfigError(
            f"{sheets}: not the photographs of the run that was stopped; give it those again, or name another --out"
        )
    run.hashes |= seen


def extent_of(run: Run) -> Extent:
    """How much this run is of: features as wide as was asked for.

    Raises
    ------
    ConfigError
        A width that is no multiple of `OF_COLOUR`, or not from 256 to `LARGEST`.
    """
    extent = FAST if run.fast else Extent()
    if run.width is None:
        return extent
    if not 256 <= run.width <= LARGEST or run.width % OF_COLOUR:
        raise ConfigError(f"--width must be a multiple of {OF_COLOUR} from 256 to {LARGEST}, got {run.width}")
    return replace(extent, width=run.width)


def _learn(run: Run, plan: Plan, what: tuple[str, BankSpec], train: Rows, test: Rows) -> dict[str, Any]:
    """Right answers among the test photographs; lambda by every tenth training one, which then joins the others."""
    name, spec = what
    fitted = PICTURES["preset"].fit(Task(spec, plan.templates, plan.moves))
    classes = sorted(set(plan.labels))
    codes = np.array([classes.index(label) for label in plan.labels])
    held = train[::HELD]
    others = np.setdiff1d(train, held)
    rls: WideRLS | None = None
    with run.progress(f"cifar10: {name}", len(train) + len(test)) as advance:

        def features(rows: Rows) -> Any:
            return featurise(fitted, plan.read, rows, advance, n_cores()).X

        for block in (others[first : first + BLOCK] for first in range(0, len(others), BLOCK)):
            Z = features(block)
            if rls is None:
                rls = WideRLS(Z.shape[1], len(classes))
            rls.take(Z, codes[block])
        assert rls is not None  # training photographs are there
        Z = features(held)
        lam, accuracy = rls.choose(Z, codes[held])
        rls.take(Z, codes[held])
        W = rls.weights(lam)
        assert W is not None  # with more rows the same penalty a row is larger
        right = int((answers(features(test), W) == codes[test]).sum())
    return {"right": right, "held_out": accuracy, "lam": lam, "numbers": len(W), "bank": fitted.bank}


def _claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What table 3 and its text say."""
    at = {one["method"]: mean_of(rows, one["method"], ACCURACY) for one in rows}
    shown = f"LGIKA {at[LGIKA]:.1f} %, RF {at[RF]:.1f} %, RF with a second layer {at[PLAIN]:.1f} %"
    lgika, rf, plain = (row_of(rows, name, ACCURACY) for name in (LGIKA, RF, PLAIN))
    return [
        claim(
            "LGIKA is better than plain random features of the same width.",
            at[LGIKA] > at[RF],
            f"{shown}{closeness(lgika, rf)}",
        ),
        claim(
            "It is the group that helps (LGIKA is better than the same two layers without one).",
            at[LGIKA] > at[PLAIN],
            f"{shown}{closeness(lgika, plain)}",
        ),
        claim(
            "LGIKA is far below deep networks (All-CNN-C errs 9.4 %).",
            at[LGIKA] < 100 - 9.44 - FAR,
            f"LGIKA {at[LGIKA]:.1f} %",
        ),
        claim(
            f"(Ours, not the paper's:) orbits of patches are far above both ({FAR:g} points or more).",
            at[OURS] >= max(at[LGIKA], at[RF]) + FAR,
            f"{OURS} {at[OURS]:.1f} %; {shown}",
        ),
    ]


def _deviations(extent: Extent) -> list[str]:
    said = [
        f"{extent.n_test} of the 10,000 test photographs; the deviation is their binomial error, of one bank each",
        f"features have {extent.width} numbers; the paper's 30,000 are --width 30000 (a Gram matrix of 7.2 GB)",
        "frequencies of both layers are structured (rows of H D3 H D2 H D1, Yu et al. 2016), not drawn",
        "the first kernel's width is chosen by leave-one-out on "
        f"{extent.n_choose} training photographs, that of layer 2 is the median distance of first-layer features",
        "translations are of 0.3 px: the paper gives no unit; one rotation, scale and shift an element, drawn together",
        "RLS on uncentred features, lambda by every tenth training photograph",
        f"the rows of deep networks are what others published; {OURS} has at most 8,192 numbers",
    ]
    if extent.n_train == FAST.n_train:
        said.append(
            f"small form: the first {extent.n_train} photographs train, s = {extent.s}, r = {extent.r}; in full "
            "50,000, 10,000 and 50"
        )
    return said


CIFAR10 = Experiment(
    "cifar10",
    "CIFAR-10, 50,000 photographs to train on (in the small form fewer) and the first 1,000 test ones; rotations, "
    "scales and shifts by the paper's laws, two layers of random Fourier features, RLS.",
    measure_cifar10,
    takes_width=True,
)
