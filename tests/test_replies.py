"""Replies are remembered within a number and a weight."""

from __future__ import annotations

import numpy as np

from streamfeat.wire.messages import Array, Item
from streamfeat.wire.replies import ReplyCache


def reply(item_id: int, n_bytes: int = 1) -> Item:
    """A reply of that weight."""
    return Item({"id": item_id, "ok": True, "kind": "features"}, (Array.of(np.zeros(n_bytes, "|u1")),))


def test_a_reply_comes_back_marked_and_the_kept_one_is_not() -> None:
    """dup is said to whoever asks again, and only by a run's own ids."""
    cache = ReplyCache(10, 10**6)
    kept = reply(1)
    cache.put("run", kept)
    again = cache.again("run", 1)
    assert again is not None
    assert again.fields == {**kept.fields, "dup": True}
    assert again.arrays == kept.arrays
    assert "dup" not in kept.fields
    assert cache.again("other", 1) is None
    assert cache.again("run", 2) is None


def test_the_oldest_go_first() -> None:
    """Over the number or the weight the oldest replies are forgotten; a new reply under an old id is young."""
    cache = ReplyCache(3, 10**6)
    for n in (1, 2, 3, 1, 4):
        cache.put("run", reply(n))
    assert [n for n in range(6) if cache.again("run", n)] == [1, 3, 4]
    assert len(cache) == 3


def test_the_weight_is_held_and_counted_back() -> None:
    """Arrays, labels and overhead count; when all is forgotten nothing is left over."""
    cache = ReplyCache(100, 5000)
    cache.put("run", reply(1, 2000))
    cache.put("run", reply(2, 2000))
    assert cache.n_bytes <= 5000
    cache.put("run", reply(3, 2000))
    assert cache.again("run", 1) is None
    cache.put("run", Item({"id": 4, "ok": True, "kind": "neighbours", "labels": [1] * 40}))
    assert cache.again("run", 2) is None
    cache.put("run", reply(5, 10**6))  # over everything: not kept
    assert len(cache) == 0
    assert cache.n_bytes == 0
