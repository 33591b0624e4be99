"""A preset, or several methods beside it, under a protocol: the report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from streamfeat.bankspec import BankSpec, presets
from streamfeat.errors import ConfigError
from streamfeat.frontends import make_front_ends
from streamfeat.protocols import digits, photographs, speech
from streamfeat.protocols.albums import plan_ijba, plan_lfw, plan_mugshots
from streamfeat.protocols.classify import classify
from streamfeat.protocols.clock import N_ITEMS, ms_alone, ms_per_item
from streamfeat.protocols.data import data_folder
from streamfeat.protocols.faces import ORL, Faces, plan_orl, verify_faces
from streamfeat.protocols.fitted import Fitted
from streamfeat.protocols.maxmargin import plan_draws, plan_splits
from streamfeat.protocols.methods import Method, method_of
from streamfeat.protocols.plan import Plan, Progress, Source
from streamfeat.protocols.poses import plan_pose_draws, plan_pose_shots, plan_poses
from streamfeat.protocols.scores import rounded, scores_of
from streamfeat.signals.signal import Kind
from streamfeat.threads import n_cores


@dataclass(frozen=True)
class Protocol:
    """What its items are, what lays it out, what its seeds are of, how many are usual, and where its data lie."""

    kind: Kind
    plan: Callable[[Source], Plan | Faces]
    seeds: Literal["banks", "draws", "splits"]
    n_seeds: int
    data: tuple[str, ...]


PROTOCOLS = {
    "fsdd-loso": Protocol("audio", speech.plan_fsdd, "banks", 4, (speech.FSDD,)),
    "arabic": Protocol("audio", speech.plan_arabic, "banks", 4, (speech.ARABIC_TRAIN, speech.ARABIC_VAL)),
    "mnist-few": Protocol("image", digits.plan_mnist_few, "draws", 5, (digits.MNIST,)),
    "mnist": Protocol("image", digits.plan_mnist, "banks", 1, (digits.MNIST,)),
    "rotmnist-few": Protocol("image", digits.plan_rotmnist_few, "draws", 5, (digits.MNIST,)),
    "rotmnist": Protocol("image", digits.plan_rotmnist, "banks", 1, (digits.MNIST,)),
    "cifar10-few": Protocol("image", photographs.plan_cifar10_few, "draws", 5, (photographs.FOLDER,)),
    "cifar10": Protocol("image", photographs.plan_cifar10, "banks", 1, (photographs.FOLDER,)),
    "orl-verify": Protocol("image", plan_orl, "splits", 20, (ORL,)),
    "orl-mmif": Protocol("image", plan_splits, "splits", 20, (ORL,)),
    "orl-mmif-draws": Protocol("image", plan_draws, "draws", 20, (ORL,)),
    "orl-poses": Protocol("image", plan_poses, "splits", 20, (ORL,)),
    "orl-poses-draws": Protocol("image", plan_pose_draws, "draws", 20, (ORL,)),
    "orl-poses-shots": Protocol("image", plan_pose_shots, "splits", 20, (ORL,)),
    "mugshots": Protocol("image", plan_mugshots, "splits", 5, ("mugshots",)),
    "lfw": Protocol("image", plan_lfw, "draws", 1, ("lfw",)),
    "ijba": Protocol("image", plan_ijba, "splits", 10, ("ijba",)),
}


@dataclass(frozen=True)
class Request:
    """What is asked for; `n_seeds` and `train_data` None stand for what is usual."""

    protocol: str
    preset: str
    methods: Sequence[str] = ("preset",)
    n_seeds: int | None = None
    given: Path | None = None
    train_data: Path | None = None

    def command(self) -> str:
        """What asks for the same on a command line."""
        words = ["streamfeat", "evaluate", "--preset", self.preset, "--protocol", self.protocol]
        words += [word for method in self.methods for word in ("--method", method)]
        options = {"--seeds": self.n_seeds, "--data": self.given, "--train-data": self.train_data}
        words += [str(word) for name, value in options.items() if value is not None for word in (name, value)]
        return shlex.join(words)


def evaluate(request: Request, *, progress: Progress, n_threads: int | None = None) -> dict[str, Any]:
    """Run the methods under the protocol.

    Parameters
    ----------
    request : Request
    progress : callable
        `progress(description, total)` is a context that gives the function moving the bar on.
    n_threads : int, optional
        That compute features; None: one a core.

    Returns
    -------
    dict
        {"protocol", "preset", "seeds", "seeds_of", "notes", "wall_s"} and the figures of the first method: {"method",
        "accuracy", "sd", ...} (see `scores_of`), "ms_per_item" in one go, "ms_alone" one by one, "dim", "bank"; those
        of all in "methods", by name.

    Raises
    ------
    ConfigError
        An unknown protocol, preset or method; a preset for other signals than the protocol's; data or a package that is
        not there.
    InvalidArgument
        Items that cannot be read, or that the preset does not take.
    """
    began = time.monotonic()
    if request.protocol not in PROTOCOLS:
        raise ConfigError(f"a protocol is one of {', '.join(PROTOCOLS)}; got {request.protocol!r}")
    protocol = PROTOCOLS[request.protocol]
    spec = spec_of(request.preset)
    _check_kind(request, spec)
    n_seeds = request.n_seeds or protocol.n_seeds
    names = list(dict.fromkeys(request.methods))
    methods = {name: method_of(name, protocol.kind == "audio") for name in names}
    plan = protocol.plan(Source(data_folder(request.train_data), request.given, n_seeds, progress))
    bank_seeds = range(n_seeds) if protocol.seeds == "banks" else None

    def named(name: str) -> Progress:
        return lambda text, total: progress(f"{request.protocol}: {name}, {text}", total)

    outcomes = {}
    for name, method in methods.items():
        run = _Run(method, spec, bank_seeds, n_threads or n_cores())
        outcomes[name] = run.under(plan, named(name))
    figures = _timed(outcomes, plan)
    return {
        "protocol": request.protocol,
        "preset": spec.name,
        "method": names[0],
        **figures[names[0]],
        "seeds": n_seeds,
        "seeds_of": protocol.seeds,
        "notes": list(plan.notes),
        "methods": figures,
        "wall_s": round(time.monotonic() - began, 1),
    }


def spec_of(preset: str) -> BankSpec:
    """The spec of a preset, or of a TOML file."""
    return BankSpec.from_toml(Path(preset)) if preset.endswith(".toml") else BankSpec.preset(preset)


def _check_kind(request: Request, spec: BankSpec) -> None:
    """Raise `ConfigError` where the preset takes other signals than the protocol has."""
    asked, taken = PROTOCOLS[request.protocol].kind, _kind_of(spec)
    if taken != asked:
        fitting = [name for name in presets() if _kind_of(BankSpec.preset(name)) == asked]
        raise ConfigError(
            f"preset {request.preset!r} takes {taken}, the items of {request.protocol} are {asked}; "
            f"presets for {asked}: {', '.join(fitting)}"
        )


def _kind_of(spec: BankSpec) -> Kind:
    return make_front_ends([stream.front_end for stream in spec.streams]).kind


@dataclass(frozen=True)
class _Outcome:
    fitted: Fitted
    n_features: int
    figures: dict[str, Any]


@dataclass(frozen=True)
class _Run:
    method: Method
    spec: BankSpec
    bank_seeds: Sequence[int] | None
    n_threads: int

    def under(self, plan: Plan | Faces, progress: Progress) -> _Outcome:
        """The method under a protocol."""
        if isinstance(plan, Faces):
            return _Outcome(*verify_faces(plan, self.method, self.spec, progress=progress, n_threads=self.n_threads))
        hits = classify(plan, self.method, self.spec, self.bank_seeds, progress=progress, n_threads=self.n_threads)
        assert hits.fitted is not None  # there is no plan without a trial
        return _Outcome(hits.fitted, hits.n_features, scores_of(hits, plan))


def _timed(outcomes: dict[str, _Outcome], plan: Plan | Faces) -> dict[str, dict[str, Any]]:
    """What is reported of each method; the clock runs over all of them in turns."""
    asked = plan.splits[0].asked if isinstance(plan, Faces) else next(iter(plan.trials[0].tests.values()))
    chosen = asked[np.linspace(0, len(asked) - 1, min(N_ITEMS, len(asked))).astype(int)]
    signals = [plan.read(int(row)) for row in chosen]
    fitted = {name: outcome.fitted for name, outcome in outcomes.items()}
    ms, alone = ms_per_item(fitted, signals), ms_alone(fitted, signals)
    return {
        name: rounded(
            {
                **outcome.figures,
                "ms_per_item": ms[name],
                "ms_alone": [float(f"{value:.4g}") for value in alone[name]],
                "dim": outcome.n_features,
                "bank": outcome.fitted.bank,
            }
        )
        for name, outcome in outcomes.items()
    }
