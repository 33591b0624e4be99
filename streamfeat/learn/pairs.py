"""All pairs of many rows: float32 products counted in bins, and float64 for those near a limit that is asked for.

A rate is decided by the pairs that score about as much as its limit. Which bins those are is guessed from the pairs of
some rows; one pass over all pairs counts every bin and keeps the pairs in the bins guessed, which are scored again in
float64. Where the counts show that the guess was off, the pass is made again with the right bins. Float32 products err
by less than (D + 16) 2^-24; the bins kept reach twice as far on either side, so the answer is that of float64. Pairs of
one block that tie are kept as one, with their number: of one-hot rows nearly all pairs lie at the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from streamfeat.kernels.scores import BINS, WIDTH, bin_scores
from streamfeat.learn.scaling import parts
from streamfeat.threads import in_threads, n_cores, one_blas_thread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Corners = Sequence[tuple[int, int]]
Advance = Callable[[int], object]
Progress = Callable[[str, int], AbstractContextManager[Advance]]

BLOCK = 1024
"""Rows a side of a block of scores."""

DIGITS = 12
"""Of a cosine: rounded so, pairs of equal rows have equal scores wherever they lie in a product."""

MOST_THREADS = 8
"""Of a scan: each holds 13 MB."""

SAMPLE = 8192
"""Rows whose pairs make the guess."""

SAMPLE_DEVIATIONS = 8.0
"""How far a rank among them may be off; pairs that share a row are not independent."""


def unseen(what: str, total: int) -> AbstractContextManager[Advance]:  # noqa: ARG001 - as a progress bar is called
    """Progress that nobody looks at."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True)
