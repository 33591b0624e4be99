"""Laws: which elements a factor has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.groups import LAWS, make_law
from streamfeat.groups.laws import Parameters, identity_first

SPECS: dict[str, dict[str, Any]] = {
    "grid": {"low": -20, "high": 20, "n": 5},
    "log-grid": {"low": 0.5, "high": 2, "n": 5},
    "uniform": {"low": -3, "high": 3, "n": 4000},
    "log-uniform": {"low": 0.5, "high": 2, "n": 4000},
    "gaussian": {"sigma": 2, "n": 4000},
    "log-gaussian": {"sigma": 0.2, "n": 4000},
    "von-mises": {"kappa": 4, "n": 4000},
    "circle": {"n": 24},
}


def draw(name: str, identity: tuple[float, ...] = (1.0,), seed: int = 0, **changes: Any) -> Parameters:
    """Parameters of the elements under one of `SPECS`."""
    return make_law({"law": name, **SPECS[name], **changes}).draw(identity, np.random.default_rng(seed))


def test_every_law_is_tested() -> None:
    """`SPECS` names each law there is."""
    assert set(SPECS) == set(LAWS)


@pytest.mark.parametrize("name", LAWS)
def test_shape_and_repeatability(name: str) -> None:
    """(N, p) finite values; the same from the same seed."""
    for identity in ((1.0,), (1.0, 1.0)):
        values = draw(name, identity)
        assert values.shape[1] == len(identity)
        assert np.isfinite(values).all()
        np.testing.assert_array_equal(values, draw(name, identity))


def test_grids_are_even() -> None:
    """Both ends included; one element is the middle; two parameters give all pairs."""
    assert draw("grid").ravel().tolist() == [-20, -10, 0, 10, 20]
    np.testing.assert_allclose(draw("log-grid").ravel(), 2.0 ** np.linspace(-1, 1, 5), rtol=1e-12)
    assert draw("grid", n=1).tolist() == [[0]]
    np.testing.assert_allclose(draw("log-grid", n=1), [[1]], rtol=1e-12)
    assert draw("circle", n=4).ravel().tolist() == [0, 90, 180, 270]
    assert draw("grid", (0.0, 0.0), low=0, high=1, n=2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_sampled_laws_have_their_moments() -> None:
    """Means and spreads are the law's: 5 standard errors at n = 4000."""
    n = 4000
    uniform = draw("uniform")
    assert np.abs(uniform).max() <= 3
    assert abs(uniform.mean()) < 5 * (6 / np.sqrt(12)) / np.sqrt(n)
    log_uniform = np.log2(draw("log-uniform"))
    assert np.abs(log_uniform).max() <= 1
    assert abs(log_uniform.mean()) < 5 * (2 / np.sqrt(12)) / np.sqrt(n)
    gaussian = draw("gaussian")
    assert abs(gaussian.mean() - 1) < 5 * 2 / np.sqrt(n)
    assert gaussian.std() == pytest.approx(2, rel=5 / np.sqrt(2 * n))
    assert np.log(draw("log-gaussian")).std() == pytest.approx(0.2, rel=5 / np.sqrt(2 * n))
    angles = np.radians(draw("von-mises"))
    # E cos = I1(4) / I0(4), var cos < 1/8 there
    assert np.cos(angles).mean() == pytest.approx(0.86352, abs=5 * np.sqrt(1 / 8 / n))
    assert abs(np.sin(angles).mean()) < 5 * np.sqrt(0.22 / n)


def test_kappa_0_is_the_whole_circle() -> None:
    """Without concentration the angles spread evenly."""
    angles = np.radians(draw("von-mises", kappa=0))
    assert abs(np.exp(1j * angles).mean()) < 5 / np.sqrt(4000)


def test_identity_is_first_once() -> None:
    """Moved to the front when it is there (up to rounding), added when it is not; the others keep their order."""
    there = identity_first(np.array([[0.5], [1 + 1e-15], [2.0]]), (1.0,))
    assert there.tolist() == [[1], [0.5], [2]]
    added = identity_first(np.array([[0.0, 1.0], [1.0, 0.0]]), (0.0, 0.0))
    assert added.tolist() == [[0, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"law": "grid", "low": 2, "high": 1, "n": 3}, "low must be at most high, got low = 2, high = 1"),
        ({"law": "grid", "low": 0, "high": 1, "n": 0}, "n must be 1"),
        ({"law": "grid", "low": 0, "high": 1, "n": 10**9}, "n must be 1"),
        ({"law": "grid", "low": 0, "high": 1, "n": 2.5}, "n must be an integer, got 2.5"),
        ({"law": "grid", "low": 0, "high": 1, "n": True}, "n must be an integer"),
        ({"law": "grid", "low": float("nan"), "high": 1, "n": 3}, "low must be a finite number, got nan"),
        ({"law": "grid", "low": 0, "n": 3}, "needs 'high'"),
        ({"law": "grid", "low": 0, "high": 1, "n": 3, "sigma": 1}, "no parameter 'sigma'; known: low, high, n"),
        ({"law": "log-grid", "low": 0, "high": 1, "n": 3}, "low must be above 0"),
        ({"law": "log-uniform", "low": -1, "high": 1, "n": 3}, "low must be above 0"),
        ({"law": "gaussian", "sigma": 0, "n": 3}, "sigma must be above 0"),
        ({"law": "von-mises", "kappa": -1, "n": 3}, "kappa must be at least 0"),
        ({"law": "cauchy", "n": 3}, "unknown law 'cauchy'; known: grid, log-grid"),
        ({"n": 3}, "unknown law None"),
    ],
)
def test_impossible_laws_are_refused(spec: dict[str, Any], message: str) -> None:
    """The message names the parameter and what came."""
    with pytest.raises(ConfigError, match=message):
        make_law(spec)


def test_logarithms_need_a_positive_identity() -> None:
    """exp(N) about 0 is nowhere."""
    with pytest.raises(ConfigError, match="identity is above 0"):
        draw("log-gaussian", (0.0,))


def test_grids_in_two_parameters_are_bounded() -> None:
    """n^2 elements beyond the limit are refused, not allocated."""
    with pytest.raises(ConfigError, match="more than 100000 elements"):
        draw("grid", (0.0, 0.0), n=1000)
