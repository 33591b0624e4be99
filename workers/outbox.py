"""What a worker has to say and must not lose: results that wait for company, and frames that wait for the socket."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from streamfeat.errors import InternalError, StreamfeatError
from streamfeat.wire.codec import encode_parts
from streamfeat.wire.messages import Frame, Item, Message, failed_item

log = logging.getLogger("streamfeat.worker")

FLUSH_ITEMS = 8
FLUSH_BYTES = 1 << 20
FLUSH_AFTER_S = 0.02
"""Finished results wait for company up to these bounds; with nothing left to compute they leave at once."""


class Outbox:
    """Results and messages in the order in which they leave; only the caller has a socket.

    Parameters
    ----------
    kind : str
        Of the worker, for the log.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._results: list[tuple[str, Item]] = []
        self._n_bytes = 0
        self._oldest = float("inf")
        self._frames: deque[list[Frame]] = deque()

    @property
    def n_results(self) -> int:
        """Results that wait for company."""
        return len(self._results)

    @property
    def waiting(self) -> bool:
        """Whether frames wait for the socket."""
        return bool(self._frames)

    def put(self, stage: str, result: Item, now: float) -> None:
        """A result of that stage."""
        self._oldest = min(self._oldest, now)
        self._results.append((stage, result))
        self._n_bytes += result.n_bytes

    def ripe(self, next_at: float) -> bool:
        """Whether the results should leave now, if the next ones are to be expected by then."""
        enough = len(self._results) >= FLUSH_ITEMS or self._n_bytes >= FLUSH_BYTES
        return enough or next_at >= self._oldest + FLUSH_AFTER_S

    def flush(self) -> None:
        """Make messages of the results, one a stage."""
        results = self._take()
        for stage in dict.fromkeys(stage for stage, _ in results):
            self.post(Message("RESULT", {"stage": stage}, tuple(item for at, item in results if at == stage)))

    def post(self, message: Message) -> None:
        """Add a message; a result that breaks the rules of the wire becomes an error."""
        try:
            self._frames.extend(encode_parts(message))
        except StreamfeatError as error:
            if len(message.items) > 1:
                for item in message.items:
                    self.post(Message(message.verb, message.fields, (item,)))
                return
            log.error("a result of the %s handler breaks the wire's rules: %s", self._kind, error)
            failed = failed_item(message.items[0].fields["id"], InternalError(f"result cannot travel: {error}"))
            self._frames.extend(encode_parts(Message(message.verb, message.fields, (failed,))))

    def send(self, take: Callable[[list[Frame]], bool]) -> None:
        """Hand frames over, in order, until one is not taken."""
        while self._frames and take(self._frames[0]):
            self._frames.popleft()

    def clear(self) -> None:
        """Nothing of it is anybody's any more."""
        self._take()
        self._frames.clear()

    def _take(self) -> list[tuple[str, Item]]:
        results, self._results = self._results, []
        self._n_bytes, self._oldest = 0, float("inf")
        return results
