"""A stream of a bank on its way: templates, orbits and thresholds are what the spec says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import build_bank, orbits, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.groups import OperatorStack
from tests.test_bank import SHIFT, bank_of, pictures, words
from tests.test_bankspec import small


def test_a_template_moved_out_of_sight_has_scale_zero() -> None:
    """gt = 0 cannot be renormalised: it projects to 0, not to NaN."""
    spec = small(
        group=[{"factor": "translation", "law": "grid", "low": -9, "high": 9, "n": 2}],
        templates={"source": "user", "m": 1},
    )
    built = build_bank(BankSpec.from_dict(spec), templates=np.eye(16)[:1])
    gt = orbits(built.only, [0])[0]
    assert np.isfinite(gt).all()
    assert (np.linalg.norm(gt, axis=1) > 0).tolist() == [True, False, False, False, False]


def test_without_renormalising_nothing_is_scaled() -> None:
    """renormalise = false keeps gt as the operators give it."""
    built = bank_of(renormalise=False)
    assert "scale" not in built.arrays
    longest = np.linalg.norm(template_vectors(built.only)[0])
    assert (np.linalg.norm(orbits(built.only, [0])[0], axis=1) < longest - 1e-3).any()


def test_thresholds_are_what_they_are_called() -> None:
    """paper: s k / n for k = -n..n; sigma: evenly over +-reach / sqrt(d); one threshold is zero."""
    paper = bank_of(pooling={"kind": "cdf", "thresholds": "paper", "n_bins": 3}).arrays["thresholds"]
    np.testing.assert_array_equal(paper[0, :, 0], (1.5 * np.arange(-3, 4) / 3).astype(np.float32))
    sigma = bank_of(pooling={"kind": "cdf", "thresholds": "sigma", "n_bins": 3, "reach": 2}).arrays["thresholds"]
    np.testing.assert_array_equal(sigma[0, :, 7], np.array([-0.5, 0, 0.5], np.float32))
    single = bank_of(pooling={"kind": "cdf", "thresholds": "sigma", "n_bins": 1}).arrays["thresholds"]
    assert single[0, :, :8].tolist() == [[0.0] * 8]


def test_quantile_thresholds_split_the_training_projections_evenly() -> None:
    """Below threshold k lie k / (n + 1) of the projections of the signals, template by template."""
    built = build_bank(
        BankSpec.from_dict(small(group=[SHIFT], pooling={"kind": "cdf", "thresholds": "quantile", "n_bins": 4})),
        signals := pictures(50),
    )
    from streamfeat.featuremap import FeatureMap

    counts = FeatureMap(built).transform(signals).reshape(50, 8, 4).sum(axis=0) / (50 * 9)
    # linear interpolation between two of 450 projections
    np.testing.assert_allclose(counts, np.broadcast_to(np.arange(1, 5) / 5, (8, 4)), atol=1 / 450)


def user_stack(matrices: NDArray[Any]) -> OperatorStack:
    """The adjoints of full matrices (n, d, d) as a stack."""
    n, d, _ = matrices.shape
    adjoint = matrices.transpose(0, 2, 1)
    ends = np.cumsum((adjoint != 0).sum(axis=2).ravel()).reshape(n, d)
    indptr = np.concatenate([np.append(0, ends[:-1, -1])[:, None], ends], axis=1).astype(np.int32)
    rows = np.nonzero(adjoint)
    return OperatorStack(
        indptr, rows[2].astype(np.int32), adjoint[rows].astype(np.float32), np.arange(n, dtype=float)[:, None], ("i",)
    )


def test_a_users_group_is_taken_as_it_is() -> None:
    """Operator stacks of one's own act like any other factor."""
    swap_halves = np.roll(np.eye(16), 8, axis=0)
    spec = BankSpec.from_dict(small(group=[{"factor": "user"}, SHIFT]))
    built = build_bank(spec, operators=[user_stack(np.stack([np.eye(16), swap_halves]))])
    assert built.only.n_group == 18
    np.testing.assert_array_equal(orbits(built.only, [3])[0, 9], template_vectors(built.only)[3] @ swap_halves.T)
    with pytest.raises(ConfigError, match="1 group factors called 'user'"):
        build_bank(spec)


WAVEFORM = {
    "name": "voice",
    "front_end": [{"stage": "resample", "rate_hz": 8000}, {"stage": "fixed_length", "n": 800}],
    "templates": {"source": "data", "m": 3},
    "group": [
        {"factor": "waveform_tempo", "law": "log-grid", "low": 0.5, "high": 2, "n": 3},
        {"factor": "waveform_pitch", "law": "grid", "low": -200, "high": 200, "n": 2},
    ],
    "pooling": {"kind": "cdf", "thresholds": "quantile", "n_bins": 5},
    "form": "dense",
}


def test_waveform_factors_move_recordings_before_the_front_end() -> None:
    """A dense bank holds front_end(g t), the identity first, with the templates of its plain twin."""
    spec = BankSpec.from_dict(WAVEFORM)
    built = build_bank(spec, words(6))
    gt = orbits(built.only, range(3))
    assert gt.shape == (3, 9, 800)
    np.testing.assert_allclose(np.linalg.norm(gt, axis=2), 1, atol=1e-6)
    np.testing.assert_array_equal(gt[:, 0], template_vectors(build_bank(spec.plain(), words(6)).only))
    assert built.hash == build_bank(spec, words(6)).hash
    tempo, pitch = (built.arrays[f"factor{j}_parameters"] for j in (0, 1))
    assert (tempo.shape, pitch.shape) == ((3, 1), (3, 1))
