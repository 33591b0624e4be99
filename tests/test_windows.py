"""Windows: patches as their definition reads, cells laid over them, and features of both in any company."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.bank import Bank, build_bank, open_bank, orbits, template_vectors
from streamfeat.bankspec import BankSpec
from streamfeat.client import Client
from streamfeat.errors import ConfigError
from streamfeat.featuremap import FeatureMap
from streamfeat.kernels import LANES
from streamfeat.projections import projections
from streamfeat.signals.signal import Signal
from streamfeat.windows import Patches, read_window, window_table
from tests import naive
from tests.cluster import cluster
from tests.test_bank import pictures
from tests.test_bankspec import small

PIXELS = [{"stage": "pixels", "height": 13, "width": 11}, {"stage": "norm", "kind": "none"}]
WINDOW = {"kind": "patches", "height": 4, "width": 3, "stride_rows": 2, "pad": 1, "contrast": 0.2}
SIZE, STEPS, PAD = (4, 3), (2, 1), 1
SOFT = {"rows": 3, "columns": 2, "overlap": 0.5}
HARD = {"rows": 3, "columns": 2, "overlap": 0}
POOLINGS: dict[str, dict[str, Any]] = {
    "fourier": {"kind": "fourier", "gain": 1.2, "cells": SOFT},
    "fourier whole": {"kind": "fourier", "gain": 1.2},
    "cdf": {"kind": "cdf", "thresholds": "quantile", "n_bins": 5, "cells": HARD},
    "cdf whole": {"kind": "cdf", "thresholds": "quantile", "n_bins": 5},
    "max": {"kind": "max", "kernel": {"kind": "linear"}, "cells": SOFT},
    "max hard": {"kind": "max", "kernel": {"kind": "linear"}, "cells": HARD},
    "moments": {"kind": "moments", "kernel": {"kind": "polynomial", "degree": 2}, "n": 2},
}


def spec_of(pooling: dict[str, Any] | None = None, **changes: Any) -> BankSpec:
    """Patches of 13 x 11 pictures at 6 x 11 positions, 70 templates: a whole block and a part."""
    templates = {"source": "whitened-data", "m": 70, "floor": 0.5}
    spec = {"front_end": PIXELS, "window": WINDOW, "templates": templates, "pooling": pooling or POOLINGS["fourier"]}
    return BankSpec.from_dict(small(**{**spec, **changes}))


def bank_of(pooling: dict[str, Any] | None = None, **changes: Any) -> Bank:
    spec = spec_of(pooling, **changes)
    return build_bank(spec, pictures(30, side=20, seed=1) if spec.needs_signals else None)


@pytest.fixture(scope="module", params=list(POOLINGS))
def fmap(request: pytest.FixtureRequest) -> FeatureMap:
    return FeatureMap(bank_of(POOLINGS[request.param]))


def naive_patches(fmap: FeatureMap, x: NDArray[np.float32], contrast: float = 0.2) -> NDArray[np.float64]:
    """(rows, columns, d) of a front end's vector, normalised."""
    V = naive.patches(x.reshape(fmap.bank.only.axes.shape), SIZE, STEPS, PAD)
    return np.asarray(V / (np.linalg.norm(V, axis=2, keepdims=True) + contrast))


