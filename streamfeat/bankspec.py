"""The bank spec: what a bank is built from, as a checked value.

    name = "turned"
    seed = 0
    renormalise = true                       # every gt gets the norm of t
    form = "operators"                       # or "dense": every gt is stored

    [[front_end]]                            # signal -> vector, stage by stage
    stage = "pixels"
    [window]                                 # what a template sees at once
    kind = "whole"                           # or "patches", "polar", see streamfeat.windows
    [templates]
    source = "gaussian"                      # see streamfeat.templates
    m = 256
    [[group]]                                # g = f1 f2 ..., one table a factor
    factor = "rotation"
    [pooling]
    kind = "cdf"                             # see streamfeat.pooling
    thresholds = "sigma"                     # "paper", "quantile"
    n_bins = 25
    cells = "whole"                          # or a grid of them, for patches
    [layer2]                                 # random Fourier features of the feature
    kind = "none"                            # or "fourier", with m, sigma and source
    [[outer]]                                # factors that move the input; the mean of its copies' features is kept
    factor = "rotation"

A bank of several streams has a list of them instead, `[[streams]]`: what a stream does not say is taken from above.
Name, seed, layer 2 and outer orbit are the bank's. Its feature is the streams' features, one after the other.

The shape is held to schemas/bank-spec.schema.json. Window, templates, pooling and layer 2 are checked by those who own
them, `windows`, `templates`, `pooling` and `layer2`, when the spec is read; stages and factors by `frontends` and
`groups`, when the bank is built.
"""

from __future__ import annotations

import json
import math
import reprlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import fastjsonschema

from streamfeat.errors import ConfigError
from streamfeat.groups import acts_on_waveforms
from streamfeat.layer2 import NONE, Layer2, layer2_table, read_layer2
from streamfeat.pooling import Nystrom, Pooling, cells_of, pooling_table, read_pooling
from streamfeat.spec import did_you_mean
from streamfeat.templates import SOURCES, Source, read_source, source_table
from streamfeat.windows import Whole, Window, read_window, window_table

T = TypeVar("T")

REQUIRED = ("front_end", "templates", "pooling")
"""What every stream says, itself or above."""

_SHOWN = reprlib.Repr()
"""As much of a value as fits a message."""
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, shortest floats, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@cache
def schema_check(name: str) -> Callable[[Any], Any]:
    """The compiled JSON Schema of that name in `schemas/`."""
    text = resources.files("streamfeat.schemas").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads(text))
    return check


def hold_to_schema(name: str, what: str, value: Any) -> None:
    """Raise `ConfigError` with the key, what came and what is allowed, unless `value` fits the schema."""
    try:
        schema_check(name)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        where = ".".join(error.path[1:])
        raise ConfigError(f"{what}: {where + ' ' if where else ''}{_told(error)}") from None


def _told(error: fastjsonschema.JsonSchemaValueException) -> str:
    """What is wrong and what is allowed, in a user's words where the schema's are a set of names."""
    if error.rule == "additionalProperties":
        known = error.definition["properties"]
        unknown = min(set(error.value) - set(known))
        return f"has no key {unknown!r}; known: {', '.join(known)}{did_you_mean(unknown, known)}"
    if error.rule == "required":
        return f"needs the key {next(key for key in error.rule_definition if key not in error.value)!r}"
    return f"{error.message.removeprefix(error.name or '').strip()}, got {_SHOWN.repr(error.value)}"


