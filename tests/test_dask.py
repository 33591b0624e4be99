"""Features through Dask: to the bit those of this process, whoever dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import dask.array
import distributed
import numpy as np
import pytest

from streamfeat.blocks import Done
from streamfeat.dask import compute, connect, transform
from streamfeat.dask.cluster import LOCAL
from streamfeat.dask.features import _Packed
from streamfeat.delivery import Failure
from streamfeat.errors import InvalidArgument, Unavailable
from streamfeat.featuremap import FeatureMap
from streamfeat.presets import ensure_bank
from streamfeat.signals.pictures import Picture
from streamfeat.signals.signal import Signal

PICTURES = np.random.default_rng(3).integers(0, 256, (200, 20, 20), dtype=np.uint8)
EMPTY = np.zeros((0, 0, 3), np.uint8)


@pytest.fixture(scope="module")
def fmap(tmp_path_factory: pytest.TempPathFactory) -> FeatureMap:
    """The preset of pictures."""
    return FeatureMap.open(ensure_bank("digits-image", tmp_path_factory.mktemp("banks")))


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Two workers of a cluster of its own."""
    with connect(n_workers=2) as made:
        yield made


def blocks_of(pictures: np.ndarray, size: int) -> list[list[Picture]]:
    """Pictures as items, so many a block."""
    items = [Picture(f"picture {i}", None, None, picture) for i, picture in enumerate(pictures)]
    return [items[first : first + size] for first in range(0, len(items), size)]


def test_a_dead_worker_changes_nothing(fmap: FeatureMap, client: distributed.Client) -> None:
    """A worker killed after the first block: every block is there, bit-equal to `FeatureMap.transform`."""
    blocks = blocks_of(PICTURES, 10)
    done: dict[int, Done] = {}

    def finished(number: int, block: Done | None, failed: list[Failure]) -> None:
        assert block is not None, failed
        if not done:
            [pid, *_] = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
        done[number] = block

    compute(client, fmap, blocks, finished)
    got = np.concatenate([done[number].features for number in range(len(blocks))])
    expected = fmap.transform([item.read() for block in blocks for item in block])
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


def test_the_environment_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers are started with, threads and memory, is nothing for whoever started them."""
    for name in LOCAL["distributed.nanny.pre-spawn-environ"]:
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    with connect(n_workers=1) as made:
        assert set(made.run(os.getenv, "MALLOC_TRIM_THRESHOLD_").values()) == {str(64 << 20)}
    assert dict(os.environ) == before


def test_signals_are_packed_bit_for_bit() -> None:
    """Kinds, types, shapes, rates and names one after the other, also where a number begins at an odd byte."""
    rng = np.random.default_rng(0)
    signals = [
        Signal("image", rng.integers(0, 256, (3, 5), dtype=np.uint8), name="grey"),
        Signal("audio", rng.integers(-9, 9, 7, dtype=np.int16), 8000, "said"),
        Signal("array", rng.normal(size=(2, 2))),
    ]
    got = list(_Packed.of(signals).signals())
    assert [(g.kind, g.rate_hz, g.name, g.samples.dtype, g.samples.shape) for g in got] == [
        (s.kind, s.rate_hz, s.name, s.samples.dtype, s.samples.shape) for s in signals
    ]
    assert [g.samples.tobytes() for g in got] == [s.samples.tobytes() for s in signals]
    assert list(_Packed.of([]).signals()) == []


def test_what_cannot_be_read_or_used_is_a_failure(fmap: FeatureMap, client: distributed.Client) -> None:
    """Items that fail are named with code and reason, the others of their block have features."""
    good = blocks_of(PICTURES[:3], 3)[0]
    refused = Picture("not read", None, None, InvalidArgument("not read: no picture"))
    found: list[Done | None] = []
    compute(client, fmap, [[good[0], refused, good[1]]], lambda _n, block, _f: found.append(block))
    [block] = found
    assert block is not None
    assert block.places == (0, 2)
    assert block.failed == (Failure("not read", "INVALID_ARGUMENT", "not read: no picture"),)
    assert block.features.tobytes() == fmap.transform([good[0].read(), good[1].read()]).tobytes()


def test_a_dask_array_is_transformed_where_it_is(fmap: FeatureMap, client: distributed.Client) -> None:
    """Chunks of any length and cut through pictures: the same bits; what is no dask array is refused."""
    X = dask.array.from_array(PICTURES[:50], chunks=(17, 10, 20))
    features = transform(fmap, X)
    assert features.shape == (50, fmap.n_features)
    got = client.compute(features).result(timeout=60)
    expected = fmap.transform([item.read() for item in blocks_of(PICTURES[:50], 50)[0]])
    assert got.dtype == features.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()
    with pytest.raises(InvalidArgument, match="dask array with one item a row"):
        transform(fmap.bank, PICTURES)


def test_no_scheduler_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An address where nobody listens: `Unavailable`, with the address."""
    monkeypatch.setattr("streamfeat.dask.cluster.CONNECT_S", 0.2)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"), connect("tcp://127.0.0.1:9"):
        pytest.fail(f"connected {tmp_path}")
