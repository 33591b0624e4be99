"""What is served, by whom, and whether a route can be gone.

Services remembers stages and banks after their last worker has left: a request for a stage that was served once waits
for a worker to come back, one for a stage that never was is refused at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamfeat.errors import InvalidArgument, NotFound, StreamfeatError, Unavailable
from streamfeat.wire.messages import Item
from streamfeat.wire.peers import Worker, serves

_HASH = re.compile("[0-9a-f]{64}")
_AFTER_FEATURES = ("classify", "learn", "insert", "search")
_SHOWN = 20  # names a message lists
_BANKS = 64  # names remembered, and at most listed in WELCOME


@dataclass(frozen=True, slots=True)
class Route:
    """The way of an item: its stages as workers know them (features with the bank's hash), and what they are told."""

    stages: tuple[str, ...]
    bank: str | None
    options: dict[str, Any]  # for the last stage
    work: int = 1  # how many templates, moved ones counted each, a sample meets in the bank

    def work_of(self, stage: str) -> int:
        """What a sample of an item meets at this stage, as far as its cost goes."""
        return self.work if stage.startswith("features:") else 1

    def check(self, item: Item) -> None:
        """Hold an item to what the first stage works on, and to the label that learning needs.

        Raises
        ------
        InvalidArgument
        """
        first, last = self.stages[0], self.stages[-1]
        n_arrays = 0 if first.startswith("fit:") else 1
        if len(item.arrays) != n_arrays:
            raise InvalidArgument(f"arrays: {_kind(first)} takes {n_arrays} array an item, got {len(item.arrays)}")
        if first.startswith("features:") and "signal" not in item.fields:
            raise InvalidArgument("signal: features are of a signal; say its kind, and the rate_hz of audio")
        if last.startswith("learn:") and "label" not in item.fields:
            raise InvalidArgument(f"label: {last} needs the label of the item")


class Services:
    """The stages and banks of all workers, here or gone."""

    def __init__(self) -> None:
        self.banks: dict[str, str] = {}  # name -> hash; the last who said so is right, and comes last
        self._work: dict[str, int] = {}  # hash -> how many moved templates a sample meets
        self._known: set[str] = set()
        self._workers: list[Worker] = []
        self._by_stage: dict[str, list[Worker]] = {}

    def join(self, worker: Worker) -> None:
        """The worker serves what it announced, or announces anew; one that rests is known, and gets nothing."""
        if worker not in self._workers and not worker.resting:
            self._workers.append(worker)
        self._by_stage.clear()
        self._known |= worker.stages
        for name, digest in worker.banks.items():
            self.banks.pop(name, None)
            self.banks[name] = digest
            self._work[digest] = worker.work.get(digest, 1)
        while len(self.banks) > _BANKS:
            self._work.pop(self.banks.pop(next(iter(self.banks))), None)

    def leave(self, worker: Worker) -> None:
        """The worker takes no more work; twice does no harm."""
        if worker in self._workers:
            self._workers.remove(worker)
            self._by_stage.clear()

    def workers_of(self, stage: str) -> list[Worker]:
        """Those that take work of this stage now."""
        workers = self._by_stage.get(stage)
        if workers is None:
            workers = self._by_stage[stage] = [w for w in self._workers if w.serves(stage)]
            if len(self._by_stage) > 1000:  # stages that came once
                self._by_stage = {stage: workers}
        return workers

    def resolve(self, route: Sequence[str], bank: str | None, options: dict[str, Any]) -> Route:
        """The route as workers know it, every stage of it served by somebody now or before.

        Raises
        ------
        InvalidArgument
            The stages do not follow each other, or several banks are served and none is named.
        NotFound
            No worker ever served that bank.
        Unavailable
            No worker ever served that stage.
        """
        _check_order(route)
        digest = self._bank(bank) if bank is not None or route[0] == "features" else None
        stages = tuple(f"features:{digest}" if stage == "features" else stage for stage in route)
        for stage in stages:
            if not serves(self._known, stage):
                raise self._unknown(stage, bank)
        return Route(stages, digest, options, self._work.get(digest or "", 1))

    def _bank(self, bank: str | None) -> str:
        if bank is not None:
            digest = bank if _HASH.fullmatch(bank) else self.banks.get(bank)
            if digest is None:
                raise self._unknown("features:", bank)
            return digest
        if len(self.banks) > 1:
            raise InvalidArgument(f"several banks are served, name one: {self._bank_names()}")
        if not self.banks:
            raise Unavailable("no features worker has joined yet; start one, or try again when it is ready")
        return next(iter(self.banks.values()))

    def _unknown(self, stage: str, bank: str | None) -> StreamfeatError:
        if stage.startswith("features:"):
            if not self.banks:
                return Unavailable("no features worker has joined yet; start one, or try again when it is ready")
            return NotFound(f"no worker has served bank {bank!r}; served are {self._bank_names()}")
        others = ", ".join(sorted(s for s in self._known if not s.startswith("features:"))[:_SHOWN])
        return Unavailable(f"no worker has served {stage}; served are: {others or 'none'}; start one that does")

    def _bank_names(self) -> str:
        return ", ".join(f"{name} ({digest[:12]})" for name, digest in sorted(self.banks.items())[:_SHOWN])


def _check_order(route: Sequence[str]) -> None:
    kinds = [_kind(stage) for stage in route]
    if len(kinds) == 1 or (len(kinds) == 2 and kinds[0] == "features" and kinds[1] in _AFTER_FEATURES):
        return
    raise InvalidArgument(
        f"a route is one stage, or features and then one of {', '.join(_AFTER_FEATURES)}; got {' > '.join(route)}"
    )


def _kind(stage: str) -> str:
    return stage.partition(":")[0]
