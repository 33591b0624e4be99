"""Laws: which elements a factor has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups import LAWS, make_law
from streamfeat.groups.finite import All, Sampled
from streamfeat.groups.laws import Distribution, Law, Parameters, identity_first
from streamfeat.groups.permutations import Permutations, Steps
from streamfeat.groups.sampling import unit_points
from streamfeat.spec import as_table

SPECS: dict[str, dict[str, Any]] = {
    "delta": {},
    "grid": {"low": -20, "high": 20, "n": 5},
    "log-grid": {"low": 0.5, "high": 2, "n": 5},
    "uniform": {"low": -3, "high": 3, "n": 4000},
    "log-uniform": {"low": 0.5, "high": 2, "n": 4000},
    "gaussian": {"sigma": 2, "n": 4000},
    "log-normal": {"sigma": 0.2, "n": 4000},
    "von-mises": {"kappa": 4, "n": 4000},
    "circle": {"n": 24},
}


DISTRIBUTIONS = ("uniform", "log-uniform", "gaussian", "log-normal", "von-mises", "circle")
SAMPLINGS = ("random", "stratified", "quasi", "grid")


def law_of(name: str, **changes: Any) -> Law:
    """One of `SPECS`, changed."""
    law = make_law({"law": name, **SPECS[name], **changes})
    assert not isinstance(law, All | Sampled)
    return law


def draw(name: str, identity: tuple[float, ...] = (1.0,), seed: int = 0, **changes: Any) -> Parameters:
    """Parameters of the elements under one of `SPECS`."""
    return law_of(name, **changes).draw(identity, np.random.default_rng(seed))


def below(name: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each law's own distribution function about the identity 1, as scipy has it."""
    from scipy import stats

    known = {
        "uniform": stats.uniform(-3, 6),
        "log-uniform": stats.loguniform(0.5, 2),
        "gaussian": stats.norm(1, 2),
        "log-normal": stats.lognorm(0.2),
        "von-mises": stats.vonmises(4),
        "circle": stats.uniform(0, 2 * np.pi),
    }
    share: NDArray[np.float64] = known[name].cdf(np.radians(values) if name in ("von-mises", "circle") else values)
    return share


def star_discrepancy(u: NDArray[np.float64]) -> float:
    """The largest gap between the share of points below a place and the place itself, on [0, 1]."""
    u, n = np.sort(u), len(u)
    steps = np.arange(1, n + 1) / n
    return float(max((steps - u).max(), (u - steps + 1 / n).max()))


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
    assert np.log(draw("log-normal")).std() == pytest.approx(0.2, rel=5 / np.sqrt(2 * n))
    angles = np.radians(draw("von-mises"))
    # E cos = I1(4) / I0(4), var cos < 1/8 there
    assert np.cos(angles).mean() == pytest.approx(0.86352, abs=5 * np.sqrt(1 / 8 / n))
    assert abs(np.sin(angles).mean()) < 5 * np.sqrt(0.22 / n)


def test_kappa_0_is_the_whole_circle() -> None:
    """Without concentration the angles spread evenly."""
    angles = np.radians(draw("von-mises", kappa=0))
    assert abs(np.exp(1j * angles).mean()) < 5 / np.sqrt(4000)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_each_law_is_itself_however_sampled(name: str, sampling: str) -> None:
    """The elements' shares below a place are the law's own, as evenly as the sampling promises."""
    n = 256
    gap = star_discrepancy(below(name, draw(name, n=n, sampling=sampling).ravel()))
    bound = {
        # Kolmogorov: P(gap sqrt(n) > 2.7) = 2 exp(-2 * 2.7^2) < 6e-7, five sigma
        "random": 2.7 / np.sqrt(n),
        # one in every n-th part, anywhere in it; 1e-4 for the tabulated quantile of von Mises
        "stratified": 1 / n + 1e-4,
        # a van der Corput set has n gap <= log2(n) / 3 + 1, turned round the circle at most twice that
        "quasi": 2 * (np.log2(n) / 3 + 1) / n + 1e-4,
        # the middles; the circle has its even parts from 0
        "grid": (1 if name == "circle" else 0.5) / n + 1e-4,
    }
    assert gap < bound[sampling]


@pytest.mark.parametrize("p", [1, 2])
def test_even_sampling_is_more_even_than_chance(p: int) -> None:
    """Over 20 draws of 200 points the largest error of a box's share is below half of chance's, in 1-D and 2-D."""
    corners = np.random.default_rng(0).random((300, p))

    def gap(sampling: Any, seed: int) -> float:
        points = unit_points(200, p, sampling, np.random.default_rng(seed))
        inside = (points[None] <= corners[:, None]).all(axis=2).mean(axis=1)
        return float(np.abs(inside - corners.prod(axis=1)).max())

    mean = {sampling: np.mean([gap(sampling, seed) for seed in range(20)]) for sampling in SAMPLINGS[:3]}
    assert mean["quasi"] < 0.5 * mean["random"]
    assert mean["stratified"] < (0.5 if p == 1 else 0.8) * mean["random"]  # in 2-D only the sides are stratified


