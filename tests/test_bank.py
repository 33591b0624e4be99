"""Banks: built the same twice, in either form, and what cannot be built is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.bank import (
    Bank,
    build_bank,
    compare_features,
    materialise,
    orbits,
    template_vectors,
)
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from tests.test_bankspec import small

ROTATION = {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 3}
SHIFT = {"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 3}


def pictures(n: int, side: int = 4, seed: int = 0) -> list[Signal]:
    """n pictures of noise."""
    rng = np.random.default_rng(seed)
    return [Signal("image", rng.integers(0, 256, (side, side), np.uint8), name=f"noise {i}") for i in range(n)]


def words(n: int, seed: int = 0) -> list[Signal]:
    """n tones with some noise, a tenth of a second at 8 kHz."""
    rng = np.random.default_rng(seed)
    t = np.arange(800) / 8000
    tones = np.sin(2 * np.pi * rng.uniform(200, 2000, (n, 1)) * t) + 0.01 * rng.standard_normal((n, 800))
    return [Signal("audio", x.astype(np.float32), 8000, f"tone {i}") for i, x in enumerate(tones)]


def bank_of(**changes: Any) -> Bank:
    """The bank of a small spec with a group of 27 elements."""
    return build_bank(BankSpec.from_dict(small(group=[ROTATION, SHIFT], **changes)), pictures(30))


@pytest.fixture(scope="module")
def bank() -> Bank:
    return bank_of()


@pytest.mark.parametrize("source", ["gaussian", "data"])
@pytest.mark.parametrize("thresholds", ["paper", "sigma", "quantile"])
def test_the_same_spec_and_signals_give_the_same_hash(source: str, thresholds: str) -> None:
    """Two builds agree to the bit, sampled laws included; another seed gives another hash."""
    changes = {
        "templates": {"source": source, "m": 8},
        "pooling": {"kind": "cdf", "thresholds": thresholds, "n_bins": 5},
        "group": [{"factor": "rotation", "law": "von-mises", "kappa": 5, "n": 4}],
    }
    one, two = (build_bank(BankSpec.from_dict(small(**changes)), pictures(30)) for _ in range(2))
    assert one.hash == two.hash
    assert one.hash != build_bank(BankSpec.from_dict(small(**changes, seed=1)), pictures(30)).hash


def test_a_spec_with_its_defaults_written_out_is_the_same_bank(bank: Bank) -> None:
    """What the manifest holds builds the same bank again."""
    again = build_bank(bank.spec)
    assert again.hash == bank.hash


def test_orbits_are_templates_moved_and_renormalised(bank: Bank) -> None:
    """The identity comes first, every gt has the norm of t, and projections are those of the definition."""
    T, all_gt = template_vectors(bank.only), orbits(bank.only, range(bank.only.m))
    assert all_gt.shape == (bank.only.m, 27, 16)
    np.testing.assert_array_equal(all_gt[:, 0], T)
    norms = np.linalg.norm(all_gt, axis=2) / np.linalg.norm(T, axis=1)[:, None]
    np.testing.assert_allclose(norms, 1, atol=1e-6)  # float32
    x = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)
    (_, P), *rest = projections(bank.only, x)
    assert not rest
    expected = np.einsum("tgd,nd->ngt", all_gt.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(P[:, :, : bank.only.m], expected, atol=16 * 1e-6)  # d sums of float32


def test_the_plain_twin_keeps_the_templates() -> None:
    """|G| = 1 differs by the group alone."""
    spec = BankSpec.from_dict(small(group=[ROTATION], templates={"source": "data", "m": 8}))
    full, plain = build_bank(spec, pictures(30)), build_bank(spec.plain(), pictures(30))
    assert (full.only.n_group, plain.only.n_group) == (3, 1)
    np.testing.assert_array_equal(template_vectors(full.only), template_vectors(plain.only))


def test_materialising_keeps_every_gt(bank: Bank) -> None:
    """The dense form holds what the operators form stands for, under a hash of its own."""
    dense = materialise(bank)
    assert (dense.only.form, dense.n_features, dense.only.n_group) == ("dense", bank.n_features, bank.only.n_group)
    assert dense.hash != bank.hash
    np.testing.assert_array_equal(orbits(dense.only, range(bank.only.m)), orbits(bank.only, range(bank.only.m)))
    np.testing.assert_array_equal(template_vectors(dense.only), template_vectors(bank.only))
    assert materialise(dense) is dense
    assert bank_of(form="dense").hash == dense.hash


def test_counts_of_both_forms_differ_only_at_thresholds() -> None:
    """A count may differ where the float64 projection lies within rounding of its threshold, and nowhere else."""
    from streamfeat.featuremap import FeatureMap

    spec = small(
        front_end=[{"stage": "pixels", "height": 16, "width": 16}],
        templates={"source": "gaussian", "m": 70},
        group=[ROTATION, SHIFT],
        pooling={"kind": "cdf", "thresholds": "quantile", "n_bins": 9},
    )
    signals = pictures(40, side=16)
    built = build_bank(BankSpec.from_dict(spec), signals)
    dense = materialise(built)
    of_operators, of_dense = (FeatureMap(b).transform(signals).astype(int) for b in (built, dense))
    vectors = np.stack([FeatureMap(built).front_end(s) for s in signals]).astype(np.float64)
    exact = np.einsum("tgd,nd->ntg", orbits(dense.only, range(70)).astype(np.float64), vectors)
    tau = dense.arrays["thresholds"].transpose(0, 2, 1).reshape(-1, 9)[:70].astype(np.float64)
    # d = 256 products and sums of float32 on either side, |x| = 1, |t| < 1.3
    rounding = 256 * np.finfo(np.float32).eps
    near = (np.abs(exact[:, :, :, None] - tau[None, :, None, :]) < rounding).sum(axis=2)
    differ = np.abs(of_operators - of_dense).reshape(40, 70, 9)
    assert (differ <= near).all()
    assert near.sum() < 0.05 * differ.size  # so the line above says something


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({"templates": {"source": "data", "m": 8}}, {}, "give some"),
        ({"templates": {"source": "data", "m": 8}}, {"signals": []}, "at least 8 signals"),
        ({"templates": {"source": "user", "m": 8}}, {}, "array of templates"),
        ({}, {"templates": np.zeros((8, 16))}, "array of templates"),
        ({"pooling": {"kind": "cdf", "thresholds": "quantile", "n_bins": 3}}, {"signals": []}, "not blank"),
        ({"front_end": [{"stage": "mel"}]}, {}, "'mel'"),
        ({"group": [{"factor": "twirl"}]}, {}, "'twirl'"),
        ({"group": [{**SHIFT, "n": 17}, {**SHIFT, "n": 17}]}, {}, "83521.*65535"),
        (
            {"templates": {"source": "fourier", "m": 8}, "pooling": {"kind": "fourier", "sigma": 1e-5}},
            {},
            "larger pooling.sigma",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, Any], given: dict[str, Any], message: str) -> None:
    """What is missing, unknown or too much is told."""
    with pytest.raises(ConfigError, match=message):
        build_bank(BankSpec.from_dict(small(**changes)), **given)


def test_a_signal_of_the_wrong_kind_is_named() -> None:
    """Building from recordings with a bank for pictures names the recording."""
    with pytest.raises(InvalidArgument, match="tone 0"):
        build_bank(BankSpec.from_dict(small(templates={"source": "data", "m": 1})), words(1))


def test_progress_reaches_the_end() -> None:
    """The callback hears of every template, in rising order."""
    heard: list[tuple[int, int]] = []
    spec = BankSpec.from_dict(small(group=[SHIFT], form="dense"))
    build_bank(spec, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (8, 8)


def test_many_items_share_a_pass_when_the_group_is_small(bank: Bank) -> None:
    """A bank without a group takes 32 items at once, one with 27 elements takes one, its dense form 32 again."""
    plain = build_bank(bank.spec.plain())
    assert [items_at_once(b.only) for b in (plain, bank, materialise(bank))] == [32, 1, 32]


def test_forms_are_compared_number_by_number(bank: Bank) -> None:
    """A bank and itself, its dense form, and one with other templates: nothing, next to nothing, nearly everything."""
    same = compare_features(bank, bank, 5, np.random.default_rng(1))
    assert (same.compared, same.differing, same.largest_difference) == (5 * bank.n_features, 0, 0.0)
    dense = compare_features(bank, materialise(bank), 5, np.random.default_rng(1))
    assert dense.differing < 0.01 * dense.compared
    assert dense.largest_difference <= 1  # a projection within rounding of a threshold
    other = compare_features(bank, bank_of(seed=5), 5, np.random.default_rng(1))
    assert other.differing > 0.2 * other.compared
    assert other.largest_difference > 1
