"""The byte layout: golden frames, round trips, and everything that can be wrong with a frame."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamfeat.errors import InvalidArgument, TooLarge, VersionMismatch
from streamfeat.wire import codec
from streamfeat.wire.codec import decode, encode, encode_parts, glimpse
from streamfeat.wire.messages import VERBS, Array, Frame, Item, Message
from tests.golden import EXAMPLES, FOLDER, PIXELS, WAVE, as_json

NAMED = (InvalidArgument, TooLarge, VersionMismatch)


def request(*items: Any, **header: Any) -> list[Frame]:
    """The frames of a REQUEST with these raw items, one payload frame of ten bytes an array."""
    raw = {"route": ["features"], "ttl_ms": 1000, "items": list(items), **header}
    n_arrays = sum(len(i.get("arrays", ())) for i in items if isinstance(i, dict))
    return [b"SF1", b"REQUEST", msgpack.packb(raw), *[bytes(10)] * n_arrays]


# --- golden ---


def test_every_verb_has_a_golden_frame() -> None:
    """No verb is without an example that other languages can test against."""
    assert {m.verb for m in EXAMPLES.values()} == VERBS
    assert {path.stem for path in FOLDER.glob("*.json")} == set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_golden_frames_hold_in_both_directions(name: str) -> None:
    """Today's code writes the stored bytes and reads them back: the wire has not moved."""
    golden = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    frames = [bytes.fromhex(frame) for frame in golden["frames"]]
    assert [bytes(f) for f in encode(EXAMPLES[name])] == frames
    assert decode(frames) == EXAMPLES[name]
    assert as_json(decode(frames), frames) == golden


# --- round trip ---

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
labels = texts | st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
signals = st.builds(lambda rate_hz: {"kind": "audio", "rate_hz": rate_hz}, st.integers(100, 768_000))
dtypes = st.sampled_from(["<i2", "<i4", "<i8", "<u2", "|u1", "<f4", "<f8", ">i2", ">f4", ">f8"])


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any array that may travel, as bytes or a view."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    dtype = draw(dtypes)
    n_bytes = int(np.prod(shape)) * int(dtype[2])
    data = draw(st.binary(min_size=n_bytes, max_size=n_bytes))
    return Array(dtype, shape, memoryview(data) if draw(st.booleans()) else data)


@st.composite
def requests(draw: st.DrawFn) -> Message:
    """Any REQUEST with one to four items."""
    optional = {"stream": texts, "seq": counts, "label": labels, "group": texts, "name": texts, "signal": signals}
    fields = st.fixed_dictionaries({"id": counts}, optional=optional)
    items = st.builds(Item, fields, st.lists(arrays(), max_size=3).map(tuple))
    header = st.fixed_dictionaries(
        {"route": st.just(["features", "search:near"]), "ttl_ms": st.integers(1, 86_400_000)},
        optional={"options": st.dictionaries(st.just("k"), counts | st.floats(allow_nan=False) | st.none())},
    )
    return Message("REQUEST", draw(header), tuple(draw(st.lists(items, min_size=1, max_size=4))))


@settings(deadline=None, max_examples=150)
@given(requests())
def test_what_is_encoded_is_decoded(message: Message) -> None:
    """decode is the inverse of encode, bit for bit."""
    assert decode(encode(message)) == message


def test_payload_is_not_copied() -> None:
    """The frames that leave are the arrays' own buffers, and those that arrive become the arrays'."""
    wave = Array.of(np.zeros(1000, "<i2"))
    frames = encode(Message("REQUEST", {"route": ["features"], "ttl_ms": 1}, (Item({"id": 1}, (wave,)),)))
    assert frames[3] is wave.data
    assert decode(frames).items[0].arrays[0].data is wave.data


