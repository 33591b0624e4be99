"""The papers' experiments in their small forms."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import ConfigError
from streamfeat.exact.closed import permutation_kernel
from streamfeat.exact.orbits import Floats, gaussian, orbit_kernel, orbit_mean
from streamfeat.kernel_error import kernel_error, own_kernel
from streamfeat.learn.lambdas import gurls_grid
from streamfeat.projections import move
from streamfeat.reproduce import rates, xperm
from streamfeat.reproduce.dual import first_seen, nearest, rls_weights
from streamfeat.reproduce.experiment import reproduce
from streamfeat.reproduce.journal import Journal
from streamfeat.reproduce.molecules import (
    FILE,
    SIDE,
    NoisyOrder,
    coulomb_matrices,
    coulomb_matrix,
    matrices_file,
    move_atoms,
)
from tests.terminal import Terminal

SEQUENCES = xperm.Sequences.all()


@contextmanager
def silent(description: str, total: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001 - as the bar of the commands
    """A progress bar that nobody sees."""
    yield lambda _n: None


# ------------------------------------------------------------------------------------- RLS on kinds with their counts


@given(st.integers(2, 8), st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_kinds_with_counts_are_items_one_by_one(n_kinds: int, seed: int) -> None:
    """Weights and the chosen lambda are those of dual RLS on every item, each left out by itself."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_kinds, 3))
    K, y = X @ X.T + 1.0, np.where(rng.random(n_kinds) < 0.5, 1.0, -1.0)
    items = np.concatenate([np.arange(n_kinds), rng.integers(n_kinds, size=5)])
    G, target = K[np.ix_(items, items)], y[items]
    best, least = np.zeros(len(items)), np.inf
    for penalty in len(items) * gurls_grid(np.linalg.eigvalsh(G).clip(0.0), len(items)):
        inverse = np.linalg.inv(G + penalty * np.eye(len(items)))
        c = inverse @ target
        error = np.mean(np.square(c / np.diag(inverse)))
        # two lambdas whose errors differ by rounding are equally good: the smaller stays
        if error < least * (1 - 1e-9):
            best, least = c, error
    weights = rls_weights(K, y, np.bincount(items))
    # an inverse at the smallest penalty, 3e-6, keeps nine digits of its sixteen
    np.testing.assert_allclose(K @ weights, K[:, items] @ best, atol=2e-5)


def test_first_seen_and_nearest() -> None:
    """Kinds in order of appearance with their counts; of equally near ones the first is taken."""
    kinds, counts = first_seen(np.array([7, 2, 7, 5, 2, 7]))
    assert (kinds.tolist(), counts.tolist()) == ([7, 2, 5], [3, 2, 1])
    K = np.array([[0.5, 0.5, 0.1]])
    assert nearest(K, np.ones(3)).tolist() == [0]
    assert nearest(K, np.array([1.0, 0.9, 1.0])).tolist() == [1]


def test_a_journal_goes_on_where_it_was(tmp_path: Path) -> None:
    """Parts are there again, and those put behind a line that was cut short; not those of other parameters."""
    file = tmp_path / "some" / "work.journal"
    with closing(Journal(file, {"n": 3})) as journal:
        journal.put("a", [1.5])
    for cut in (b'{"part": "b", "val', b'{"part": "b", "value": 2}', b"5\n", b"\xff\x00\n", b"{}\n"):
        with file.open("ab") as out:
            out.write(cut)
        with closing(Journal(file, {"n": 3})) as again:
            assert again.get("a") == [1.5]
            assert again.get("b") is None
            again.put("c", cut.hex())
        with closing(Journal(file, {"n": 3})) as once_more:
            assert once_more.get("c") == cut.hex()
    with closing(Journal(file, {"n": 4})) as other:
        assert other.get("a") is None
        other.finish()
    assert not file.exists()
    file.write_bytes(b"\x00\xff" * 99)
    with closing(Journal(file, {"n": 3})) as anew:
        assert anew.get("a") is None


