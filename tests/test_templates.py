"""Where templates come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import build_bank, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError
from streamfeat.templates import (
    SOURCES,
    Drawn,
    Request,
    cauchy_templates,
    choose_rows,
    choose_spread_rows,
    data_templates,
    fourier_templates,
    gaussian_templates,
    read_source,
    source_table,
    user_templates,
    whitened_templates,
)
from streamfeat.templates.fourier import MAX_NORM
from streamfeat.templates.hadamard import walsh_hadamard
from tests import naive
from tests.test_bankspec import small


def test_gaussian_templates_are_short_enough() -> None:
    """||t||^2 < 1 + epsilon, also where most draws are refused, and the same seed gives the same."""
    T = gaussian_templates(300, 5, 0.01, np.random.default_rng(0))
    assert (np.square(T.astype(np.float64)).sum(axis=1) < 1.01).all()
    np.testing.assert_array_equal(T, gaussian_templates(300, 5, 0.01, np.random.default_rng(0)))


def test_gaussian_templates_have_the_variance_of_the_paper() -> None:
    """E ||n||^2 = 1 for n ~ N(0, I/d): checked where hardly a draw is refused."""
    T = gaussian_templates(2000, 400, 0.5, np.random.default_rng(1))
    # sd of ||n||^2 is sqrt(2 / d); 5 sigma of the mean
    assert abs(np.square(T).sum(axis=1).mean() - 1) < 5 * np.sqrt(2 / 400 / 2000)


def test_an_impossible_epsilon_is_refused() -> None:
    """A bound that no draw meets ends in an error, not in a loop."""
    with pytest.raises(ConfigError, match="larger epsilon"):
        gaussian_templates(2, 1000, -0.9, np.random.default_rng(2))


def test_data_templates_are_distinct_unit_rows_that_are_not_blank() -> None:
    """Each chosen vector is there once, scaled to norm 1; blank ones never."""
    X = np.random.default_rng(3).standard_normal((20, 6)).astype(np.float32)
    X[::2] = 0
    T = data_templates(X, 10, np.random.default_rng(4))
    np.testing.assert_allclose(np.linalg.norm(T, axis=1), 1, atol=1e-6)  # float32
    units = X[1::2] / np.linalg.norm(X[1::2], axis=1, keepdims=True)
    assert sorted(np.argmax(T @ units.T, axis=1)) == list(range(10))


def test_too_few_signals_for_data_templates() -> None:
    """The message says how many were needed and how many were not blank."""
    with pytest.raises(ConfigError, match=r"at least 3 signals .* that are not blank, got 2"):
        data_templates(np.array([[1, 0], [0, 0], [0, 1]], np.float32), 3, np.random.default_rng(5))


def test_fourier_templates_have_the_kernel_s_width() -> None:
    """Frequencies are N(0, sigma^-2 I)."""
    W = fourier_templates(1000, 100, 0.5, np.random.default_rng(6))
    # sd of a variance estimate: sqrt(2 / n), 5 sigma
    assert abs(W.var() / 4 - 1) < 5 * np.sqrt(2 / W.size)


@pytest.mark.parametrize("bad", [np.zeros((3, 5)), np.zeros(4), [[0, 0, 0, np.nan], [0, 0, 0, 0]]])
def test_user_templates_are_checked(bad: object) -> None:
    """Shape and finiteness."""
    with pytest.raises(ConfigError, match="user templates must"):
        user_templates(bad, 2, 4)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------- landmarks


def test_landmarks_are_the_data_as_they_are() -> None:
    """Chosen rows keep their norm; blank ones are left out; none is there twice."""
    X = np.random.default_rng(7).standard_normal((30, 5)).astype(np.float32) * 3
    X[::3] = 0
    for choose in ("random", "k-means++"):
        source = read_source({"source": "landmarks", "m": 20, "choose": choose})
        T = source.draw(Request(5, np.random.default_rng(8), X)).T
        assert len({row.tobytes() for row in T}) == 20
        assert {row.tobytes() for row in T} == {row.tobytes() for row in X if row.any()}


def test_spread_landmarks_reach_every_cluster() -> None:
    """Of 10 far clusters of very different size k-means++ takes one each; a random choice misses some."""
    rng = np.random.default_rng(9)
    sizes = [1, 1, 1, 2, 2, 3, 50, 100, 100, 200]
    cluster = np.repeat(np.arange(10), sizes)
    X = (np.eye(10)[cluster] * 100 + rng.standard_normal((len(cluster), 10)) / 100).astype(np.float32)
    # Distances squared: 20,000 between clusters, 0.002 within; a second of one cluster has a chance below 1e-4.
    assert sorted(cluster[choose_spread_rows(X, 10, np.random.default_rng(10))]) == list(range(10))
    assert len(set(cluster[choose_rows(X, 10, np.random.default_rng(10))])) < 8


def test_too_few_different_landmarks_are_refused() -> None:
    """Equal rows are one landmark under k-means++."""
    X = np.repeat(np.eye(3, 4, dtype=np.float32), 5, axis=0)
    with pytest.raises(ConfigError, match=r"m = 4.*not blank and differ, got 3"):
        choose_spread_rows(X, 4, np.random.default_rng(11))


# --------------------------------------------------------------------------------------------- Laplacian frequencies


def test_cauchy_frequencies_give_the_laplacian_kernel() -> None:
    """mean cos <w, x - z> = exp(-|x - z|_1 / sigma)."""
    d, m, sigma = 6, 40_000, 1.5
    W = cauchy_templates(m, d, sigma, np.random.default_rng(12)).astype(np.float64)
    for scale in (0.1, 0.5, 2.0):
        u = np.random.default_rng(13).standard_normal(d) * scale / d
        cosines = np.cos(W @ u)
        # 5 sigma; rows refused as too long move it by less than 2e-4
        assert abs(cosines.mean() - np.exp(-np.abs(u).sum() / sigma)) < 5 * cosines.std() / math.sqrt(m) + 2e-4


def test_cauchy_frequencies_are_never_too_long() -> None:
    """Every row can be projected; a sigma for which many rows could not is refused, with one that works."""
    W = cauchy_templates(5000, 784, 20.0, np.random.default_rng(14))
    assert np.linalg.norm(W.astype(np.float64), axis=1).max() <= MAX_NORM
    with pytest.raises(ConfigError, match=r"sigma = 0.5 is too small.*use at least 2\.5"):
        cauchy_templates(10, 784, 0.5, np.random.default_rng(15))


def test_the_gaussian_kernel_is_not_written_down() -> None:
    """kernel = "gaussian" is the default: the canonical table is that of banks from before there was a choice."""
    plain, named = (read_source({"source": "fourier", "m": 3, **k}) for k in ({}, {"kernel": "gaussian"}))
    assert source_table(plain) == source_table(named) == {"source": "fourier", "m": 3, "epsilon": 0.5}
    assert source_table(read_source({"source": "fourier", "m": 3, "kernel": "laplacian"}))["kernel"] == "laplacian"


@dataclass(frozen=True)
class Steps:
    """A user's source: template t is 1 up to entry t."""

    source: ClassVar[str] = "steps"
    gives: ClassVar[frozenset[str]] = frozenset({"vectors"})
    needs_signals: ClassVar[bool] = False

    m: int
    epsilon: float = 0.5

    def draw(self, request: Request) -> Drawn:
        return Drawn(np.tri(self.m, request.d, dtype=np.float32))


