"""Signals, features and jobs as message items, through the codec and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from streamfeat.errors import InvalidArgument, ItemFailed, Overloaded
from streamfeat.payloads import (
    Job,
    Result,
    error_result,
    feature_result,
    feature_to_item,
    item_to_feature,
    item_to_signal,
    signal_to_item,
)
from streamfeat.signals import Signal
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Array, Item, Message

BANK = "ab" * 32


def travelled(item: Item, verb: str = "REQUEST") -> Item:
    """The item after a journey as bytes."""
    fields = {"route": ["features"], "ttl_ms": 1000} if verb == "REQUEST" else {"stage": f"features:{BANK}"}
    message = Message(verb, fields, (Item({**item.fields, "id": 7}, item.arrays),))
    return decode([bytes(frame) for frame in encode(message)]).items[0]


@pytest.mark.parametrize("dtype", ["<i2", "<f4", "<f8"])
def test_audio_travels_as_it_is(dtype: str) -> None:
    """Same samples, dtype, rate and name on the other side: int16 stays int16."""
    samples = np.arange(-5, 5).astype(dtype)
    back = item_to_signal(travelled(Job(Signal("audio", samples, 20_000, "1a.wav")).to_item()))
    np.testing.assert_array_equal(back.samples, samples)
    assert (back.samples.dtype.str, back.kind, back.rate_hz, back.name) == (dtype, "audio", 20_000, "1a.wav")


@settings(deadline=None, max_examples=40)
@given(
    hnp.arrays(
        st.sampled_from(["|u1", "<u2", "<f4"]),
        st.sampled_from([(2, 3), (4, 1), (2, 5, 3)]),
        elements={"min_value": 0, "max_value": 250},
    )
)
def test_images_travel_as_they_are(samples: NDArray[Any]) -> None:
    """Grey and colour, 8 bit, 16 bit and float; an image has no rate."""
    back = item_to_signal(travelled(Job(Signal("image", samples)).to_item()))
    np.testing.assert_array_equal(back.samples, samples)
    assert (back.samples.dtype, back.rate_hz) == (samples.dtype, None)


@pytest.mark.parametrize("shape", [(7,), (23, 23), (5, 8)])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_arrays_travel_as_they_are(shape: tuple[int, ...], dtype: str) -> None:
    """A descriptor or a Coulomb matrix: same numbers, no rate."""
    samples = np.random.default_rng(0).normal(size=shape).astype(dtype)
    back = item_to_signal(travelled(Job(Signal("array", samples, name="CH4")).to_item()))
    np.testing.assert_array_equal(back.samples, samples)
    assert (back.samples.dtype.str, back.kind, back.rate_hz, back.name) == (dtype, "array", None, "CH4")


def test_big_endian_samples_are_understood() -> None:
    """Another language may send its own byte order; the values are the same."""
    samples = np.array([1, -2, 300], ">i2")
    item = Item({"signal": {"kind": "audio", "rate_hz": 8000}}, (Array(">i2", (3,), samples.tobytes()),))
    signal = item_to_signal(travelled(item))
    assert signal.samples.dtype.str == "<i2"
    np.testing.assert_array_equal(signal.samples, [1, -2, 300])


def test_what_is_sent_does_not_change_with_its_source() -> None:
    """A caller may fill the same buffer again while its item is under way."""
    samples, feature = np.zeros(4, np.int16), np.zeros(4, np.float32)
    items = [Job(Signal("audio", samples, 8000)).to_item(), Job(feature).to_item()]
    samples[:] = 1
    feature[:] = 1
    np.testing.assert_array_equal(items[0].arrays[0].to_numpy(), 0)
    np.testing.assert_array_equal(items[1].arrays[0].to_numpy(), 0)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Item({}, (Array("<i2", (2,), bytes(4)),)), "signal=None"),
        (Item({"signal": {"kind": "audio", "rate_hz": 8000}}), "0 arrays"),
        (Item({"signal": {"kind": "audio"}}, (Array("<i2", (2,), bytes(4)),)), "rate_hz"),
        (Item({"signal": {"kind": "image", "rate_hz": 8000}}, (Array("|u1", (2, 2), bytes(4)),)), "rate_hz"),
        (Item({"signal": {"kind": "audio", "rate_hz": 8000}}, (Array("<i4", (2,), bytes(8)),)), "<i4"),
        (Item({"signal": {"kind": "audio", "rate_hz": 8000}}, (Array("<i2", (2, 2), bytes(8)),)), r"\(2, 2\)"),
        (
            Item(
                {"signal": {"kind": "audio", "rate_hz": 8000}, "name": "x.wav"},
                (Array.of(np.array([0.0, np.nan], np.float32)),),
            ),
            "x.wav: non-finite sample at 1",
        ),
    ],
)
def test_items_that_are_no_signal_say_why(item: Item, words: str) -> None:
    """What the codec lets through and is still no signal is an InvalidArgument that names the field."""
    with pytest.raises(InvalidArgument, match=words):
        item_to_signal(travelled(item))


@pytest.mark.parametrize("dtype", ["<u2", "<f4", "<f8"])
def test_features_travel_as_they_are(dtype: str) -> None:
    """Counts and floats, either way, with the bank's hash on the way back."""
    feature = np.arange(6).astype(dtype)
    np.testing.assert_array_equal(item_to_feature(travelled(feature_to_item(feature, {}))), feature)
    result = travelled(feature_result(feature, BANK), "RESULT")
    assert (result.fields["kind"], result.fields["bank"]) == ("features", BANK)
    np.testing.assert_array_equal(item_to_feature(result), feature)


