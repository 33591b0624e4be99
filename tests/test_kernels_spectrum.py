"""Frames of a waveform and energies in bands, against their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.kernels.spectrum import band_energies, frame_energies, windowed
from tests import naive_spectrum as naive

Floats = NDArray[np.float32]


def noise(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 90), st.integers(2, 40), st.integers(1, 12), st.integers(0, 1000))
def test_energies_are_sums_of_squares(n: int, window: int, hop: int, seed: int) -> None:
    """Of recordings shorter than a frame too, whether a frame is a whole number of hops or not."""
    x = noise(seed, n)
    out = np.empty(n // hop + 1)
    frame_energies(x, window, hop, out)
    np.testing.assert_allclose(out, naive.frame_energies(x, window, hop, len(out)), rtol=1e-13)


def test_silent_frames_are_zero_exactly() -> None:
    """Nothing is left of what was loud before."""
    x = np.zeros(4000, np.float32)
    x[:1000] = noise(0, 1000)
    out = np.empty(4000 // 128 + 1)
    frame_energies(x, 512, 128, out)
    assert (out[10:] == 0).all()
    assert (out[:9] > 0).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 50), st.integers(-40, 60), st.integers(1, 9), st.integers(1, 24), st.integers(1, 6))
def test_frames_are_windowed(n: int, start: int, hop: int, n_fft: int, n_frames: int) -> None:
    """Zeros before and after the recording, whatever was in `out`."""
    x, window = noise(n, n), noise(1, n_fft).astype(np.float64)
    out = np.full((n_frames, n_fft), np.nan)
    windowed(x, start, hop, window, out)
    np.testing.assert_array_equal(out, naive.windowed(x, start, hop, window, n_frames))


@pytest.mark.parametrize("root", [False, True])
def test_bands_are_weighted_sums(root: bool) -> None:
    """Bands of many bins, of one, and next to the ends; more frames than are summed together."""
    filters = np.zeros((4, 9), np.float32)
    filters[0, :2], filters[1, 1:5], filters[2, 4], filters[3, 3:] = 0.5, noise(2, 4), 1, noise(3, 6)
    spectrum = (noise(4, 37, 9) + 1j * noise(5, 37, 9)).astype(np.complex128)
    reach = np.array([0, 1, 4, 3]), np.array([0, 2, 6, 7, 13])
    weights = np.concatenate([filters[0, :2], filters[1, 1:5], filters[2, 4:5], filters[3, 3:]])
    out = np.empty((4, 40), np.float32)[:, 1:38]  # a piece of a longer spectrogram
    band_energies(spectrum.view(np.float64), root, reach, weights, out)
    want = naive.band_energies(spectrum, root, filters)
    # six float32 products and sums, some of them of both signs
    np.testing.assert_allclose(out, want, atol=6e-7 * float(np.abs(want).max()))