def test_numpy_scalars_and_tuples_leave_as_plain_values() -> None:
    """A label of type np.int64 or a score of type np.float32 arrives as the int and float they are."""
    fields = {
        "id": np.int64(3),
        "ok": True,
        "kind": "label",
        "label": np.str_("nine"),
        "score": np.float32(0.5),
        "compute_ms": np.float64(2),
        "classes": (np.int8(1), "one"),
    }
    came = decode(encode(Message("REPLY", {}, (Item(fields),)))).items[0].fields
    assert came == {**fields, "classes": [1, "one"]}
    assert {type(v) for v in came.values()} == {int, bool, str, float, list}
    assert [type(c) for c in came["classes"]] == [int, str]


@pytest.mark.parametrize("label", [Decimal("3"), UUID(int=3), date(2026, 1, 1), Path("three"), ("three",)], ids=repr)
def test_what_is_no_plain_value_is_refused(label: Any) -> None:
    """Nothing is turned into text on its way: a label comes back as it was given, or does not leave."""
    with pytest.raises(InvalidArgument, match=r"REQUEST: .*label"):
        encode(Message("REQUEST", {"route": ["features"], "ttl_ms": 1}, (Item({"id": 1, "label": label}),)))


def test_unknown_keys_are_ignored_when_they_arrive_and_refused_when_sent() -> None:
    """A newer peer's keys do no harm; our own slips are seen at once."""
    message = decode(request({"id": 1, "later": {"deep": [1]}}, newer=True))
    assert message.fields == {"route": ["features"], "ttl_ms": 1000}
    assert message.items[0].fields == {"id": 1}
    with pytest.raises(InvalidArgument, match=r"PING: no such field in schemas/messages\.schema\.json: 'busy'"):
        encode(Message("PING", {"busy": 1}))
    with pytest.raises(InvalidArgument, match=r"REPLY: items\[1\]: no such field .* 'lable'"):
        encode(Message("REPLY", {}, (EXAMPLES["REPLY"].items[0], Item({"id": 1, "lable": 1}))))


# --- refusals ---

ARRAY = {"dtype": "<i2", "shape": [5]}


