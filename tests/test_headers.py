"""Headers read by type and headers read by checks are the same headers."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InternalError, InvalidArgument, StreamfeatError
from streamfeat.wire import codec
from streamfeat.wire.headers import Reader, rules_of, shown, type_of
from streamfeat.wire.messages import VERBS
from tests.golden import EXAMPLES, FOLDER

WITH_ITEMS = ("REQUEST", "TASK", "RESULT", "REPLY")
GOLDEN = {
    path.stem: bytes.fromhex(json.loads(path.read_text("utf-8"))["frames"][2])
    for path in sorted(FOLDER.glob("*.json"))
    if EXAMPLES[path.stem].verb in WITH_ITEMS
}


def reader_of(verb: str) -> Reader:
    """The reader of a verb that has one."""
    reader = rules_of(verb).reader
    assert reader is not None
    return reader


def by_checks(verb: str, frame: bytes) -> Any:
    """What the checks make of a header: the map, or the error."""
    try:
        return codec._checked(verb, frame, rules_of(verb))
    except StreamfeatError as error:
        return error


def test_the_verbs_with_items_have_readers() -> None:
    """Those four, and no other."""
    assert [verb for verb in sorted(VERBS) if rules_of(verb).reader is not None] == sorted(WITH_ITEMS)
    with pytest.raises(InvalidArgument, match="unknown verb 'SHOUT'"):
        rules_of("SHOUT")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_a_header_that_is_right_is_read_in_one_pass(name: str) -> None:
    """What our own peers send never has to be checked key by key; and it is written as it was."""
    verb, frame = EXAMPLES[name].verb, GOLDEN[name]
    header = reader_of(verb).read(frame)
    assert header == by_checks(verb, frame)
    assert reader_of(verb).read(memoryview(frame)) == header
    assert reader_of(verb).write(header or {}) == frame


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 1, -1, 2**63 - 1, 2**63, 100, 99, 768_000, 768_001, 86_400_001]),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["<i2", "audio", "features", "features\n", "a" * 64, "a" * 65, "a" * 200, "a" * 201, "A_CODE"]),
    st.binary(max_size=3),
    st.lists(st.integers(0, 9), max_size=6),
    st.dictionaries(st.sampled_from(["kind", "rate_hz", "k", "code", "reason"]), st.integers(0, 99), max_size=2),
)

OTHERS = ("label", "seq", "name", "options", "score", "ok", "error", "later")


@st.composite
def changed(draw: st.DrawFn) -> tuple[str, bytes]:
    """A golden header with some fields changed, taken away, added, or put there twice, and perhaps a flipped byte."""
    name = draw(st.sampled_from(sorted(GOLDEN)))
    header = msgpack.unpackb(GOLDEN[name])
    places = [header, *header["items"]]
    places += [item[key] for item in header["items"] for key in ("signal", "error") if key in item]
    places += [array for item in header["items"] for array in item.get("arrays", ())]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(places))
        key = draw(st.sampled_from([*sorted(place), *OTHERS]))
        if draw(st.booleans()):
            place.pop(key, None)
        else:
            place[key] = draw(values)
    packed = bytearray(msgpack.packb(header))
    if draw(st.booleans()):
        packed[draw(st.integers(0, len(packed) - 1))] = draw(st.integers(0, 255))
    return EXAMPLES[name].verb, bytes(packed)


@settings(deadline=None, max_examples=600)
@given(changed())
def test_what_the_type_takes_the_checks_take_too(case: tuple[str, bytes]) -> None:
    """Never yes where the checks say no; and where both say yes, the same values of the same types."""
    verb, frame = case
    header = reader_of(verb).read(frame)
    if header is not None:
        assert repr(header).replace("(", "[") == repr(by_checks(verb, frame)).replace("(", "[")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (msgpack.packb({"stage": "fit:x", "items": [{"id": 1, "ok": True}]}), "must contain .*kind"),
        (msgpack.packb({"stage": "fit:x", "items": [{"id": 1, "ok": False, "kind": "fit"}]}), "error"),
        (msgpack.packb({"stage": "fit:x\n", "items": [{"id": 1, "ok": True, "kind": "fit"}]}), "stage"),
        (b"\x82" + msgpack.packb("items") + b"\xdd\xff\xff\xff\xff", "valid msgpack map"),
        (b"\x81" + msgpack.packb("later") + b"\x91" * 50_000, "too deep|valid msgpack map"),
    ],
    ids=["no kind", "no error", "newline", "four billion items", "deep"],
)
def test_what_is_wrong_is_left_to_the_checks(frame: bytes, why: str) -> None:
    """Conditions between fields, a newline behind a name, lengths that nobody sent."""
    assert reader_of("RESULT").read(frame) is None
    error = by_checks("RESULT", frame)
    assert isinstance(error, InvalidArgument)
    with pytest.raises(InvalidArgument, match=why):
        raise error


def test_a_key_twice_or_a_number_packed_long_is_left_to_the_checks() -> None:
    """Both would read as if nothing were wrong."""
    items = msgpack.packb("items") + msgpack.packb([{"id": 1, "ok": True, "kind": "fit"}])
    stage = msgpack.packb("stage") + msgpack.packb("fit:x")
    assert reader_of("RESULT").read(b"\x82" + stage + items) is not None
    assert reader_of("RESULT").read(b"\x83" + stage + stage + items) is None
    assert "twice" in str(by_checks("RESULT", b"\x83" + stage + stage + items))
    long_one = items.replace(b"\xa2id\x01", b"\xa2id\xd2\x00\x00\x00\x01")
    assert reader_of("RESULT").read(b"\x82" + stage + long_one) is None
    assert by_checks("RESULT", b"\x82" + stage + long_one)["items"][0]["id"] == 1


def test_a_schema_that_cannot_be_typed_is_named() -> None:
    """Whoever adds such a keyword to the schema learns of it here, not from a header that passed."""
    with pytest.raises(InternalError, match="multipleOf"):
        type_of({"type": "integer", "multipleOf": 2})


def test_what_msgpack_does_not_know_is_not_written() -> None:
    """Somebody else makes it plain, or says what it is."""
    assert reader_of("REPLY").write({"items": [object()]}) is None
    assert reader_of("REPLY").write({"items": [2**64]}) is None
    assert shown("x" * 100) == repr("x" * 100)[:80] + "..."
