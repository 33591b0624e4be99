"""Tables of a spec (TOML, JSON) <-> frozen dataclasses, with every default filled in.

A bank is named by the hash of its spec, so two ways of writing the same thing must give the same table:
`read_table` turns a mapping into a dataclass of plain values, `as_table` gives the one canonical table back.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from streamfeat.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
V = TypeVar("V")


def read_table(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """The dataclass that a table describes.

    Parameters
    ----------
    cls : type
        A dataclass whose fields are int, float, bool, str, a Literal of strings, a dataclass of the same kind (a
        table in the table) or a union of these; None is for what is left out. Its `__post_init__` may raise
        `ConfigError` for values that do not go together.
    table : mapping
        Field name to value. A field with a default may be left out; an int is welcome where a float is meant.
    where : str
        What the table describes, for the message: "stage 'trim'".

    Raises
    ------
    ConfigError
        A name that is not known, a value missing or of another type, NaN or infinity.
    """
    known = {f.name: f for f in fields(cls)}
    refuse_unknown(table, known, where)
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in table:
            values[name] = _plain(table[name], hints[name], f"{where}: {name}")
        elif field.default is MISSING:
            raise ConfigError(f"{where} needs {name!r} ({_describe(hints[name])}); got {_list(table) or 'nothing'}")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def as_table(record: DataclassInstance) -> dict[str, Any]:
    """The canonical table of a dataclass: every field but None, plain JSON types, in the order of the fields."""
    return _without_none(asdict(record))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in table.items() if v is not None}


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: "; did you mean audio?", or nothing where none is near."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def refuse_unknown(table: Iterable[str], known: Iterable[str], where: str) -> None:
    """Raise `ConfigError` for the first name of `table` that is not among the `known` ones."""
    names = tuple(known)
    for name in table:
        if name not in names:
            raise ConfigError(
                f"{where} has no parameter {name!r}; known: {_list(names) or 'none'}{did_you_mean(name, names)}"
            )


def pick(choices: Mapping[str, V], name: object, what: str) -> V:
    """The choice of that name, or `ConfigError` listing those there are."""
    if not isinstance(name, str) or name not in choices:
        raise ConfigError(f"unknown {what} {name!r}; known: {_list(choices)}{did_you_mean(name, choices)}")
    return choices[name]


def read_kind(choices: Mapping[str, type[T]], table: Mapping[str, Any], part: str, key: str = "kind") -> T:
    """The dataclass that a table of a bank's spec describes, where `table[key]` names which of several.

    Parameters
    ----------
    choices : mapping
        Name to dataclass.
    table : mapping
        The name under `key`, and that dataclass's fields.
    part : str
        What the table is called in the spec: "pooling".

    Raises
    ------
    ConfigError
        An unknown name or parameter, or a value out of range.
    """
    name = table[key]
    if name not in choices:
        raise ConfigError(f"bank spec: {part}.{key} must be one of {', '.join(map(repr, choices))}, got {name!r}")
    parameters = {field: value for field, value in table.items() if field != key}
    return read_table(choices[name], parameters, f"bank spec: {part}.{key} = {name!r}")


def _plain(value: Any, hint: Any, where: str) -> Any:
    """The value as the one Python type that `hint` stands for."""
    for member in _members(hint):
        if isinstance(member, type) and is_dataclass(member) and isinstance(value, Mapping):
            return read_table(member, value, where)
        if _fits(value, member):
            return float(value) if member is float else value
    raise ConfigError(f"{where} must be {_describe(hint)}, got {value!r}")


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _members(hint: Any) -> list[Any]:
    """What a union is of; None is the default of what is left out and is never written."""
    return [h for h in get_args(hint) if h is not NoneType] if get_origin(hint) in (Union, UnionType) else [hint]


def _describe(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_describe, _members(hint)))
    if get_origin(hint) is Literal:
        return "one of " + _list(get_args(hint))
    if is_dataclass(hint):
        return "a table"
    return {int: "an integer", float: "a finite number", bool: "true or false", str: "text"}[hint]


def _list(names: Iterable[Any]) -> str:
    return ", ".join(str(name) for name in names)