def with_array(**changes: Any) -> list[Frame]:
    """A REQUEST whose fourth item has a bad array."""
    return request({"id": 0}, {"id": 1}, {"id": 2}, {"id": 3, "arrays": [{**ARRAY, **changes}]})


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([], "must have version, verb and header, got 0 frames"),
        ([b"SF1", b"PING"], "got 2 frames"),
        ([b"SF1", b"NOISE", b"\x80"], "unknown verb b'NOISE'; known are ADMIN, BYE, CANCEL"),
        ([b"SF1", b"ping", b"\x80"], "unknown verb b'ping'"),
        ([b"SF1", b"\xff\x00", b"\x80"], "unknown verb"),
        ([b"SF1", b"PING", b""], "PING: header must be one valid msgpack map"),
        ([b"SF1", b"PING", b"\x81\xa1"], "PING: header must be one valid msgpack map"),
        ([b"SF1", b"PING", b"\x80\x80"], "PING: header must be one map, got 1 bytes after it"),
        ([b"SF1", b"PING", b"GET / HTTP/1.1"], "PING: header must be one map"),
        ([b"SF1", b"PING", b"\x01"], "PING: header must be a map, got 1"),
        ([b"SF1", b"PING", msgpack.packb({1: 2})], "int is not allowed for map key"),
        ([b"SF1", b"PING", msgpack.packb({b"id": 2})], "keys must be text, got b'id'"),
        ([b"SF1", b"PING", b"\x82\xa1a\x01\xa1a\x02"], "key 'a' is there twice"),
        ([b"SF1", b"PING", b"\x81\xa1a\xa1\xff"], "'utf-8' codec"),
        ([b"SF1", b"PING", msgpack.packb({"a": msgpack.ExtType(99, b"x")})], "extension types do not travel"),
        (
            [b"SF1", b"PING", msgpack.packb({"a": msgpack.ExtType(99, b"")})],
            "extension types do not travel, got type 99",
        ),
        ([b"SF1", b"PING", msgpack.packb({"a": msgpack.Timestamp(0)})], "extension types do not travel"),
        ([b"SF1", b"PING", msgpack.packb({"busy_ms": b"raw"})], "busy_ms must be integer, got b'raw'"),
        (
            [b"SF1", b"REPORT", msgpack.packb({"report": {"a": [b""]}})],
            r"REPORT: report.a\[0\] must be text, .* got b''",
        ),
        ([b"SF1", b"REPORT", b"\x81\xa6report" + b"\x81\xa1a" * 900 + b"\x01"], "REPORT: header is nested too deep"),
        ([b"SF1", b"PING", b"\xdd\xff\xff\xff\xff"], "PING: header"),
        ([b"SF1", b"PING", b"\x91" * 5000], "PING: header"),
        ([b"SF1", b"PING", b"\x81\xa1a" * 5000 + b"\x01"], "PING: header"),
        ([b"SF1", b"PING", b"\x80", b"tail"], "PING carries no payload, got 1 frames"),
        ([b"SF1", b"PING", msgpack.packb({"busy_ms": "{x}"})], r"PING: busy_ms must be integer, got '\{x\}'"),
        (request(), "REQUEST: items must contain at least 1 items"),
        (request({"seq": 1}), r"REQUEST: items\[0\] must contain \['id'\] properties"),
        (request({"id": 1}, 7), r"REQUEST: items\[1\] must be object, got 7"),
        (request({"id": 1}, route="features"), "REQUEST: route must be array, got 'features'"),
        (request({"id": 1}, route=["rm -rf"]), r"REQUEST: route\[0\] must match pattern"),
        (request({"id": 1}, ttl_ms=-1), "REQUEST: ttl_ms must be bigger than or equal to 1, got -1"),
        (request({"id": 1}, options={"k": {"{}": 1}}), "REQUEST: options.k must be"),
        (request({"id": True}), r"REQUEST: items\[0\].id must be integer, got True"),
        (request({"id": 2**63}), r"REQUEST: items\[0\].id must be smaller"),
        (request({"id": 1, "label": 1.5}), r"REQUEST: items\[0\].label must be string or integer, got 1.5"),
        (
            request({"id": 1, "signal": {"kind": "audio", "rate_hz": "20000"}}),
            r"items\[0\].signal.rate_hz must be integer",
        ),
        (with_array(dtype="|O"), r"REQUEST: items\[3\].arrays\[0\].dtype must be one of .*, got '\|O'"),
        (with_array(dtype="<U9"), r"items\[3\].arrays\[0\].dtype"),
        (with_array(dtype="i2"), r"items\[3\].arrays\[0\].dtype"),
        (with_array(shape=[]), r"items\[3\].arrays\[0\].shape must contain at least 1"),
        (with_array(shape=[1, 1, 1, 1, 5]), r"items\[3\].arrays\[0\].shape must contain less than or equal to 4"),
        (with_array(shape=[0]), r"items\[3\].arrays\[0\].shape\[0\] must be bigger than or equal to 1, got 0"),
        (with_array(shape=[-1]), r"items\[3\].arrays\[0\].shape\[0\] must be bigger"),
        (with_array(shape=[5.0]), r"items\[3\].arrays\[0\].shape must be integers, got \[5.0\]"),
        (with_array(shape=[2**40, 2**40]), r"items\[3\].arrays\[0\].shape\[0\] must be smaller"),
        (with_array(shape=[2**31 - 1] * 4), r"items\[3\].arrays\[0\].shape \(.*\) of <i2 needs 42535.* bytes, 10 came"),
        (with_array(shape=[6]), r"items\[3\].arrays\[0\].shape \(6,\) of <i2 needs 12 bytes, 10 came"),
        (with_array()[:-1], r"items\[3\].arrays\[0\] has no payload frame; 0 came"),
        ([*with_array(), b"more"], "items announce 1 payload frames, 2 came"),
    ],
)
def test_a_broken_rule_is_refused_by_the_name_of_its_field(frames: list[Frame], says: str) -> None:
    """Whoever sent it reads which field was wrong, what was needed and what came."""
    with pytest.raises(InvalidArgument, match=says):
        decode(frames)


