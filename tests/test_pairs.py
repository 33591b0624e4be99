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
