"""Feature maps: exact against the definition, the same in any company, and the paper's kernel in expectation."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, orbits
from streamfeat.bankspec import BankSpec
from streamfeat.errors import BankMismatch, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.signals.signal import Signal
from tests import naive
from tests.test_bank import ROTATION, SHIFT, pictures, words
from tests.test_bankspec import small
from tests.test_streamtask import user_stack

FOURIER: dict[str, Any] = {"templates": {"source": "fourier", "m": 70}, "pooling": {"kind": "fourier", "sigma": 0.5}}
CDF: dict[str, Any] = {
    "templates": {"source": "gaussian", "m": 70},
    "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 9},
}
SIDE_16 = [{"stage": "pixels", "height": 16, "width": 16}]


def map_of(form: str = "operators", **changes: Any) -> FeatureMap:
    """A feature map of 16 x 16 pictures with 27 group elements and 70 templates: a whole block and a part."""
    spec = {"front_end": SIDE_16, "group": [ROTATION, SHIFT], **CDF, **changes, "form": form}
    return FeatureMap(build_bank(BankSpec.from_dict(small(**spec))))


MAPS: dict[str, Callable[[], FeatureMap]] = {
    "cdf": map_of,
    "cdf dense": lambda: map_of("dense"),
    "cdf plain": lambda: map_of(group=[]),
    "cdf of 3 elements": lambda: map_of(group=[ROTATION]),
    "fourier": lambda: map_of(**FOURIER),
    "fourier dense": lambda: map_of("dense", **FOURIER),
}


@pytest.fixture(scope="module", params=list(MAPS))
def fmap(request: pytest.FixtureRequest) -> FeatureMap:
    return MAPS[request.param]()


def test_an_items_feature_depends_on_the_item_alone(fmap: FeatureMap) -> None:
    """Alone, in batches of any size, in any order and from several threads at once: the same to the bit."""
    signals = pictures(70, side=16)
    whole = fmap.transform(signals)
    assert whole.shape == (70, fmap.n_features)
    assert whole.dtype.str == fmap.bank.dtype
    for i in range(0, 70, 7):
        np.testing.assert_array_equal(fmap.one(signals[i]), whole[i])
    for size in (2, 5, 33):
        np.testing.assert_array_equal(fmap.transform(signals[3 : 3 + size]), whole[3 : 3 + size])
    order = np.random.default_rng(0).permutation(70)
    np.testing.assert_array_equal(fmap.transform([signals[i] for i in order]), whole[order])
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda i: fmap.transform(signals[i : i + 3]), range(0, 69, 3)))
    np.testing.assert_array_equal(np.concatenate(parts), whole[:69])


def test_features_do_not_depend_on_blas_threads(tmp_path: Path) -> None:
    """The same feature with OPENBLAS_NUM_THREADS 1 and 2, from a saved bank, in other processes."""
    path = map_of().bank.save(tmp_path)
    code = (
        "import sys; from pathlib import Path; from tests.test_bank import pictures; "
        "from streamfeat.featuremap import FeatureMap; "
        "print(FeatureMap.open(Path(sys.argv[1])).transform(pictures(3, side=16)).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={"OPENBLAS_NUM_THREADS": n_threads, "PATH": "/usr/bin:/bin"},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
        for n_threads in ("1", "2")
    }
    assert outputs == {FeatureMap.open(path).transform(pictures(3, side=16)).tobytes().hex()}


def test_counts_are_those_of_the_definition() -> None:
    """Every count equals the naive one, but where a float64 projection lies within rounding of its threshold."""
    fmap = map_of()
    tau = fmap.bank.arrays["thresholds"].transpose(0, 2, 1).reshape(-1, 9)[:70]
    all_gt = orbits(fmap.bank.only, range(70))
    for signal in pictures(4, side=16):
        x = fmap.front_end(signal)
        P = all_gt.astype(np.float64) @ x.astype(np.float64)
        # d = 256 products and sums of float32
        near = (np.abs(P[:, :, None] - tau[:, None, :]) < 256 * np.finfo(np.float32).eps).sum(axis=1)
        differ = np.abs(fmap.one(signal).reshape(70, 9).astype(int) - naive.cdf_feature(all_gt, tau, x))
        assert (differ <= near).all()


def test_fourier_features_are_those_of_the_definition() -> None:
    """Means of cos, then of sin, of <x, g w>, over sqrt(m): Raj et al. 2017, eq. 7."""
    fmap = map_of(**FOURIER)
    all_gw = orbits(fmap.bank.only, range(70)).astype(np.float64)
    for signal in pictures(3, side=16):
        P = all_gw @ fmap.front_end(signal).astype(np.float64)
        expected = np.concatenate([np.cos(P).mean(axis=1), np.sin(P).mean(axis=1)]) / math.sqrt(70)
        # cos to 1e-6 and projections of size 10 to d eps
        np.testing.assert_allclose(fmap.one(signal), expected, atol=1e-5)


def test_counts_rise_to_the_whole_group() -> None:
    """With `paper` thresholds counts never fall along a row, start at 0 and end at exactly |G|."""
    fmap = map_of(pooling={"kind": "cdf", "thresholds": "paper", "n_bins": 7})
    counts = fmap.transform(pictures(10, side=16)).reshape(10, 70, 15).astype(int)
    assert (np.diff(counts, axis=2) >= 0).all()
    assert (counts[:, :, -1] == 27).all()
    assert (counts[:, :, 0] == 0).all()


def test_a_blank_picture_has_a_finite_feature(fmap: FeatureMap) -> None:
    """Zero projections are counted like any other: below every threshold that is not negative."""
    feature = fmap.one(Signal("image", np.zeros((16, 16), np.uint8)))
    assert np.isfinite(feature).all()
    if fmap.bank.dtype == "<u2":
        np.testing.assert_array_equal(feature.reshape(70, 9)[0] > 0, np.arange(9) >= 4)


def test_no_signals_give_no_features(fmap: FeatureMap) -> None:
    """An empty batch has zero rows of the right width and type."""
    features = fmap.transform([])
    assert features.shape == (0, fmap.n_features)
    assert features.dtype.str == fmap.bank.dtype


def test_a_signal_of_the_wrong_kind_is_named() -> None:
    """The message has the item's number and name."""
    with pytest.raises(InvalidArgument, match=r"item 1: tone 0"):
        map_of().transform([*pictures(1), *words(1)])