def test_another_version_is_a_mismatch() -> None:
    """A peer of another protocol is told so before anything else of it is read."""
    for version in (b"SF2", b"", b"HTTP", b"SF1 "):
        with pytest.raises(VersionMismatch, match="first frame must be b'SF1'"):
            decode([version, b"PING", b"\x80"])


def test_header_limits_hold_in_both_directions() -> None:
    """A header over the limit is TOO_LARGE to the sender, and to a receiver before it is unpacked."""
    for verb, limit in (("REPORT", 64 * 1024), ("REQUEST", 60 * 1024), ("RESULT", 60 * 1024)):
        with pytest.raises(TooLarge, match=f"{verb}: header must be at most {limit} bytes, got {limit + 1}"):
            decode([b"SF1", verb.encode(), bytes(limit + 1)])
    with pytest.raises(TooLarge, match="REPORT: header must be at most 65536"):
        encode(Message("REPORT", {"report": {"x": "y" * 65536}}))


def test_encode_parts_splits_until_each_header_fits() -> None:
    """Long labels do not stop a reply: it goes out as several messages, items in order, none twice."""
    items = tuple(
        Item({"id": n, "ok": True, "kind": "neighbours", "labels": ["x" * 200] * 40}, (PIXELS,)) for n in range(20)
    )
    message = Message("REPLY", {}, items)
    parts = encode_parts(message)
    assert len(parts) == 4
    assert tuple(item for frames in parts for item in decode(frames).items) == items
    assert len(encode_parts(EXAMPLES["REPLY"])) == 1
    with pytest.raises(TooLarge, match="RESULT: header"):
        encode_parts(
            Message("RESULT", {"stage": "search:i"}, (Item({**items[0].fields, "labels": ["x" * 200] * 400}),))
        )


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (Message("NOISE"), "unknown verb 'NOISE'"),
        (Message("PING", {}, (Item({"id": 1}),)), "PING carries no items, got 1"),
        (Message("CANCEL"), r"CANCEL: header must contain \['ids'\]"),
        (Message("CANCEL", {"ids": [2**64]}), r"CANCEL: ids\[0\] must be smaller"),
        (Message("REPORT", {"report": {"big": 2**64}}), "REPORT: header cannot be packed"),
        (Message("REPORT", {"report": {"text": "\udcff"}}), "REPORT: header cannot be packed"),
        (Message("REPORT", {"report": {"when": {"x": object()}}}), "REPORT: report.when.x must be text, a number"),
        (Message("REPORT", {"report": {1: 2}}), "REPORT: report must be text, a number"),
        (Message("REPORT", {"report": {"raw": b"x"}}), "REPORT: report.raw must be"),
        (Message("REQUEST", {"route": ["features"], "ttl_ms": 1}), "REQUEST: items must contain at least 1"),
        (
            Message(
                "REQUEST", {"route": ["features"], "ttl_ms": 1}, (Item({"id": 1}, (Array("<i2", (6,), WAVE.data),)),)
            ),
            r"REQUEST: items\[0\].arrays\[0\].shape \(6,\) of <i2 needs 12 bytes, 10 came",
        ),
    ],
)
def test_encode_refuses_what_decode_would_refuse(message: Message, says: str) -> None:
    """A mistake is found at the sender, in the same words."""
    with pytest.raises(InvalidArgument, match=says):
        encode(message)


def test_a_very_deep_value_is_refused_at_both_ends() -> None:
    """Nesting ends in a named error, not in a stack overflow."""
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    with pytest.raises(InvalidArgument, match="REPORT"):
        encode(Message("REPORT", {"report": {"deep": deep}}))


