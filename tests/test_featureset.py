"""Feature sets: the same rows, names, labels and speakers in every form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamfeat.errors import ConfigError, InvalidArgument, NotFound
from streamfeat.featureset import check_form, read_features, write_features

FORMS = ("folder", "x.npy", "x.zarr", "x.parquet")
TEXTS = {
    "names": np.array([f"a/{i} é.wav" for i in range(700)]),
    "labels": np.array(["one", ""] * 350),
    "speakers": np.array(["ae"] * 700),
}


def rows_of(dtype: str) -> np.ndarray:
    """700 rows of 5 numbers."""
    return (np.random.default_rng(0).normal(size=(700, 5)) * 1000).astype(dtype)


def put(out: Path, X: np.ndarray, n: int = 700) -> None:
    """The first n rows in three parts."""
    parts = [X[:10], X[10 : min(n, 400)], X[400:n]]
    texts = {word: text[:n] for word, text in TEXTS.items()}
    if out.suffix == "":
        out.mkdir(exist_ok=True)
    write_features(out, parts, X[:0], texts, {"bank": "b", "failed": [{"file": "x"}]})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_what_was_written_is_read_to_the_bit(tmp_path: Path, form: str, dtype: str) -> None:
    """Slices and rows in any order, dtype and texts; a second writing takes the first one's place."""
    out, X = tmp_path / form, rows_of(dtype)
    put(out, X[::-1], 500)
    put(out, X)
    found = read_features(out)
    assert (found.rows.shape, found.rows.dtype, found.bank) == ((700, 5), np.dtype(dtype), "b")
    some = np.array([699, 3, 3, 256, 410])
    for which in (slice(None), slice(5, 405), slice(0, 0), some):
        got = found.rows[which]
        assert got.dtype == X.dtype
        assert got.tobytes() == X[which].tobytes()
    for word, text in TEXTS.items():
        assert getattr(found, word).tolist() == text.tolist()


@pytest.mark.parametrize("form", FORMS)
def test_no_rows_are_a_feature_set_too(tmp_path: Path, form: str) -> None:
    """A corpus whose every file failed: no rows, of the bank's width."""
    out = tmp_path / form
    if form == "folder":
        out.mkdir()
    none = {word: text[:0] for word, text in TEXTS.items()}
    write_features(out, [], rows_of("uint16")[:0], none, {"bank": "b"})
    found = read_features(out)
    assert (found.rows.shape, found.rows[:].shape) == ((0, 5), (0, 5))


def test_other_libraries_read_it(tmp_path: Path) -> None:
    """Parquet by polars and zarr by dask, whose own readers give the same numbers."""
    import dask.array
    import polars

    X = rows_of("uint16")
    put(tmp_path / "x.parquet", X)
    put(tmp_path / "x.zarr", X)
    frame = polars.read_parquet(tmp_path / "x.parquet")
    assert frame["labels"].to_list() == TEXTS["labels"].tolist()
    assert np.array_equal(frame["features"].to_numpy(), X)
    chunks = dask.array.from_zarr(tmp_path / "x.zarr", component="features")
    assert np.array_equal(chunks.compute(), X)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_there_or_damaged_is_said(tmp_path: Path, form: str) -> None:
    """`NotFound` with the place; a file that was cut is named, with the way out."""
    out = tmp_path / form
    with pytest.raises(NotFound, match=f"{form}: no features that"):
        read_features(out)
    put(out, rows_of("uint16"))
    damaged = {"folder": "folder/labels.npy", "x.npy": "x.labels.npy", "x.zarr": "x.zarr/labels/zarr.json"}.get(form)
    (tmp_path / (damaged or form)).write_bytes(b"no")
    with pytest.raises(ConfigError, match="run featurize again"):
        read_features(out)


def test_a_form_that_is_not_written_is_refused() -> None:
    """With the forms that are."""
    with pytest.raises(InvalidArgument, match=r"\.npy, \.zarr, \.parquet or a folder"):
        check_form(Path("x.npz"))