# ------------------------------------------------------------------------------------------------------- patches


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 5), st.integers(2, 5)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(0, 4), st.sampled_from([None, 0.01, 1.0])),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_patches_are_those_of_the_definition(
    shape: tuple[int, int],
    size: tuple[int, int],
    steps: tuple[int, int],
    pad_and_contrast: tuple[int, float | None],
    seed: int,
) -> None:
    """Any size, step and padding: each minus its mean, over its norm + c; what fills up is zero."""
    pad, contrast = pad_and_contrast
    if pad >= max(size):
        with pytest.raises(ConfigError, match="pad"):
            Patches(*size, *steps, pad, contrast)
        return
    window = Patches(*size, *steps, pad, contrast)
    if min(shape[i] + 2 * pad - size[i] for i in range(2)) < 0:
        with pytest.raises(ConfigError, match="do not fit"):
            window.grid(shape)
        return
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    V = naive.patches(x, size, steps, pad)
    assert V.shape[:2] == window.grid(shape)
    if contrast is not None:
        V /= np.linalg.norm(V, axis=2, keepdims=True) + contrast
    flat, d = V.reshape(-1, V.shape[2]), V.shape[2]
    cut = window.cut(x.ravel(), shape)
    assert (cut.shape[0] % 4, cut.shape[1] % 4) == (0, 0)
    # computed in float64, rounded to float32 once; numbers of up to 4
    np.testing.assert_allclose(cut[: len(flat), :d], flat, rtol=1e-6, atol=1e-6)
    assert not cut[len(flat) :].any()
    assert not cut[:, d:].any()