def test_a_journal_has_one_run(tmp_path: Path) -> None:
    """A second one is told so, and takes nothing from the first; when that has closed it, it is free."""
    file = tmp_path / "work.journal"
    with closing(Journal(file, {"n": 3})) as journal:
        journal.put("a", 1)
        with pytest.raises(ConfigError, match=r"work.journal: another run is at it; .* another --out"):
            Journal(file, {"n": 4})
    with closing(Journal(file, {"n": 3})) as again:
        assert again.get("a") == 1


# ---------------------------------------------------------------------------------------------------------------- xperm


def test_sequences_are_those_of_the_paper() -> None:
    """32,768 sequences, 792 multisets, 6,930 positive."""
    assert SEQUENCES.letters.shape == (32_768, 5)
    assert SEQUENCES.counts.shape == (792, 8)
    assert SEQUENCES.positive.sum() == 6930
    assert (SEQUENCES.positive[SEQUENCES.one_of][SEQUENCES.kinds] == SEQUENCES.positive).all()


def test_the_haar_row_is_the_permanent() -> None:
    """Double sums over 120 permutations against Ryser's formula, on twenty sequences."""
    some = SEQUENCES.onehot[SEQUENCES.one_of[::40]]
    points, orbits = xperm.orbits_of(some)
    np.testing.assert_allclose(orbit_kernel(points, orbits, 0.5), permutation_kernel(some, some, 0.5), rtol=1e-12)


def test_cdf_features_do_not_see_the_order() -> None:
    """A sequence and a permuted one have the same counts, to the last one: all 120 permutations are in the bank."""
    fmap = xperm.cdf_map(25, 10, draw=0)
    letters = np.random.default_rng(0).integers(8, size=(5, 5))
    moved = np.stack(
        [fmap.transform(xperm._signals(np.eye(8)[letters[:, order]])) for order in ([0, 1, 2, 3, 4], [3, 0, 4, 2, 1])]
    )
    np.testing.assert_array_equal(moved[0], moved[1])


def test_cdf_features_estimate_the_exact_row() -> None:
    """300 templates, 25 bins: the Gram matrix is within the theorem's bound of the closed form."""
    fmap = xperm.cdf_map(25, 300, draw=1)
    X = SEQUENCES.onehot[SEQUENCES.one_of[::20]].reshape(-1, 40)
    error = kernel_error(fmap, X)
    assert error.largest < error.bound
    # half a bin is always there, s / 2n of a kernel near 1.3
    assert error.frobenius == pytest.approx(0.03 / 1.3, rel=0.3)


@pytest.fixture(scope="module")
def xperm_report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The small form."""
    return reproduce(xperm.XPERM, fast=True, folder=tmp_path_factory.mktemp("xperm"), progress=silent)


@pytest.fixture(scope="module")
def cells(xperm_report: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """The small form's cells."""
    return {(cell["features"], cell["N"]): cell for cell in xperm_report["cells"]}


def test_xperm_says_what_the_paper_says(cells: dict[tuple[str, int], dict[str, Any]]) -> None:
    """CDF beats bag-of-words and raw; more templates close the gap to the exact kernel; counts cannot say "both"."""
    at_100 = {features: cell["rls"] for (features, n), cell in cells.items() if n == 100}
    assert list(at_100) == list(xperm.names())
    assert at_100["CDF(25,300)"] >= 0.985
    assert at_100["exact K_s Gram (closed form)"] >= 0.99
    assert at_100["Haar Gaussian σ=.5 (exact)"] >= 0.99  # noqa: RUF001 - sigma
    assert at_100["CDF(5,10)"] < at_100["CDF(25,100)"] < at_100["CDF(25,300)"]
    assert at_100["raw one-hot"] < 0.86
    assert at_100["bag-of-words"] < 0.86
    assert cells["bag-of-words", 100]["nn"] > cells["raw one-hot", 100]["nn"]


