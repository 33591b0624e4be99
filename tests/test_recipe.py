"""Recipes of approximate indexes: refused before anything is stored, in words of ours or of FAISS, not in C++."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from streamfeat.errors import ConfigError
from streamfeat.learn.recipe import EFFORT, Recipe, faiss_package, one_thread, trained_by


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (Recipe("nonsense"), "'nonsense' for features of 64 numbers: could not parse index string"),
        (Recipe("PQ7"), "should be a multiple of the number of subquantizers"),
        (Recipe("IVF4096,Flat", n_train=100), "trained on 4096 entries at least, got n_train 100; train on more"),
        (Recipe("IVF16,PQ8", n_train=200), "trained on 256 entries at least"),
        (Recipe("PCA40,Flat", n_train=10), "trained on 40 entries at least"),
        (Recipe("IDMap,Flat"), "leave IDMap out"),
        (Recipe("IVF16,Flat", effort="efSearch=3"), "effort 'efSearch=3' of factory 'IVF16,Flat'"),
        (Recipe("IVF16,Flat", effort="much"), "could not interpret parameters much"),
    ],
)
def test_what_faiss_does_not_take(recipe: Recipe, said: str) -> None:
    """The factory, what it was for, and what to do; no source file, no line of C++."""
    with pytest.raises(ConfigError) as caught:
        recipe.build(64)
    assert said in str(caught.value)
    assert ".cpp" not in str(caught.value)


@pytest.mark.parametrize(
    ("factory", "needed"),
    [("Flat", 1), ("HNSW8", 1), ("IVF20,Flat", 20), ("PCA16,IVF8,PQ4x4", 16), ("IVF8,PQ2x5", 32), ("PQ4x6", 64)],
)
def test_what_an_index_is_trained_on_is_enough(factory: str, needed: int) -> None:
    """So many random rows train it: FAISS, which stops at fewer, takes them."""
    index = Recipe(factory).build(64)
    assert trained_by(index) == needed
    rows = np.random.default_rng(0).standard_normal((needed, 64)).astype(np.float32)
    with one_thread():
        index.train(rows)
    assert index.is_trained


def test_effort() -> None:
    """Lists that are looked through: 16, or all where there are fewer, or what was said."""
    faiss = faiss_package()
    assert faiss.extract_index_ivf(Recipe("IVF100,Flat").build(8)).nprobe == EFFORT["nprobe"]
    assert faiss.extract_index_ivf(Recipe("PCA4,IVF10,Flat").build(8)).nprobe == 10
    assert faiss.extract_index_ivf(Recipe("IVF100,Flat", effort="nprobe=7").build(8)).nprobe == 7
    assert faiss.downcast_index(Recipe("HNSW8").build(8)).hnsw.efSearch == EFFORT["efSearch"]


def test_candidates() -> None:
    """So many times k, never more than there are, nor than a thousand unless k is."""
    recipe = Recipe("Flat", oversample=5)
    assert [recipe.n_candidates(k, n) for k, n in ((10, 10_000), (10, 30), (500, 10_000), (2000, 10_000))] == [
        50,
        30,
        1000,
        2000,
    ]


def test_without_faiss_the_extra_is_named() -> None:
    """One line with what to install, from Python and from the worker's command."""
    code = (
        "import sys; sys.modules['faiss'] = None\n"
        "from streamfeat.learn.recipe import Recipe\n"
        "from streamfeat.errors import ConfigError\n"
        "try: Recipe('Flat').build(3)\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "an approximate index needs FAISS: pip install 'streamfeat[faiss]'\n"
