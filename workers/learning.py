"""Learner: labelled features into a log, models fitted on it, labels out of the models."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.errors import InvalidArgument, NotFound, StreamfeatError
from streamfeat.featurelog import Logged
from streamfeat.learn.lambdas import GURLS_N_LAMBDA
from streamfeat.learn.rls import RLS
from streamfeat.model import Model, latest, save_version, versions
from streamfeat.payloads import error_result
from streamfeat.wire.messages import Array, Item

from .logs import Logs, committed, feature_of, known_options

log = logging.getLogger("streamfeat.worker")

FIT_OPTIONS = ("lam", "standardise", "unit_norm", "per_class", "balance", "grid", "measure", "rank", "seed")
MOST_LAMBDAS = 100
SECONDS_A_ROW = 1e-4
"""Four times what a row of 7000 counts takes from memory."""

DISK_BYTES_A_SECOND = 5e7
FLOPS_A_SECOND = 5e9
"""What one slow core does of an eigen-decomposition; a fit is announced by it, and must not take longer."""


class Learner:
    """Handler of `learn:MODEL`, `fit:MODEL` and `classify:MODEL`, for every model below a state directory.

    A model is a view of its log: fitted when asked, saved by rename, opened again at the next start.
    """

    kind = "learner"
    stages: tuple[str, ...] = ("learn:*", "classify:*", "fit:*")
    n_items = 64
    n_bytes = 64 << 20

    def __init__(self, state: Path) -> None:
        self.banks: dict[str, str] = {}
        self.work: dict[str, int] = {}
        self.bank_bytes: dict[str, int] = {}
        self._state = state
        self._models: dict[str, Model] = {}

    def warm(self) -> None:
        """Open all logs and the newest model of each."""
        self._logs = Logs(self._state)
        for name in self._logs.names:
            if versions(self._logs.folder(name)):
                self._models[name] = latest(self._logs.folder(name))

    def reload(self) -> bool:
        """Nothing: what is learned is taken up when it is."""
        return False

    def handle(
        self, stage: str, items: Sequence[Item], options: Mapping[str, Any], beat: Callable[[int], None]
    ) -> list[Item]:
        """One result an item; see the stages."""
        verb, _, name = stage.partition(":")
        if verb == "learn":
            known_options(options, (), verb)
            receipts = self._logs.append(name, items, beat, need_label=True)
            return [
                error_result(receipt) if isinstance(receipt, StreamfeatError) else committed(item, receipt)
                for item, receipt in zip(items, receipts, strict=True)
            ]
        act = {"fit": self._fit, "classify": self._classify}.get(verb)
        if act is None:
            raise InvalidArgument(f"a learner serves {', '.join(self.stages)}, got {stage!r}")
        results = []
        for item in items:
            try:
                results.append(act(name, item, options, beat))
            except StreamfeatError as error:
                results.append(error_result(error))
            beat(0)
        return results

    def close(self) -> None:
        """Let go of the logs."""
        self._logs.close()

    def _fit(self, name: str, _item: Item, options: Mapping[str, Any], beat: Callable[[int], None]) -> Item:
        """Fit the model on everything its log holds, save it, and use it from now on."""
        known_options(options, (*FIT_OPTIONS, "classes"), "fit")
        asked = {name: value for name, value in options.items() if name != "classes"}
        grid = asked.get("grid", "relative")
        if not isinstance(grid, str) and (not isinstance(grid, list) or len(grid) > MOST_LAMBDAS):
            raise InvalidArgument(f"grid must be a name or at most {MOST_LAMBDAS} numbers, got {str(grid)[:80]}")
        entries = self._logs.get(name)
        bank = entries.bank_hash
        if bank is None:
            raise NotFound(f"nothing was learned as {name!r} yet; learn labelled items first")
        beat(load_ms(len(entries), entries.dim or 0))
        logged = entries.load()
        groups = None if None in logged.groups else logged.groups
        by_group = groups is not None and len(set(groups)) > 1
        rls = RLS(**{"lam": "logo" if by_group else "loo", **asked})
        beat(fit_ms(logged, len(grid) if isinstance(grid, list) else GURLS_N_LAMBDA))
        rls.fit(logged.X, logged.labels, groups)
        model = Model(rls, bank)
        path = save_version(model, self._logs.folder(name))
        self._models[name] = model
        held_out = rls.held_out_
        log.info(
            "%s: fitted on %d items, %s accuracy %.3f", path, len(logged.ids), held_out.criterion, held_out.accuracy
        )
        fields: dict[str, Any] = {
            "ok": True,
            "kind": "fit",
            "lam": float(np.median(rls.lam_)),
            "n_items": rls.n_items_,
            "n_classes": len(rls.classes_),
            "accuracy": None if np.isnan(held_out.accuracy) else held_out.accuracy,
            "criterion": held_out.criterion,
        }
        if options.get("classes"):
            fields["classes"] = rls.classes_
        return Item(fields, (Array.of(held_out.recall.astype(np.float32)),))

    def _classify(self, name: str, item: Item, options: Mapping[str, Any], _beat: Callable[[int], None]) -> Item:
        """The class with the highest score, and all scores."""
        known_options(options, ("classes",), "classify")
        model = self._models.get(name)
        if model is None:
            there = ", ".join(self._models) or "none"
            raise NotFound(f"no model {name!r}: nothing was fitted under that name; fit it first (there are: {there})")
        feature, bank = feature_of(item)
        scores = model.scores(feature[None, :], bank)[0]
        best = int(scores.argmax())
        fields = {"ok": True, "kind": "label", "label": model.classes[best], "score": float(scores[best])}
        if options.get("classes"):
            fields["classes"] = model.classes
        return Item(fields, (Array.of(scores.astype(np.float32)),))


def load_ms(n: int, d: int) -> int:
    """A bound on what reading a log takes: rows one by one, from a slow disk at 8 bytes a number."""
    return 2000 + int(1000 * (n * SECONDS_A_ROW + 8 * n * d / DISK_BYTES_A_SECOND))


def fit_ms(logged: Logged, n_lambda: int) -> int:
    """A bound on what fitting takes: Gram matrix, eigen-decomposition, and each lambda's groups left out."""
    n, d = logged.X.shape
    r = min(n, d)
    groups = Counter(logged.groups).values() if None not in logged.groups else [1] * n
    flops = 2 * n * d * r + 9 * r**3 + 2 * n_lambda * r * sum(size**2 for size in groups)
    return 2000 + int(1000 * flops / FLOPS_A_SECOND)