@dataclass(frozen=True)
class StreamSpec:
    """What one stream of a bank is built from."""

    front_end: tuple[Mapping[str, Any], ...]
    templates: Source
    pooling: Pooling
    group: tuple[Mapping[str, Any], ...] = ()
    renormalise: bool = True
    form: str = "operators"
    window: Window = field(default_factory=Whole)

    def __post_init__(self) -> None:
        self._check_window()
        if self.pooling.takes not in self.templates.gives:
            fitting = (name for name, source in SOURCES.items() if self.pooling.takes in source.gives)
            raise ConfigError(
                f"bank spec: templates.source with pooling.kind = {self.pooling.kind!r} must be one of "
                f"{', '.join(map(repr, fitting))}, got {self.templates.source!r}"
            )
        if acts_on_waveforms(self.group) and (self.form, self.templates.source) != ("dense", "data"):
            raise ConfigError(
                "bank spec: waveform factors have no adjoint and move recordings; they need form = 'dense' and "
                f"templates.source = 'data', got {self.form!r} and {self.templates.source!r}"
            )

    def _check_window(self) -> None:
        """What goes with patches, and what does not."""
        if self.window.whole:
            if cells_of(self.pooling):
                raise ConfigError(
                    "bank spec: pooling.cells lie over patches; use window.kind = 'patches' or 'polar', got 'whole'"
                )
            return
        if self.form != "operators":
            raise ConfigError(
                f"bank spec: window.kind = {self.window.kind!r} needs form = 'operators', got {self.form!r}"
            )
        kernel = getattr(self.pooling, "kernel", None)
        if isinstance(self.pooling, Nystrom) or (kernel is not None and kernel.kind == "rbf"):
            raise ConfigError(
                f"bank spec: pooling.kind = {self.pooling.kind!r} needs norms of patches, which are not kept; with "
                f"window.kind = {self.window.kind!r} use 'fourier', 'cdf', or a kernel that is linear or polynomial"
            )

    @property
    def needs_signals(self) -> bool:
        """Whether building takes signals: for templates or for what is pooled."""
        return self.templates.needs_signals or self.pooling.needs_signals

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> StreamSpec:
        """The stream of its table; a table whose shape fits the schema."""
        for key in REQUIRED:
            if key not in table:
                raise ConfigError(f"bank spec: needs the key {key!r}")
        read = {
            "window": read_window(_whole_numbers(table.get("window", {"kind": Whole.kind}))),
            "templates": read_source(_whole_numbers(table["templates"])),
            "pooling": read_pooling(_whole_numbers(table["pooling"])),
            **{key: tuple(table.get(key, ())) for key in ("front_end", "group")},
        }
        return cls(**{**table, **read})

    def as_dict(self) -> dict[str, Any]:
        """The table, defaults written out."""
        return {
            "front_end": [dict(stage) for stage in self.front_end],
            "window": window_table(self.window),
            "templates": source_table(self.templates),
            "group": [dict(factor) for factor in self.group],
            "renormalise": self.renormalise,
            "pooling": pooling_table(self.pooling),
            "form": self.form,
        }