class Pairs:
    """Unit rows U (n, D) in the order of their labels' numbers (n,)."""

    U: Floats
    numbers: NDArray[np.intp]

    def some(self, k: int, rng: np.random.Generator) -> Pairs:
        """The pairs of k rows."""
        kept = np.sort(rng.permutation(len(self.U))[:k])
        return Pairs(self.U[kept], self.numbers[kept])

    def __len__(self) -> int:
        return len(self.U) * (len(self.U) - 1) // 2

    def scan(self, wanted: NDArray[np.bool_], advance: Advance = lambda _: None) -> Scan:
        """Count all pairs by bin, and score those in wanted bins in float64; `advance` hears of each block's pairs."""
        rows, shares = self.U.astype(np.float32), self.shares()
        one_at_a_time = Lock()

        def tell(n: int) -> None:
            with one_at_a_time:
                advance(n)

        with one_blas_thread():
            scans = list(in_threads(lambda share: self._scan(rows, share, wanted, tell), shares, len(shares)))
        return Scan.joined(scans)

    def shares(self) -> list[Corners]:
        """The blocks on and above the diagonal, by the places of their first pairs: some for each thread."""
        starts, n_threads = range(0, len(self.U), BLOCK), min(n_cores(), MOST_THREADS)
        corners = [(top, left) for top in starts for left in starts if left >= top]
        return [corners[first::n_threads] for first in range(n_threads)]

    def _scan(self, rows: NDArray[np.float32], corners: Corners, wanted: NDArray[np.bool_], advance: Advance) -> Scan:
        """The scan of some blocks of float32 rows."""
        counts, found = np.zeros((2, BINS), np.int64), np.empty((2, BLOCK * BLOCK), np.int32)
        room = np.empty(BLOCK * BLOCK, np.float32)
        # rows of one label lie side by side
        ends = np.searchsorted(self.numbers, self.numbers, side="right")
        bins_wanted, n_before = np.flatnonzero(wanted), 0
        kept = [_ties(np.empty(0), np.empty(0, np.bool_), np.empty(0, np.int32))]
        for top, left in corners:
            left_rows, right_rows = rows[top : top + BLOCK], rows[left : left + BLOCK]
            shape = len(left_rows), len(right_rows)
            scores = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(left_rows, right_rows.T, out=scores)
            spans = _spans(ends[top : top + BLOCK], top, left, shape)
            bin_scores(scores, spans, wanted.view(np.uint8), counts, found)
            advance(shape[0] * shape[1] - (shape[0] * (shape[0] + 1) // 2 if top == left else 0))
            n_now = int(counts[:, bins_wanted].sum())
            if n_now > n_before:
                places, bins = found[:, : n_now - n_before]
                i, j = np.divmod(places.astype(np.int64), shape[1])
                kept.append(_ties(*self._exact(i + top, j + left), bins))
                n_before = n_now
        return Scan(counts, *(np.concatenate(part) for part in zip(*kept, strict=True)))

    def _exact(self, i: Ints, j: Ints) -> tuple[Floats, NDArray[np.bool_]]:
        """Scores of pairs (k,), and whether they are genuine; one product a pair, the same wherever it lies."""
        scores = np.empty(len(i))
        for part in parts(len(i), 2 * self.U.shape[1]):
            scores[part] = np.einsum("kd,kd->k", self.U[i[part]], self.U[j[part]])
        return scores.round(DIGITS), self.numbers[i] == self.numbers[j]

    @property
    def reach(self) -> int:
        """Bins on either side of a limit's that may hold scores equal to it."""
        rounding = (self.U.shape[1] + 16) * 2.0**-24
        return int(np.ceil(2.0 * rounding / WIDTH)) + 1


@dataclass(frozen=True)
class Scan:
    """Counts (2, BINS) of genuine pairs and impostors, and those kept: score, whether genuine, bin, how many (k,)."""

    counts: Ints
    scores: Floats
    genuine: NDArray[np.bool_]
    bins: NDArray[np.int32]
    times: Ints

    @classmethod
    def joined(cls, scans: Sequence[Scan]) -> Scan:
        """Of scans of different pairs, that of them all."""
        kept = ((scan.scores, scan.genuine, scan.bins, scan.times) for scan in scans)
        counts = np.sum([scan.counts for scan in scans], axis=0)
        return cls(counts, *(np.concatenate(part) for part in zip(*kept, strict=True)))

    def window(self, accepted: float, deviation: float, reach: int) -> slice:
        """The bins in which the impostor lies that has so many above it, give or take a deviation."""
        above = np.cumsum(self.counts[1, ::-1])  # impostors in the highest bin, the two highest, ...
        first = np.searchsorted(above, max(accepted - deviation, 0.0), side="right")
        last = np.searchsorted(above, accepted + deviation, side="right")
        low, high = BINS - 1 - min(int(last), BINS - 1), BINS - 1 - min(int(first), BINS - 1)
        if accepted - deviation < 0:
            high = BINS - 1
        return slice(max(low - reach, 0), min(high + reach + 1, BINS))

    def rate(self, accepted: int, window: slice) -> float:
        """The part of genuine pairs over the impostor that has so many above it, which lies in the window."""
        inside = (self.bins >= window.start) & (self.bins < window.stop)
        genuine_above, impostors_above = self.counts[:, window.stop :].sum(axis=1)
        falling = np.flatnonzero(inside & ~self.genuine)
        falling = falling[np.argsort(-self.scores[falling])]
        place = np.searchsorted(np.cumsum(self.times[falling]), accepted - int(impostors_above), side="right")
        limit = self.scores[falling[place]]
        over = int(genuine_above) + int(self.times[inside & self.genuine & (self.scores > limit)].sum())
        return over / int(self.counts[0].sum())


def scan_near(
    pairs: Pairs, accepted: Sequence[int], rng: np.random.Generator, progress: Progress = unseen
) -> tuple[Scan, list[slice]]:
    """A scan of all pairs that kept those near each limit, and the windows they lie in."""
    nothing = np.zeros(BINS, np.bool_)
    sample = pairs.some(SAMPLE, rng).scan(nothing)
    share = float(sample.counts[1].sum()) / max(1, len(pairs))
    ranks = [rank * share for rank in accepted]
    guess = [sample.window(rank, SAMPLE_DEVIATIONS * (np.sqrt(rank) + 1.0), pairs.reach) for rank in ranks]
    with progress("pairs", len(pairs)) as advance:
        scan = pairs.scan(_together(guess), advance)
    windows = [scan.window(rank, 0.0, pairs.reach) for rank in accepted]
    if (_together(windows) & ~_together(guess)).any():
        with progress("pairs, near the limits", len(pairs)) as advance:
            scan = pairs.scan(_together(windows), advance)
    return scan, windows


def _spans(ends: NDArray[np.intp], top: int, left: int, shape: tuple[int, int]) -> Ints:
    """Where in each row of a block its genuine pairs begin, its impostors, and its end (r, 3); each pair once.

    `ends`, which do not fall, are where the rows of each row's label end.
    """
    spans = np.zeros((shape[0], 3), np.int64)
    spans[:, 2] = shape[1]
    if ends[-1] > left:
        spans[:, 0] = np.arange(top + 1 - left, top + 1 - left + shape[0]).clip(0, shape[1])
        spans[:, 1] = (ends - left).clip(0, shape[1])
    return spans


def _ties(
    scores: Floats, genuine: NDArray[np.bool_], bins: NDArray[np.int32]
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int32], Ints]:
    """Each score, whether genuine, and bin (k,) once, and how many pairs it was."""
    order = np.lexsort((genuine, bins, scores))
    scores, genuine, bins = scores[order], genuine[order], bins[order]
    new = np.ones(len(scores), np.bool_)
    new[1:] = (scores[1:] != scores[:-1]) | (genuine[1:] != genuine[:-1]) | (bins[1:] != bins[:-1])
    firsts = np.flatnonzero(new)
    return scores[firsts], genuine[firsts], bins[firsts], np.diff(np.append(firsts, len(scores)))


def _together(windows: Sequence[slice]) -> NDArray[np.bool_]:
    wanted = np.zeros(BINS, np.bool_)
    for window in windows:
        wanted[window] = True
    return wanted
