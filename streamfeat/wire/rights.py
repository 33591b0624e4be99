"""What each door is for, and which right a message needs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Literal

from streamfeat.errors import PermissionDenied
from streamfeat.wire.messages import Message

Door = Literal["front", "back", "admin"]

DOORS: Mapping[Door, frozenset[str]] = {
    "front": frozenset({"encode", "learn", "admin"}),
    "back": frozenset({"work"}),
    "admin": frozenset({"admin"}),
}
"""Whoever has one of these rights may come in; at a unix socket, whoever may open the file has them all."""

_CHANGING = ("learn", "fit", "insert")


def may_enter(door: Door, rights: Set[str]) -> bool:
    """Whether these rights open that door."""
    return not DOORS[door].isdisjoint(rights)


def check_rights(message: Message, rights: Set[str]) -> None:
    """Hold a message to the rights of its sender.

    Raises
    ------
    PermissionDenied
        It asks for a stage that these rights do not cover.
    """
    if message.verb != "REQUEST":
        return
    for stage in message.fields["route"]:
        kind = stage.partition(":")[0]
        # features on their way to be learned are part of learning
        needed = {"learn"} if kind in _CHANGING else {"encode", "learn"} if kind == "features" else {"encode"}
        if needed.isdisjoint(rights):
            raise PermissionDenied(
                f"{stage} needs the right to {' or '.join(sorted(needed))}, and this key may {_listed(rights)}; "
                "ask whoever runs the broker"
            )


def _listed(rights: Set[str]) -> str:
    return ", ".join(sorted(rights)) or "nothing"
