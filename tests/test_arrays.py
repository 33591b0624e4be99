"""Files of numbers as signals."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamfeat.bank import open_bank
from streamfeat.errors import InvalidArgument, TooLarge
from streamfeat.presets import build_named
from streamfeat.signals import read_arrays
from streamfeat.signals.arrays import open_npy, read_npz


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [("<f8", "<f8"), ("<f4", "<f4"), (">f8", "<f8"), ("<f2", "<f4"), ("|u1", "<f4"), ("<i8", "<f4")],
)
@pytest.mark.parametrize("shape", [(3, 4), (2, 5, 8)])
def test_each_index_is_a_signal(tmp_path: Path, stored: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Vectors and matrices in their order, named by their place; whole numbers and halves as float32."""
    numbers = np.arange(np.prod(shape)).reshape(shape).astype(stored)
    np.save(tmp_path / "x.npy", numbers)
    signals = read_arrays(tmp_path / "x.npy")
    assert len(signals) == shape[0]
    for i, signal in enumerate(signals):
        assert (signal.kind, signal.samples.dtype.str, signal.rate_hz) == ("array", dtype, None)
        assert signal.name.endswith(f"x.npy[{i}]")
        np.testing.assert_array_equal(signal.samples, numbers[i])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (np.zeros(3), r"got float64 \(3,\)"),
        (np.zeros((1, 2, 3, 4)), r"got float64 \(1, 2, 3, 4\)"),
        (np.zeros((2, 2), complex), "got complex128"),
        (np.array([["a"]]), "got <U1"),
        (np.array([[0.0, 1.0], [np.nan, 0.0]]), r"x\.npy\[1\]: non-finite sample at 0: nan"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(tmp_path: Path, numbers: Any, message: str) -> None:
    """By the name of the file, with what came."""
    np.save(tmp_path / "x.npy", numbers)
    with pytest.raises(InvalidArgument, match=message):
        read_arrays(tmp_path / "x.npy")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Nothing there, text, a cut file, objects that would be code, several arrays."""
    np.save(tmp_path / "whole.npy", np.zeros((9, 9)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:300])
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "objects.npy", np.array([{}, {}], object))
    np.savez(tmp_path / "several.npz", a=np.zeros((2, 2)))
    for name in ("gone.npy", "cut.npy", "text.npy", "objects.npy", "several.npz"):
        with pytest.raises(InvalidArgument, match=name.replace(".", r"\.")):
            read_arrays(tmp_path / name)


HEADER_PIECES = [
    b"(",
    b")",
    b"{",
    b"[",
    b"'",
    b"\\",
    b"\n",
    b"#",
    b"L",
    b"-",
    b"9" * 30,
    b"O",
    b"|V0",
    b"None",
    b"(" * 99,
]


@settings(deadline=None, max_examples=300)
@given(
    version=st.sampled_from([(1, 0), (2, 0), (3, 0)]),
    damage=st.lists(st.tuples(st.integers(6, 127), st.sampled_from(HEADER_PIECES) | st.binary(max_size=4)), max_size=3),
)
@example(version=(1, 0), damage=[(60, b"[(")])  # broken when NumPy reads it again as Python 2's: tokenize.TokenError
@example(version=(3, 0), damage=[(69, b"9" * 30)])  # OverflowError
@example(version=(3, 0), damage=[(23, b",")])  # SyntaxError
def test_a_damaged_header_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, version: tuple[int, int], damage: list[tuple[int, bytes]]
) -> None:
    """Whatever stands in the header, which NumPy reads as Python: an array, or a refusal by name; in an .npz too."""
    folder = tmp_path_factory.mktemp("npy")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.zeros((5, 4), ">f4"), version)
    data = bytearray(buffer.getvalue())
    for at, piece in damage:
        data[at : at + len(piece)] = piece
    (folder / "x.npy").write_bytes(data)
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        archive.writestr("x.npy", bytes(data))
    for read, name in ((open_npy, "x.npy"), (read_npz, "x.npz")):
        try:
            read(folder / name, name)
        except (InvalidArgument, TooLarge) as error:
            reason = str(error)
            assert reason.startswith(name)


def test_a_bank_is_built_from_a_file_of_arrays(tmp_path: Path) -> None:
    """Templates and thresholds of an array bank are taken from .npy, as those of others from pictures and sounds."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((30, 5, 8)))
    (tmp_path / "s.toml").write_text(
        'name = "sequences"\n[[front_end]]\nstage = "array"\nrows = 5\ncolumns = 8\n[templates]\nsource = "data"\n'
        'm = 7\n[[group]]\nfactor = "permutation"\non = "rows"\nlaw = "all"\n[pooling]\nkind = "cdf"\n'
        'thresholds = "quantile"\nn_bins = 4\n'
    )
    bank = open_bank(build_named(str(tmp_path / "s.toml"), tmp_path, sources=[tmp_path / "x.npy"]))
    assert (bank.only.m, bank.only.n_group, bank.d) == (7, 120, 40)
    with pytest.raises(InvalidArgument, match=r"s\.toml: not a readable \.npy"):
        build_named(str(tmp_path / "s.toml"), tmp_path, sources=[tmp_path / "s.toml"])