def test_glimpse_reads_verb_and_ids_of_a_refused_message() -> None:
    """The answer to a bad message can say which items it is about."""
    assert glimpse(with_array(shape=[6])) == ("REQUEST", [0, 1, 2, 3])
    assert glimpse(request({"id": 1}, {"id": "two"}, {"id": -3}, {"id": True})) == ("REQUEST", [1])
    assert glimpse(request(items=7)) == ("REQUEST", [])
    assert glimpse([b"SF1", b"PING", b"\xc1"]) == (None, [])
    assert glimpse([b"SF2"]) == (None, [])


# --- fuzz ---


def decode_or_named(frames: list[Frame]) -> None:
    """decode, or one of the errors it may raise; anything else fails the test."""
    message = None
    with suppress(*NAMED):
        message = decode(frames)
    if message is not None:
        assert message.verb in VERBS
        encode_parts(message)
    glimpse(frames)


@settings(deadline=None, max_examples=300)
@given(st.data(), st.sampled_from(sorted(EXAMPLES)))
def test_mutated_frames_give_a_message_or_a_named_error(data: st.DataObject, name: str) -> None:
    """Bytes flipped, cut, put in or taken out anywhere never raise anything else; what passes can be sent on."""
    frames = [bytes(frame) for frame in encode(EXAMPLES[name])]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frames) - 1))
        frame = frames[at]
        start = data.draw(st.integers(0, len(frame)))
        stop = data.draw(st.integers(start, min(len(frame), start + 4)))
        frames[at] = frame[:start] + data.draw(st.binary(max_size=4)) + frame[stop:]
    decode_or_named(list(frames))


@pytest.mark.parametrize("name", ["REQUEST", "REPLY", "HELLO_worker"])
def test_every_single_byte_of_a_header_may_be_anything(name: str) -> None:
    """Each byte of a header replaced by telling values: a message or a named error."""
    frames = list(encode(EXAMPLES[name]))
    header = bytes(frames[2])
    for at in range(len(header)):
        for value in (0x00, 0x80, 0x90, 0xA0, 0xC0, 0xC1, 0xC4, 0xC7, 0xCB, 0xCF, 0xD4, 0xD9, 0xDD, 0xDF, 0xFF):
            frames[2] = header[:at] + bytes([value]) + header[at + 1 :]
            decode_or_named(list(frames))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_chopped_and_surplus_frames_are_refused(name: str) -> None:
    """Each message cut at each byte, with frames missing, swapped or added, is refused."""
    frames = encode(EXAMPLES[name])
    for at, frame in enumerate(frames):
        for length in range(len(frame)):
            with pytest.raises(NAMED):
                decode([*frames[:at], bytes(frame)[:length], *frames[at + 1 :]])
    for n in range(len(frames)):
        with pytest.raises(NAMED):
            decode(frames[:n])
    with pytest.raises(NAMED):
        decode([*frames, b""])
    with pytest.raises(NAMED):
        decode(frames[::-1])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from(sorted(VERBS)))
def test_random_frames_are_refused(frames: list[bytes], verb: str) -> None:
    """Noise under a good version and verb is a named error or a message."""
    decode_or_named([b"SF1", verb.encode(), *frames])
    decode_or_named(list(frames))


# --- cost ---


def test_importing_the_wire_is_cheap() -> None:
    """After numpy, codec and routing cost under 60 ms of processor time (31 measured), and compile no schema yet."""
    code = (
        "import numpy, time; t = time.process_time(); import streamfeat.wire.routing, streamfeat.wire.codec as c;"
        "print(time.process_time() - t, streamfeat.wire.headers.rules_of.cache_info().currsize)"
    )
    command = [sys.executable, "-c", code]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}  # the threads of numpy's BLAS count as this process's time too
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path.home(), env=environ)
        for _ in range(4)
    ]
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.06  # the best of four: other processes disturb
    assert {run.stdout.split()[1] for run in runs} == {"0"}


def test_codec_has_no_socket_and_no_clock() -> None:
    """The wire decides without doing: no zmq, time or threading in its namespace."""
    assert not {"zmq", "time", "threading", "socket"} & set(vars(codec))
