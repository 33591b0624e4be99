"""Kinds of pooling: each what its definition says, in any company, for operators and stored orbits alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, materialise, orbits, template_vectors
from streamfeat.bankspec import BankSpec, canonical_json
from streamfeat.client import Client
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.kernels import LANES
from streamfeat.pooling import POOLINGS, BaseKernel, Material, Pass, Size
from streamfeat.pooling.nystrom import inverse_sqrt
from streamfeat.projections import move
from streamfeat.signals.signal import Signal
from tests import naive
from tests.cluster import cluster
from tests.test_bank import ROTATION, SHIFT, pictures
from tests.test_bankspec import small
from tests.test_streamtask import user_stack

RBF = {"kind": "rbf", "sigma": 0.7}
LINEAR = {"kind": "linear"}
CUBIC = {"kind": "polynomial", "degree": 3, "offset": 0.5}

KINDS: dict[str, dict[str, Any]] = {
    "mean linear": {"kind": "mean", "kernel": LINEAR},
    "mean rbf": {"kind": "mean", "kernel": RBF},
    "max rbf": {"kind": "max", "kernel": RBF},
    "max polynomial": {"kind": "max", "kernel": CUBIC},
    "moments linear": {"kind": "moments", "kernel": LINEAR, "n": 3},
    "quantiles rbf": {"kind": "quantiles", "kernel": RBF, "n": 4},
    "quantiles polynomial": {"kind": "quantiles", "kernel": CUBIC, "n": 1},
    "nystrom base": {"kind": "nystrom", "kernel": RBF},
    "nystrom orbit": {"kind": "nystrom", "kernel": RBF, "gram": "orbit"},
}


def spec_of(pooling: dict[str, Any], form: str = "operators", **changes: Any) -> BankSpec:
    """16 x 16 pictures, 27 group elements, 70 landmarks: a whole block of templates and a part."""
    side_16 = [{"stage": "pixels", "height": 16, "width": 16}]
    templates = {"source": "landmarks", "m": 70}
    spec = {"front_end": side_16, "group": [ROTATION, SHIFT], "templates": templates, "pooling": pooling, **changes}
    return BankSpec.from_dict(small(**spec, form=form))


def map_of(pooling: dict[str, Any], form: str = "operators", **changes: Any) -> FeatureMap:
    return FeatureMap(build_bank(spec_of(pooling, form, **changes), pictures(80, side=16, seed=1)))


@pytest.fixture(scope="module", params=list(KINDS))
def fmap(request: pytest.FixtureRequest) -> FeatureMap:
    return map_of(KINDS[request.param])


def defined(fmap: FeatureMap, x: NDArray[Any]) -> NDArray[np.float64]:
    """The feature of a vector as the definition reads, (m, k), from every gt; Nystrom by an eigendecomposition."""
    pooling: Any = fmap.bank.spec.only.pooling
    kernel = {name: value for name, value in vars(pooling.kernel).items() if value is not None}
    V = naive.orbit_values(kernel, orbits(fmap.bank.only, range(fmap.bank.only.m)), x)
    if pooling.kind == "quantiles":
        return naive.quantiles(V.T, pooling.n)
    if pooling.kind == "max":
        return np.asarray(V.max(axis=1, keepdims=True))
    if pooling.kind == "nystrom":
        return np.asarray(fmap.bank.arrays["whitening"].astype(np.float64) @ V.mean(axis=1, keepdims=True))
    return naive.power_means(V.T, pooling.n if pooling.kind == "moments" else 1)


def test_features_are_those_of_the_definition(fmap: FeatureMap) -> None:
    """One number at a time, in float64."""
    for signal in pictures(2, side=16, seed=2):
        x = fmap.front_end(signal)
        # float32 sums of d = 256 numbers: 2e-6, times the slope of a cube at 1.2 or the norm of K_ZZ^(-1/2), 22 at
        # most, which meets a mean over g
        np.testing.assert_allclose(fmap.one(signal), defined(fmap, x).ravel(), atol=2e-5)


def test_features_of_both_forms_agree(fmap: FeatureMap) -> None:
    """Stored orbits give what adjoints on the input give, to float32."""
    dense = FeatureMap(materialise(fmap.bank))
    signals = pictures(5, side=16, seed=3)
    np.testing.assert_allclose(dense.transform(signals), fmap.transform(signals), atol=2e-5)


def test_an_items_feature_depends_on_the_item_alone(fmap: FeatureMap) -> None:
    """Alone, in batches and in any order, on both forms and without a group: the same to the bit."""
    plain = FeatureMap(build_bank(fmap.bank.spec.plain(), pictures(80, side=16, seed=1)))
    signals = pictures(37, side=16)
    order = np.random.default_rng(0).permutation(37)
    for some in (fmap, FeatureMap(materialise(fmap.bank)), plain):
        whole = some.transform(signals)
        assert (whole.shape, whole.dtype.str) == ((37, some.n_features), "<f4")
        np.testing.assert_array_equal(some.transform([signals[i] for i in order]), whole[order])
        for i in (0, 5, 36):
            np.testing.assert_array_equal(some.one(signals[i]), whole[i])


def test_a_blank_picture_has_a_finite_feature(fmap: FeatureMap) -> None:
    """All projections are zero."""
    assert np.isfinite(fmap.one(Signal("image", np.zeros((16, 16), np.uint8)))).all()


def test_a_bank_comes_back_from_its_directory(fmap: FeatureMap, tmp_path: Any) -> None:
    """Saved and opened, with a spec that builds the same bank again."""
    again = FeatureMap.open(fmap.bank.save(tmp_path))
    signals = pictures(3, side=16)
    np.testing.assert_array_equal(again.transform(signals), fmap.transform(signals))
    assert build_bank(again.bank.spec, pictures(80, side=16, seed=1)).hash == fmap.bank.hash


def test_a_template_moved_out_of_sight_is_taken_as_zero() -> None:
    """gt = 0: linear values are 0, rbf values exp(-||x||^2 / 2 sigma^2)."""
    far = [{"factor": "translation", "law": "grid", "low": -9, "high": 9, "n": 2, "identity": False}]
    for kernel, value in ((LINEAR, 0.0), (RBF, np.exp(-1 / (2 * 0.7**2)))):
        spec = small(group=far, templates={"source": "user", "m": 1}, pooling={"kind": "mean", "kernel": kernel})
        fmap = FeatureMap(build_bank(BankSpec.from_dict(spec), templates=np.eye(16)[:1]))
        np.testing.assert_allclose(fmap.one(pictures(1)[0]), value, rtol=1e-6)


# --------------------------------------------------------------------------------------------------- whole groups


def permutation_map(pooling: dict[str, Any], templates: NDArray[Any], d: int = 4) -> FeatureMap:
    """All d! permutations of vectors of d numbers."""
    matrices = np.stack([np.eye(d)[list(p)] for p in itertools.permutations(range(d))])
    spec = small(
        front_end=[{"stage": "pixels", "height": 1, "width": d}],
        group=[{"factor": "user"}],
        templates={"source": "user", "m": len(templates)},
        pooling=pooling,
        renormalise=False,
    )
    return FeatureMap(build_bank(BankSpec.from_dict(spec), templates=templates, operators=[user_stack(matrices)]))


def unit(n: int, d: int, seed: int) -> NDArray[np.float32]:
    x = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize("kind", list(KINDS))
def test_all_of_a_group_makes_features_invariant(kind: str) -> None:
    """Features of x and of every g x are equal within rounding."""
    fmap = permutation_map(KINDS[kind], unit(6, 4, 0))
    x = unit(1, 4, 1)[0]
    features = fmap.of_vectors(np.array([x[list(p)] for p in itertools.permutations(range(4))]))
    # The orbit of gx is that of x to the bit: what differs is the order of float64 sums.
    np.testing.assert_allclose(features, np.broadcast_to(features[0], features.shape), atol=1e-6)


# -------------------------------------------------------------------------------------------------------- Nystrom


@pytest.mark.parametrize(("sigma", "tolerance"), [(0.7, 1e-6), (3.0, 1e-4)])
def test_landmarks_that_are_the_data_give_the_kernel_back(sigma: float, tolerance: float) -> None:
    """psi psi' = K: to 1e-8 in float64; a bank's float32 to 1e-6 where K is well conditioned, else to 1e-4."""
    Z = unit(40, 8, 2)
    K = BaseKernel("rbf", sigma=sigma).gram(Z, Z)
    psi = K @ inverse_sqrt(K, 1e-14)
    np.testing.assert_allclose(psi @ psi.T, K, atol=1e-8)
    fmap = plain_map(Z, kernel={"kind": "rbf", "sigma": sigma})
    phi = fmap.dense(fmap.of_vectors(Z)).astype(np.float64)
    # what the floor leaves out is below 1e-6 lambda_max = 4e-5; float32 values give 1e-7 / sqrt(1e-6) at most
    np.testing.assert_allclose(phi @ phi.T, K, atol=tolerance)


def coulomb(gram: str) -> FeatureMap:
    """Symmetric matrices sorted by noisy norms: a group that acts on inputs and on nothing else."""
    rng = np.random.default_rng(8)
    matrices = [a @ a.T for a in rng.standard_normal((20, 5, 5))]
    spec = small(
        front_end=[{"stage": "array", "rows": 5, "columns": 5}],
        group=[{"factor": "noisy_norm", "law": "gaussian", "sigma": 0.1, "n": 6}],
        templates={"source": "landmarks", "m": 8},
        pooling={"kind": "nystrom", "kernel": RBF, "gram": gram},
    )
    return FeatureMap(build_bank(BankSpec.from_dict(spec), [Signal("array", a.astype(np.float32)) for a in matrices]))


def test_landmarks_meet_inputs_that_are_moved_by_a_rule() -> None:
    """mean_g k(gx, z) over the sorted copies of x, whitened; no orbit of a landmark is there to be averaged."""
    fmap = coulomb("base")
    x = fmap.front_end(Signal("array", np.arange(25, dtype=np.float32).reshape(5, 5) % 7))
    moved = move(fmap.bank.only, x[None])[: fmap.bank.only.n_group, :25]
    values = BaseKernel("rbf", sigma=0.7).gram(moved, template_vectors(fmap.bank.only)).mean(axis=0)
    expected = fmap.bank.arrays["whitening"].astype(float) @ values
    np.testing.assert_allclose(fmap.of_vectors(x[None])[0], expected, atol=1e-5)  # float32
    with pytest.raises(ConfigError, match="use gram = 'base'"):
        coulomb("orbit")


def plain_map(Z: NDArray[np.float32], **pooling: Any) -> FeatureMap:
    """Nystrom features without a group, landmarks given."""
    spec = small(
        front_end=[{"stage": "pixels", "height": 1, "width": Z.shape[1]}],
        templates={"source": "user", "m": len(Z)},
        pooling={"kind": "nystrom", "kernel": RBF, **pooling},
    )
    return FeatureMap(build_bank(BankSpec.from_dict(spec), templates=Z))


def test_orbit_gram_gives_the_haar_kernel_on_its_landmarks() -> None:
    """For all of a group, psi psi' of the landmarks is mean over g, g' of k(g z, g' z') (Raj et al. 2017, eq. 4)."""
    Z = unit(12, 4, 3)
    fmap = permutation_map({"kind": "nystrom", "kernel": RBF, "gram": "orbit"}, Z)
    every = np.array([Z[:, list(p)] for p in itertools.permutations(range(4))])
    kernel = BaseKernel("rbf", sigma=0.7)
    haar = np.mean([kernel.gram(g, Z) for g in every], axis=0)
    phi = fmap.of_vectors(Z).astype(np.float64)
    np.testing.assert_allclose(phi @ phi.T, haar, atol=2e-4)  # float32 values over sqrt(floor)
    assert np.linalg.eigvalsh(haar - phi @ phi.T).min() > -2e-4


@pytest.mark.parametrize("gram", ["base", "orbit"])
def test_equal_landmarks_are_no_trouble(gram: str) -> None:
    """A K_ZZ of rank 2 gives finite features with the inner products of two landmarks."""
    Z = unit(2, 4, 4)
    twice, once = (
        permutation_map({"kind": "nystrom", "kernel": RBF, "gram": gram}, T) for T in (np.vstack([Z, Z, Z]), Z)
    )
    x = unit(5, 4, 5)
    many, few = (f.of_vectors(x).astype(np.float64) for f in (twice, once))
    assert np.isfinite(many).all()
    np.testing.assert_allclose(many @ many.T, few @ few.T, atol=1e-5)  # well conditioned: float32
    zero = plain_map(np.zeros((3, 4), np.float32), kernel=LINEAR)
    np.testing.assert_array_equal(zero.of_vectors(x), np.zeros((5, 3)))


def test_a_projection_never_exceeds_the_kernel() -> None:
    """K - psi psi' is positive semidefinite: landmarks leave out, they never add."""
    Z, X = unit(10, 5, 6), unit(30, 5, 7)
    phi = plain_map(Z).of_vectors(X).astype(np.float64)
    K = BaseKernel("rbf", sigma=0.7).gram(X, X)
    assert np.linalg.eigvalsh(K - phi @ phi.T).min() > -1e-4  # float32 values over sqrt(floor)


