"""The broker's settings, as plain values with their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamfeat.errors import ConfigError

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """How patient, how generous and how large the broker is.

    Raises
    ------
    ConfigError
        A value is not positive, or a limit is above the one that contains it.
    """

    heartbeat_ms: int = 1000
    """Peers PING that often. A worker that computes for longer says so (busy_ms)."""

    liveness: int = 3
    """Heartbeats missed until a worker is gone: one missed is an accident, three are not."""

    client_silence_s: float = 60.0
    """A client silent for so long is gone. Long: its items cost little, a short network fault should cost nothing."""

    credit_items: int = 512
    """Items a client may have under way: enough to keep a dozen workers busy, short enough to answer in seconds."""

    credit_bytes: int = 64 * _MIB
    """Payload a client may have under way: 512 items of 128 kB, three seconds of speech each."""

    item_bytes: int = 16 * _MIB
    """Largest payload of one item: 7 minutes of 20 kHz speech, an RGB picture of 2300 x 2300."""

    message_items: int = 256
    message_bytes: int = 64 * _MIB

    max_retained_bytes: int = 512 * _MIB
    """Payload held for all clients together; the broker's memory is bounded by this, the reply cache and overhead. How
    it is shared: `budget`."""

    max_clients: int = 1000
    """Far below the file handles a unit gives: libzmq aborts the process when they run out."""

    max_batch_items: int = 16
    """Items a TASK: beyond that a broker hop is under 5 % of the cost already, and only the waiting grows."""

    max_batch_cost: int = 1 << 29
    """Cost of a TASK of more than one item, in samples times templates: about a tenth of a second's computing, so that
    long recordings do not travel sixteen at a time and wait for each other."""

    batch_wait_ms: float = 0.0
    """How long a TASK that is not full may wait for company while its worker is busy. 0: nobody waits. A few
    milliseconds spare the broker messages where items are tiny, and cost each of them as much."""

    max_attempts: int = 3
    """Workers that may go away while they compute an item before it is quarantined."""

    cached_replies: int = 10_000
    cached_bytes: int = 64 * _MIB
    """Replies remembered for clients that ask again: more than a client can have lost, its credit being 512."""

    retry_after_ms: int = 200
    """What OVERLOADED advises: about ten batches of sixteen items."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "batch_wait_ms" and value == 0:
                continue
            if not value > 0:
                raise ConfigError(f"{name} must be more than 0, got {value!r}")
        if self.item_bytes > self.message_bytes or self.message_bytes > self.max_retained_bytes:
            raise ConfigError(
                "item_bytes <= message_bytes <= max_retained_bytes must hold, got "
                f"{self.item_bytes}, {self.message_bytes}, {self.max_retained_bytes}"
            )
        if 4 * self.item_bytes > 3 * self.max_retained_bytes:
            raise ConfigError(
                f"max_retained_bytes must be 4/3 of item_bytes at least, a quarter being reserved for others: got "
                f"{self.max_retained_bytes} with items of {self.item_bytes}"
            )

    def terms(self) -> dict[str, Any]:
        """What WELCOME tells peers of it."""
        return {
            "heartbeat_ms": self.heartbeat_ms,
            "liveness": self.liveness,
            "credit": {"items": self.credit_items, "bytes": self.credit_bytes},
            "limits": {
                "item_bytes": self.item_bytes,
                "message_items": self.message_items,
                "message_bytes": self.message_bytes,
            },
        }