def test_any_iterable_will_do() -> None:
    """Signals may come from a generator."""
    fmap = map_of()
    np.testing.assert_array_equal(fmap.transform(s for s in pictures(3)), fmap.transform(pictures(3)))


def test_fit_builds_and_computes() -> None:
    """From a spec, or from the name of a preset, to features in two lines."""
    fmap = FeatureMap.fit(BankSpec.from_dict(small(templates={"source": "data", "m": 8})), pictures(20))
    assert fmap.transform(pictures(2)).shape == (2, 8 * 5)
    assert fmap.bank_hash == fmap.bank.hash


def test_features_of_another_bank_are_refused() -> None:
    """dense() of the wrong width or type names what the bank gives."""
    fmap = map_of()
    with pytest.raises(BankMismatch, match="<u2 features of 630"):
        fmap.dense(np.zeros((2, 5), np.uint16))
    with pytest.raises(BankMismatch, match="got <f4"):
        fmap.dense(np.zeros((2, 630), np.float32))


# ------------------------------------------------------------------------------------------ oracles from the papers


def cyclic(d: int) -> NDArray[np.float64]:
    """The d cyclic shifts as matrices."""
    return np.stack([np.roll(np.eye(d), k, axis=0) for k in range(d)])


def group_bank(matrices: NDArray[np.float64], m: int, n_bins: int, epsilon: float = 0.4, **changes: Any) -> Bank:
    """Gaussian templates, a user's group on vectors of d numbers, `paper` thresholds; no renormalising is needed."""
    d = matrices.shape[1]
    spec = small(
        front_end=[{"stage": "pixels", "height": 1, "width": d}],
        templates={"source": "gaussian", "m": m, "epsilon": epsilon},
        group=[{"factor": "user"}],
        pooling={"kind": "cdf", "thresholds": "paper", "n_bins": n_bins},
        renormalise=False,
        **changes,
    )
    return build_bank(BankSpec.from_dict(spec), operators=[user_stack(matrices)])


