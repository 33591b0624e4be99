"""Features of files and of dask arrays: to the bit what `FeatureMap.transform` gives.

An item's feature depends on that item and the bank alone. Files are read here; workers need streamfeat and nothing on
their disks, the bank is sent to them once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import dask
import distributed
import numpy as np
from numpy.typing import NDArray

from streamfeat.bankstore import Bank
from streamfeat.blocks import Done
from streamfeat.delivery import Failure, Readable
from streamfeat.errors import InvalidArgument, StreamfeatError, WorkerLost
from streamfeat.featuremap import FeatureMap
from streamfeat.signals.signal import Signal

AHEAD = 2
"""Blocks under way for each thread of the workers: one at work, one waiting; no more are held in memory."""


def compute(
    client: distributed.Client,
    fmap: FeatureMap,
    blocks: Sequence[Sequence[Readable]],
    finished: Callable[[int, Done | None, list[Failure]], None],
) -> None:
    """Features of every block, in the order in which they are finished.

    A worker that dies is replaced, and its blocks are computed again; a block that ends every worker it is given to is
    a failure of its items.

    Parameters
    ----------
    client : distributed.Client
    fmap : FeatureMap
    blocks : sequence of sequences of Readable
        Read when their turn comes.
    finished : callable
        Called with a block's number, its features, and no failures; or None and the failures, when it was lost.
    """
    bank = client.submit(_same, fmap, pure=False)
    threads = max(1, sum(client.nthreads().values()))
    waiting = iter(range(len(blocks)))
    under_way: dict[Any, tuple[int, _Read]] = {}

    def send(number: int) -> Any:
        read = _read(blocks[number])
        future = client.submit(_features, bank, _Packed.of(read.signals), pure=False)
        read.signals = []
        under_way[future] = (number, read)
        return future

    ends = distributed.as_completed([send(number) for number in islice(waiting, AHEAD * threads)], loop=client.loop)
    for future in ends:
        number, read = under_way.pop(future)
        for following in islice(waiting, 1):
            ends.add(send(following))
        try:
            features, refused = future.result()
        except distributed.scheduler.KilledWorker as error:
            lost = [Failure(item.name, WorkerLost.code, f"{item.name}: {error}") for item in blocks[number]]
            finished(number, None, lost)
        else:
            finished(number, read.done(blocks[number], features, refused), [])


def transform(bank: FeatureMap | Bank, X: Any, rate_hz: int | None = None) -> Any:
    """Features of a dask array, one item a row, computed where its chunks are.

    Parameters
    ----------
    bank : FeatureMap or Bank
    X : dask array, (N, ...)
        Pictures (N, h, w) or (N, h, w, 3), sounds (N, samples), or arrays, in chunks of known length.
    rate_hz : int, optional
        Of sounds.

    Returns
    -------
    dask array (N, D)
        To the bit what `FeatureMap.transform` gives.

    Raises
    ------
    InvalidArgument
        No dask array of rows; when it is computed, a row that the bank does not take.
    """
    import dask.array as da

    fmap = bank if isinstance(bank, FeatureMap) else FeatureMap(bank)
    if not isinstance(X, da.Array) or X.ndim < 2:
        raise InvalidArgument(f"a dask array with one item a row is needed, got {X!r}; dask.array.from_array makes one")
    rows = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    return rows.map_blocks(
        _of_rows,
        fmap=fmap,
        rate_hz=rate_hz,
        name=f"features-{dask.base.tokenize(fmap.bank_hash, rows.name, rate_hz)}",
        drop_axis=list(range(1, X.ndim)),
        new_axis=1,
        chunks=(rows.chunks[0], (fmap.n_features,)),
        dtype=np.dtype(fmap.bank.dtype),
        meta=np.empty((0, 0), fmap.bank.dtype),
    )


class _Read:
    """The signals of a block that could be read, their places in it, and the others' failures."""

    def __init__(self) -> None:
        self.signals: list[Signal] = []
        self.places: list[int] = []
        self.failed: dict[int, Failure] = {}

    def done(self, items: Sequence[Readable], features: NDArray[Any], refused: dict[int, tuple[str, str]]) -> Done:
        """What became of the block: those that were refused by the bank stand among the failures, by place."""
        failed = dict(self.failed)
        for i, (code, reason) in refused.items():
            failed[self.places[i]] = Failure(items[self.places[i]].name, code, reason)
        places = tuple(place for i, place in enumerate(self.places) if i not in refused)
        return Done(features, places, tuple(failed[place] for place in sorted(failed)))


@dataclass(frozen=True)
class _Packed:
    """Signals as one array of bytes, and of each what else there is: (kind, dtype, shape, rate, name).

    As objects they cost a fifth of a digit's feature: Dask looks at each, and each is pickled twice on its way.
    """

    about: list[tuple[Any, str, tuple[int, ...], int | None, str]]
    samples: NDArray[np.uint8]

    @classmethod
    def of(cls, signals: Sequence[Signal]) -> _Packed:
        """The signals, in order."""
        about = [(one.kind, one.samples.dtype.str, one.samples.shape, one.rate_hz, one.name) for one in signals]
        flat = [one.samples.reshape(-1).view(np.uint8) for one in signals]
        return cls(about, np.concatenate(flat) if flat else np.empty(0, np.uint8))

    def signals(self) -> Iterator[Signal]:
        """What was packed, bit for bit."""
        first = 0
        for kind, dtype, shape, rate_hz, name in self.about:
            last = first + np.dtype(dtype).itemsize * math.prod(shape)
            # a copy: numbers of eight bytes may not lie where single bytes may
            samples = np.frombuffer(self.samples[first:last].tobytes(), dtype).reshape(shape)
            yield Signal(kind, samples, rate_hz, name)
            first = last


def _read(items: Sequence[Readable]) -> _Read:
    read = _Read()
    for place, item in enumerate(items):
        try:
            read.signals.append(item.read())
            read.places.append(place)
        except StreamfeatError as error:
            read.failed[place] = Failure(item.name, error.code, error.reason)
    return read


def _same(fmap: FeatureMap) -> FeatureMap:
    """The bank as a result of the graph: lost with a worker, it is made again, where scattered data would be gone."""
    return fmap


def _features(fmap: FeatureMap, packed: _Packed) -> tuple[NDArray[Any], dict[int, tuple[str, str]]]:
    """On a worker: features of the signals that the bank takes, and why it refuses the others."""
    vectors: list[NDArray[Any]] = []
    refused: dict[int, tuple[str, str]] = {}
    for i, signal in enumerate(packed.signals()):
        try:
            vectors.append(fmap.front_end(signal))
        except StreamfeatError as error:
            refused[i] = (error.code, error.reason)
    return fmap.of_vectors(np.array(vectors, np.float32).reshape(-1, fmap.bank.d)), refused


def _of_rows(rows: NDArray[Any], fmap: FeatureMap, rate_hz: int | None) -> NDArray[Any]:
    kind = fmap.front_end.kind
    return fmap.transform([Signal(kind, row, rate_hz if kind == "audio" else None) for row in rows])