@dataclass(frozen=True)
class BankSpec:
    """What a bank is built from. Make one with `from_dict`, `from_toml` or `preset`: they check it.

    Raises
    ------
    ConfigError
        Naming the key, what came and what is allowed.
    """

    name: str
    streams: tuple[StreamSpec, ...]
    seed: int = 0
    layer2: Layer2 | None = None
    outer: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        hold_to_schema("bank-spec", "bank spec", self.as_dict())
        object.__setattr__(self, "seed", int(self.seed))
        kinds = {stream.pooling.dtype for stream in self.streams}
        if len(kinds) > 1:
            told = ", ".join(repr(stream.pooling.kind) for stream in self.streams)
            raise ConfigError(f"bank spec: streams must all give counts ('cdf') or all give means, got {told}")
        if self.outer and any(stream.form == "dense" for stream in self.streams):
            raise ConfigError("bank spec: [[outer]] moves inputs by operators; use form = 'operators', got 'dense'")

    @property
    def only(self) -> StreamSpec:
        """The one stream there is."""
        return the_only(self.streams, self.name)

    @property
    def needs_signals(self) -> bool:
        """Whether building takes signals: for templates, for what is pooled or for the width of layer 2."""
        layer2 = self.layer2 is not None and self.layer2.needs_signals
        return layer2 or any(stream.needs_signals for stream in self.streams)

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> BankSpec:
        """The spec of a nested mapping, as TOML or JSON gives it."""
        value = json.loads(_as_json(spec))
        hold_to_schema("bank-spec", "bank spec", value)
        layer2 = read_layer2(_whole_numbers(value.pop("layer2", {"kind": NONE})))
        own = {key: value.pop(key) for key in ("name", "seed") if key in value}
        own["outer"] = tuple(value.pop("outer", ()))
        tables = value.pop("streams", None)
        if tables is None:
            return cls(streams=(StreamSpec.from_dict(value),), layer2=layer2, **own)
        streams = []
        for i, table in enumerate(tables):
            try:
                streams.append(StreamSpec.from_dict({**value, **table}))
            except ConfigError as error:
                raise ConfigError(f"stream {i}: {error}") from None
        return cls(streams=tuple(streams), layer2=layer2, **own)

    @classmethod
    def from_toml(cls, source: Path | str) -> BankSpec:
        """The spec of a TOML file (a `Path`) or of TOML text (a `str`)."""
        where = str(source) if isinstance(source, Path) else "bank spec"
        try:
            text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
            value = tomllib.loads(text)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{where}: not a readable TOML file: {error}") from error
        try:
            return cls.from_dict(value)
        except ConfigError as error:
            if not isinstance(source, Path):
                raise
            raise ConfigError(f"{source}: {error}") from None

    @classmethod
    def preset(cls, name: str) -> BankSpec:
        """A spec that comes with streamfeat; `presets()` lists the names."""
        if name not in presets():
            there = presets()
            raise ConfigError(f"no preset is called {name!r}; there are {', '.join(there)}{did_you_mean(name, there)}")
        return cls.from_toml(_preset_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))

    def as_dict(self) -> dict[str, Any]:
        """The nested dict that `from_dict` takes, defaults written out; flat, if there is one stream."""
        tables = [stream.as_dict() for stream in self.streams]
        streams = tables[0] if len(tables) == 1 else {"streams": tables}
        outer = {"outer": [dict(factor) for factor in self.outer]} if self.outer else {}
        return {"name": self.name, "seed": self.seed, **streams, "layer2": layer2_table(self.layer2), **outer}

    def plain(self) -> BankSpec:
        """The same spec without invariance: group and outer orbit are the identity alone. For comparison runs."""
        streams = tuple(replace(stream, group=(), form="operators") for stream in self.streams)
        return replace(self, name=f"{self.name}-plain"[:64], streams=streams, outer=())

    def of_one(self, name: str, **changes: Any) -> BankSpec:
        """The spec of a bank of one stream under another name, `changes` being of that stream."""
        return replace(self, name=name[:64], streams=(replace(self.only, **changes),))


def the_only(streams: Sequence[T], name: str) -> T:
    """The one stream of a bank, for what is not defined for several."""
    if len(streams) != 1:
        raise ConfigError(f"bank {name!r} has {len(streams)} streams; this takes a bank of one")
    return streams[0]


def presets() -> tuple[str, ...]:
    """The names of the specs that come with streamfeat."""
    return tuple(sorted(f.name.removesuffix(".toml") for f in _preset_folder().iterdir() if f.name.endswith(".toml")))


def _preset_folder() -> Any:
    return resources.files("streamfeat").joinpath("presets")


def _whole_numbers(table: Mapping[str, Any]) -> dict[str, Any]:
    """8.0 is 8: a hash must not depend on how a number was typed. Where a float is meant it becomes one again."""
    return {key: _whole_number(value) for key, value in table.items()}


def _whole_number(value: Any) -> Any:
    if isinstance(value, dict):
        return _whole_numbers(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_json(spec: Mapping[str, Any]) -> str:
    _check_finite(spec, "")
    try:
        return canonical_json(spec)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"bank spec: only texts, finite numbers, lists and tables can be stored: {error}") from error


def _check_finite(value: Any, where: str) -> None:
    """Raise `ConfigError` with the key of a number that is none, which JSON would refuse without saying where."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_finite(part, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            _check_finite(part, f"{where}.{i}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"bank spec: {where.removeprefix('.')} must be a finite number, got {value!r}")