def unit_vectors(n: int, d: int, seed: int) -> NDArray[np.float32]:
    x = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def permutations(d: int) -> NDArray[np.float64]:
    """All d! permutations as matrices."""
    return np.stack([np.eye(d)[list(p)] for p in itertools.permutations(range(d))])


def test_a_full_group_makes_features_invariant() -> None:
    """Counts of x and of every g x are equal: permuting the projections of an orbit permutes nothing that is kept."""
    fmap = FeatureMap(group_bank(permutations(4), m=50, n_bins=10))
    # A permutation changes the order of a sum, so a count may move where a projection ties with a threshold: none does.
    x = unit_vectors(1, 4, 0)[0]
    orbit = np.array([x[list(p)] for p in itertools.permutations(range(4))])
    counts = fmap.of_vectors(orbit).astype(int)
    exact = orbits(fmap.bank.only, range(50)).astype(np.float64) @ x.astype(np.float64)
    tau = fmap.bank.arrays["thresholds"][0, :, 0].astype(np.float64)
    assert np.abs(exact[:, :, None] - tau).min() > 1e-6, "a tie"
    np.testing.assert_array_equal(counts, np.broadcast_to(counts[0], counts.shape))


def test_the_order_of_a_group_changes_nothing() -> None:
    """Counts forget which g gave which projection."""
    matrices, order = cyclic(6), np.random.default_rng(1).permutation(6)
    one, other = (FeatureMap(group_bank(M, m=20, n_bins=9)) for M in (matrices, matrices[order]))
    x = unit_vectors(5, 6, 2)
    np.testing.assert_array_equal(one.of_vectors(x), other.of_vectors(x))


@given(st.integers(1, 12), st.integers(0, 1000))
@settings(deadline=None, max_examples=15)
def test_the_sum_over_thresholds_is_the_integral(n_bins: int, seed: int) -> None:
    """For every template 0 < (s/n) sum F_x F_z - integral <= s/n; the integral has a closed form."""
    fmap = FeatureMap(group_bank(cyclic(5), m=8, n_bins=n_bins))
    x, z = unit_vectors(2, 5, seed)
    P = (orbits(fmap.bank.only, range(8)).astype(np.float64) @ np.array([x, z], np.float64).T).transpose(2, 0, 1)
    s = 1.4
    larger = np.maximum(P[0][:, :, None], P[1][:, None, :])
    integral = s - np.clip(larger, -s, s).mean(axis=(1, 2))
    phi = fmap.dense(fmap.of_vectors(np.array([x, z]))).astype(np.float64).reshape(2, 8, 2 * n_bins + 1)
    excess = 8 * (phi[0] * phi[1]).sum(axis=1) - integral
    rounding = 1e-5  # float32 projections near a threshold and float32 features
    assert (excess > -rounding).all()
    assert (excess <= s / n_bins + rounding).all()


def chi2_cdf(value: float, degrees: int) -> float:
    """P(chi^2 <= value), by integrating its density (scipy is not needed for one number)."""
    t = np.linspace(0, value, 200_001)[1:]
    density = np.exp((degrees / 2 - 1) * np.log(t) - t / 2 - math.lgamma(degrees / 2) - degrees / 2 * math.log(2))
    return float(np.trapezoid(density, t))


