"""Which right a message needs, and which door it opens."""

from __future__ import annotations

import pytest

from streamfeat.errors import PermissionDenied
from streamfeat.keys import RIGHTS
from streamfeat.wire.messages import VERBS, Message
from streamfeat.wire.rights import DOORS, check_rights, may_enter

ROUTES = {
    "features": {"encode", "learn"},
    "classify:m": {"encode"},
    "search:i": {"encode"},
    "learn:m": {"learn"},
    "fit:m": {"learn"},
    "insert:i": {"learn"},
}


@pytest.mark.parametrize("right", RIGHTS)
@pytest.mark.parametrize("stage", ROUTES)
def test_a_stage_needs_its_right(stage: str, right: str) -> None:
    """Every stage against every single right."""
    request = Message("REQUEST", {"route": [stage], "ttl_ms": 1})
    if right in ROUTES[stage]:
        check_rights(request, {right})
    else:
        with pytest.raises(PermissionDenied, match=f"{stage} needs.*{right}"):
            check_rights(request, {right})


def test_a_route_needs_the_right_of_each_of_its_stages() -> None:
    """Features on their way to be learned are covered by learn; classifying afterwards is not."""
    check_rights(Message("REQUEST", {"route": ["features", "learn:m"]}), {"learn"})
    with pytest.raises(PermissionDenied):
        check_rights(Message("REQUEST", {"route": ["features", "learn:m"]}), {"encode"})
    with pytest.raises(PermissionDenied, match="nothing"):
        check_rights(Message("REQUEST", {"route": ["features"]}), set())


def test_only_requests_are_held_to_rights() -> None:
    """Whoever is inside may ask how things are, ping and leave."""
    for verb in VERBS - {"REQUEST"}:
        check_rights(Message(verb), set())


def test_doors_are_apart() -> None:
    """A client is no worker, a worker no client, and neither an operator; every right opens some door."""
    assert not may_enter("back", {"encode", "learn", "admin"})
    assert not may_enter("front", {"work"})
    assert not may_enter("admin", {"encode", "learn", "work"})
    assert frozenset().union(*DOORS.values()) == set(RIGHTS)
