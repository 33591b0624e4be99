"""One way that every item goes: sent by a client in a thread of its own, each answer noted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.client import Client, Job
from streamfeat.featurelog import FeatureLog
from streamfeat.trials.workload import Workload

NAME = "trial"
"""Of model and index."""

ROUTES = ("features", f"features > learn:{NAME}", f"features > insert:{NAME}")
WINDOW = 384
"""Items under way: what four workers hold, and as many again."""

LAST_ANSWERS_S = 60.0
"""After the last item was sent; longer than any member needs to be back, and to be found gone."""

LOOK_S = 0.005


class Leg(threading.Thread):
    """All items along one route.

    Parameters
    ----------
    front : str
    workload : Workload
    route : str
    released : callable
        How many items may have been sent by now.
    until : float
        Monotonic time after which no item is sent.
    """

    def __init__(self, front: str, workload: Workload, route: str, released: Callable[[], int], until: float) -> None:
        super().__init__(name=route, daemon=True)
        self._front, self._workload, self._released, self._until = front, workload, released, until
        self.route = route
        self.sent = 0
        self.n_ended = 0
        self.n_dropped = 0
        self.answers = np.zeros(len(workload), np.int64)
        self.failed: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self.features = np.zeros((len(workload), workload.n_features), np.uint16)

    def run(self) -> None:
        """Send everything and note what comes back; what goes wrong on this side is kept for `finish`."""
        try:
            self._run()
        except Exception as error:
            self.failure = error

    def finish(self) -> None:
        """Raise what ended it too early. Still running: it waits for answers that will not come, and ends with us."""
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        timeout_s = self._until - time.monotonic() + LAST_ANSWERS_S / 2
        with Client(self._front, timeout_s=timeout_s, connect_timeout_s=LAST_ANSWERS_S / 2) as client:
            for result in client.stream(self._jobs(), route=self.route, ordered=False, window=WINDOW):
                self.n_ended += 1
                if result.error is not None:
                    self.failed[result.error.code] += 1
                    continue
                self.answers[result.job.tag] += 1
                if result.fields["kind"] == "features":
                    self.features[result.job.tag] = result.feature
            self.n_dropped = client.n_dropped

    def _jobs(self) -> Iterator[Job]:
        for n in range(len(self._workload)):
            while n >= self._released():
                time.sleep(LOOK_S)
            if time.monotonic() > self._until:
                return
            self.sent += 1
            yield self._workload.job(n)


def rows_on_disk(path: Path, workload: Workload) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """How often each item is in a feature log, and the feature there."""
    n_rows = np.zeros(len(workload), np.int64)
    features = np.zeros((len(workload), workload.n_features), np.uint16)
    with FeatureLog(path) as log:
        for _, entry in log.read():
            n_rows[entry.seq] += 1
            features[entry.seq] = entry.feature
    return n_rows, features
