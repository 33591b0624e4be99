"""Noise and silence in test items."""

from __future__ import annotations

import numpy as np
import pytest

from streamfeat.protocols.trouble import BABBLE, SILENCE, WHITE, troubled
from streamfeat.signals.signal import Signal
from tests.protocol_data import RATE_HZ, word


@pytest.mark.parametrize("trouble", [WHITE, BABBLE])
def test_noise_lies_twenty_decibels_below(trouble: str) -> None:
    """What was added has a hundredth of the recording's energy, whatever its rate and the voices'."""
    voices = [Signal("audio", word(d, "ann", 0, n=900), RATE_HZ) for d in range(3)]
    clean = Signal("audio", word(1, "bob", 0), 16_000)
    noisy = troubled(clean, trouble, voices, seed=3)
    added = noisy.samples - clean.unit_scale()
    assert noisy.rate_hz == 16_000
    # float32 samples
    ratio = np.square(clean.unit_scale(), dtype=float).sum() / np.square(added, dtype=float).sum()
    assert ratio == pytest.approx(100.0, rel=1e-3)
    np.testing.assert_array_equal(noisy.samples, troubled(clean, trouble, voices, seed=3).samples)


def test_silence_is_a_second_on_each_side() -> None:
    """And the recording between, untouched."""
    clean = Signal("audio", word(1, "bob", 0), RATE_HZ)
    quiet = troubled(clean, SILENCE, [], seed=0).samples
    np.testing.assert_array_equal(quiet[RATE_HZ:-RATE_HZ], clean.unit_scale())
    assert not quiet[:RATE_HZ].any()
    assert not quiet[-RATE_HZ:].any()
