"""Tables of a spec and the dataclasses they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from streamfeat.errors import ConfigError
from streamfeat.spec import as_table, pick, read_kind, read_table, refuse_unknown


@dataclass(frozen=True)
class Shape:
    """An example of a table in a table."""

    side: int
    depth: float | None = None


@dataclass(frozen=True)
class Window:
    """An example of a table."""

    n: int
    share: float = 0.5
    kind: Literal["hann", "box"] = "hann"
    centred: bool = True
    name: str = ""
    width: float | Literal["median"] | None = None
    shape: Shape | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"n must be at least 1, got {self.n}")


def test_defaults_are_filled_in() -> None:
    """The canonical table has every field, in order, and reads back to itself."""
    window = read_table(Window, {"kind": "box", "n": 3}, "window")
    table = as_table(window)
    assert table == {"n": 3, "share": 0.5, "kind": "box", "centred": True, "name": ""}
    assert list(table) == ["n", "share", "kind", "centred", "name"]
    assert read_table(Window, table, "window") == window


def test_two_ways_of_writing_are_one() -> None:
    """An int where a float is meant becomes that float."""
    share = read_table(Window, {"n": 3, "share": 1}, "window").share
    assert share == 1.0
    assert isinstance(share, float)


def test_a_union_takes_what_one_of_its_members_takes() -> None:
    """A number or a word; what is None was left out, and stays out of the canonical table."""
    assert "width" not in as_table(read_table(Window, {"n": 3}, "window"))
    for given, meant in ((2, 2.0), ("median", "median")):
        width = as_table(read_table(Window, {"n": 3, "width": given}, "window"))["width"]
        assert (width, type(width)) == (meant, type(meant))


def test_a_table_in_a_table_is_a_dataclass_in_a_dataclass() -> None:
    """It is read with its own fields, and left out of it is what is None."""
    table = {"n": 3, "shape": {"side": 2}}
    window = read_table(Window, table, "window")
    assert window.shape == Shape(2)
    assert as_table(window)["shape"] == {"side": 2}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"window needs 'n' \(an integer\)"),
        ({"n": 3, "size": 4}, "window has no parameter 'size'; known: n, share, kind, centred, name, width, shape"),
        ({"n": "3"}, "window: n must be an integer, got '3'"),
        ({"n": 3.0}, "n must be an integer, got 3.0"),
        ({"n": True}, "n must be an integer, got True"),
        ({"n": 3, "share": float("nan")}, "share must be a finite number, got nan"),
        ({"n": 3, "share": float("inf")}, "share must be a finite number, got inf"),
        ({"n": 3, "share": False}, "share must be a finite number, got False"),
        ({"n": 3, "kind": "hamming"}, "kind must be one of hann, box, got 'hamming'"),
        ({"n": 3, "kind": ["hann"]}, "kind must be one of hann, box"),
        ({"n": 3, "centred": 1}, "centred must be true or false, got 1"),
        ({"n": 3, "name": 1}, "name must be text, got 1"),
        ({"n": 3, "width": "mean"}, "width must be a finite number or one of median, got 'mean'"),
        ({"n": 3, "width": None}, "width must be a finite number or one of median, got None"),
        ({"n": 3, "shape": 4}, "shape must be a table, got 4"),
        ({"n": 3, "shape": {}}, "window: shape needs 'side'"),
        ({"n": 3, "shape": {"side": 1, "height": 2}}, "window: shape has no parameter 'height'; known: side, depth"),
        ({"n": 0}, "window: n must be at least 1, got 0"),
    ],
)
def test_wrong_tables_are_refused(table: dict[str, Any], message: str) -> None:
    """The message names the table, the parameter, what was needed and what came."""
    with pytest.raises(ConfigError, match=message):
        read_table(Window, table, "window")


@pytest.mark.parametrize("name", ["c", None, 3, ["a"]])
def test_pick_lists_the_choices(name: object) -> None:
    """An unknown name, or no name, is answered with those there are."""
    assert pick({"a": 1, "b": 2}, "b", "letter") == 2
    with pytest.raises(ConfigError, match=r"unknown letter .*; known: a, b"):
        pick({"a": 1, "b": 2}, name, "letter")


def test_read_kind_takes_the_dataclass_that_is_named() -> None:
    """The name chooses, the rest are its fields; another name is told with those there are."""
    choices = {"slow": Slow, "fast": Fast}
    assert read_kind(choices, {"kind": "fast", "n": 3}, "motion") == Fast(3)
    assert read_kind(choices, {"pace": "slow"}, "motion", key="pace") == Slow()
    with pytest.raises(ConfigError, match=r"motion\.kind must be one of 'slow', 'fast', got 'still'"):
        read_kind(choices, {"kind": "still"}, "motion")
    with pytest.raises(ConfigError, match=r"motion\.kind = 'slow'.*'n'"):
        read_kind(choices, {"kind": "slow", "n": 3}, "motion")


@dataclass(frozen=True)
class Slow:
    """No parameter."""


@dataclass(frozen=True)
class Fast:
    """One parameter."""

    n: int


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """Of a parameter and of a choice; nothing where none is near."""
    with pytest.raises(ConfigError, match=r"known: .*top_db.*; did you mean top_db\?"):
        refuse_unknown(["topdb"], ["window", "top_db"], "stage 'trim'")
    with pytest.raises(ConfigError, match=r"did you mean trim\?"):
        pick({"trim": 1, "peak": 2}, "trimm", "stage")
    with pytest.raises(ConfigError, match=r"known: 'trim'$|known: trim$"):
        pick({"trim": 1}, "zzz", "stage")
