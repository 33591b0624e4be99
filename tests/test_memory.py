"""Memory that a worker uses for an item after another."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, resource, sys
import numpy as np
from streamfeat.workers.memory import keep_memory
if sys.argv[1] == "kept":
    keep_memory()
def batch():
    return [np.ones(1 << 18) for _ in range(4)]
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before, gc.get_freeze_count())
"""


def faults_and_frozen(how: str) -> tuple[int, int]:
    """Pages faulted in by 20 batches of 8 MiB, and objects that no collection looks at, in a process of its own."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True, timeout=60)
    faults, frozen = map(int, run.stdout.split())
    return faults, frozen


def test_a_batch_uses_the_pages_of_the_one_before() -> None:
    """Without it each batch faults its pages in again, 40,000 of them in all; there are a few of other origin."""
    assert faults_and_frozen("kept")[0] < faults_and_frozen("as usual")[0] / 10


def test_what_was_imported_is_not_looked_through_again() -> None:
    """Tens of thousands of objects are there by then, and stay."""
    assert faults_and_frozen("kept")[1] > 10_000
    assert faults_and_frozen("as usual")[1] == 0
