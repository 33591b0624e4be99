"""The verbs, and what they carry: `Message`, `Item`, `Array`.

A message is a verb with fields; four verbs also carry items, and an item its arrays. The fields of each verb are in
schemas/messages.schema.json, which the codec holds every message to. Who says what:

    client > broker   HELLO  REQUEST  CANCEL  STATUS               PING PONG BYE
    broker > client   WELCOME  REPLY  ERROR  REPORT                PING PONG BYE
    worker > broker   HELLO  RESULT  RETURN  DRAIN                 PING PONG BYE
    broker > worker   WELCOME  TASK  ERROR  RELOAD                 PING PONG BYE
    operator > broker STATUS  ADMIN, at a socket of their own; answered by REPORT or ERROR
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, StreamfeatError

PROTOCOL = 1
"""The one version spoken so far; HELLO offers a range, WELCOME picks."""

_ANYONE = frozenset({"PING", "PONG", "BYE"})
FROM_CLIENT = _ANYONE | {"HELLO", "REQUEST", "CANCEL", "STATUS"}
FROM_WORKER = _ANYONE | {"HELLO", "RESULT", "RETURN", "DRAIN"}
FROM_BROKER = _ANYONE | {"WELCOME", "TASK", "REPLY", "ERROR", "REPORT", "RELOAD"}
FROM_OPERATOR = frozenset({"STATUS", "ADMIN"})
VERBS = FROM_CLIENT | FROM_WORKER | FROM_BROKER | FROM_OPERATOR

LITTLE_ENDIAN = ("<i2", "<i4", "<i8", "<u2", "|u1", "<f4", "<f8")
BIG_ENDIAN = (">i2", ">i4", ">i8", ">u2", ">f4", ">f8")
ITEM_SIZE = {dtype: int(dtype[2]) for dtype in LITTLE_ENDIAN + BIG_ENDIAN}
"""Bytes an element. Nothing else travels: no objects, no text, no structures."""

REASON_LENGTH = 2000
"""Longest reason on the wire, in characters; a longer one is cut."""

Frame = bytes | memoryview


class Array(msgspec.Struct, frozen=True):
    """An array on its way: the bytes as they came, and what they mean.

    Parameters
    ----------
    dtype : str
        One of `ITEM_SIZE`; byte order is part of the name.
    shape : tuple of int
        One to four dimensions, none of them zero.
    data : bytes or memoryview
        prod(shape) elements in C order. Never copied by the wire: do not write to it while a message holds it.
    """

    dtype: str
    shape: tuple[int, ...]
    data: Frame

    def __repr__(self) -> str:
        return f"Array(dtype={self.dtype!r}, shape={self.shape})"

    @classmethod
    def of(cls, array: NDArray[Any]) -> Array:
        """The array ready to travel: little-endian, C order; copied only where it is not so already.

        Raises
        ------
        InvalidArgument
            A dtype that does not travel, no elements, or more than four dimensions.
        """
        dtype = array.dtype.newbyteorder("<")
        if dtype.str not in ITEM_SIZE:
            raise InvalidArgument(
                f"an array must be one of {', '.join(LITTLE_ENDIAN)}, got {array.dtype.str!r}; convert it"
            )
        if not 1 <= array.ndim <= 4 or array.size == 0:
            raise InvalidArgument(f"an array must have 1 to 4 dimensions, none of them zero, got shape {array.shape}")
        flat = np.ascontiguousarray(array, dtype=dtype).reshape(-1)
        return cls(dtype.str, array.shape, flat.view(np.uint8).data)

    def to_numpy(self) -> NDArray[Any]:
        """A read-only view, always little-endian; a copy only of an unaligned buffer or a big-endian array."""
        flat = np.frombuffer(self.data, dtype=self.dtype)
        if self.dtype in BIG_ENDIAN:
            flat = flat.astype(flat.dtype.newbyteorder("<"))
        elif not flat.flags.aligned:
            flat = flat.copy()
        flat.flags.writeable = False
        return flat.reshape(self.shape)

    @property
    def n_numbers(self) -> int:
        """Samples, pixels or entries."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Bytes of data; the codec has held them to dtype and shape."""
        data = self.data
        return data.nbytes if isinstance(data, memoryview) else len(data)


class Item(msgspec.Struct, frozen=True):
    """One signal, feature or result in a message: `fields["id"]` says which, `arrays` is what it weighs."""

    fields: dict[str, Any]
    arrays: tuple[Array, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Bytes of payload, what credit is counted in."""
        n_bytes = 0
        for array in self.arrays:  # one as a rule: a generator would cost as much again
            n_bytes += array.n_bytes
        return n_bytes


class Message(msgspec.Struct, frozen=True):
    """A verb, its fields, and the items of REQUEST, TASK, RESULT and REPLY."""

    verb: str
    fields: dict[str, Any] = {}
    items: tuple[Item, ...] = ()


def failed_item(item_id: int, error: StreamfeatError) -> Item:
    """The item that says why there is no result, for RESULT and REPLY."""
    return Item({"id": item_id, "ok": False, "error": error_fields(error)})


def error_fields(error: StreamfeatError) -> dict[str, Any]:
    """Code and reason (cut to what the wire takes) of an error, and when to come back where it says so."""
    fields: dict[str, Any] = {"code": error.code, "reason": error.reason[:REASON_LENGTH]}
    retry_after_ms = getattr(error, "retry_after_ms", 0)
    if retry_after_ms:
        fields["retry_after_ms"] = retry_after_ms
    return fields
