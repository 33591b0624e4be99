"""What feature maps are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.bank import build_bank
from streamfeat.bankspec import BankSpec
from streamfeat.baselines import BASELINES, augment, fit_baseline
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.exact.orbits import base_mean, gaussian
from streamfeat.learn.rls import RLS
from streamfeat.signals import Signal

LETTERS = np.random.default_rng(0).integers(4, size=(40, 3))


def sequences(letters: np.ndarray[Any, Any] = LETTERS) -> list[Signal]:
    """One-hot sequences of three out of four letters."""
    return [Signal("array", row.astype(np.float32)) for row in np.eye(4)[letters]]


def spec(**changes: Any) -> BankSpec:
    """CDF features of sequences under all six permutations."""
    return BankSpec.from_dict(
        {
            "name": "letters",
            "front_end": [{"stage": "array", "rows": 3, "columns": 4}],
            "templates": {"source": "gaussian", "m": 20},
            "group": [{"factor": "permutation", "on": "rows", "law": "all"}],
            "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5},
            "renormalise": False,
            **changes,
        }
    )


@pytest.mark.parametrize("name", list(BASELINES))
def test_every_baseline_has_the_face_of_a_feature_map(name: str) -> None:
    """transform, one, of_vectors and dense fit together, and a learner takes what they give."""
    signals = sequences()
    features = fit_baseline(name, spec(), signals)
    X = features.transform(signals)
    assert X.shape == (40, features.n_features)
    np.testing.assert_array_equal(features.one(signals[7]), X[7])
    dense = features.dense(X)
    assert dense.dtype == np.float32
    assert dense.shape == X.shape
    labels = [int((row == 0).any()) for row in LETTERS]
    assert RLS().fit(dense, labels).score(dense, labels) > 0.6


def test_bag_of_words_counts_letters() -> None:
    """Whatever the front end did to the size, and in any order of places."""
    bag = fit_baseline("bag-of-words", spec())
    counts = [[(row == letter).sum() for letter in range(4)] for row in LETTERS]
    # a unit norm in float32 is not undone to the last digit
    np.testing.assert_allclose(bag.transform(sequences()), counts, rtol=1e-6)
    np.testing.assert_array_equal(bag.transform(sequences(LETTERS[:, ::-1])), bag.transform(sequences()))
    assert (bag.one(Signal("array", np.zeros((3, 4), np.float32))) == 0).all()


def test_baselines_have_no_group_but_gicdf() -> None:
    """raw, plain, rff and nystrom change with the order of places; gicdf and counts do not."""
    turned = sequences(LETTERS[:, [1, 2, 0]])
    for name in BASELINES:
        features = fit_baseline(name, spec(), sequences())
        same = np.array_equal(features.transform(turned), features.transform(sequences()))
        assert same == (name in ("gicdf", "bag-of-words")), name


def test_plain_kernels_are_approximated() -> None:
    """Nystrom with all signals as landmarks is the Gaussian kernel; random Fourier features are near it."""
    distinct = np.unique(LETTERS, axis=0)
    signals, m = sequences(distinct), len(distinct)
    raw = fit_baseline("raw", spec()).transform(signals)
    K = base_mean(raw, raw, gaussian(0.7))
    nystrom = fit_baseline("nystrom", spec(templates={"source": "gaussian", "m": m}), signals, sigma=0.7)
    psi = nystrom.transform(signals).astype(np.float64)
    # kernel values are float32, and the smallest eigenvalue is about 1e-2 of the largest
    np.testing.assert_allclose(psi @ psi.T, K, atol=1e-4)
    rff = fit_baseline("rff", spec(templates={"source": "gaussian", "m": 4000}), sigma=0.7)
    phi = rff.transform(signals).astype(np.float64)
    # 5 sigma of sqrt(1 / 2m) a value, for some hundreds of values
    assert np.abs(phi @ phi.T - K).max() < 5 * (1 / 8000) ** 0.5


def test_the_width_is_said_or_found() -> None:
    """Said; else the spec's; else the median distance; else an error that says what to do."""
    fourier = spec(templates={"source": "fourier", "m": 20}, pooling={"kind": "fourier", "sigma": 0.3})
    said, own = (fit_baseline("rff", fourier, sigma=sigma) for sigma in (0.6, None))
    np.testing.assert_allclose(own.bank.only.spec.pooling.sigma, 0.3)  # type: ignore[attr-defined]
    assert said.bank.only.spec.pooling.sigma == 0.6  # type: ignore[attr-defined]
    found = fit_baseline("rff", spec(), sequences())
    # letters agree in none or one of three places: distances sqrt(2) and sqrt(4/3), of unit vectors
    assert found.bank.only.spec.pooling.sigma == pytest.approx((4 / 3) ** 0.5, rel=1e-6)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="need sigma"):
        fit_baseline("rff", spec())
    with pytest.raises(ConfigError, match="are the same"):
        fit_baseline("rff", spec(), sequences(np.zeros((5, 3), int)))


def test_augmenting_moves_the_training_set() -> None:
    """Each vector first, then copies that are permutations of it, with its label."""
    bank = build_bank(spec())
    raw = fit_baseline("raw", spec())
    vectors = raw.transform(sequences())
    labels = [str(i) for i in range(40)]
    X, y = augment(bank, vectors, labels, 6, np.random.default_rng(0))
    assert X.shape == (280, 12)
    assert y == [label for label in labels for _ in range(7)]
    places = X.reshape(40, 7, 3, 4)
    np.testing.assert_array_equal(places[:, 0].reshape(40, 12), vectors)
    np.testing.assert_allclose(places.sum(axis=2), np.broadcast_to(places[:, :1].sum(axis=2), (40, 7, 4)), rtol=1e-6)
    # all six elements, each once: every order is there
    assert len(np.unique(places[3, 1:].reshape(6, -1), axis=0)) == len({*map(tuple, _orders(LETTERS[3]))})
    with pytest.raises(InvalidArgument, match="6 copies"):
        augment(bank, vectors, labels, 7, np.random.default_rng(0))
    with pytest.raises(InvalidArgument, match="40 labels"):
        augment(bank, vectors, labels[:3], 2, np.random.default_rng(0))


def _orders(letters: np.ndarray[Any, Any]) -> list[list[int]]:
    a, b, c = letters.tolist()
    return [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]]


def test_what_is_no_baseline_is_refused() -> None:
    """An unknown name, and counting where there is nothing to count."""
    with pytest.raises(ConfigError, match="bag-of-words"):
        fit_baseline("best", spec())
    with pytest.raises(ConfigError, match="one-hot"):
        fit_baseline("bag-of-words", spec(front_end=[{"stage": "array", "rows": 12}], group=[]))