def test_xperm_says_which_claims_hold(
    cells: dict[tuple[str, int], dict[str, Any]], xperm_report: dict[str, Any]
) -> None:
    """All four of figure 1, each with its figures; rows and cells are the same accuracies."""
    assert [claim["holds"] for claim in xperm_report["claims"]] == [True] * 4
    # few labels against many, in the small form too
    assert "at N = 100" in xperm_report["claims"][3]["why"]
    assert "raw at N = 500" in xperm_report["claims"][3]["why"]
    for row in xperm_report["rows"]:
        cell = cells[row["method"], row["n"]]
        assert row["mean"] == pytest.approx(cell["rls" if row["metric"] == xperm.BY_RLS else "nn"], abs=6e-4)


# ----------------------------------------------------------------------------------------------------- molecules, rates


def test_coulomb_matrices_are_the_formula() -> None:
    """Water, by hand; padded with zeros."""
    R = np.array([[0.0, 0, 0], [1.8, 0, 0], [0, 1.8, 0]])
    C = coulomb_matrix(np.array([8.0, 1, 1]), R)
    assert C.shape == (SIDE, SIDE)
    np.testing.assert_allclose(np.diag(C)[:4], [0.5 * 8**2.4, 0.5, 0.5, 0])
    assert C[0, 1] == pytest.approx(8 / 1.8)
    assert C[1, 2] == pytest.approx(1 / (1.8 * 2**0.5))
    np.testing.assert_array_equal(C, C.T)


def test_molecules_from_a_file_or_made_up(tmp_path: Path) -> None:
    """Those with seven heavy atoms, rows by falling norm; a folder that holds none is refused."""
    made, _ = coulomb_matrices(5, 7, None, np.random.default_rng(3))
    np.savez(tmp_path / "some.npz", X=made.astype(np.float32))
    C, source = coulomb_matrices(4, 7, tmp_path / "some.npz", np.random.default_rng(0))
    assert source == "4 of some.npz"
    assert ((np.diagonal(C, axis1=1, axis2=2) > 0.6).sum(axis=1) == 7).all()
    assert (np.diff(np.linalg.norm(C, axis=2), axis=1) <= 1e-9).all()
    with pytest.raises(ConfigError, match="needs 6 molecules"):
        coulomb_matrices(6, 7, tmp_path / "some.npz", np.random.default_rng(0))


def test_matrices_are_found_where_they_were_named(tmp_path: Path) -> None:
    """The file itself, in its place in a folder of data, or beside others; what holds none is refused."""
    (tmp_path / "data" / FILE.parent).mkdir(parents=True)
    file = tmp_path / "data" / FILE
    with pytest.raises(ConfigError, match=r"name an \.npz"):
        matrices_file(tmp_path / "data")
    np.savez(file, X=np.zeros((1, SIDE, SIDE)))
    assert {matrices_file(place) for place in (file, file.parent, tmp_path / "data")} == {file}
    usual = matrices_file(None)
    assert usual is None or usual.is_file()


def test_made_up_molecules_are_molecules() -> None:
    """Where there are no real ones: heavy atoms no nearer than 1.2 Angstrom, the report says that they are made up."""
    C, source = coulomb_matrices(20, 7, None, np.random.default_rng(1))
    assert source == "made-up molecules"
    charge = (2 * np.diagonal(C, axis1=1, axis2=2)) ** (1 / 2.4)
    for matrix, Z in zip(C[:, :7, :7], charge[:, :7], strict=True):
        apart = (Z[:, None] * Z / matrix)[np.triu_indices(7, 1)] / 1.8897
        assert 1.2 - 1e-9 < apart.min() < 1.5 + 1e-9