def test_even_sampling_still_changes_with_the_seed() -> None:
    """Each set is drawn: over seeds an average over the law has no bias (5 standard errors)."""
    for sampling in ("stratified", "quasi"):
        means = [draw("gaussian", (0.0,), seed, sigma=1, n=16, sampling=sampling).mean() for seed in range(200)]
        assert len(set(means)) == 200
        assert abs(np.mean(means)) < 5 * np.std(means) / np.sqrt(200)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_densities_are_the_slope_of_the_shares(name: str) -> None:
    """The density is the derivative of the distribution function, and outside the support it is 0."""
    law = law_of(name)
    assert isinstance(law, Distribution)
    x = law.quantile(np.linspace(0.05, 0.95, 19)[:, None], (1.0,))
    step = 1e-4 * np.maximum(1, np.abs(x))
    slope = (below(name, (x + step).ravel()) - below(name, (x - step).ravel())) / (2 * step.ravel())
    np.testing.assert_allclose(law.density(x, (1.0,)), slope, rtol=1e-4)  # step^2 of the second derivative
    pair = np.hstack([x, x[::-1]])
    np.testing.assert_allclose(law.density(pair, (1.0, 1.0)), law.density(x, (1.0,)) * law.density(x[::-1], (1.0,)))
    if name.endswith("uniform") or name == "log-normal":
        assert law.density(np.array([[-5.0], [0.0]]), (1.0,))[0] == 0


@pytest.mark.parametrize("kappa", [0, 0.2, 4, 14.9, 15.1, 9000])
def test_von_mises_has_its_mode_at_the_identity(kappa: float) -> None:
    """exp(+kappa cos): E cos = I1 / I0, largest density at 0, however narrow."""
    from scipy.special import i0e, i1e

    law = law_of("von-mises", kappa=kappa)
    assert isinstance(law, Distribution)
    angles = law.quantile((np.arange(4000)[:, None] + 0.5) / 4000, (0.0,))
    # middles of 4000 equal shares; what the two outermost leave out, 1/4000 of a spread of at most a tenth
    np.testing.assert_allclose(np.cos(np.radians(angles)).mean(), i1e(kappa) / i0e(kappa), atol=2.5e-5)
    density = law.density(np.array([[0.0], [1.0], [180.0]]), (0.0,))
    assert density[0] >= density[1] >= density[2]
    assert np.isfinite(density).all()


def test_the_usual_sampling_is_not_written() -> None:
    """Banks saved before there were others keep their hashes; the others are written out."""
    for name in DISTRIBUTIONS:
        usual = "grid" if name == "circle" else "random"
        assert as_table(law_of(name, sampling=usual)) == as_table(law_of(name))
        assert "sampling" not in as_table(law_of(name))
        assert as_table(law_of(name, sampling="quasi"))["sampling"] == "quasi"


def test_delta_is_the_identity() -> None:
    """One element, which moves nothing."""
    assert draw("delta", (0.0, 0.0)).tolist() == [[0, 0]]


def test_all_of_a_finite_group() -> None:
    """Each element once, the identity first; a group too large is refused with its order."""
    rng = np.random.default_rng(0)
    assert All().choose(Steps("shifts", (2, 3)), rng).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    orders = All().choose(Permutations(4, "rows"), rng)
    assert orders[0].tolist() == [0, 1, 2, 3]
    assert len(np.unique(orders, axis=0)) == 24
    with pytest.raises(ConfigError, match=r"permutation of 9 rows has 362880 elements.*at most 100000.*'sampled'"):
        All().choose(Permutations(9, "rows"), rng)
    with pytest.raises(ConfigError, match=r"about 10\^1931 elements"):
        All().choose(Permutations(784, "entries"), rng)


def test_sampled_elements_are_uniform() -> None:
    """Chi-squared over all 24 orders of 4 things, and over 6 shifts: within five sigma of its mean."""
    for group, k in ((Permutations(4, "rows"), 24), (Steps("shifts", (2, 3)), 6)):
        n = 200 * k
        drawn = Sampled(n).choose(group, np.random.default_rng(1))
        counts = np.unique(drawn, axis=0, return_counts=True)[1]
        assert len(counts) == k
        chi2 = ((counts - 200) ** 2 / 200).sum()
        assert abs(chi2 - (k - 1)) < 5 * np.sqrt(2 * (k - 1))


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
        ({"law": "cauchy", "n": 3}, "unknown law 'cauchy'; known: delta, grid, log-grid"),
        ({"law": "gaussian", "sigma": 1, "n": 3, "sampling": "sobol"}, "one of random, stratified, quasi, grid"),
        ({"law": "sampled", "n": 0}, "n must be 1"),
        ({"law": "all", "n": 3}, "no parameter 'n'"),
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
        draw("log-normal", (0.0,))


def test_grids_in_two_parameters_are_bounded() -> None:
    """n^2 elements beyond the limit are refused, not allocated."""
    with pytest.raises(ConfigError, match="more than 100000 elements"):
        draw("grid", (0.0, 0.0), n=1000)


def test_laws_without_density_and_grids_beyond_bounds_are_refused() -> None:
    """A law on one point has no density; quasi-random points are for a few parameters."""
    law = law_of("uniform", low=1, high=1)
    assert isinstance(law, Distribution)
    with pytest.raises(InvalidArgument, match="no density"):
        law.density(np.ones((1, 1)), (1.0,))
    with pytest.raises(ConfigError, match="at most 8 parameters, got 9; use 'stratified'"):
        draw("gaussian", (0.0,) * 9, n=4, sampling="quasi")
    with pytest.raises(ConfigError, match="more than 100000"):
        draw("gaussian", (0.0, 0.0), n=400, sampling="grid")