@given(
    st.tuples(st.integers(3, 8), st.integers(3, 8), st.sampled_from([1, 3])),
    st.tuples(st.integers(1, 3), st.integers(2, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 2),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=40)
def test_a_patch_has_every_colour(
    shape: tuple[int, int, int], size: tuple[int, int], steps: tuple[int, int], pad: int, seed: int
) -> None:
    """Channels interleaved, one mean and one norm for all; zeros round the plane; grey as one channel of three axes."""
    window = Patches(*size, *steps, min(pad, max(size) - 1), 0.5)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    V = naive.patches(x, size, steps, window.pad)
    V /= np.linalg.norm(V, axis=2, keepdims=True) + 0.5
    assert (V.shape[:2], window.template_shape(shape)) == (window.grid(shape), (*size, shape[2]))
    cut = window.cut(x.ravel(), shape)[: V.shape[0] * V.shape[1], : V.shape[2]]
    # computed in float64, rounded to float32 once
    np.testing.assert_allclose(cut, V.reshape(cut.shape), rtol=1e-6, atol=1e-6)
    if shape[2] == 1:
        np.testing.assert_array_equal(window.cut(x.ravel(), shape[:2]), window.cut(x.ravel(), shape))


@pytest.mark.parametrize("contrast", [None, 1e-3])
def test_a_flat_patch_is_zero_exactly(contrast: float | None) -> None:
    """No rounding of a mean is blown up."""
    x = np.full(64, 0.1, np.float32)
    assert not Patches(5, 7, contrast=contrast).cut(x, (8, 8)).any()


def test_a_window_survives_the_way_through_a_table() -> None:
    """Defaults written out, contrast only if there is one."""
    table = window_table(read_window({"kind": "patches", "height": 5, "width": 5}))
    steps = {"stride_rows": 1, "stride_columns": 1, "pad": 0}
    assert table == {"kind": "patches", "height": 5, "width": 5, **steps}
    assert window_table(read_window({**table, "contrast": 1})) == {**table, "contrast": 1.0}


def test_the_whole_is_a_window_too() -> None:
    """One position, which sees everything as it is; templates are taken from all of what there is."""
    window, vectors = read_window({"kind": "whole"}), np.arange(18, dtype=np.float32).reshape(2, 9)
    assert (window.template_shape((3, 3)), window.grid((3, 3))) == ((3, 3), (1, 1))
    cut = window.cut(vectors[1], (3, 3))
    np.testing.assert_array_equal(cut, np.pad(vectors[1:], ((0, 3), (0, 3))))
    np.testing.assert_array_equal(window.sample(vectors, (3, 3), 1, np.random.default_rng(0)), vectors)


def test_patches_to_learn_from_are_drawn_from_all_signals_alike() -> None:
    """As many of each, never flat ones, none twice; of fewer signals than asked for; the same from the same seed."""
    window, rng = Patches(2, 2), np.random.default_rng(0)
    vectors = rng.standard_normal((5, 36)).astype(np.float32)
    vectors[2] = 3.0  # flat
    some = window.sample(vectors, (6, 6), 40, np.random.default_rng(1))
    every = [window.cut(v, (6, 6))[:25, :4] for v in vectors]
    owner = [next(i for i, patches in enumerate(every) if (patches == p).all(axis=1).any()) for p in some]
    assert sorted(owner) == [0] * 8 + [1] * 8 + [3] * 8 + [4] * 8
    assert len(np.unique(some, axis=0)) == 32
    np.testing.assert_array_equal(some, window.sample(vectors, (6, 6), 40, np.random.default_rng(1)))
    assert len(window.sample(vectors, (6, 6), 3, np.random.default_rng(2))) <= 3
    assert window.sample(vectors[:0], (6, 6), 3, np.random.default_rng(2)).shape == (0, 4)


# ------------------------------------------------------------------------------------------------------ features


def defined(fmap: FeatureMap, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """The feature as the definition reads, in the order of its columns, in float64."""
    bank, pooling = fmap.bank, fmap.bank.spec.only.pooling
    P = naive_patches(fmap, x) @ template_vectors(bank.only).astype(np.float64).T  # (rows, columns, m)
    table = bank.spec.as_dict()["pooling"]
    cells = {"rows": 1, "columns": 1, "overlap": 0} if table["cells"] == "whole" else table["cells"]
    weights = naive.cell_weights(cells["rows"], cells["columns"], bank.only.grid, cells["overlap"])
    if pooling.kind == "fourier":
        waves = [np.einsum("krc,rcm->km", weights, of(table["gain"] * P)) for of in (np.cos, np.sin)]
        return np.ravel(waves) / math.sqrt(len(weights) * bank.only.m)
    if pooling.kind == "max":
        parts = weights / weights.max(axis=(1, 2), keepdims=True)
        return np.array([(P[w > 0] * w[w > 0][:, None]).max(axis=0) for w in parts]).ravel()
    if pooling.kind == "moments":
        V = (P.reshape(-1, bank.only.m) + 1) ** 2
        return naive.power_means(V, 2).ravel()
    K = bank.arrays["thresholds"]
    tau = K.transpose(0, 2, 1).reshape(-1, K.shape[1])[: bank.only.m]
    below = P[:, :, :, None] <= tau
    return np.array([below[w > 0].sum(axis=0) for w in weights], np.float64).ravel()


def test_features_are_those_of_the_definition(fmap: FeatureMap) -> None:
    """Patches, projections, cells: one number at a time, in float64."""
    for signal in pictures(2, side=20, seed=2):
        x = fmap.front_end(signal)
        found, expected = fmap.one(signal), defined(fmap, x)
        assert found.shape == expected.shape
        if fmap.bank.dtype == "<u2":
            # a projection within float32 rounding of its threshold moves one count
            assert np.abs(found - expected).sum() <= 2
        else:
            # float32 projections of 12 numbers, of size up to 6: 2e-6, squared twice in `moments` (relative)
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_projections_are_inner_products_of_patches() -> None:
    """In C order of the grid, whatever the patch's size is filled up to."""
    fmap = FeatureMap(bank_of())
    x = fmap.front_end(pictures(1, side=20, seed=3)[0])
    expected = naive_patches(fmap, x).reshape(66, 12) @ template_vectors(fmap.bank.only).astype(np.float64).T
    for block, P in projections(fmap.bank.only, x[None]):
        assert P.shape == (1, 66, LANES)
        wanted = expected[:, block * LANES : (block + 1) * LANES]
        np.testing.assert_allclose(P[0, :, : wanted.shape[1]], wanted, atol=3e-6)  # float32


def test_an_items_feature_depends_on_the_item_alone(fmap: FeatureMap) -> None:
    """Alone, in batches, in any order, from threads and from a saved bank: the same to the bit."""
    signals = pictures(11, side=20)
    whole = fmap.transform(signals)
    assert (whole.shape, whole.dtype.str) == ((11, fmap.n_features), fmap.bank.dtype)
    for i in (0, 4, 10):
        np.testing.assert_array_equal(fmap.one(signals[i]), whole[i])
    order = np.random.default_rng(0).permutation(11)
    np.testing.assert_array_equal(fmap.transform([signals[i] for i in order]), whole[order])
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(lambda i: fmap.transform(signals[i : i + 2]), range(0, 10, 2)))
    np.testing.assert_array_equal(np.concatenate(parts), whole[:10])


def test_phi_of_cells_is_the_mean_over_cells() -> None:
    """Inner products in cells are the mean of those of each cell alone; with one cell, those of the whole."""
    signals = pictures(3, side=20, seed=4)
    for name in ("cdf", "fourier", "max"):
        one = {**POOLINGS[name], "cells": {"rows": 1, "columns": 1, "overlap": 0}}
        plain = {**POOLINGS[name], "cells": "whole"}
        maps = [FeatureMap(bank_of(pooling)) for pooling in (one, plain)]
        Phi = [some.dense(some.transform(signals)).astype(np.float64) for some in maps]
        # float32 sums in another order
        np.testing.assert_allclose(Phi[0] @ Phi[0].T, Phi[1] @ Phi[1].T, rtol=1e-5)


def test_a_shift_within_a_cell_changes_little() -> None:
    """What the windows are for: a picture moved by a pixel stays near itself, and far from another."""
    front_end = [{"stage": "pixels", "height": 28, "width": 28}, {"stage": "norm", "kind": "none"}]
    window = {"kind": "patches", "height": 5, "width": 5, "pad": 2, "contrast": 0.2}
    spec = spec_of({**POOLINGS["fourier"], "cells": {"rows": 2, "columns": 2}}, front_end=front_end, window=window)
    rng = np.random.default_rng(5)
    planes = [np.kron(rng.integers(0, 2, (6, 6), np.uint8) * 255, np.ones((4, 4), np.uint8)) for _ in range(8)]
    base, moved = ([Signal("image", np.pad(p, ((a, 4 - a), (a, 4 - a)))) for p in planes] for a in (2, 3))
    fmap = FeatureMap(build_bank(spec, base))
    apart = np.linalg.norm(fmap.transform(base)[:, None] - fmap.transform(moved), axis=2)
    raw = [np.array([fmap.front_end(s) for s in some]) for some in (base, moved)]
    far = np.linalg.norm(raw[0][:, None] - raw[1], axis=2)
    assert (apart.argmin(axis=1) == np.arange(8)).all()
    closeness = [np.diag(D).mean() / D[~np.eye(8, dtype=bool)].mean() for D in (apart, far)]
    assert closeness[0] < 0.6 * closeness[1]


# --------------------------------------------------------------------------------------------------------- banks


def test_a_saved_bank_is_the_same(tmp_path: Path) -> None:
    """The same spec and signals, the same hash; opened memory-mapped it gives the same features, and its spec again."""
    bank = bank_of()
    assert bank.hash == bank_of().hash != bank_of(seed=1).hash
    opened = open_bank(bank.save(tmp_path))
    assert BankSpec.from_dict(opened.spec.as_dict()) == opened.spec
    stream = opened.only
    assert (stream.template_shape, stream.template_d, stream.grid, stream.n_group) == ((4, 3), 12, (6, 11), 66)
    signals = pictures(5, side=20)
    np.testing.assert_array_equal(FeatureMap(opened).transform(signals), FeatureMap(bank).transform(signals))
    assert not opened.arrays["cell_rows"].flags.writeable
    np.testing.assert_array_equal(orbits(opened.only, [3, 69])[:, 0], template_vectors(opened.only)[[3, 69]])


@pytest.mark.parametrize("source", ["gaussian", "hadamard", "data", "landmarks", "user", "fourier"])
def test_templates_of_patches_come_from_every_source(source: str) -> None:
    """Each as large as a patch; those from data are patches, not signals."""
    pooling = {"kind": "fourier", "sigma": 0.5} if source == "fourier" else POOLINGS["fourier"]
    spec = spec_of(pooling, templates={"source": source, "m": 20})
    signals = pictures(3, side=20)
    given = np.eye(20, 12) if source == "user" else None
    bank = build_bank(spec, signals if spec.needs_signals else None, templates=given)
    T = template_vectors(bank.only)
    assert T.shape == (20, 12)
    if source in ("data", "landmarks"):
        np.testing.assert_allclose(T.sum(axis=1), 0, atol=1e-6)  # float32: patches have no mean
    assert np.isfinite(FeatureMap(bank).transform(signals)).all()


def test_spectrograms_and_arrays_have_patches_too() -> None:
    """Whatever has two axes."""
    stages = [
        {"stage": "spectrogram", "bands": 20},
        {"stage": "compress", "kind": "root"},
        {"stage": "frames", "n": 12},
    ]
    front_end = [{"stage": "resample", "rate_hz": 8000}, *stages]
    tone = Signal("audio", np.sin(np.arange(4000) / 3).astype(np.float32), 8000)
    templates = {"source": "gaussian", "m": 5}
    assert FeatureMap(bank_of(front_end=front_end, templates=templates)).one(tone).shape == (60,)
    array = Signal("array", np.random.default_rng(0).standard_normal((9, 9)).astype(np.float32))
    front_end = [{"stage": "array", "rows": 9, "columns": 9}]
    assert FeatureMap(bank_of(front_end=front_end, templates=templates)).one(array).shape == (60,)


def test_templates_of_colour_patches_know_colours() -> None:
    """A picture and its grey one differ; their patches are of one size, three numbers a pixel."""
    rng = np.random.default_rng(6)
    coloured = [Signal("image", rng.integers(0, 256, (16, 16, 3), np.uint8)) for _ in range(20)]
    front_end = [{"stage": "pixels", "height": 16, "width": 16, "grey": False}, {"stage": "norm", "kind": "none"}]
    window = {"kind": "patches", "height": 6, "width": 6, "contrast": 0.5}
    templates = {"source": "whitened-data", "m": 8, "floor": 0.1}
    pooling = {"kind": "fourier", "gain": 1.2, "cells": {"rows": 2, "columns": 2, "overlap": 0.5}}
    spec = spec_of(pooling, front_end=front_end, window=window, templates=templates)
    fmap = FeatureMap(build_bank(spec, coloured))
    assert (fmap.bank.only.template_shape, fmap.bank.only.grid) == ((6, 6, 3), (11, 11))
    grey = [Signal("image", s.samples.mean(axis=2).astype(np.uint8)) for s in coloured]
    apart = np.linalg.norm(fmap.transform(coloured) - fmap.transform(grey), axis=1)
    assert apart.min() > 0.05 * np.linalg.norm(fmap.transform(coloured), axis=1).max()
    swapped = [Signal("image", np.ascontiguousarray(s.samples[:, :, ::-1])) for s in coloured]
    assert np.abs(fmap.transform(coloured) - fmap.transform(swapped)).max() > 1e-3


def test_a_fleet_gives_the_same_numbers(tmp_path: Path) -> None:
    """Workers open patch banks like any other: features equal to the bit, a second layer included."""
    maps = {}
    for i, pooling in enumerate(POOLINGS.values()):
        layer2 = {"kind": "fourier", "m": 20, "sigma": 0.5} if i == 0 else {"kind": "none"}
        maps[f"kind-{i}"] = FeatureMap(bank_of(pooling, name=f"kind-{i}", layer2=layer2))
    paths = [fmap.bank.save(tmp_path) for fmap in maps.values()]
    signals = pictures(9, side=20)
    with cluster() as running:
        running.start_broker()
        running.start_features("features", paths)
        running.wait_ready("features")
        with Client(running.front) as client:
            for name, fmap in maps.items():
                np.testing.assert_array_equal(client.features(signals, bank=name), fmap.transform(signals))