def test_a_source_is_one_class_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a line in SOURCES a bank is built from it."""
    monkeypatch.setitem(SOURCES, "steps", Steps)
    bank = build_bank(BankSpec.from_dict(small(templates={"source": "steps", "m": 8})))
    np.testing.assert_array_equal(template_vectors(bank.only), np.tri(8, 16))
    with pytest.raises(ConfigError, match=r"templates\.source with pooling\.kind = 'fourier' must be one of"):
        BankSpec.from_dict(small(templates={"source": "steps", "m": 8}, pooling={"kind": "fourier", "sigma": 1}))


# ------------------------------------------------------------------------------------------------------- whitened


def test_whitened_templates_are_those_of_the_formula() -> None:
    """Z' Zv / |Zv| of a signal, in the direction of (C + floor mean(w) I)^-1 v, with projections of variance 1."""
    rng = np.random.default_rng(6)
    V = (rng.standard_normal((400, 5)) @ np.diag([9, 3, 1, 0.3, 0.1]) + 0.2).astype(np.float32)
    for floor in (0.01, 1.0):
        T = whitened_templates(V, 50, floor, np.random.default_rng(7)).astype(np.float64)
        wide = V.astype(np.float64)
        C = wide.T @ wide / 400
        expected = np.linalg.solve(
            C + floor * np.trace(C) / 5 * np.eye(5), wide[choose_rows(V, 50, np.random.default_rng(7))].T
        ).T
        cosines = (T * expected).sum(axis=1) / np.linalg.norm(T, axis=1) / np.linalg.norm(expected, axis=1)
        np.testing.assert_allclose(cosines, 1, atol=1e-6)  # T is float32
        np.testing.assert_allclose((wide @ T.T).std(axis=0), 1, rtol=1e-5)


