"""What a process uses, sample by sample, and whether that stays flat."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAGE = os.sysconf("SC_PAGE_SIZE")

BYTES_AN_ITEM = 1.0
"""What a process may grow by for each item that passed: a kilobyte a thousand."""

SETTLING_BYTES = 4 << 20
"""What an allocator may still move by, however short the trial."""

SETTLING_HANDLES = 2
"""Files and threads that come and go: a database's journal, a client that asks for the status."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident bytes, open files and threads of a process, after so many items."""

    n_items: int
    rss: int
    files: int
    threads: int


def sample_of(pid: int, n_items: int) -> Sample:
    """What the kernel says of a process now.

    Raises
    ------
    OSError
        It has ended.
    """
    about = Path(f"/proc/{pid}")
    rss = int((about / "statm").read_text().split()[1]) * PAGE
    threads = int((about / "stat").read_text().rpartition(")")[2].split()[17])
    return Sample(n_items, rss, sum(1 for _ in (about / "fd").iterdir()), threads)


def trend(samples: Sequence[Sample]) -> dict[str, Any]:
    """How a process's use went over the later half of its samples, and whether it was flat.

    Returns
    -------
    dict
        rss_mib (at the end), bytes_per_item (the slope of a fitted line), files and threads (least and most), flat.
    """
    later = list(samples)[len(samples) // 2 :]
    items = np.array([sample.n_items for sample in later], float)
    rss = np.array([sample.rss for sample in later], float)
    n_items = items[-1] - items[0]
    slope = float(np.polyfit(items, rss, 1)[0]) if n_items > 0 else 0.0
    files, threads = ([getattr(sample, name) for sample in later] for name in ("files", "threads"))
    grown = slope * n_items
    return {
        "rss_mib": round(rss[-1] / (1 << 20), 1),
        "bytes_per_item": round(slope, 3),
        "files": [min(files), max(files)],
        "threads": [min(threads), max(threads)],
        "flat": bool(
            grown <= max(SETTLING_BYTES, BYTES_AN_ITEM * n_items)
            and max(files) - min(files) <= SETTLING_HANDLES
            and max(threads) - min(threads) <= SETTLING_HANDLES
        ),
    }
