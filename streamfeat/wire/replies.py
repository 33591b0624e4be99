"""Replies kept for a while, so that a request repeated after a lost reply is answered and not computed again."""

from __future__ import annotations

from collections import OrderedDict

from streamfeat.wire.messages import Item

_OVERHEAD_BYTES = 512
"""What a reply without arrays is taken to weigh: fields, keys, objects."""

_ENTRY_BYTES = 100
"""What one label in a list is taken to weigh."""


class ReplyCache:
    """The most recent replies by (run, id), within a number and a weight; the oldest go first."""

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._replies: OrderedDict[tuple[str, int], tuple[Item, int]] = OrderedDict()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._replies)

    def put(self, run: str, item: Item) -> None:
        """Keep the reply to `item.fields["id"]` of this run; one that outweighs the whole cache is not kept."""
        key = (run, item.fields["id"])
        old = self._replies.pop(key, None)
        if old is not None:
            self.n_bytes -= old[1]
        weight = _weight(item)
        self._replies[key] = item, weight
        self.n_bytes += weight
        while len(self._replies) > self._max_items or self.n_bytes > self._max_bytes:
            self.n_bytes -= self._replies.popitem(last=False)[1][1]

    def again(self, run: str, item_id: int) -> Item | None:
        """The reply as it was, marked `dup`; None if it is not there (any more)."""
        item, _ = self._replies.get((run, item_id), (None, 0))
        return None if item is None else Item({**item.fields, "dup": True}, item.arrays)


def _weight(item: Item) -> int:
    n_entries = len(item.fields.get("labels", ())) + len(item.fields.get("classes", ()))
    return _OVERHEAD_BYTES + _ENTRY_BYTES * n_entries + item.n_bytes
