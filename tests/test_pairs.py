"""Pairs: all of them in bins, each once, and a second pass where the guess was off."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.kernels.scores import BINS, LOWEST, WIDTH
from streamfeat.learn import pairs
from streamfeat.learn.pairs import Pairs, scan_near
from streamfeat.learn.verification import unit_rows


def rows(n: int, d: int) -> Pairs:
    """Random unit rows of seven labels, in order."""
    rng = np.random.default_rng(n)
    return Pairs(unit_rows(rng.standard_normal((n, d))), np.sort(rng.integers(0, 7, n)))


@pytest.mark.parametrize("block", [5, 16, 1024])
def test_every_pair_is_counted_once_in_its_bin(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts of genuine pairs and impostors by bin are those of a loop; wanted ones come with their score."""
    monkeypatch.setattr(pairs, "BLOCK", block)
    of = rows(37, 4)
    scan = of.scan(np.ones(BINS, np.bool_))
    scores: list[float] = []
    for i in range(37):
        for j in range(i):
            score = float(of.U[i] @ of.U[j])
            scores.append(score)
            bins = scan.bins[np.isclose(scan.scores, score, atol=1e-11)]
            # float32 may put a score into the bin beside its own
            assert abs(bins - (score - LOWEST) / WIDTH).min() < 2.0
    np.testing.assert_allclose(np.sort(scan.scores), np.sort(scores), atol=1e-11)
    same = of.numbers[:, None] == of.numbers
    n_genuine = int(np.triu(same, 1).sum())
    assert scan.counts.sum(axis=1).tolist() == [n_genuine, 37 * 36 // 2 - n_genuine]
    assert int(scan.genuine.sum()) == n_genuine
    np.testing.assert_array_equal(np.bincount(scan.bins, minlength=BINS), scan.counts.sum(axis=0))


def test_threads_share_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread or several, also more than there are blocks: the same counts, rates and pairs told."""
    monkeypatch.setattr(pairs, "BLOCK", 32)
    found = []
    for n_threads in (1, 3, 8):
        monkeypatch.setattr(pairs, "n_cores", lambda n=n_threads: n)
        seen: list[int] = []
        of = rows(70, 4)
        assert len(of.shares()) == n_threads
        corners = sorted(corner for share in of.shares() for corner in share)
        assert corners == [(0, 0), (0, 32), (0, 64), (32, 32), (32, 64), (64, 64)]
        scan = of.scan(np.ones(BINS, np.bool_), seen.append)
        found.append((scan.counts.tolist(), scan.rate(100, slice(0, BINS)), sum(seen), len(seen)))
    assert found[0] == found[1] == found[2]
    assert found[0][2:] == (len(of), 6)


def test_ties_are_kept_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one-hot rows every pair lies at a limit: kept are their kinds a block, with how many pairs each was."""
    monkeypatch.setattr(pairs, "BLOCK", 64)
    numbers = np.sort(np.random.default_rng(0).integers(0, 5, 400))
    # two rows in three show their label, the others the next
    of = Pairs(np.eye(5)[(numbers + (np.arange(400) % 3 == 0)) % 5], numbers)
    scan, windows = scan_near(of, [10, 60_000], np.random.default_rng(0))
    assert len(scan.scores) <= 7 * 8 // 2 * 4  # blocks; 0 or 1, genuine or not
    assert scan.times.sum() == scan.counts.sum() == 400 * 399 // 2
    U, same = of.U @ of.U.T, numbers[:, None] == numbers
    genuine, impostors = (U[np.triu(side, 1)] for side in (same, ~same))
    for accepted, window in zip([10, 60_000], windows, strict=True):
        limit = np.sort(impostors)[::-1][accepted]
        assert scan.rate(accepted, window) == np.mean(genuine > limit)
    assert scan.rate(10, windows[0]) != scan.rate(60_000, windows[1])


def test_little_is_kept_and_a_bad_guess_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows lie in the bins kept, also when a guess from few rows misses them; most pairs are only counted."""
    of = rows(600, 32)
    total = 600 * 599 // 2
    for sample, deviations in ((4096, 8.0), (50, 0.0)):
        monkeypatch.setattr(pairs, "SAMPLE", sample)
        monkeypatch.setattr(pairs, "SAMPLE_DEVIATIONS", deviations)
        scan, windows = scan_near(of, [total // 1000, total // 10], np.random.default_rng(0))
        for window in windows:
            inside = (scan.bins >= window.start) & (scan.bins < window.stop)
            assert inside.sum() == scan.counts[:, window].sum() > 0
        assert len(scan.scores) < total / 10