# --------------------------------------------------------------------------------------------------- specs, hashes


@dataclass(frozen=True)
class Smallest:
    """A user's kind: min_g <x, g t>."""

    kind: ClassVar[str] = "smallest"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    times: float = 1.0

    def n_features(self, m: int) -> int:
        return m

    def build(self, _material: Material) -> dict[str, Any]:
        return {}

    def pool(self, some: Pass, out: NDArray[Any]) -> None:
        for block, P in some.projected:
            rows = out[:, block * LANES : (block + 1) * LANES]
            rows[:] = self.times * P.min(axis=1)[:, : rows.shape[1]]

    def weight(self, _size: Size) -> float:
        return 0.5


def test_a_kind_of_pooling_is_one_class_in_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a line in POOLINGS it is read, checked, built, saved, opened, served and scaled."""
    monkeypatch.setitem(POOLINGS, "smallest", Smallest)
    fmap = FeatureMap.open(map_of({"kind": "smallest", "times": 2}).bank.save(tmp_path))
    x = fmap.front_end(pictures(1, side=16)[0])
    smallest = (orbits(fmap.bank.only, range(70)) @ x).min(axis=1)
    np.testing.assert_allclose(fmap.of_vectors(x[None])[0], 2 * smallest, atol=1e-5)  # float32 sums of 256
    np.testing.assert_array_equal(fmap.dense(fmap.of_vectors(x[None])), fmap.of_vectors(x[None]) / 2)
    with pytest.raises(ConfigError, match="'smallest' has no parameter 'n'; known: times"):
        spec_of({"kind": "smallest", "n": 2})


def test_a_fleet_gives_the_same_features(tmp_path: Path) -> None:
    """One feature worker serves a bank of every kind, with a second layer too: bit for bit those in process."""
    maps = {}
    for i, pooling in enumerate(KINDS.values()):
        layer2 = {"kind": "fourier", "m": 20, "sigma": 0.5} if i % 2 else {"kind": "none"}
        maps[f"kind-{i}"] = map_of(pooling, name=f"kind-{i}", layer2=layer2)
    paths = [fmap.bank.save(tmp_path) for fmap in maps.values()]
    signals = pictures(9, side=16)
    with cluster() as running:
        running.start_broker()
        running.start_features("features", paths)
        running.wait_ready("features")
        with Client(running.front) as client:
            for name, fmap in maps.items():
                served = client.features(signals, bank=name)
                np.testing.assert_array_equal(served, fmap.transform(signals))


def test_equal_numbers_have_one_text_in_a_kernels_table_too() -> None:
    """1 and 1.0 are one sigma, 3 and 3.0 one degree."""
    for one, other in (({"kind": "rbf", "sigma": 1}, {"kind": "rbf", "sigma": 1.0}), (CUBIC, {**CUBIC, "degree": 3.0})):
        texts = {canonical_json(spec_of({"kind": "mean", "kernel": k}).as_dict()) for k in (one, other)}
        assert len(texts) == 1


@pytest.mark.parametrize(
    ("pooling", "words"),
    [
        ({"kind": "median"}, ["pooling.kind", *POOLINGS, "'median'"]),
        ({"kind": "mean"}, ["pooling", "'kernel'", "table"]),
        ({"kind": "mean", "kernel": "rbf"}, ["kernel must be a table", "'rbf'"]),
        ({"kind": "mean", "kernel": {"kind": "cosine"}}, ["kernel", "linear, rbf, polynomial", "'cosine'"]),
        ({"kind": "mean", "kernel": {"kind": "rbf"}}, ["rbf kernel takes sigma", "None"]),
        ({"kind": "mean", "kernel": {"kind": "rbf", "sigma": 0}}, ["sigma", "0.0"]),
        ({"kind": "mean", "kernel": {"kind": "linear", "sigma": 1}}, ["linear kernel takes no parameter", "1.0"]),
        ({"kind": "mean", "kernel": {"kind": "polynomial", "degree": 0}}, ["degree", "0"]),
        ({"kind": "moments", "kernel": LINEAR}, ["'n'"]),
        ({"kind": "moments", "kernel": LINEAR, "n": 17}, ["n must be from 1 to 16", "17"]),
        ({"kind": "quantiles", "kernel": LINEAR, "n": 0}, ["n must be", "0"]),
        ({"kind": "nystrom", "kernel": RBF, "floor": 0}, ["floor", "0.0"]),
        ({"kind": "nystrom", "kernel": RBF, "gram": "both"}, ["gram", "base, orbit", "'both'"]),
    ],
)
def test_refusals_name_the_key_and_what_came(pooling: dict[str, Any], words: list[str]) -> None:
    """Each kind checks its own table."""
    with pytest.raises(ConfigError) as caught:
        spec_of(pooling)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_frequencies_are_no_templates() -> None:
    """Kernel values are of vectors: a source of frequencies is refused, with the sources that fit."""
    with pytest.raises(ConfigError, match=r"templates\.source.*'gaussian'.*'landmarks'.*got 'fourier'"):
        spec_of({"kind": "max", "kernel": RBF}, templates={"source": "fourier", "m": 3})


def pinned(fmap: FeatureMap, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """A CDF or Fourier feature from stored arrays and projections alone, as the first version computed it."""
    P = orbits(fmap.bank.only, range(fmap.bank.only.m)).astype(np.float64) @ x.astype(np.float64)
    if fmap.bank.dtype == "<u2":
        tau = fmap.bank.arrays["thresholds"].transpose(0, 2, 1)[0, : fmap.bank.only.m]
        return np.asarray((P[:, :, None] <= tau[:, None, :]).sum(axis=1), np.float64).ravel()
    return np.asarray(np.concatenate([np.cos(P).mean(axis=1), np.sin(P).mean(axis=1)]) / np.sqrt(fmap.bank.only.m))


TINY: dict[str, tuple[Callable[[], Bank], str]] = {
    "cdf": (
        lambda: build_bank(BankSpec.from_dict(small(group=[ROTATION, SHIFT]))),
        '{"cells":"whole","kind":"cdf","n_bins":5,"reach":3.0,"thresholds":"sigma"}',
    ),
    "fourier": (
        lambda: build_bank(
            BankSpec.from_dict(
                small(
                    group=[ROTATION, SHIFT],
                    templates={"source": "fourier", "m": 8},
                    pooling={"kind": "fourier", "sigma": 0.5},
                )
            )
        ),
        '{"cells":"whole","kind":"fourier","sigma":0.5}',
    ),
}


@pytest.mark.parametrize("kind", list(TINY))
def test_banks_of_the_first_version_stay_as_they_were(kind: str) -> None:
    """The canonical spec has the keys it always had, and features are those of the definition."""
    build, pooling = TINY[kind]
    fmap = FeatureMap(build())
    spec = fmap.bank.manifest["spec"]
    assert canonical_json(spec["pooling"]) == pooling
    assert spec["templates"] == {"source": {"cdf": "gaussian"}.get(kind, kind), "m": 8, "epsilon": 0.5}
    assert spec["layer2"] == {"kind": "none"}
    for signal in pictures(4):
        expected = pinned(fmap, fmap.front_end(signal))
        # no projection lies within rounding of a threshold here; cos and sin to 1e-6
        np.testing.assert_allclose(fmap.one(signal), expected, atol=2e-6 if kind == "fourier" else 0.0)
    assert template_vectors(fmap.bank.only).shape == (8, 16)
