"""Verification: are two rows of one label? The cosine of every pair, and the errors at every threshold.

All n (n - 1) / 2 pairs are scored by the cosine of their rows, in blocked products. A pair is genuine if its labels are
equal, else an impostor. At a threshold t the pairs that score t or more are accepted, so ties stand or fall together;
the false accept rate FAR(t) is the part of impostors accepted, the verification rate VR(t) that of genuine pairs.

    VR at FAR f   VR at the lowest threshold with FAR(t) <= f: the genuine pairs that score more than the impostor
                  number floor(f n_impostor) + 1 from the top
    EER           FAR = 1 - VR on the line through the points (FAR(t), VR(t)) of all thresholds

To `EXACT_PAIRS` every score is kept and all of this is exact. Over that `pairs` counts them in bins: counts and rates
stay exact, the EER is on the line through the edges of 65,536 bins, off by at most what its bin holds. A pair takes 2 D
operations, and memory does not grow with their number, except by 21 bytes for each that lies within a bin or two of a
limit and ties with no other of its block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument
from streamfeat.kernels.scores import BINS, LOWEST, WIDTH
from streamfeat.learn.checks import check_features, group_numbers
from streamfeat.learn.pairs import BLOCK, DIGITS, Pairs, Progress, scan_near, unseen

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Judged = tuple[dict[float, float], float, Floats]

EXACT_PAIRS = 2**22
"""Scores kept: 80 MB at most."""

SLACK = 1e-9
"""Of a pair: 0.001 x 3000 impostors are three of them, whatever binary fractions make of it."""


@dataclass(frozen=True)
class Verification:
    """What the scores of all pairs say.

    Attributes
    ----------
    pairs, genuine, impostor : int
        Exact counts; pairs = genuine + impostor.
    vr : dict of float to float
        Verification rate at each false accept rate that was asked for.
    eer : float
        Equal error rate.
    roc : ndarray of float64 (k, 2)
        FAR and VR at the edges of the bins, from (1, 1) to (0, 0); edges that no score lies between are one point.
    """

    pairs: int
    genuine: int
    impostor: int
    vr: dict[float, float]
    eer: float
    roc: Floats = field(repr=False, compare=False)


def verify(
    X: ArrayLike,
    labels: Sequence[object] | NDArray[Any],
    fars: Sequence[float] = (0.001, 0.01),
    *,
    progress: Progress = unseen,
) -> Verification:
    """Verification rates and the equal error rate over all pairs of rows.

    Parameters
    ----------
    X : array_like (n, D)
        Descriptors, any number type; cosines are float64, rounded to 12 digits so that copies tie. A row of zeros has
        cosine 0 with every other.
    labels : sequence of n names, int or str
    fars : sequence of float
        False accept rates, from 0 (above every impostor) to 1.
    progress : callable
        For each pass over more than `EXACT_PAIRS` pairs: called with what is counted and how many, it gives a context
        whose value is called with the number of pairs of each block.

    Raises
    ------
    InvalidArgument
        Non-finite rows, another number of labels, a rate outside [0, 1], no genuine or no impostor pair.

    Examples
    --------
    >>> verify([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]], ["ann", "ann", "bob"], [0.0]).vr
    {0.0: 1.0}
    """
    rows = check_features(X)
    numbers, names = group_numbers(labels, len(rows))
    rates = [check_rate(far) for far in fars]
    pairs = len(rows) * (len(rows) - 1) // 2
    genuine = sum(int(count) * (int(count) - 1) // 2 for count in np.bincount(numbers, minlength=1))
    if not 0 < genuine < pairs:
        raise InvalidArgument(
            f"verification needs two rows of one label and two labels, got {len(names)} "
            f"label{'s' * (len(names) != 1)} for {len(rows)} rows"
        )
    U = unit_rows(rows)
    if pairs <= EXACT_PAIRS:
        vr, eer, roc = _judged_whole(U, numbers, rates)
    else:
        vr, eer, roc = _judged_in_bins(U, numbers, rates, progress)
    return Verification(pairs, genuine, pairs - genuine, vr, eer, roc)


def verify_listed(
    X: ArrayLike, pairs: ArrayLike, same: ArrayLike, fars: Sequence[float] = (0.001, 0.01)
) -> Verification:
    """The same over pairs that are listed, as in LFW's pairs.txt: `streamfeat.signals.faces.read_pairs` reads it.

    Parameters
    ----------
    X, fars
        As for `verify`.
    pairs : array_like (p, 2)
        Places of rows.
    same : array_like (p,) of bool
        Which pairs are genuine.

    Raises
    ------
    InvalidArgument
        Non-finite rows, places that are none, another number of answers, or pairs of one kind alone.
    """
    rows, rates = check_features(X), [check_rate(far) for far in fars]
    places, genuine = np.asarray(pairs), np.asarray(same)
    if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "ui" or genuine.dtype != np.bool_:
        raise InvalidArgument(
            f"listed pairs are ints (p, 2) with booleans (p,), got {places.dtype} {places.shape} and {genuine.dtype}"
        )
    if genuine.shape != (len(places),) or not 0 < genuine.sum() < len(places):
        raise InvalidArgument(
            f"{len(places)} pairs need as many answers, of both kinds, got {genuine.tolist()[:5]} ..."
        )
    if places.min() < 0 or places.max() >= len(rows):
        raise InvalidArgument(f"pairs are places of {len(rows)} rows, got {places.min()} to {places.max()}")
    U = unit_rows(rows)
    scores = np.einsum("pd,pd->p", U[places[:, 0]], U[places[:, 1]]).round(DIGITS)
    vr, eer, roc = _judged(np.sort(scores[genuine]), np.sort(scores[~genuine]), rates)
    return Verification(len(places), int(genuine.sum()), int((~genuine).sum()), vr, eer, roc)


def _judged_whole(U: Floats, numbers: NDArray[np.intp], fars: Sequence[float]) -> Judged:
    """Rates, EER and ROC from every score."""
    blocks = list(scored_pairs(U, numbers))
    same, other = (np.concatenate([s[equal == kind] for s, equal in blocks]) for kind in (True, False))
    return _judged(np.sort(same), np.sort(other), fars)


def _judged(same: Floats, other: Floats, fars: Sequence[float]) -> Judged:
    """Rates, EER and ROC of the scores of genuine pairs and of impostors, both rising."""
    edges = LOWEST + WIDTH * np.arange(BINS + 1)
    below = np.array([np.searchsorted(side, edges) / len(side) for side in (same, other)])
    vr = {far: verification_rate(same, other, far) for far in fars}
    return vr, equal_error_rate(same, other), curve(below)


def _judged_in_bins(U: Floats, numbers: NDArray[np.intp], fars: Sequence[float], progress: Progress) -> Judged:
    """The same from counts, and the scores near the limits."""
    order = np.argsort(numbers, kind="stable")
    n_impostors = len(U) * (len(U) - 1) // 2 - sum(int(k) * (int(k) - 1) // 2 for k in np.bincount(numbers))
    accepted = {far: n_accepted(far, n_impostors) for far in fars}
    limited = [far for far in fars if accepted[far] < n_impostors]
    pairs = Pairs(U[order], numbers[order])
    scan, windows = scan_near(pairs, [accepted[far] for far in limited], np.random.default_rng(0), progress)
    vr = dict.fromkeys(fars, 1.0)
    for far, window in zip(limited, windows, strict=True):
        vr[far] = scan.rate(accepted[far], window)
    below = np.zeros((2, BINS + 1))
    np.cumsum(scan.counts, axis=1, out=below[:, 1:])
    below /= below[:, -1:]
    return vr, crossing(below[0], 1.0 - below[1]), curve(below)


def curve(below: Floats) -> Floats:
    """The points (FAR, VR) (k, 2) of rising thresholds, each once, from the parts of both sides below them (2, n)."""
    steps = np.append(True, (np.diff(below, axis=1) > 0).any(axis=0))
    return np.ascontiguousarray((1.0 - below[::-1, steps]).T)


def n_accepted(far: float, n_impostors: int) -> int:
    """How many impostors a rate allows."""
    return int(far * n_impostors + SLACK)


def scored_pairs(U: Floats, numbers: NDArray[np.intp]) -> Iterator[tuple[Floats, Bools]]:
    """Scores of each pair of unit rows U (n, D) once, block by block, and whether their numbers are equal."""
    for top in range(0, len(U), BLOCK):
        for left in range(top, len(U), BLOCK):
            scores = (U[top : top + BLOCK] @ U[left : left + BLOCK].T).round(DIGITS)
            equal = numbers[top : top + BLOCK, None] == numbers[left : left + BLOCK]
            if top == left:
                once = np.triu_indices(len(scores), 1)
                yield scores[once], equal[once]
            else:
                yield scores.ravel(), equal.ravel()


def verification_rate(genuine: Floats, impostor: Floats, far: float) -> float:
    """The part of genuine scores over the impostor number floor(far n) + 1 from the top; both rising."""
    accepted = n_accepted(far, len(impostor))
    if accepted >= len(impostor):
        return 1.0
    limit = impostor[len(impostor) - 1 - accepted]
    return 1.0 - float(np.searchsorted(genuine, limit, side="right")) / len(genuine)


def equal_error_rate(genuine: Floats, impostor: Floats) -> float:
    """Where FAR = 1 - VR on the line through the points of all thresholds; scores rising."""
    thresholds = np.unique(np.concatenate([genuine, impostor]))
    # from the lowest threshold, which accepts all, to over the highest, which accepts none
    missed = np.append(np.searchsorted(genuine, thresholds) / len(genuine), 1.0)
    accepted = np.append(1.0 - np.searchsorted(impostor, thresholds) / len(impostor), 0.0)
    return crossing(missed, accepted)


def crossing(missed: Floats, accepted: Floats) -> float:
    """Where the line through the points of rising thresholds meets missed = accepted."""
    gap = missed - accepted
    after = int(np.argmax(gap >= 0))  # the gap rises from -1 to 1
    part = gap[after] / (gap[after] - gap[after - 1])
    return float(missed[after] + part * (missed[after - 1] - missed[after]))


def unit_rows(rows: NDArray[Any]) -> Floats:
    """Rows over their lengths, as float64; rows of zeros stay zeros."""
    U = rows.astype(np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", U, U))
    U /= np.where(lengths > 0, lengths, 1.0)[:, None]
    return U


def check_rate(far: Any) -> float:
    """A number from 0 to 1."""
    if isinstance(far, bool) or not isinstance(far, int | float | np.number) or not 0 <= float(far) <= 1:
        raise InvalidArgument(f"a false accept rate must be a number from 0 to 1, got {far!r}")
    return float(far)
