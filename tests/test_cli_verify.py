"""`streamfeat verify`: rates of brute force, in bounded memory; what cannot be verified is refused by its file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from streamfeat.learn import verification
from streamfeat.learn.verification import verify
from tests import naive_verification as naive
from tests.terminal import Terminal


def people(n: int, d: int, n_labels: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows about the place of their label."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, n_labels, n)
    places = rng.standard_normal((n_labels, d))
    return (places[y] + rng.standard_normal((n, d))).astype(np.float32), y


def saved(folder: Path, **arrays: Any) -> list[Path]:
    """An .npy a name."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [folder / f"{name}.npy" for name in arrays]


def test_the_report_is_that_of_brute_force(cli: Terminal) -> None:
    """Counts, rates in the words they were asked in, and EER, from .npy files and from one .npz of texts."""
    X, y = people(60, 6, 5)
    names = np.array([f"person {label}" for label in y])
    rows, labels = saved(cli.home, rows=X, labels=y)
    np.savez(cli.home / "features.npz", features=X, labels=names, names=names, bank=np.array("b"))
    genuine, impostor = naive.all_pairs(X.tolist(), names.tolist())
    ran = cli("verify", rows, "--labels", labels, "--far", "0.05, 0.20,0", "--json")
    report = ran.json
    assert list(report) == ["pairs", "genuine", "impostor", "vr", "eer", "peak_rss_mb"]
    assert (report["pairs"], report["genuine"], report["impostor"]) == (1770, len(genuine), len(impostor))
    assert list(report["vr"]) == ["0.05", "0.20", "0"]
    for far, vr in report["vr"].items():
        assert vr == pytest.approx(float(naive.verification_rate(genuine, impostor, Fraction(far))), abs=1e-12)
    assert report["eer"] == pytest.approx(float(naive.equal_error_rate(genuine, impostor)), abs=1e-12)
    again = cli("verify", cli.home / "features.npz", "--far", "0.05, 0.20,0", "--json").json
    assert {**again, "peak_rss_mb": 0} == {**report, "peak_rss_mb": 0}


def test_ten_million_pairs_take_little_memory(cli: Terminal) -> None:
    """10^7 pairs, whose float64 scores alone are 80 MB and their sort twice that: rates of all scores, under 300 MB."""
    X, y = people(4473, 16, 300)
    rows, labels = saved(cli.home, rows=X, labels=y)
    file = cli.home / "report.json"
    ran = cli.execute("verify", rows, "--labels", labels, "--far", "0.0001,0.01", "--json", file)
    assert ran.status == 0, ran
    assert "10,001,628 pairs" in ran.out
    report = json.loads(file.read_text())
    U = verification.unit_rows(X)
    i, j = np.triu_indices(len(U), 1)
    scores, same = (U @ U.T)[i, j], y[i] == y[j]
    genuine, impostor = np.sort(scores[same]), np.sort(scores[~same])
    assert (report["pairs"], report["genuine"], report["impostor"]) == (len(scores), len(genuine), len(impostor))
    for far, vr in report["vr"].items():
        assert vr == pytest.approx(verification.verification_rate(genuine, impostor, float(far)), abs=1e-12)
    # a bin of 3e-5 holds some hundred of 10^7 pairs
    assert report["eer"] == pytest.approx(verification.equal_error_rate(genuine, impostor), abs=1e-4)
    # interpreter, NumPy and numba hold some 150 MB of it (measured)
    assert report["peak_rss_mb"] < 300


def test_every_pair_is_told_to_the_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over n pairs moves the bar by n."""
    passes: list[list[int]] = []

    @contextmanager
    def progress(_: str, total: int) -> Iterator[Callable[[int], None]]:
        passes.append([total, 0])

        def advance(n: int) -> None:
            passes[-1][1] += n

        yield advance

    monkeypatch.setattr(verification, "EXACT_PAIRS", 0)
    X, y = people(1500, 4, 9)
    verify(X, y, [0.01], progress=progress)
    assert passes[0][0] == 1500 * 1499 // 2
    assert all(total == seen for total, seen in passes)


@pytest.mark.parametrize("exact", [2**22, 0])
def test_the_curve_goes_through_the_rates(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From (1, 1) to (0, 0), falling, and at a rate as high as the rate that was asked for, to a bin."""
    monkeypatch.setattr(verification, "EXACT_PAIRS", exact)
    X, y = people(400, 4, 9)
    found = verify(X, y, [0.1])
    far, vr = found.roc.T
    assert found.roc[0].tolist() == [1.0, 1.0]
    assert found.roc[-1].tolist() == [0.0, 0.0]
    assert (np.diff(found.roc, axis=0) <= 0).all()
    # the next bin's edge is at most some pairs away
    assert np.interp(0.1, far[::-1], vr[::-1]) == pytest.approx(found.vr[0.1], abs=0.005)