@pytest.mark.parametrize(
    "feature", [np.zeros((2, 2), np.float32), np.zeros(0, np.float32), np.zeros(2, np.int64), [1.0, 2.0]]
)
def test_what_is_no_feature_is_refused(feature: Any) -> None:
    """Two dimensions, nothing, another dtype, a list."""
    with pytest.raises(InvalidArgument, match=r"got"):
        Job(feature).to_item()


def test_a_signal_is_no_feature_and_two_arrays_are_none() -> None:
    """A learner that is sent a signal says what the route lacks."""
    signal = signal_to_item(Signal("audio", np.zeros(3, np.int16), 8000), {})
    with pytest.raises(InvalidArgument, match="put `features` first"):
        item_to_feature(signal)
    with pytest.raises(InvalidArgument, match="2 arrays"):
        item_to_feature(Item({}, signal.arrays * 2))
    downstream = Item({**signal.fields, "bank": BANK}, (Array.of(np.ones(2, np.float32)),))
    np.testing.assert_array_equal(item_to_feature(downstream), 1)
    with pytest.raises(InvalidArgument, match=r"\(1, 2\)"):
        item_to_feature(Item({}, (Array.of(np.zeros((1, 2), np.float32)),)))


def test_a_job_carries_what_is_known() -> None:
    """Label, group, stream, seq and name travel; what is not known is not sent; the tag stays here."""
    job = Job(np.ones(2, np.float32), name="a", label=3, group="man-1", stream="s", seq=0, tag=object())
    assert travelled(job.to_item()).fields == {
        "id": 7, "name": "a", "label": 3, "group": "man-1", "stream": "s", "seq": 0,
    }  # fmt: skip
    assert Job(None).to_item() == Item({})
    assert Job(None, name="d" * 300 + "/1a.wav").to_item().fields["name"].endswith("d/1a.wav")
    travelled(Job(None, name="d" * 300 + "/1a.wav").to_item())


def test_results_give_what_they_are_and_raise_what_they_are_not() -> None:
    """The convenience of another kind, or of a failed job, is an error and not a wrong value."""
    job = Job(None)
    feature = np.ones(2, np.float32)
    assert Result(job, True, None, {"kind": "features"}, (feature,)).feature is feature
    assert Result(job, True, None, {"kind": "label", "label": "z"}).label == "z"
    found = Result(
        job, True, None, {"kind": "neighbours", "labels": ["z", None]}, (np.array([4, 2]), np.array([0.5, 1.5]))
    )
    assert found.neighbours == [("z", 4, 0.5), (None, 2, 1.5)]
    with pytest.raises(InvalidArgument, match=r"'neighbours', not 'label'"):
        _ = found.label
    with pytest.raises(ItemFailed):
        _ = Result(job, False, ItemFailed("bad")).feature


def test_errors_travel_with_their_code() -> None:
    """Code, reason, and when to come back."""
    fields = travelled(error_result(Overloaded("full", 20)), "RESULT").fields
    assert fields == {"id": 7, "ok": False, "error": {"code": "OVERLOADED", "reason": "full", "retry_after_ms": 20}}