def test_a_small_floor_evens_out_the_directions() -> None:
    """What hardly varies counts as much as the rest; with a large floor templates are the signals."""
    V = (np.random.default_rng(8).standard_normal((300, 4)) @ np.diag([10, 1, 1, 0.1])).astype(np.float32)

    def shares(floor: float) -> NDArray[np.float64]:
        T = whitened_templates(V, 200, floor, np.random.default_rng(9)).astype(np.float64)
        moved = np.square(T @ np.diag([10, 1, 1, 0.1]))
        return np.asarray((moved / moved.sum(axis=1, keepdims=True)).mean(axis=0))

    assert shares(1e-6).max() < 0.35
    assert shares(1e4)[0] > 0.8


def test_too_few_signals_for_whitened_templates() -> None:
    """As for data templates; a floor of nothing is refused."""
    with pytest.raises(ConfigError, match="m = 3"):
        whitened_templates(np.eye(2, dtype=np.float32), 3, 1.0, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="need signals that differ; the 4 given"):
        whitened_templates(np.ones((4, 3), np.float32), 2, 1.0, np.random.default_rng(0))
    with pytest.raises(ConfigError, match="floor must be above 0"):
        read_source({"source": "whitened-data", "m": 3, "floor": -1})


# ----------------------------------------------------------------------------------------------------- structured


def hadamard(m: int, d: int, seed: int = 0, sigma: float | None = None) -> Drawn:
    source = read_source({"source": "hadamard", "m": m})
    return source.draw(Request(d, np.random.default_rng(seed), np.empty((0, d), np.float32), sigma))