def test_the_curve_is_drawn(cli: Terminal) -> None:
    """A picture, and the figures as text."""
    rows, labels = saved(cli.home, rows=people(40, 3, 4)[0], labels=people(40, 3, 4)[1])
    ran = cli("verify", rows, "--labels", labels, "--plot", cli.home / "roc.png")
    assert ran.status == 0, ran
    assert "780 pairs" in ran.out
    with Image.open(cli.home / "roc.png") as picture:
        assert picture.format == "PNG"
        assert len(np.unique(np.asarray(picture.convert("L")))) > 10


GOOD = np.eye(4, dtype=np.float32)
NAN = np.where(np.arange(16).reshape(4, 4) == 9, np.nan, GOOD)


@pytest.mark.parametrize(
    ("rows", "labels", "said"),
    [
        (GOOD, np.array([1, 1, 2]), "labels.npy: labels must have shape (4,) as"),
        (GOOD, np.array([[1, 1, 2, 2]]), "got (1, 4)"),
        (GOOD[0], np.array([1, 1, 2, 2]), "rows.npy: features must have shape (n, D), got (4,)"),
        (NAN, np.array([1, 1, 2, 2]), "rows.npy: non-finite feature at row 2, column 1: nan"),
        (GOOD, np.array([7, 7, 7, 7]), "two labels, got 1 label"),
        (GOOD, np.array([1, 2, 3, 4]), "two rows of one label"),
        (GOOD, np.array([1, 1, 2, 2], dtype=object), "labels.npy: an array of Python objects"),
        (GOOD.astype(object), np.array([1, 1, 2, 2]), "rows.npy: an array of Python objects"),
        (GOOD, np.array([1.0, 1.0, 2.0, 2.0]), "labels must be whole numbers or texts, got dtype float64"),
        (GOOD, np.full(4, ""), "labels.npy: no row has a label, which tells whose it is"),
        (GOOD.astype(str), np.array([1, 1, 2, 2]), "rows.npy: features must be integers or floats"),
    ],
)
def test_what_cannot_be_verified_is_refused_by_name(cli: Terminal, rows: Any, labels: Any, said: str) -> None:
    """One line with the file, what was needed and what came; nothing unpickled."""
    files = saved(cli.home, rows=rows, labels=labels)
    cli("verify", files[0], "--labels", files[1]).refused(64, said)


def test_rows_without_a_label_are_left_out(cli: Terminal) -> None:
    """As `push --out` writes them; their number is told, and the figures are those of the others alone."""
    X, y = people(40, 3, 4)
    names = np.array([f"person {who}" for who in y])
    rest = np.arange(len(y)) % 7 > 0
    rows, labels = saved(cli.home, rows=X, labels=np.where(rest, names, ""))
    ran = cli("verify", rows, "--labels", labels, "--json")
    assert "labels.npy: 6 of 40 rows have no label: left out" in ran.err
    rows, labels = saved(cli.home, rows=X[rest], labels=names[rest])
    own = {"peak_rss_mb"}
    alone = cli("verify", rows, "--labels", labels, "--json").json
    assert {key: ran.json[key] for key in ran.json if key not in own} == {k: alone[k] for k in alone if k not in own}


def test_questions_that_are_none_are_refused(cli: Terminal) -> None:
    """No labels, rates that are none, an archive of other things."""
    rows, labels = saved(cli.home, rows=GOOD, labels=np.array([1, 1, 2, 2]))
    np.savez(cli.home / "other.npz", vectors=GOOD)
    cli("verify", rows).refused(64, "4 labels with --labels")
    cli("verify", rows, "--labels", labels, "--far", "0.1;0.2").refused(64, "with commas between them")
    cli("verify", rows, "--labels", labels, "--far", "nan").refused(64, "from 0 to 1, got nan")
    cli("verify", cli.home / "other.npz").refused(64, "named one of features; there is vectors")
