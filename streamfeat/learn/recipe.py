"""How an approximate index is made: a FAISS factory string, checked before anything is stored.

    Flat                     every entry, exactly: 4 D bytes an entry
    HNSW32                   a graph of 32 links an entry: fast, 4 D + 256 bytes
    IVF256,Flat              256 lists, of which a search looks through some
    IVF256,PQ32              the same, 32 bytes an entry
    PCA64,IVF256,PQ32        principal directions first; RR64 takes random ones (Johnson, Lindenstrauss 1984)

What is searched is the squared Euclidean distance of features as `distances.held` has them: of "cosine" they have unit
length, so the order is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from streamfeat.errors import ConfigError

MOST_CANDIDATES = 1000
"""Entries measured again for one query, unless k is more."""

EFFORT = {"nprobe": 16, "efSearch": 64}
"""Unless the recipe says otherwise: lists that are looked through, or nodes of the graph held open."""

N_TRAIN = 10_000


@dataclass(frozen=True)
class Recipe:
    """What an approximate index is made from.

    Parameters
    ----------
    factory : str
        As of FAISS's `index_factory`.
    n_train : int
        The first entries, on which lists, codes and directions are learned; until they are there, search is exact.
    effort : str
        How hard a search tries, as of FAISS's `ParameterSpace`: "nprobe=32", "efSearch=128". Empty: `EFFORT`.
    oversample : int
        So many times k entries are proposed, and measured where their features can be had.
    """

    factory: str
    n_train: int = N_TRAIN
    effort: str = ""
    oversample: int = 5

    def build(self, dim: int) -> Any:
        """A FAISS index for features of that width, not trained yet.

        Raises
        ------
        ConfigError
            FAISS is not there, does not know the factory, or cannot train it on so few entries.
        """
        faiss = faiss_package()
        if "IDMap" in self.factory:
            raise ConfigError(f"factory {self.factory!r}: the ids are the feature log's; leave IDMap out")
        try:
            index = faiss.index_factory(dim, self.factory, faiss.METRIC_L2)
        except RuntimeError as error:
            raise ConfigError(f"factory {self.factory!r} for features of {dim} numbers: {words_of(error)}") from error
        needed = 0 if index.is_trained else trained_by(index)
        if self.n_train < needed:
            raise ConfigError(
                f"factory {self.factory!r} is trained on {needed} entries at least, got n_train {self.n_train}; "
                "train on more, or choose fewer lists or shorter codes"
            )
        self.apply_effort(index)
        return index

    def apply_effort(self, index: Any) -> None:
        """Tell a FAISS index how hard to search."""
        space = faiss_package().ParameterSpace()
        if self.effort:
            try:
                space.set_index_parameters(index, self.effort)
            except RuntimeError as error:
                raise ConfigError(f"effort {self.effort!r} of factory {self.factory!r}: {words_of(error)}") from error
            return
        inner = faiss_package().try_extract_index_ivf(index)
        if inner is not None:
            inner.nprobe = min(EFFORT["nprobe"], inner.nlist)
        elif "HNSW" in self.factory:
            space.set_index_parameters(index, f"efSearch={EFFORT['efSearch']}")

    def n_candidates(self, k: int, n: int) -> int:
        """How many of n entries are proposed for k neighbours."""
        return min(n, max(k, min(k * self.oversample, MOST_CANDIDATES)))


def faiss_package() -> Any:
    """FAISS, or `ConfigError` with what installs it."""
    try:
        import faiss
    except ImportError as error:
        raise ConfigError("an approximate index needs FAISS: pip install 'streamfeat[faiss]'") from error
    return faiss


@contextmanager
def one_thread() -> Iterator[None]:
    """While it lasts, FAISS works in the calling thread alone, for its threads wait by spinning.

    Beside other work on two cores, training IVF16,PQ8x4 on 2,000 rows of 64 took 11 to 16 s in two threads (1.4 to
    2.6 s of CPU), 2.2 s in one (.55).
    """
    faiss = faiss_package()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def trained_by(index: Any) -> int:
    """How many entries a FAISS index is trained on at least: as many as it has lists, code words or directions."""
    faiss = faiss_package()
    index = faiss.downcast_index(index)
    needed = [1]
    if isinstance(index, faiss.IndexPreTransform):
        needed += [index.chain.at(i).d_out for i in range(index.chain.size())]
        index = faiss.downcast_index(index.index)
    if isinstance(index, faiss.IndexIVF):
        needed.append(index.nlist)
    if hasattr(index, "pq"):
        needed.append(index.pq.ksub)
    return max(needed)


def words_of(error: RuntimeError) -> str:
    """FAISS's own words, without its source file and line."""
    return re.sub(r"^Error in .*? at \S+:\d+: (Error: '.*' failed: )?", "", str(error))
