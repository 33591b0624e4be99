"""The account of a trial: what was sent, what came back, what was done to the fleet meanwhile, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

REPORTED = {"redeliveries": ("redelivered",), "duplicates_dropped": ("duplicates", "late", "stray")}
"""What is summed over the reports of every broker there was."""


@dataclass
class Account:
    """What became of the items of a trial.

    Attributes
    ----------
    items : int
        Items that were to be sent.
    results : int
        Items of which every stage was answered, once.
    lost : int
        Items that were sent and have no answer at some stage, or were acknowledged and are not on disk.
    doubled : int
        Items with two answers to one question, or on disk twice.
    mismatched : int
        Features, answered or on disk, that differ by a bit from those computed in this process.
    faults : dict of str to int
    redeliveries, duplicates_dropped : int
        As the brokers and clients counted; what a broker counted in its last moments died with it.
    quarantined : int
    leases_left, retained_bytes : int
        What the last broker still had at the end.
    learner_rows, index_rows : int
        As learner and index say themselves.
    """

    items: int
    results: int = 0
    lost: int = 0
    doubled: int = 0
    mismatched: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    redeliveries: int = 0
    duplicates_dropped: int = 0
    quarantined: int = 0
    leases_left: int = 0
    retained_bytes: int = 0
    learner_rows: int = 0
    index_rows: int = 0

    def add_reports(self, reports: Iterable[Mapping[str, Any]]) -> None:
        """Add what each broker counted, from its last report."""
        for report in reports:
            self.redeliveries += sum(report[name] for name in REPORTED["redeliveries"])
            self.duplicates_dropped += sum(report[name] for name in REPORTED["duplicates_dropped"])

    @property
    def passed(self) -> bool:
        """Everything was sent and answered once, to the bit, and nothing is left over."""
        faultless = not (self.lost or self.doubled or self.mismatched or self.leases_left or self.retained_bytes)
        return faultless and self.results == self.learner_rows == self.index_rows == self.items

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def table(self) -> str:
        """For people: one line a number, faults by kind."""
        rows: list[tuple[str, Any]] = []
        for name, value in self.as_dict().items():
            if isinstance(value, dict):
                rows += [(f"faults: {kind}", n) for kind, n in sorted(value.items())]
            else:
                rows.append((name.replace("_", " "), value))
        return "\n".join(f"{name:<24}{value:>10}" for name, value in [*rows, ("verdict", self._verdict())])

    def _verdict(self) -> str:
        return "passed" if self.passed else "FAILED"