@pytest.mark.parametrize("full", [True, False], ids=["full group", "sampled elements"])
def test_inner_products_estimate_the_papers_kernel(full: bool) -> None:
    """E <Phi(x), Phi(z)> = s - c D / sqrt(2 pi d), D the mean of |gx - g'z| over the bank's elements."""
    d, epsilon, m, n_bins = 4, 0.4, 20_000, 40
    matrices = permutations(d)
    if not full:
        matrices = matrices[np.random.default_rng(3).integers(0, 24, 6)]
    fmap = FeatureMap(group_bank(matrices, m, n_bins, epsilon, seed=4))
    x, z = unit_vectors(2, d, 5)
    s = 1 + epsilon
    c = chi2_cdf(d * s, d + 1) / chi2_cdf(d * s, d)
    # For g drawn once and used for x and z alike, the expectation over templates is exact with D over those elements.
    gx, gz = (np.einsum("gij,j->gi", matrices.transpose(0, 2, 1), v.astype(np.float64)) for v in (x, z))
    D = np.linalg.norm(gx[:, None] - gz[None], axis=2).mean()
    expected = s - c * D / math.sqrt(2 * math.pi * d)
    phi = fmap.dense(fmap.of_vectors(np.array([x, z]))).astype(np.float64).reshape(2, m, -1)
    per_template = m * (phi[0] * phi[1]).sum(axis=1) - s / (2 * n_bins)  # the sum's mean excess
    error = per_template.mean() - expected
    # 5 sigma of the mean over templates; the mean excess is s / 2n up to its curvature
    assert abs(error) < 5 * per_template.std() / math.sqrt(m) + 0.1 * s / n_bins


def test_fourier_inner_products_estimate_the_orbit_kernel() -> None:
    """<psi(x), psi(z)> averages k(g x, g' z) over all pairs (Raj et al. 2017, eqs. 4 and 7), for cyclic shifts."""
    d, m, sigma = 6, 20_000, 0.5
    spec = small(
        front_end=[{"stage": "pixels", "height": 1, "width": d}],
        templates={"source": "fourier", "m": m},
        group=[{"factor": "user"}],
        pooling={"kind": "fourier", "sigma": sigma},
        renormalise=False,
    )
    fmap = FeatureMap(build_bank(BankSpec.from_dict(spec), operators=[user_stack(cyclic(d))]))
    x, z = unit_vectors(2, d, 6)
    shifted = np.array([np.roll(z, k) for k in range(d)], np.float64)
    exact = np.exp(-np.square(x - shifted).sum(axis=1) / (2 * sigma**2)).mean()
    psi = fmap.of_vectors(np.array([x, z])).astype(np.float64).reshape(2, 2, m)
    per_template = m * (psi[0] * psi[1]).sum(axis=0)
    assert abs(per_template.mean() - exact) < 5 * per_template.std() / math.sqrt(m)


# ------------------------------------------------------------------------------------------------ what serving needs


def test_serving_imports_nothing_that_only_building_needs(tmp_path: Path) -> None:
    """A process that opens a bank and computes has neither librosa, scikit-learn, matplotlib nor scipy.sparse."""
    path = map_of().bank.save(tmp_path)
    code = (
        "import sys; from pathlib import Path; import numpy as np; from streamfeat.featuremap import FeatureMap; "
        "from streamfeat.signals.signal import Signal; f = FeatureMap.open(Path(sys.argv[1])); f.warm(); "
        "f.one(Signal('image', np.zeros((16, 16), np.uint8))); "
        "print([n for n in ('librosa', 'sklearn', 'matplotlib', 'scipy.sparse', 'scipy.signal') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_a_mapped_dense_bank_takes_no_memory_of_its_own(tmp_path: Path) -> None:
    """Computing from a 54 MB dense bank leaves it in the shared page cache: private memory grows by less than 8 MB."""
    path = map_of("dense", front_end=[{"stage": "pixels", "height": 64, "width": 64}]).bank.save(tmp_path)
    code = """
import re, sys
from pathlib import Path
from streamfeat.featuremap import FeatureMap
from tests.test_bank import pictures

def private_mb():
    text = Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"Private_Dirty: +(\\d+) kB", text).group(1)) / 1024

signals = pictures(8, side=64)
before = private_mb()
fmap = FeatureMap.open(Path(sys.argv[1]))
fmap.warm()
fmap.transform(signals)
print(fmap.bank.arrays["orbits"].nbytes / 2**20, private_mb() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    size, grown = map(float, done.stdout.split())
    assert size > 50
    assert grown < 8
