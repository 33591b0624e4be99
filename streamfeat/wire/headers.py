"""What a header may hold: schemas/messages.schema.json, compiled once a verb and in two ways.

As a type, for what is right: msgspec reads a header of items and holds it to its rules in one pass, 2.5 us an item
where unpacking and checking one after the other take 9. As checks (fastjsonschema), which say what is wrong, where, and
what came. The type says yes or nothing; nothing means that the checks have the word. It never says yes where they
would say no, and where it says yes both read the same: what it read, written again, must be the very bytes that came.
So a key that is there twice or not known, a number that is not packed the shortest way, go to the checks.

The schema is the only authority; the type is made of it, for the four verbs that carry items.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import GenericAlias
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import fastjsonschema
import msgspec

from streamfeat.errors import InternalError, InvalidArgument
from streamfeat.wire.messages import VERBS, Frame

Header = dict[str, Any]

_SHOWN = 80  # characters of a bad value that a message quotes
_FAILURES = (ValueError, TypeError, OverflowError, RecursionError)  # msgspec's own are ValueErrors


class Reader:
    """The type of one verb's header.

    Parameters
    ----------
    schema : mapping
        Of the header, without references.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._decoder = msgspec.msgpack.Decoder(type_of(schema))
        self._encoder = msgspec.msgpack.Encoder()
        self._needs = _needs(schema["properties"]["items"]["items"])

    def read(self, frame: Frame) -> Header | None:
        """The header if it is beyond doubt; None: ask the checks."""
        try:
            header: Header = self._decoder.decode(frame)
            if self._encoder.encode(header) != frame:
                return None
        except _FAILURES:
            return None
        if self._needs is not None:
            key, value, when, otherwise = self._needs
            for item in header["items"]:
                if not (when if item.get(key) == value else otherwise) <= item.keys():
                    return None
        return header

    def write(self, header: Header) -> bytes | None:
        """A header as it travels, if it is made of what msgpack knows; None: ask whoever can say what it is."""
        try:
            return self._encoder.encode(header)
        except _FAILURES:
            return None


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one verb's header."""

    known: frozenset[str]
    """Fields, apart from `items`."""
    known_in_item: frozenset[str] | None
    """Fields of an item, apart from `arrays`; None: the verb carries none."""
    check: Callable[[Any], None]
    """Raises InvalidArgument about a header that breaks a rule; it names the field."""
    reader: Reader | None
    """Of a verb that carries items."""


@cache
def rules_of(verb: str) -> Rules:
    """The rules of a verb; about 6 ms, once.

    Raises
    ------
    InvalidArgument
        There is no such verb.
    """
    if verb not in VERBS:
        raise InvalidArgument(f"unknown verb {verb[:_SHOWN]!r}; known are {', '.join(sorted(VERBS))}")
    schema = _inline(_definitions()[verb])
    properties = schema.get("properties", {})
    items = properties.get("items")
    known_in_item = None if items is None else frozenset(items["items"]["properties"]) - {"arrays"}
    validate = fastjsonschema.compile(schema)

    def check(header: Any) -> None:
        try:
            validate(header)
        except fastjsonschema.JsonSchemaValueException as error:
            raise _broken_rule(verb, error) from None

    reader = None if items is None else Reader(schema)
    return Rules(frozenset(properties) - {"items"}, known_in_item, check, reader)


def shown(value: Any) -> str:
    """A value that came, as short as a message should quote it."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _broken_rule(verb: str, error: Any) -> InvalidArgument:
    """fastjsonschema says `data.items[3].id must be integer`; we say verb, field, rule, and what came."""
    rule = error.message.removeprefix("data").removeprefix(".")
    field = "header" if error.name == "data" else ""
    came = "" if error.rule in ("required", "if") else f", got {shown(error.value)}"
    return InvalidArgument(f"{verb}: {field}{rule[:400]}{came}")


# --- the schema -------------------------------------------------------------------------------------------------------


@cache
def _definitions() -> dict[str, Any]:
    text = resources.files("streamfeat.schemas").joinpath("messages.schema.json").read_text("utf-8")
    definitions: dict[str, Any] = json.loads(text)["definitions"]
    return definitions


def _inline(node: Any) -> Any:
    """The schema with each $ref replaced by what it stands for: validation is twice as fast so."""
    if isinstance(node, list):
        return [_inline(value) for value in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline(_definitions()[node["$ref"].removeprefix("#/definitions/")])
    return {key: _inline(value) for key, value in node.items()}


def _needs(item: Mapping[str, Any]) -> tuple[str, Any, frozenset[str], frozenset[str]] | None:
    """`if` one field has this value `then` these are required, `else` those: types know no conditions."""
    if "if" not in item:
        return None
    [(key, rule)] = item["if"]["properties"].items()
    return key, rule["const"], frozenset(item["then"]["required"]), frozenset(item["else"]["required"])


# --- the schema as a type ---------------------------------------------------------------------------------------------

_BOUNDS = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "integer": {"minimum": "ge", "maximum": "le"},
    "number": {"minimum": "ge", "maximum": "le"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "object": {"minProperties": "min_length", "maxProperties": "max_length"},
    "boolean": {},
    "null": {},
}
"""JSON Schema's keywords, by the type that they concern, and msgspec's."""

_optional: Any = NotRequired
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (None,),
}
_STRUCTURE = {"type", "description", "enum", "items", "properties", "required", "propertyNames", "additionalProperties"}
_CONDITIONS = {"if", "then", "else"}


def type_of(schema: Mapping[str, Any]) -> Any:
    """The type that takes what the schema takes, `if` apart.

    Raises
    ------
    InternalError
        A keyword that has no type here.
    """
    keywords = {keyword for bounds in _BOUNDS.values() for keyword in bounds}
    if strange := schema.keys() - keywords - _STRUCTURE - _CONDITIONS:
        raise InternalError(f"messages.schema.json uses {', '.join(sorted(strange))}, which headers.py cannot type yet")
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    kinds = schema["type"]
    union = None
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        for plain in _plain_types(kind, schema):
            bounds = {ours: schema[theirs] for theirs, ours in _BOUNDS[kind].items() if theirs in schema}
            if "pattern" in bounds:  # as fastjsonschema reads it: the end, not what is before a last newline
                bounds["pattern"] = bounds["pattern"].replace("$", r"\Z")
            typed = Annotated[plain, msgspec.Meta(**bounds)] if bounds else plain
            union = typed if union is None else union | typed
    return union


def _plain_types(kind: str, schema: Mapping[str, Any]) -> tuple[Any, ...]:
    """Python's types of one JSON type, without bounds; a number may be either."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "array":
        return (GenericAlias(list, type_of(schema["items"])),)
    if "properties" not in schema:
        keys = type_of({"type": "string", **schema.get("propertyNames", {})})
        return (GenericAlias(dict, (keys, type_of(schema["additionalProperties"]))),)
    required = set(schema.get("required", ()))
    fields = {
        name: type_of(field) if name in required else _optional[type_of(field)]
        for name, field in schema["properties"].items()
    }
    return (TypedDict("Fields", fields),)  # type: ignore[operator]