@pytest.mark.parametrize(("m", "d"), [(16, 16), (5, 8), (20, 8), (7, 5), (40, 12), (3, 1)])
def test_structured_templates_are_unit_rows_of_the_product(m: int, d: int) -> None:
    """H D3 H D2 H D1, independent matrices one after the other, cut to d columns, at unit norm."""
    drawn = hadamard(m, d)
    signs = drawn.kept["signs"].astype(np.float64)
    p = signs.shape[2]
    assert (signs.shape[0], p) == (-(-m // p), 1 << (d - 1).bit_length())
    H = naive.hadamard(p) / math.sqrt(p)
    rows = np.vstack([H @ np.diag(D3) @ H @ np.diag(D2) @ H @ np.diag(D1) for D1, D2, D3 in signs])[:m, :d]
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(drawn.T, expected, atol=1e-6)  # float32


def test_rows_of_one_matrix_are_orthogonal() -> None:
    """At a power of two; rows of different matrices are not."""
    T = hadamard(64, 32).T.astype(np.float64)
    np.testing.assert_allclose(T[:32] @ T[:32].T, np.eye(32), atol=1e-6)  # float32
    assert np.abs(T[:32] @ T[32:].T).max() > 0.1


def test_signs_alone_give_the_projections() -> None:
    """Three fast transforms of a padded vector, over the norm of each row, are the stored rows' projections."""
    m, d = 40, 12
    drawn = hadamard(m, d)
    x = np.random.default_rng(1).standard_normal(d)
    padded = np.pad(x, (0, 4))
    transformed = []
    for diagonals in drawn.kept["signs"]:
        y = padded[None]
        for diagonal in diagonals:
            y = walsh_hadamard(y * diagonal)
        transformed.append(y[0] / 16**1.5)
    norms = np.linalg.norm(_cut_rows(drawn.kept["signs"], d), axis=1)
    np.testing.assert_allclose(drawn.T @ x, (np.concatenate(transformed) / norms)[:m], atol=1e-5)


def _cut_rows(signs: NDArray[Any], d: int) -> NDArray[Any]:
    """Rows of every matrix before they are scaled."""
    H = naive.hadamard(signs.shape[2]) / math.sqrt(signs.shape[2])
    return np.vstack([H @ np.diag(c) @ H @ np.diag(b) @ H @ np.diag(a) for a, b, c in signs.astype(float)])[:, :d]


def test_structured_templates_have_the_size_of_gaussian_ones() -> None:
    """Mean square 1/d of a number; as frequencies 1/sigma^2."""
    assert abs(np.square(hadamard(512, 300).T.astype(np.float64)).mean() * 300 - 1) < 1e-6
    W = hadamard(512, 300, sigma=0.5).T.astype(np.float64)
    assert abs(np.square(W).mean() - 4) < 1e-5


def test_structured_projections_look_gaussian_as_d_grows() -> None:
    """Fourth moment of d^1/2 <x, t>: 3 within 5 sigma at d = 256, for a sparse x too; not at d = 4."""
    for x in (np.eye(1, 256)[0], np.ones(256) / 16):
        # 100 seeds x 64 rows; the fourth power of a normal number has a standard deviation of sqrt(96), and finite d
        # takes off 6 / d
        P = np.concatenate([hadamard(64, 256, seed).T @ x * 16 for seed in range(100)])
        assert abs((P**4).mean() - 3) < 5 * math.sqrt(96 / len(P)) + 0.05
    P = np.concatenate([hadamard(4, 4, seed).T[:, 0] * 2 for seed in range(500)])
    assert abs((P**4).mean() - 3) > 0.5


def test_structured_frequencies_are_biased_at_small_d_and_better_at_large() -> None:
    """At d = 256 the squared error of a kernel value is no more than Gaussian frequencies'; at d = 16 a bias shows."""

    def errors(d: int, structured: bool, seeds: int) -> NDArray[Any]:
        u = np.random.default_rng(99).standard_normal(d)
        u *= 0.9 / np.linalg.norm(u)
        exact = math.exp(-0.5 * 0.9**2)
        draws = (
            hadamard(d, d, s, sigma=1.0).T if structured else fourier_templates(d, d, 1.0, np.random.default_rng(s))
            for s in range(seeds)
        )
        return np.array([np.cos(W.astype(np.float64) @ u).mean() - exact for W in draws])

    plain, structured = errors(256, False, 100), errors(256, True, 100)
    assert np.square(structured).mean() < np.square(plain).mean()
    assert abs(structured.mean()) < 0.005
    small = errors(16, True, 4000)
    assert abs(small.mean()) > 5 * small.std() / math.sqrt(len(small))
