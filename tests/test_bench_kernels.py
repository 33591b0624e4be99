"""`streamfeat bench kernels`: the sides compute the same thing, and the report has its fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.bench.kernels import Plan, bench_kernels
from streamfeat.bench.plots import draw_kernels
from streamfeat.bench.sides import CDF, FOURIER, Problem
from streamfeat.bench.turns import Times, ratio, take_turns

TINY = Plan(
    n_turns=2,
    n_paper_turns=2,
    side=9,
    m=100,
    elements=(3, 3),
    dense=(70, 5),
    second=(300, 260),
    ms=(200,),
    groups=((1, 3),),
    sides=(12,),
    batches=(1, 3),
    stored=(50, 200),
)


@pytest.mark.parametrize("pooling", [CDF, FOURIER], ids=["cdf", "fourier"])
def test_the_sides_agree(pooling: dict[str, object]) -> None:
    """sgemm and transforms give the same features, and the paper's NumPy the counts over |G|."""
    problem = Problem(9, 64, (3, 3), pooling)
    X = problem.items(6)
    ours, other = problem.ours(X), problem.by_sgemm(X)
    if pooling is FOURIER:
        # angles of up to 10
        np.testing.assert_allclose(other, ours, rtol=0, atol=5e-6)
        return
    # a projection in 10^4 lies within rounding of a threshold
    assert np.mean(other != ours) < 0.01
    assert np.mean(np.abs(problem.by_paper(X) * problem.stream.n_group - ours.reshape(6, 64, -1)) > 0.5) < 0.01


def test_items_are_no_templates() -> None:
    """Both are Gaussian; drawn from one seed they would be the same vectors, whose projections are 1."""
    problem = Problem(9, 64, (3, 3), CDF, source="gaussian")
    templates = problem.templates / np.linalg.norm(problem.templates, axis=1, keepdims=True)
    # of 512 independent pairs of directions in 81 dimensions the sd is 1 / 9
    assert np.abs(problem.items(8) @ templates.T).max() < 0.6


def test_the_paper_s_bank_repeats_orbits_to_its_size() -> None:
    """All m |G| vectors are there, also when m is no multiple of what is repeated."""
    problem = Problem(9, 100, (1, 3), CDF)
    assert problem._paper_bank.shape == (300, 81)
    np.testing.assert_array_equal(problem._paper_bank[192:], problem._paper_bank[:108])


def test_a_profile_adds_up() -> None:
    """Orbit, product and pooling are all of the dense path, and its blocks are those of serving."""
    problem = Problem(32, 192, (5, 3), CDF, source="gaussian")
    X = problem.items(8)
    problem.profile(X)
    parts = problem.profile(X)
    assert set(parts) == {"orbit", "product", "pooling"}
    # 8 items, 75 x 192 products of 1,024 numbers: by far the largest part
    assert parts["product"] > max(parts["orbit"], parts["pooling"], 0)


def test_turns_are_taken_one_after_the_other() -> None:
    """a b, a b, ...: as many as asked for, and one before that is not counted; times are for one item."""
    order: list[str] = []
    times = take_turns({"a": (lambda: order.append("a"), 1), "b": (lambda: order.append("b"), 2)}, 3)
    assert order == ["a", "b"] * 4
    assert len(times["a"].cpu_s) == len(times["b"].wall_s) == 3


def test_ratios_are_of_each_turn() -> None:
    """Not of two medians: what slows a turn slows both sides of it."""
    assert ratio(Times((4.0, 9.0, 10.0), ()), Times((2.0, 3.0, 1.0), ())) == {"median": 3.0, "min": 2.0, "max": 10.0}


def test_the_report_has_its_fields(tmp_path: Path) -> None:
    """Four ratios with their spread, and a row a measurement with its work and what part of the machine it is."""
    said: list[str] = []
    report = bench_kernels(TINY, said.append)
    assert set(report["ratios"]) == {
        "cdf_structured_vs_sgemm",
        "fourier_structured_vs_sgemm",
        "cdf_structured_vs_paper_numpy",
        "dense_sgemm_share",
    }
    for spread in report["ratios"].values():
        assert 0 < spread["min"] <= spread["median"] <= spread["max"]
    rows = {row["what"]: row for row in report["rows"]}
    assert {"machine: sgemm", "cdf: transforms", "fourier: sgemm", "dense path: product", "against m: 200"} <= set(rows)
    assert {"against |G|: 3", "against d: 144", "against batch: 3", "cdf: the paper's NumPy"} <= set(rows)
    assert rows["stored orbits: batch of 4"]["bytes"] == 27 * 84 * 64 * 4 // 4
    assert rows["against m: 200"]["flops"] == 3 * 128 * 7 * 2 * 27
    assert rows["second layer: hadamard"]["flops"] == 3 * 512 * 9
    assert rows["second layer: gaussian"]["flops"] == 2 * 260 * 300
    assert rows["cdf: sgemm"]["flops"] == 2 * 81 * 100 * 27
    assert rows["against items in memory: 200"]["flops"] == 2 * 200 * 1024
    assert all(row["of_sgemm"] >= 0 and row["of_copy"] >= 0 for row in report["rows"])
    assert all(row["wall_ms"] > 0 for row in report["rows"] if not row["what"].startswith("dense path"))
    grown = [(row["against"], row["value"]) for row in report["rows"] if "against" in row]
    assert [against for against, _ in grown] == ["m", "|G|", "d", "batch", "batch", *["items in memory"] * 2]
    assert [value for _, value in grown] == [200, 3, 144, 1, 3, 50, 200]
    assert len(said) >= 8
    draw_kernels(tmp_path / "growth.png", report)
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")
