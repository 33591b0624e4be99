"""Frames to `Message` and back. The only file that knows the byte layout.

    b"SF1" | verb, ASCII | header, one msgpack map | payload frame ...

Whatever came over a socket is checked here, once, cheapest first: number of frames, version, verb, size of the
header, msgpack, schema, then each array's dtype and shape against the length of its frame. A rule broken is an
`InvalidArgument`, `TooLarge` or `VersionMismatch` that names the field, and nothing else is ever raised. `encode`
holds what we send to the same schema: what is encoded can be decoded.

Keys that the schema does not name are dropped when they arrive (a newer peer may send them) and refused when we
would send them (they would be dropped at the other end). Payload frames are never copied.

An item gets longer on its way: the broker adds the lease or the worker's name. So the headers that are passed on,
REQUEST and RESULT, have a lower limit than the others, and one item always fits into what is made of it; several may
not, which is what `encode_parts` is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import msgpack
import numpy as np

from streamfeat.errors import InvalidArgument, TooLarge, VersionMismatch
from streamfeat.wire.headers import Header, Rules, rules_of, shown
from streamfeat.wire.messages import ITEM_SIZE, VERBS, Array, Frame, Item, Message

VERSION = b"SF1"
HEADER_BYTES = 64 * 1024
PASSED_ON_BYTES = 60 * 1024
"""Header limit of REQUEST and RESULT; 4 KiB is more than the broker adds to one item (about 300 bytes)."""

_CHECKED_BEFORE = frozenset({"TASK", "REPLY"})
"""What the broker makes of items that it has decoded: encode does not hold these to the schema a second time, in the
one process that every item passes twice."""

_N_FIXED = 3  # version, verb, header


def header_limit(verb: str) -> int:
    """Most bytes that the header of this verb may have."""
    return PASSED_ON_BYTES if verb in ("REQUEST", "RESULT") else HEADER_BYTES


def encode(message: Message) -> list[Frame]:
    """The frames of a message; arrays are not copied.

    Raises
    ------
    InvalidArgument
        A field is missing, unknown or of the wrong kind; an array's bytes do not fit its shape.
    TooLarge
        The header is over `header_limit`.
    """
    verb = message.verb
    rules = rules_of(verb)
    header: Header = dict(message.fields)
    payload: list[Frame] = []
    if rules.known_in_item is not None:
        header["items"] = [_raw_item(item, payload) for item in message.items]
    elif message.items:
        raise InvalidArgument(f"{verb} carries no items, got {len(message.items)}")
    packed = _pack(verb, header, rules)
    if len(packed) > header_limit(verb):
        raise TooLarge(
            f"{verb}: header must be at most {header_limit(verb)} bytes, got {len(packed)}; send fewer items"
        )
    if payload and verb not in _CHECKED_BEFORE:
        _match_payload(verb, [item.get("arrays", ()) for item in header["items"]], payload)
    return [VERSION, verb.encode(), packed, *payload]


def encode_parts(message: Message) -> list[list[Frame]]:
    """The frames of a message, in as many messages as it takes for each header to keep to its limit."""
    try:
        return [encode(message)]
    except TooLarge:
        half = len(message.items) // 2
        if half == 0:
            raise
    parts = (message.items[:half], message.items[half:])
    return [frames for items in parts for frames in encode_parts(Message(message.verb, message.fields, items))]


def decode(frames: Sequence[Frame]) -> Message:
    """The message that the frames are; its arrays are views of the payload frames.

    Raises
    ------
    VersionMismatch
        The first frame is not b"SF1".
    TooLarge
        The header is over `header_limit`.
    InvalidArgument
        Any other rule is broken; the message names the field.
    """
    if len(frames) < _N_FIXED:
        raise InvalidArgument(f"a message must have version, verb and header, got {len(frames)} frames")
    version = bytes(frames[0][:16])
    if version != VERSION:
        raise VersionMismatch(f"first frame must be {VERSION!r}, got {version!r}; upgrade the older side")
    verb = _decode_verb(frames[1])
    rules = rules_of(verb)
    _hold_to_limit(verb, frames[2])
    header = None if rules.reader is None else rules.reader.read(frames[2])
    if header is None:
        header = _checked(verb, frames[2], rules)
    payload = frames[_N_FIXED:]
    if rules.known_in_item is None:
        if payload:
            raise InvalidArgument(f"{verb} carries no payload, got {len(payload)} frames after the header")
        return Message(verb, header)
    raw_items = header.pop("items")
    specs = [raw.pop("arrays", ()) for raw in raw_items]
    _match_payload(verb, specs, payload)
    data = iter(payload)
    items = [
        Item(raw, tuple([Array(s["dtype"], tuple(s["shape"]), next(data)) for s in each]))
        for raw, each in zip(raw_items, specs, strict=True)
    ]
    return Message(verb, header, tuple(items))


def glimpse(frames: Sequence[Frame]) -> tuple[str | None, list[int]]:
    """Verb and item ids of a message that `decode` refused, as far as they can be read: for the answer."""
    try:
        verb = _decode_verb(frames[1])
        _hold_to_limit(verb, frames[2])
        header = _unpack(verb, frames[2])
    except (IndexError, InvalidArgument, TooLarge):
        return None, []
    items = header.get("items")
    if not isinstance(items, list):
        return verb, []
    ids = [item.get("id") for item in items if isinstance(item, dict)]
    return verb, [i for i in ids if type(i) is int and 0 <= i < 2**63][:1024]


# --- header -----------------------------------------------------------------------------------------------------------


def _decode_verb(frame: Frame) -> str:
    raw = bytes(frame[:64])
    verb = raw.decode("ascii", "replace")
    if verb not in VERBS:
        raise InvalidArgument(f"unknown verb {raw!r}; known are {', '.join(sorted(VERBS))}")
    return verb


def _hold_to_limit(verb: str, frame: Frame) -> None:
    limit = header_limit(verb)
    if len(frame) > limit:
        raise TooLarge(f"{verb}: header must be at most {limit} bytes, got {len(frame)}")


def _checked(verb: str, frame: Frame, rules: Rules) -> Header:
    """A header read key by key, without the fields that the schema does not know."""
    header = _unpack(verb, frame)
    rules.check(header)
    if verb == "REPORT":
        _walk(verb, header)
    if rules.known_in_item is None:
        return _only(header, rules.known)
    items = [_only(item, rules.known_in_item | {"arrays"}) for item in header["items"]]
    return {**_only(header, rules.known), "items": items}


def _unpack(verb: str, frame: Frame) -> dict[str, Any]:
    try:
        header = msgpack.unpackb(
            frame,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=_map,
            ext_hook=_no_ext,
            max_ext_len=0,  # the hook is not asked about timestamps
        )
    except InvalidArgument as error:
        raise InvalidArgument(f"{verb}: header: {error}") from None
    except msgpack.ExtraData as error:
        raise InvalidArgument(f"{verb}: header must be one map, got {len(error.extra)} bytes after it") from None
    except (ValueError, TypeError, RecursionError) as error:  # cut short, bad UTF-8, over a limit, too deep
        said = "extension types do not travel" if "max_ext_len" in str(error) else str(error) or type(error).__name__
        raise InvalidArgument(f"{verb}: header must be one valid msgpack map: {said[:200]}") from None
    if not isinstance(header, dict):
        raise InvalidArgument(f"{verb}: header must be a map, got {shown(header)}")
    return header


def _map(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    for key in fields:
        if type(key) is not str:
            raise InvalidArgument(f"keys must be text, got {shown(key)}")
    if len(fields) != len(pairs):
        keys = [key for key, _ in pairs]
        doubled = next(key for key in fields if keys.count(key) > 1)
        raise InvalidArgument(f"key {shown(doubled)} is there twice")
    return fields


def _no_ext(code: int, _data: bytes) -> Any:
    raise InvalidArgument(f"extension types do not travel, got type {code}")


def _raw_item(item: Item, payload: list[Frame]) -> dict[str, Any]:
    """The item's part of a header; its arrays' frames are added to the payload."""
    if not item.arrays:
        return item.fields
    payload += [array.data for array in item.arrays]
    return {**item.fields, "arrays": [{"dtype": array.dtype, "shape": list(array.shape)} for array in item.arrays]}


def _pack(verb: str, header: Header, rules: Rules) -> bytes:
    if rules.reader is not None:
        if verb in _CHECKED_BEFORE:
            _refuse_unknown(verb, header, rules)
        packed = rules.reader.write(header)
        # read again: msgspec writes a Decimal or a UUID as text, which nobody gave
        if packed is not None and (verb in _CHECKED_BEFORE or rules.reader.read(packed) == header):
            return packed
    _refuse_unknown(verb, header, rules)
    try:
        plain = _plain(header, verb + ":")  # numpy scalars and tuples too; or it says what cannot travel
        rules.check(plain)
        text: bytes = msgpack.packb(plain, strict_types=True)
    except InvalidArgument:
        raise
    except (ValueError, OverflowError, RecursionError) as error:  # an int over 64 bits, lone surrogates, too deep
        raise InvalidArgument(f"{verb}: header cannot be packed: {error}") from None
    return text


def _refuse_unknown(verb: str, header: Header, rules: Rules) -> None:
    _refuse_other(header.keys() - {"items"} - rules.known, verb)
    if rules.known_in_item is not None:
        known = rules.known_in_item | {"arrays"}
        for n, item in enumerate(header["items"]):
            if not item.keys() <= known:
                _refuse_other(item.keys() - known, f"{verb}: items[{n}]")


def _refuse_other(keys: Iterable[Any], where: str) -> None:
    if names := ", ".join(sorted(map(repr, keys))):
        raise InvalidArgument(f"{where}: no such field in schemas/messages.schema.json: {names}")


def _only(fields: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key in known}


def _walk(verb: str, header: dict[str, Any]) -> None:
    """Hold a header that is free in form to what `encode` lets through: bytes are no value of it."""
    try:
        _plain(header, verb + ":")
    except RecursionError:
        raise InvalidArgument(f"{verb}: header is nested too deep") from None


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(v, f"{where}[{n}]") for n, v in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {
            key: _plain(v, f"{where} {key}" if where.endswith(":") else f"{where}.{key}") for key, v in value.items()
        }
    raise InvalidArgument(f"{where} must be text, a number, a list or a map with text keys, got {shown(value)}")


# --- payload ----------------------------------------------------------------------------------------------------------


def _match_payload(verb: str, specs: Sequence[Sequence[Mapping[str, Any]]], payload: Sequence[Frame]) -> None:
    """Hold each payload frame to the dtype and shape that announce it, item by item, and their number too."""
    at = 0
    for n, item in enumerate(specs):
        for m, spec in enumerate(item):
            dtype, shape = spec["dtype"], spec["shape"]
            need = prod(shape) * ITEM_SIZE[dtype]  # Python's integers do not overflow
            if type(need) is not int:  # JSON Schema takes 2.0 for an integer
                raise InvalidArgument(f"{verb}: items[{n}].arrays[{m}].shape must be integers, got {shape}")
            if at == len(payload):
                raise InvalidArgument(f"{verb}: items[{n}].arrays[{m}] has no payload frame; {at} came")
            frame = payload[at]
            came = frame.nbytes if isinstance(frame, memoryview) else len(frame)
            if came != need:
                raise InvalidArgument(
                    f"{verb}: items[{n}].arrays[{m}].shape {tuple(shape)} of {dtype} needs {need} bytes, {came} came"
                )
            at += 1
    if at != len(payload):
        raise InvalidArgument(f"{verb}: items announce {at} payload frames, {len(payload)} came")