def test_the_law_of_noisy_orders() -> None:
    """q sums to one, is what is drawn, and its differences are the double sum over g and g'."""
    law = NoisyOrder(np.array([2.0, 1.0, 0.2]))
    orders, q = law.every()
    assert q.sum() == pytest.approx(1)
    drawn = law.sample(20_000, np.random.default_rng(0))
    for order, weight in zip(orders, q, strict=True):
        share = (drawn == order).all(axis=1).mean()
        assert abs(share - weight) < 5 * np.sqrt(weight / len(drawn))  # binomial
    C = coulomb_matrices(3, 7, None, np.random.default_rng(3))[0]
    moved = move_atoms(C, orders)
    both = orbit_mean(moved, moved, gaussian(40.0), q=q)
    differences, p = law.differences()
    one = orbit_mean(C.reshape(3, 1, -1), move_atoms(C, differences), gaussian(40.0), q=[1.0], q_z=p)
    np.testing.assert_allclose(one, both, rtol=1e-10)


def test_banks_move_atoms_as_the_law_says() -> None:
    """What the bank does to the input is `move_atoms`, to the bit, and its kernel that of the drawn orders."""
    problem = rates.Problem.of(rates.Extent(n_items=3, n_heavy=7), None)
    fmap = problem.feature_map("gaussian", 4, 6, 0)
    orders = problem.law.sample(6, np.random.default_rng([0, 6]))
    flat = problem.flat.astype(np.float32)
    moved = move_atoms(problem.matrices.astype(np.float32), orders)
    np.testing.assert_array_equal(move(fmap.bank.only, flat)[:18, :529].reshape(3, 6, 529), moved)
    K: Floats = orbit_mean(moved, moved, gaussian(problem.sigma))
    np.testing.assert_allclose(own_kernel(fmap.bank, flat), K, rtol=1e-12)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The small form of the kernel-error experiment."""
    folder = tmp_path_factory.mktemp("kernel-error")
    with pytest.MonkeyPatch.context() as patch:
        # made-up molecules: the test is the same where real ones are to be had
        patch.setattr(rates, "matrices_file", lambda _data: None)
        return reproduce(rates.KERNEL_ERROR, fast=True, folder=folder, progress=silent)


def test_errors_fall_at_the_theorems_rate(report: dict[str, Any]) -> None:
    """Slopes of -1/2 in m and in r, with Gaussian templates; structured ones fall as fast or faster.

    Within 0.15: a few draws of group elements, each of which errs in one direction for all pairs, move a slope by 0.06,
    and what is left of the other error at the largest m and r by as much again. Rows of one Hadamard matrix are
    orthogonal, so that the error drops once more when m fills it, at 1,024: a slope down to -0.75.
    """
    assert len(report["slopes"]) == 4
    for slope, key in itertools.product(report["slopes"], ("frobenius", "debiased_frobenius")):
        steepest = -0.75 if slope["templates"] == "structured" else -0.65
        assert steepest < slope[key] < -0.35, slope
    assert {row["templates"] for row in report["rows"]} == {"gaussian", "structured"}


def test_debiasing_helps_where_elements_are_few(report: dict[str, Any]) -> None:
    """At four elements a quarter of the pairs are equal ones."""
    for row in report["rows"]:
        if row["r"] == 4:
            assert row["debiased_frobenius"] < row["frobenius"]


def test_rates_say_which_claims_hold(report: dict[str, Any]) -> None:
    """Both rates of theorem 3.1; a row's mean is its Frobenius error."""
    assert [claim["holds"] for claim in report["claims"]] == [True, True]
    assert all(row["mean"] == row["frobenius"] for row in report["rows"])


def test_the_command_prints_and_writes(
    cli: Terminal, monkeypatch: pytest.MonkeyPatch, report: dict[str, Any], xperm_report: dict[str, Any]
) -> None:
    """Tables for people, JSON for programs; an experiment that is not there is refused."""
    for name, result in (("xperm", xperm_report), ("kernel-error", report)):
        monkeypatch.setattr("streamfeat.cli.reproduce.reproduce", lambda *_, result=result, **__: result)
        done = cli("reproduce", name, "--fast", "--json", cli.home / "report.json")
        assert done.status == 0, done
        assert json.loads((cli.home / "report.json").read_text()) == result
        for claim in result["claims"]:
            assert f"holds: {claim['text']}" in done.out
    assert "debiased" not in done.out
    assert "gaussian (r " in done.out
    assert cli("reproduce", "nothing").status == 64
